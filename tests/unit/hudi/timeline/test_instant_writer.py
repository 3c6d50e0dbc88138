"""Writing instants: of two writers at one instant exactly one goes on, in both layouts."""

from __future__ import annotations

from datetime import UTC, timedelta
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, moment

from lakemeta.errors import StalePlanError
from lakemeta.hudi.timeline.instant_writer import InstantWriter
from lakemeta.hudi.timeline.loading import load_config
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.parametrize("version", [6, 8, 9])
def test_an_action_completes_once(version: int, tmp_path: Path) -> None:
    """A second writer that executed the same pending action must not complete it too."""
    table = TableFiles(tmp_path, version)
    storage, root = LocalStorage(), str(tmp_path)
    config = load_config(storage, root)
    first = InstantWriter(storage, root, config, UTC, lambda: moment(9))
    second = InstantWriter(storage, root, config, UTC, lambda: moment(9) + timedelta(minutes=1))
    requested = first.requested("clean", at(1), b"plan")
    first.completed(requested, at(1), b"done")
    with pytest.raises(StalePlanError, match="another writer meanwhile"):
        second.completed(requested, at(1), b"done too")
    assert len(list(table.timeline.glob("*.clean"))) == 1

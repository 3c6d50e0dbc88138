"""Timelines that somebody damaged: what they say no more must not look like what was never said."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, moment, tree

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of group a, each with the files of its instant's earlier states."""
    table = TableFiles(tmp_path / "t", request.param)
    for _ in range(3):
        instant = table.commit({"p1": "a"})
        for state in (".commit.requested", ".inflight"):
            table.put(instant + state, b"")
    return table


@pytest.mark.parametrize("other", ["\u0662", "x", "-"])
def test_a_completed_commit_of_another_name(table: TableFiles, other: str) -> None:
    """A completed commit that was renamed would leave its write looking failed, and its files as leftovers."""
    completed = max(path for path in table.timeline.iterdir() if path.name.endswith("0.commit"))
    completed.rename(completed.with_name(other + completed.name[1:]))
    before = tree(table.root)
    opened = HudiTable.open(str(table.root))
    for plan in (opened.plan_rollback, opened.plan_clean):
        with pytest.raises(CorruptMetadataError, match="named like an instant"):
            plan(now=moment(30))
    assert tree(table.root) == before


def test_names_of_others_are_passed_over(table: TableFiles) -> None:
    """Checksums, files on their way, hidden files, folders and what Hudi keeps beside the timeline are no damage."""
    for name in (".x.commit", ".\u0662.commit.crc", "20260101000000000_20260101000000001.commit.tmp", "notes.txt"):
        table.put(name, b"")
    for folder in ("archived", "history", "20260101000000000.commit.d"):
        (table.timeline / folder).mkdir(parents=True, exist_ok=True)
    assert not HudiTable.open(str(table.root)).plan_rollback(now=moment(30)).operations

"""An expire that crashes at every storage operation leaves a table that reads on, and the next one ends its work.

The checker knows nothing of lakemeta: it reads the table as any other engine would.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import pytest
from support.faults import Crash, FaultyStorage
from support.iceberg_checker import TableState
from support.iceberg_expire import ALL, apply, build, check, files, plan

from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("crash") / "t"
    properties = {"write.metadata.delete-after-commit.enabled": "true", "write.metadata.previous-versions-max": "3"}
    build(root, **properties)
    return root


WAYS = [(when, again) for when in ("before", "half", "after") for again in ("new plan", "same plan")]
FAST = ("half", "same plan")


@pytest.mark.parametrize(
    ("when", "again"), [pytest.param(*way, marks=() if way == FAST else pytest.mark.slow) for way in WAYS]
)
def test_a_crash_anywhere(original, tmp_path, when, again):
    """No file goes that a snapshot needs; a second run, by a new plan or the same one, leaves nothing over."""
    root, saved = original, tmp_path / "saved"
    rows = TableState.local(root).rows_at_refs()
    made = plan(root)
    shutil.copytree(root, saved)
    for at in count(1):
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            apply(root, made, storage)
        check(root, rows)
        if storage.crashed and not ended(root):
            report = apply(root, made if again == "same plan" else plan(root), seed=2)
            assert report.complete, report.notes
        check(root, rows)
        assert ended(root)
        shutil.rmtree(root)
        shutil.copytree(saved, root)
        if not storage.crashed:
            break
    assert at > 8


def ended(root: Path) -> bool:
    """True if the snapshots of branches and tags are all there are, and their files all there are."""
    state = TableState.local(root)
    heads = {ref["snapshot-id"] for ref in state.metadata["refs"].values()}
    return {s["snapshot-id"] for s in state.metadata["snapshots"]} == heads and files(root) == state.needed()


def test_a_second_run_finds_nothing(original, tmp_path):
    """After an expire the plan is empty, and applying it changes nothing."""
    saved = tmp_path / "saved"
    shutil.copytree(original, saved)
    apply(original, plan(original))
    before = files(original), TableState.local(original).metadata
    empty = plan(original, **ALL)
    assert empty.is_empty
    assert apply(original, empty).committed is None
    assert (files(original), TableState.local(original).metadata) == before
    shutil.rmtree(original)
    saved.rename(original)

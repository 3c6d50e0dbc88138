"""Rolling a failed write back in recorded metadata tables."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path

import pytest
from support.faults import Crash, FaultyStorage
from support.hudi_mdt_cases import NOW_MS, MdtCase, unpack_case
from support.hudi_mdt_records import listing

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.hudi.metadata_table.rollback import check_can_roll_back, roll_back
from lakemeta.hudi.timeline.rollback_metadata import encode_rollback_metadata
from lakemeta.storage import LocalStorage, Storage

CASES = [
    "0.15.0__mdt_cow__commits2",
    "1.0.2__mdt_cow__versions1",
    "1.2.0__mdt_cow__commits2",
    "1.2.0tv6__mdt_cow__commits2",
]
ROLLBACK, COMPLETION = "20991231235959000", "20991231235959001"
APPENDED = ".x-0_20990101000000000.log.1_0-0-0"


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> MdtCase:
    """A case whose data table has begun a rollback."""
    case = unpack_case(request.param, tmp_path)
    for state in ("requested", "inflight"):
        (case.timeline_directory / f"{ROLLBACK}.rollback.{state}").write_bytes(b"")
    return case


def fail_newest_commit(case: MdtCase, *, metadata_too: bool = False) -> str:
    """Make the newest commit a failed one, as if its writer had died before completing it; its instant."""
    commits = [path for path in case.timeline_directory.glob("*.commit") if path.is_file()]
    newest = max(commits, key=lambda path: path.name)
    newest.unlink()
    failed = newest.name[:17]
    if metadata_too:
        table = case.open()
        (delta,) = (i for i in table.timeline.completed if i.requested == failed)
        Path(table.timeline_path, delta.file_name).unlink()
    return failed


def undo(case: MdtCase, failed: str, appended: dict[str, dict[str, int]], storage: Storage | None = None) -> None:
    """The metadata table's part of a rollback."""
    completion = COMPLETION if case.version >= 8 else None
    table = case.open(storage)
    roll_back(table, rollback=ROLLBACK, failed=failed, appended=appended, completion=completion, now_ms=NOW_MS)


def complete(case: MdtCase, failed: str) -> None:
    """The data table's part: complete the rollback and remove the failed commit."""
    record = {
        "startRollbackTime": ROLLBACK,
        "timeTakenInMillis": 0,
        "totalFilesDeleted": 0,
        "commitsRollback": [failed],
        "partitionMetadata": {},
        "version": 1,
        "instantsRollback": [{"commitTime": failed, "action": "commit"}],
    }
    name = f"{ROLLBACK}_{int(COMPLETION) + 1}.rollback" if case.version >= 8 else f"{ROLLBACK}.rollback"
    (case.timeline_directory / name).write_bytes(encode_rollback_metadata(record))
    for path in case.timeline_directory.glob(f"{failed}*"):
        path.unlink()


def without(case: MdtCase, failed: str) -> dict[str, dict[str, int]]:
    """What is to be listed once the failed commit is gone."""
    listed = case.facts["listing_before"]
    return {p: {name: size for name, size in files.items() if failed not in name} for p, files in listed.items()}


@pytest.mark.parametrize("metadata_too", [False, True], ids=["delta commit done", "delta commit pending"])
def test_a_failed_write_is_gone_after_the_rollback(case: MdtCase, metadata_too: bool) -> None:
    """Before, while and after: readers never see the failed commit's files, though its delta commit completed."""
    failed = fail_newest_commit(case, metadata_too=metadata_too)
    expected = without(case, failed)
    assert expected != case.facts["listing_before"]
    assert case.listing() == expected
    undo(case, failed, {})
    assert case.listing() == expected
    complete(case, failed)
    table = case.open()
    assert listing(table) == expected
    assert not [i for i in table.timeline if i.requested == failed]
    table.check_writable()


def test_a_write_that_never_reached_the_metadata_table(case: MdtCase) -> None:
    """Nothing is written from version 8 on; version 6 has its delta commit of the rollback all the same."""
    before = {str(p) for p in Path(case.open().path).rglob("*")}
    undo(case, "20990101000000000", {})
    added = {Path(p).name for p in {str(p) for p in Path(case.open().path).rglob("*")} - before}
    states = ("deltacommit", "deltacommit.inflight", "deltacommit.requested")
    assert added == (set() if case.version >= 8 else {f"{ROLLBACK}.{state}" for state in states})


def test_appended_rollback_blocks_are_listed(case: MdtCase) -> None:
    """Version 6 tells the metadata table of the log files that the rollback made; later versions make none."""
    undo(case, "20990101000000000", {"p1": {APPENDED: 77}})
    listed = case.listing(assume_completed=ROLLBACK)
    assert listed["p1"].get(APPENDED) == (None if case.version >= 8 else 77)


@pytest.mark.slow
@pytest.mark.parametrize("case", [CASES[0], CASES[2]], indirect=True)
def test_a_crash_anywhere_is_completed_by_a_second_run(case: MdtCase) -> None:
    """At every operation: readers are right before and after, and a rerun ends where an undisturbed run does."""
    failed = fail_newest_commit(case)
    expected = without(case, failed)
    whole = case.directory / "whole"
    shutil.copytree(case.root, whole)
    for at in count(1):
        shutil.rmtree(case.root)
        shutil.copytree(whole, case.root)
        storage = FaultyStorage(LocalStorage(), at, "half")
        try:
            undo(case, failed, {"p1": {APPENDED: 77}}, storage)
        except Crash:
            assert case.listing() == expected
            undo(case, failed, {"p1": {APPENDED: 77}})
        complete(case, failed)
        appended = {"p1": expected["p1"] | ({APPENDED: 77} if case.version < 8 else {})}
        assert case.listing() == expected | appended
        if not storage.crashed:
            break
    assert at > 4


def test_a_write_older_than_a_compaction_is_refused(case: MdtCase) -> None:
    """Its records are in base files for good."""
    failed = fail_newest_commit(case)
    done = "20990101000000000_20990101000000001.commit" if case.version >= 8 else "20990101000000000.commit"
    Path(case.open().timeline_path, done).write_bytes(b"{}")
    with pytest.raises(UnsupportedFeatureError, match="was compacted after the failed write"):
        check_can_roll_back(case.open(), rollback=ROLLBACK, failed=failed)

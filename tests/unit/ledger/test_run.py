"""Runs: in which order they write and delete, and what becomes of a run that cannot write."""

from __future__ import annotations

from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.faults import RecordingStorage, WrappedStorage

from lakemeta.deletion import Door, Quarantine
from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError, StalePlanError, StorageError
from lakemeta.executor import LocalExecutor
from lakemeta.ledger.files import LedgerPlace, find_ledgers
from lakemeta.ledger.lines import Batch, Done, End, Opening
from lakemeta.ledger.recording import recorded
from lakemeta.ledger.run import Run, open_ledger
from lakemeta.report import Report
from lakemeta.storage import LocalStorage, open_storage

if TYPE_CHECKING:
    from lakemeta.ledger.lines import Mode
    from lakemeta.storage import Storage

NOW = datetime(2026, 1, 2, 3, 4, 5, tzinfo=UTC)


def run_on(storage: Storage, root: str, mode: Mode = "delete") -> Run:
    """A run whose ledger lies in ``l``."""
    place = LedgerPlace(storage, f"{root}/l", root, root)
    return Run(lambda: place, Environment(now=lambda: NOW), "test.plan", mode)


def door_to(storage: Storage, root: str) -> Door:
    return Door(storage, root, ".*", ".*", Quarantine(root, f"{root}/q"))


def fill(root: str, count: int) -> list[tuple[str, int | None]]:
    paths = [f"{root}/d/{n:04d}" for n in range(count)]
    Path(root, "d").mkdir(parents=True)
    for path in paths:
        Path(path).write_bytes(b"123")
    return [(path, 3) for path in paths]


def delete(run: Run, door: Door, files: list[tuple[str, int | None]], threads: int = 1) -> Report:
    def work() -> Report:
        outcomes = list(door.dispose(files, LocalExecutor(threads), batch_size=100))
        return Report("test.plan", door.base, None, deleted_files=len(outcomes))

    return recorded(run, work)


def test_the_intent_comes_before_the_deletion_and_the_outcome_after(tmp_path: Path) -> None:
    """Where files do not grow: the first line, then with every batch of 1000 the outcome of the one before it."""
    recording = RecordingStorage(LocalStorage())
    files = fill(str(tmp_path), 2500)
    report = delete(run_on(recording, str(tmp_path)), door_to(recording, str(tmp_path)), files)
    steps = ["jsonl" if path.endswith(".jsonl") else "file" for _, path in recording.mutations()]
    assert steps == ["jsonl", "jsonl", *["file"] * 1000, "jsonl", *["file"] * 1000, "jsonl", *["file"] * 500, "jsonl"]
    (ledger,) = find_ledgers(LocalStorage(), f"{tmp_path}/l")
    assert report.ledger == ledger.path
    assert [type(line) for line in ledger.lines()] == [Opening, Batch, *[Done, Batch] * 2, Done, End]
    assert [(len(batch.files), done.deleted, done.size) for batch, done in ledger.batches() if done] == [
        (1000, 1000, 3000),
        (1000, 1000, 3000),
        (500, 500, 1500),
    ]


@pytest.mark.slow
def test_where_files_grow_there_is_one(tmp_path: Path) -> None:
    """On a disk the ledger is one file, and says the same."""
    storage = LocalStorage()
    delete(run_on(storage, str(tmp_path)), door_to(storage, str(tmp_path)), fill(str(tmp_path), 2500), threads=4)
    (ledger,) = find_ledgers(storage, f"{tmp_path}/l")
    assert ledger.parts == (ledger.path,)
    assert ledger.end() is not None
    assert sum(done.deleted for _, done in ledger.batches() if done) == 2500


class ReadOnlyLedger(WrappedStorage):
    """Nothing can be written."""

    def create(self, path: str, data: bytes) -> None:
        raise StorageError(f"cannot create {path}: denied")


def test_without_a_ledger_nothing_is_deleted(tmp_path: Path) -> None:
    """And it is said how to go on."""
    storage = ReadOnlyLedger(LocalStorage())
    files = fill(str(tmp_path), 3)
    with pytest.raises(StorageError, match=r"nothing was deleted: .* denied; name a directory .* --ledger"):
        delete(run_on(storage, str(tmp_path)), door_to(storage, str(tmp_path)), files)
    assert all(Path(path).exists() for path, _ in files)


def test_a_refused_run_leaves_no_ledger(tmp_path: Path) -> None:
    """What was opened and deletes nothing is taken back; a run that is never opened writes nothing."""

    def refuse() -> Report:
        open_ledger()
        assert find_ledgers(storage, f"{tmp_path}/l")
        raise StalePlanError("the table has moved")

    storage = LocalStorage()
    with pytest.raises(StalePlanError):
        recorded(run_on(storage, str(tmp_path)), refuse)
    recorded(run_on(storage, str(tmp_path)), lambda: Report("test.plan", "t", None))
    assert find_ledgers(storage, f"{tmp_path}/l") == []


@pytest.mark.slow
def test_what_failed_in_the_middle_is_on_record(tmp_path: Path) -> None:
    """The batches that were announced are, with their outcomes as far as these are known."""

    class Breaks(WrappedStorage):
        def delete_many(self, paths: list[str]) -> list[object]:
            if any("1500" in path for path in paths):
                raise LakemetaError("broken")
            return list(self.inner.delete_many(paths))

    files = fill(str(tmp_path), 2500)
    storage = Breaks(LocalStorage())
    with pytest.raises(LakemetaError, match="broken"):
        delete(run_on(storage, str(tmp_path)), door_to(storage, str(tmp_path)), files)
    (ledger,) = find_ledgers(LocalStorage(), f"{tmp_path}/l")
    assert ledger.end() is None
    assert [done and done.deleted for _, done in ledger.batches()] == [1000, None]


def test_quarantined_files_lie_where_their_paths_say(tmp_path: Path) -> None:
    """By run and path below the table; directories are moved file by file."""
    storage = LocalStorage()
    files = fill(str(tmp_path), 3)
    storage.replace(f"{tmp_path}/e/f/x", b"1")
    run, door = run_on(storage, str(tmp_path), "quarantine"), door_to(storage, str(tmp_path))

    def work() -> Report:
        list(door.dispose(files, LocalExecutor(1)))
        door.dispose_directory(f"{tmp_path}/e", LocalExecutor(1))
        return Report("test.plan", door.base, None)

    report = recorded(run, work)
    waiting = {entry.path for entry in storage.walk(f"{tmp_path}/q")}
    assert waiting == {f"{tmp_path}/q/{run.id}/{name}" for name in ("d/0000", "d/0001", "d/0002", "e/f/x")}
    assert not (tmp_path / "e").exists()
    assert (report.freed_bytes, report.quarantined_bytes) == (0, 10)


def test_a_quarantine_behind_a_link_takes_nothing(tmp_path: Path) -> None:
    """Files of the table are moved to no other place."""
    storage = LocalStorage()
    files = fill(str(tmp_path / "t"), 1)
    (tmp_path / "elsewhere").mkdir()
    (tmp_path / "t/q").symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LakemetaError, match="symbolic link"):
        delete(run_on(storage, f"{tmp_path}/t", "quarantine"), door_to(storage, f"{tmp_path}/t"), files)
    assert list((tmp_path / "elsewhere").iterdir()) == []
    assert Path(files[0][0]).exists()


def test_in_memory_too() -> None:
    """A store that neither appends nor keeps versions copies and deletes."""
    storage, root = open_storage("memory://ledger-run/t")
    files: list[tuple[str, int | None]] = [(f"{root}/d/{n}", 3) for n in range(5)]
    for path, _ in files:
        storage.replace(path, b"123")
    delete(run_on(storage, root, "quarantine"), door_to(storage, root), files)
    assert len(list(storage.walk(f"{root}/q"))) == 5
    assert not storage.exists(f"{root}/d")
    (ledger,) = find_ledgers(storage, f"{root}/l")
    assert len(ledger.parts) == 3
    storage.delete_tree(root)

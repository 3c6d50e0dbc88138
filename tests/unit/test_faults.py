from __future__ import annotations

import pickle
from contextlib import suppress
from typing import TYPE_CHECKING, Literal

import pytest
from support.faults import Crash, FaultyStorage, LatencyStorage, RecordingStorage

from lakemeta.storage import LocalStorage, Storage

if TYPE_CHECKING:
    from pathlib import Path


def work(storage: Storage, root: str) -> None:
    for name in "abcd":
        storage.create(f"{root}/{name}", b"12")
    with storage.open_output(f"{root}/e") as file:
        file.write(b"1234")
    storage.read(f"{root}/a")
    storage.delete_many([f"{root}/{name}" for name in "abcd"])
    storage.delete_tree(root)


@pytest.mark.parametrize(
    ("at", "when", "left"),
    [
        (1, "before", {}),
        (1, "half", {}),
        (1, "after", {"a": b"12"}),
        (5, "before", {"a": b"12", "b": b"12", "c": b"12", "d": b"12"}),
        (5, "half", {"a": b"12", "b": b"12", "c": b"12", "d": b"12", "e": b"12"}),
        (5, "after", {"a": b"12", "b": b"12", "c": b"12", "d": b"12", "e": b"1234"}),
        (6, "half", {"c": b"12", "d": b"12", "e": b"1234"}),
        (6, "after", {"e": b"1234"}),
    ],
)
def test_a_crash_leaves_what_was_done(
    tmp_path: Path, at: int, when: Literal["before", "after", "half"], left: dict[str, bytes]
) -> None:
    """The crash comes before, after or in the middle of one operation, and nothing happens after it."""
    storage = FaultyStorage(LocalStorage(), at, when)
    root = str(tmp_path / "t")
    (tmp_path / "t").mkdir()
    with pytest.raises(Crash):
        work(storage, root)
    assert storage.crashed
    assert {path.name: path.read_bytes() for path in (tmp_path / "t").iterdir()} == left
    with pytest.raises(Crash):
        storage.list_dir(root)


@pytest.mark.parametrize(("counted", "operations"), [("mutating", 7), ("all", 8)])
def test_a_loop_ends_when_no_crash_fires(tmp_path: Path, counted: Literal["mutating", "all"], operations: int) -> None:
    """Crashing one operation later each time goes through all of them once."""
    at = 0
    while True:
        at += 1
        root = tmp_path / str(at)
        root.mkdir()
        storage = FaultyStorage(LocalStorage(), at, counted=counted)
        with suppress(Crash):
            work(storage, str(root))
        if not storage.crashed:
            break
    assert at == operations + 1
    assert storage.operations == operations


def test_an_uncrashed_storage_tells_what_it_did(tmp_path: Path) -> None:
    """RecordingStorage has every operation in order, a pair for each deleted path."""
    storage = RecordingStorage(LatencyStorage(LocalStorage(), 0.1))
    work(storage, str(tmp_path / "t"))
    names = [(op, path.rpartition("/")[2]) for op, path in storage.calls]
    deletes = [("delete_many", name) for name in "abcd"]
    creates = [("create", name) for name in "abcd"]
    assert names == [*creates, ("open_output", "e"), ("read", "a"), *deletes, ("delete_tree", "t")]
    assert len(storage.mutations()) == len(storage.calls) - 1


def test_they_can_be_shipped() -> None:
    """A copy goes on counting for itself."""
    storage = FaultyStorage(LocalStorage(), 3)
    storage.operations = 2
    copy = pickle.loads(pickle.dumps(storage))
    with pytest.raises(Crash):
        copy.delete_many([])
    assert not storage.crashed

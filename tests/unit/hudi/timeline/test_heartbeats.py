"""Heartbeats of rollbacks: several writers may find one failed write, and one of them rolls it back."""

from __future__ import annotations

import threading
from datetime import timedelta
from typing import TYPE_CHECKING

import attrs
import pytest
from support.builders import TableFiles, at, base, moment, tree
from support.faults import HookedStorage
from support.hudi_failed_writes import heartbeat, server_markers

from lakemeta.environment import Environment
from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.heartbeats import Heartbeat
from lakemeta.hudi.timeline.locks import FILE_SYSTEM
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

NOW = moment(100)
LAZY = {"hoodie.clean.failed.writes.policy": "LAZY"}
SHARED = {
    **LAZY,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": FILE_SYSTEM,
}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """A write at hour 2 that failed."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a"})
    table.begin({"p1": "a"})
    server_markers(table, at(2), [("p1/" + base("a", 2), "MERGE")])
    return table


def begun(table: TableFiles) -> str:
    """Let the rollback of the write die right after its request; its instant."""

    def die(name: str, _: str) -> None:
        if name == "delete_many":
            raise KeyboardInterrupt

    opened = HudiTable.open(str(table.root))
    dying = attrs.evolve(opened, place=attrs.evolve(opened.place, storage=HookedStorage(LocalStorage(), die)))
    with pytest.raises(KeyboardInterrupt):
        dying.apply(dying.plan_rollback(LAZY, now=NOW), env=Environment(lambda: NOW))
    (rollback,) = (p.name.partition(".")[0] for p in table.timeline.glob("*.rollback.requested"))
    return rollback


@pytest.mark.parametrize("options", [LAZY, SHARED], ids=["alone", "shared"])
def test_a_rollback_under_a_shared_lock_has_a_heartbeat(table: TableFiles, options: dict[str, str]) -> None:
    """Its file is there while files are deleted and gone afterwards; a single writer needs none."""
    seen: set[str] = set()
    folder = table.root / ".hoodie/.heartbeat"

    def look(name: str, _: str) -> None:
        if name == "delete_many" and folder.exists():
            seen.update(path.name for path in folder.iterdir())

    opened = HudiTable.open(str(table.root))
    watched = attrs.evolve(opened, place=attrs.evolve(opened.place, storage=HookedStorage(LocalStorage(), look)))
    report = watched.apply(watched.plan_rollback(options, now=NOW), env=Environment(lambda: NOW))
    assert seen == ({report.committed} if options is SHARED else set())
    assert not folder.exists() or not list(folder.iterdir())


def test_a_rollback_whose_heart_beats_is_left_alone(table: TableFiles) -> None:
    """Another writer executes it: neither a rollback nor a clean is planned, and the message says how long to wait."""
    heartbeat(table, begun(table), NOW - timedelta(seconds=7))
    opened = HudiTable.open(str(table.root))
    with pytest.raises(CommitConflictError, match=r"heartbeat is 7 s old; try again when it is done, or .* than 120 s"):
        opened.plan_rollback(SHARED, now=NOW)
    with pytest.raises(CommitConflictError, match="heartbeat is 7 s old"):
        opened.apply(opened.plan_clean(SHARED, now=NOW), env=Environment(lambda: NOW))


def test_a_rollback_whose_heart_stopped_is_finished(table: TableFiles) -> None:
    """The next writer finishes it as it was begun, and removes the old heartbeat."""
    rollback = begun(table)
    heartbeat(table, rollback, NOW - timedelta(seconds=121))
    opened = HudiTable.open(str(table.root))
    assert opened.apply(opened.plan_rollback(SHARED, now=NOW), env=Environment(lambda: NOW)).committed == rollback
    assert not list((table.root / ".hoodie/.heartbeat").iterdir())


def test_who_comes_second_leaves_the_rollback_alone(table: TableFiles) -> None:
    """Of two writers that found one begun rollback, the second sees the first one's heartbeat under the lock."""
    rollback = begun(table)
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_rollback(SHARED, now=NOW)
    locked: list[str] = []

    def beat(name: str, _: str) -> None:
        if name == "create" and not locked:  # the lock file
            locked.append(name)
            heartbeat(table, rollback, NOW)

    second = attrs.evolve(opened, place=attrs.evolve(opened.place, storage=HookedStorage(LocalStorage(), beat)))
    before = tree(table.root)
    with pytest.raises(CommitConflictError, match="is being executed by a writer"):
        second.apply(plan, env=Environment(lambda: NOW))
    assert set(tree(table.root)) - set(before) == {f".hoodie/.heartbeat/{rollback}"}


@pytest.mark.parametrize("was_begun", [False, True])
def test_who_comes_too_late_does_nothing(table: TableFiles, was_begun: bool) -> None:
    """Nor is a write rolled back twice, if another writer has done it while the lock was waited for."""
    if was_begun:
        begun(table)
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_rollback(SHARED, now=NOW)
    locked: list[str] = []

    def finish(name: str, _: str) -> None:
        if name == "create" and not locked:
            locked.append(name)
            opened.apply(opened.plan_rollback(LAZY, now=NOW), env=Environment(lambda: NOW))

    second = attrs.evolve(opened, place=attrs.evolve(opened.place, storage=HookedStorage(LocalStorage(), finish)))
    with pytest.raises(StalePlanError, match="was rolled back by another writer meanwhile"):
        second.apply(plan, env=Environment(lambda: NOW))
    assert len(list(table.timeline.glob("*.rollback"))) == 1


def test_a_heart_beats_until_the_end(tmp_path: Path) -> None:
    """The file is touched again and again, and removed."""
    beats = threading.Semaphore(0)
    storage = HookedStorage(LocalStorage(), lambda name, _: beats.release() if name == "replace" else None)
    with Heartbeat(storage, str(tmp_path), at(1), interval_ms=1):
        for _ in range(3):
            beats.acquire()
        assert (tmp_path / ".hoodie/.heartbeat" / at(1)).exists()
    assert not (tmp_path / ".hoodie/.heartbeat" / at(1)).exists()

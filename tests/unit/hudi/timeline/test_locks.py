"""The table's lock: who gets it, when it is stale, and that it is held while a table is changed."""

from __future__ import annotations

import json
import os
import threading
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import attrs
import pytest
from support.builders import TableFiles, moment
from support.faults import RecordingStorage

from lakemeta.environment import Environment
from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    OptionError,
    UnsupportedFeatureError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.place import Place
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.locks import FILE_SYSTEM, IN_PROCESS, STORAGE_BASED, ZOOKEEPER, TableLock, table_lock
from lakemeta.storage import LocalStorage, open_storage

OCC = {"hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL"}
NOW = moment(100)


class Clock:
    """A clock that a test sets."""

    def __init__(self, now: datetime = NOW) -> None:
        self.now = now

    def __call__(self) -> datetime:
        return self.now


def lock_of(
    url: str, provider: str, clock: Clock | None = None, slept: list[float] | None = None, **more: str
) -> TableLock:
    options = {**OCC, "hoodie.write.lock.provider": provider, **more}
    sleep = (slept if slept is not None else []).append
    place = Place(url, *open_storage(url))
    return table_lock(place, CleanOptions.parse(options), clock=clock or Clock(), sleep=sleep)


def retries(number: int, wait_ms: int = 7000) -> dict[str, str]:
    return {
        "hoodie.write.lock.client.num_retries": str(number),
        "hoodie.write.lock.client.wait_time_ms_between_retry": str(wait_ms),
    }


def test_a_single_writer_needs_no_lock(tmp_path: Path) -> None:
    """Without a provider and in the default mode nothing is taken."""
    place = Place(str(tmp_path), LocalStorage(), str(tmp_path))
    with table_lock(place, CleanOptions.parse({})).held():
        assert not list(tmp_path.iterdir())


@pytest.mark.parametrize("provider", [IN_PROCESS, FILE_SYSTEM, STORAGE_BASED])
def test_one_holder_at_a_time(provider: str, tmp_path: Path) -> None:
    """Who comes second waits between attempts, gives up in the end, and gets it once it is free."""
    url = "memory://lock-table" if provider == STORAGE_BASED else str(tmp_path)
    slept: list[float] = []
    first = lock_of(url, provider)
    second = lock_of(url, provider, slept=slept, **retries(3))
    with first.held(), pytest.raises(CommitConflictError, match="4 attempts"), second.held():
        raise AssertionError
    assert slept == [7.0] * 3
    with second.held():
        pass


@pytest.mark.parametrize("provider", [IN_PROCESS, FILE_SYSTEM, STORAGE_BASED])
def test_an_error_under_the_lock_releases_it(provider: str, tmp_path: Path) -> None:
    """Whatever happens under it, the next one gets the lock."""
    url = "memory://lock-error" if provider == STORAGE_BASED else str(tmp_path)
    with pytest.raises(ZeroDivisionError), lock_of(url, provider).held():
        raise ZeroDivisionError
    with lock_of(url, provider, **retries(0)).held():
        pass


def test_a_lock_file_is_hudis(tmp_path: Path) -> None:
    """``.hoodie/lock`` with the fields of the engine's LockInfo, gone afterwards."""
    with lock_of(str(tmp_path), FILE_SYSTEM).held():
        info = json.loads((tmp_path / ".hoodie/lock").read_text())
        assert set(info) == {"lockCreateTime", "lockThreadName", "lockStacksInfo"}
        assert info["lockCreateTime"] == "2026-01-05 04:00:00.000"
    assert not (tmp_path / ".hoodie/lock").exists()


def test_the_lock_path_may_be_elsewhere(tmp_path: Path) -> None:
    """All writers of a table are given the same lock path."""
    elsewhere = f"file:{tmp_path}/locks"
    with lock_of(str(tmp_path / "t"), FILE_SYSTEM, **{"hoodie.write.lock.filesystem.path": elsewhere}).held():
        assert (tmp_path / "locks/lock").exists()
    with pytest.raises(OptionError, match="another store"):
        lock_of(str(tmp_path / "t"), FILE_SYSTEM, **{"hoodie.write.lock.filesystem.path": "s3://b/locks"})


@pytest.mark.parametrize(("minutes", "age_s", "stale"), [(0, 10**6, False), (5, 299, False), (5, 301, True)])
def test_a_lock_file_is_stale_after_its_expiry(minutes: int, age_s: int, stale: bool, tmp_path: Path) -> None:
    """A lock file of a dead writer is removed once it is older than the expiry; 0 is never."""
    path = tmp_path / ".hoodie/lock"
    path.parent.mkdir()
    path.write_bytes(b"")
    touched = (NOW - timedelta(seconds=age_s)).timestamp()
    os.utime(path, (touched, touched))
    lock = lock_of(str(tmp_path), FILE_SYSTEM, **retries(0), **{"hoodie.write.lock.filesystem.expire": str(minutes)})
    if not stale:
        with pytest.raises(CommitConflictError, match=str(path)), lock.held():
            raise AssertionError
        return
    with lock.held():
        assert path.read_bytes()


def test_a_lock_file_of_another_is_not_removed(tmp_path: Path) -> None:
    """If our lock became stale and somebody took it, it is theirs to remove; and we may not have been alone."""
    lock = attrs.evolve(lock_of(str(tmp_path), FILE_SYSTEM), renew_s=0.001)
    with pytest.raises(CommitStateUnknownError, match="taken by another writer"), lock.held():
        _take_away(tmp_path / ".hoodie/lock")
    assert (tmp_path / ".hoodie/lock").read_text() == "theirs"


def _take_away(lock_file: Path) -> None:
    """Put somebody else's lock there, and wait until that was noticed."""
    lock_file.write_text("theirs")
    for thread in threading.enumerate():
        if thread.name == "lakemeta-lock":
            thread.join()


def stored(url: str) -> dict[str, Any]:
    storage, root = open_storage(url)
    found: dict[str, Any] = json.loads(storage.read(f"{root}/.hoodie/.locks/table_lock.json"))
    return found


def test_a_storage_lock_is_hudis() -> None:
    """``table_lock.json`` says until when it holds; afterwards it stays, expired."""
    with lock_of("memory://lock-form", STORAGE_BASED).held():
        held = stored("memory://lock-form")
        assert held["expired"] is False
        assert held["validUntil"] == int(NOW.timestamp() * 1000) + 300_000
    assert stored("memory://lock-form") == {**held, "expired": True}


@pytest.mark.parametrize(("late_ms", "free"), [(499, False), (501, True)])
def test_a_storage_lock_is_free_once_its_validity_is_past(late_ms: int, free: bool) -> None:
    """A dead writer's lock is free after its validity and the drift that clocks may have."""
    url, clock = f"memory://lock-late-{late_ms}", Clock()
    dead = lock_of(url, STORAGE_BASED, clock)
    assert dead.provider is not None
    assert dead.provider.try_acquire()
    later = Clock(NOW + timedelta(seconds=300, milliseconds=late_ms))
    lock = lock_of(url, STORAGE_BASED, later, **retries(0))
    if free:
        with lock.held():
            assert not dead.provider.renew()
    else:
        with pytest.raises(CommitConflictError), lock.held():
            raise AssertionError


def test_a_storage_lock_is_renewed() -> None:
    """Renewing moves the end of the validity and keeps others out."""
    url, clock = "memory://lock-renew", Clock()
    lock = lock_of(url, STORAGE_BASED, clock)
    assert lock.provider is not None
    assert lock.provider.try_acquire()
    clock.now += timedelta(seconds=200)
    assert lock.provider.renew()
    assert stored(url)["validUntil"] == int(clock.now.timestamp() * 1000) + 300_000
    lock.provider.release()


def test_a_damaged_storage_lock_is_named() -> None:
    """A lock that nobody can read is neither taken nor removed."""
    storage, root = open_storage("memory://lock-damaged")
    storage.create(f"{root}/.hoodie/.locks/table_lock.json", b"{")
    with (
        pytest.raises(CorruptMetadataError, match=r"table_lock\.json"),
        lock_of("memory://lock-damaged", STORAGE_BASED).held(),
    ):
        raise AssertionError


@pytest.mark.parametrize(
    "provider",
    [
        ZOOKEEPER,
        "org.apache.hudi.hive.transaction.lock.HiveMetastoreBasedLockProvider",
        "org.apache.hudi.aws.transaction.lock.DynamoDBBasedLockProvider",
        "com.example.OurOwnLock",
        STORAGE_BASED,  # a local disk cannot do it
    ],
)
def test_other_locks_need_the_callers_word(provider: str, tmp_path: Path) -> None:
    """A lock that cannot be taken is refused, unless the caller says that there is no other writer."""
    with pytest.raises(UnsupportedFeatureError, match="--assume-single-writer"):
        lock_of(str(tmp_path), provider)
    options = CleanOptions.parse({**OCC, "hoodie.write.lock.provider": provider})
    place = Place(str(tmp_path), LocalStorage(), str(tmp_path))
    with table_lock(place, options, assume_single_writer=True).held():
        pass


def test_several_writers_without_a_provider_use_zookeeper(tmp_path: Path) -> None:
    """That is the engine's default, and a mode nobody knows is refused."""
    place = Place(str(tmp_path), LocalStorage(), str(tmp_path))
    with pytest.raises(UnsupportedFeatureError, match="ZookeeperBased"):
        table_lock(place, CleanOptions.parse(OCC))
    with pytest.raises(OptionError, match=r"concurrency\.mode=MANY"):
        table_lock(place, CleanOptions.parse({"hoodie.write.concurrency.mode": "MANY"}))


def test_a_clean_holds_the_lock_for_its_instants_only(tmp_path: Path) -> None:
    """Requested and completed are written under the lock; files are deleted without it, once the ledger names them."""
    table = TableFiles(tmp_path)
    for _ in range(4):
        table.commit({"p1": "a"})
    hudi = HudiTable.open(str(tmp_path))
    recording = RecordingStorage(LocalStorage())
    hudi = attrs.evolve(hudi, place=attrs.evolve(hudi.place, storage=recording))
    options = {**OCC, "hoodie.write.lock.provider": FILE_SYSTEM, "hoodie.clean.commits.retained": "1"}
    executor = LocalExecutor(threads=1)
    plan = hudi.plan_clean(options, now=NOW, executor=executor)
    hudi.apply(plan, executor=executor, env=Environment(lambda: datetime.now(UTC)))
    steps = [Path(path).name.rpartition(".")[2] for _, path in recording.mutations()]
    assert steps[:5] == ["jsonl", "lock", "requested", "lock", "inflight"]
    assert steps[5:] == ["jsonl", "parquet", "parquet", "lock", "clean", "lock", "jsonl"]


def test_a_clean_waits_for_nobody_who_keeps_the_lock(tmp_path: Path) -> None:
    """If the lock cannot be had, nothing is requested and nothing deleted."""
    table = TableFiles(tmp_path)
    for _ in range(4):
        table.commit({"p1": "a"})
    before = table.files()
    (tmp_path / ".hoodie/lock").write_bytes(b"")
    hudi = HudiTable.open(str(tmp_path))
    options = {**OCC, "hoodie.write.lock.provider": FILE_SYSTEM, "hoodie.clean.commits.retained": "1", **retries(0)}
    with pytest.raises(CommitConflictError, match="held by another writer"):
        hudi.apply(hudi.plan_clean(options, now=NOW), env=Environment(lambda: NOW))
    assert table.files() == before
    assert not list(table.timeline.glob("*.clean*"))


@pytest.mark.parametrize("seconds", ["0", "300"])
def test_a_lock_must_be_renewed_while_it_is_valid(seconds: str, tmp_path: Path) -> None:
    """A renewal that comes too late, or all the time, is a mistake in the options."""
    with pytest.raises(OptionError, match="within the validity"):
        lock_of(str(tmp_path), IN_PROCESS, **{"hoodie.write.lock.storage.renew.interval.secs": seconds})


def test_a_writers_own_configuration_is_taken_as_it_is(tmp_path: Path) -> None:
    """Options of locks that cannot be taken are known, so that the caller's word is all that is missing."""
    options = {**OCC, "hoodie.write.lock.provider": ZOOKEEPER, "hoodie.write.lock.zookeeper.url": "zk"}
    place = Place(str(tmp_path), LocalStorage(), str(tmp_path))
    assert table_lock(place, CleanOptions.parse(options), assume_single_writer=True).provider is None

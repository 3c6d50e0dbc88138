"""Small jobs: a table as files, and the arguments of ``lakemeta`` that have something to do on it.

A table is made once for the place at which it will lie, and put there anew for every run.
"""

from __future__ import annotations

import tempfile
from collections.abc import Callable, Mapping
from functools import cache, partial
from pathlib import Path
from typing import Literal

import attrs
from fuzz.memory import MemoryTable
from support import served_tables
from support.builders import TableFiles, at, base, log, moment, tree
from support.checker import Retention, required_files
from support.hudi_failed_writes import heartbeat, inflight_updates, log_name, server_markers
from support.hudi_mdt_cases import lay_out
from support.iceberg_expire import fill
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable

Files = dict[str, bytes]  # by path relative to the table
LATER = "2100-01-01T00:00:00Z"
_LOCK = "org.apache.hudi.client.transaction.lock."
_SOON = {  # nobody waits between attempts, and what keeps the table is asked again at once
    "commit.retry.min-wait-ms": "1",
    "commit.retry.max-wait-ms": "2",
    "commit.status-check.min-wait-ms": "1",
    "commit.status-check.max-wait-ms": "2",
    "commit.status-check.num-retries": "2",
}


@attrs.frozen
class Job:
    """``required`` are the files that no run may take; ``locks`` those that a run that died may leave for a while."""

    name: str
    format: Literal["hudi", "iceberg"]
    arguments: tuple[str, ...]
    files: Files = attrs.field(repr=False)
    required: frozenset[str] = attrs.field(default=frozenset(), repr=False)
    locks: tuple[str, ...] = ()

    def command(self, url: str, options: Mapping[str, str]) -> list[str]:
        """The arguments of ``lakemeta`` for the table at a URL."""
        service, *rest = self.arguments
        storage = [text for name, value in options.items() for text in ("--storage-option", f"{name}={value}")]
        return [service, url, *rest, "--yes", "--output", "json", *storage]


@cache
def jobs(url: str) -> dict[str, Job]:
    """All jobs on a table at a URL, by name."""
    found = [*_hudi_jobs(), *_iceberg_jobs(url)]
    return {job.name: job for job in found}


# --- Hudi


def _hudi_jobs() -> list[Job]:
    two = {"hoodie.clean.commits.retained": "2"}
    one = {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.clean.commits.retained": "1"}
    many = {"hoodie.write.lock.client.wait_time_ms_between_retry": "1"}
    stored = {**many, "hoodie.write.lock.provider": f"{_LOCK}StorageBasedLockProvider"}
    filed = {**many, "hoodie.write.lock.provider": f"{_LOCK}FileSystemBasedLockProvider"}
    found = []
    for version, mor in ((6, False), (6, True), (9, False), (9, True)):
        shape = f"v{version} {'mor' if mor else 'cow'}"
        whole = partial(aged_table, version=version, mor=mor)
        failed = partial(failed_table, version=version, mor=mor)
        found += [
            _hudi(f"clean {shape}", "clean", whole, two, Retention(commits=2)),
            _hudi(f"rollback {shape}", "rollback", failed, one, Retention(commits=99)),
            _hudi(f"clean that rolls back {shape}", "clean", failed, one, Retention(commits=1)),
        ]
    whole = partial(aged_table, version=9, mor=False)
    lock = (".hoodie/.locks/table_lock.json",)
    found.append(_hudi("clean with a lock object", "clean", whole, two | stored, Retention(commits=2), lock))
    lock = (".hoodie/lock",)
    found.append(_hudi("clean with a lock file", "clean", whole, two | filed, Retention(commits=2), lock))
    settings = {f"clean.{key}": value for key, value in two.items()}
    found.append(_hudi("maintain a hudi table", "maintain", whole, settings, Retention(commits=2)))
    for name in ("1.2.0__mdt_cow__commits2", "0.15.0__mdt_cow__commits2"):
        table = partial(_recorded, name=name)
        found.append(_hudi(f"clean {name}", "clean", table, two, Retention(commits=2)))
    return found


def _hudi(
    name: str,
    service: str,
    make: Callable[[Path], None],
    settings: Mapping[str, str],
    retention: Retention,
    locks: tuple[str, ...] = (),
) -> Job:
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "t"
        make(root)
        required = required_files(root, retention)
        if service == "rollback" or "rolls back" in name:
            required = {path for path in required if at(4) not in path and not path.startswith("p3/")}
        return Job(name, "hudi", (service, *_set(settings)), tree(root), frozenset(required), locks)


def aged_table(root: Path, version: int, mor: bool) -> None:
    """Superseded slices with and without logs, a savepoint, a dropped partition, a pending compaction."""
    table = TableFiles(root, version, mor=mor)
    table.insert({"p3": "d"})
    table.insert({"p1": "ab", "p2": "c"})
    for _ in range(2):
        table.commit({"p1": "ab", "p3": "d"})
        if mor:
            table.delta({"p1": "a", "p3": "d"})
    table.savepoint(1, {"p3": [base("d", 1)]})
    table.delete_partition("p2")
    for _ in range(2):
        table.commit({"p1": "a"})
    if mor:
        table.schedule_compaction({"p1": "b"})


def failed_table(root: Path, version: int, mor: bool) -> None:
    """A table with superseded files and a write that died, its heartbeat long cold."""
    table = TableFiles(root, version, mor=mor)
    table.insert({"p1": "ab", "p2": "c"})
    if not mor:
        table.commit({"p1": "a"})
        table.commit({"p1": "ab"})
        table.begin({"p1": "ab", "p3": "d"})
        files = [("p1/" + base("a", 4), "MERGE"), ("p1/" + base("b", 4), "MERGE"), ("p3/" + base("d", 4), "CREATE")]
    else:
        table.delta({"p1": "a"})
        table.delta({"p2": "c"})
        instant = table.begin({"p1": "ab"}, "deltacommit", logs=True)
        table.data("p3", base("d", 4))
        if version < 8:
            inflight_updates(table, instant, {"p1": {"a": at(1), "b": at(1)}, "p3": {"d": None}})
            logs = [("p1/" + log_name("a", 1, 2), "APPEND"), ("p1/" + log_name("b", 1, 1), "APPEND")]
        else:
            logs = [("p1/" + log("a", 4), "CREATE"), ("p1/" + log("b", 4), "CREATE")]
        files = [*logs, ("p3/" + base("d", 4), "CREATE")]
    server_markers(table, at(4), files)
    heartbeat(table, at(4), moment(4))


def _recorded(root: Path, name: str) -> None:
    with tempfile.TemporaryDirectory(dir=root.parent) as folder:
        Path(lay_out(name, Path(folder)).root).rename(root)
        for sums in root.rglob(".*.crc"):
            sums.unlink()


# --- Iceberg


def _iceberg_jobs(url: str) -> list[Job]:
    found = [job for version in (2, 3) for job in _served(url, version)]
    expiring = _table(url, 2)
    fill(expiring)
    settings = {"older_than": LATER}
    found.append(_iceberg("expire-snapshots with branches", ("expire-snapshots", *_set(settings)), expiring))
    maintained = _table(url, 2)
    served_tables.fill(maintained)
    found.append(
        _iceberg("maintain an iceberg table", ("maintain", "--set", f"expire-snapshots.older_than={LATER}"), maintained)
    )
    return found


def _served(url: str, version: int) -> list[Job]:
    """A job for each service, on the table as the services before it left it."""
    small, found = _table(url, version), []
    served_tables.fill(small)
    small.storage.replace(f"{small.root}/data/orphan.parquet", b"left")
    for service, options in served_tables.OPTIONS.items():
        if service == "convert-equality-deletes" and version == 3:
            small.delete_ids(11, partition=("a",))
        given = {key: value for key, value in options.items() if key != "rewrite-all"}
        if service == "rewrite-data-files":
            given |= {"min-input-files": "2"}
        found.append(_iceberg(f"{service} v{version}", (service, *_set(given)), small))
        if service == "remove-orphan-files":
            break  # it is the last one, and needs the present
        table = IcebergTable(Place(url, small.operations))
        table.apply(table.plan(service, options), env=still_env(100 + len(found)))
    return found


class _Place(MemoryTable):
    """Files in memory that lie at a URL."""

    def __init__(self, url: str) -> None:
        super().__init__({})
        self.scheme = url.partition("://")[0] if "://" in url else "file"

    def url(self, path: str) -> str:
        return path if self.scheme == "file" else f"{self.scheme}://{path}"


def _table(url: str, version: int) -> SmallTable:
    storage, root = _Place(url), url.rpartition("://")[2]
    return create_table(storage, root, version=version, partitioned=True, properties=_SOON, location=url)


def _iceberg(name: str, arguments: tuple[str, ...], table: SmallTable) -> Job:
    assert isinstance(table.storage, _Place)
    files = {path.removeprefix(f"{table.root}/"): data for path, (data, _) in table.storage.files.items()}
    return Job(name, "iceberg", arguments, files)


def _set(settings: Mapping[str, str]) -> tuple[str, ...]:
    return tuple(text for key, value in settings.items() for text in ("--set", f"{key}={value}"))

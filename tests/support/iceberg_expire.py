"""A small table with all that an expire decides about, and runs of it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.spec.table_metadata import SnapshotRef, StatisticsFile
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

if TYPE_CHECKING:
    from lakemeta.plan import Plan
    from lakemeta.report import Report
    from lakemeta.storage import Storage

NOW = datetime(2030, 1, 1, tzinfo=UTC)  # years after the table was written
ALL = {"older_than": NOW.isoformat()}


def build(root: Path, **properties: str) -> SmallTable:
    """A table on the local disk, filled as :func:`fill` does."""
    table = create_table(
        LocalStorage(), str(root), partitioned=True, properties={"history.expire.x": "0", **properties}
    )
    fill(table)
    return table


def fill(table: SmallTable) -> None:
    """Files added, removed and replaced, position and equality deletes, statistics, a tag and a branch."""
    table.append([(1, "a", 0.5), (2, "a", 0.5)], [(3, "b", 0.5)])
    first = table.head
    table.append([(4, "a", 0.5)])
    table.remove(table.data_files()[-1])
    set_refs(table, old=SnapshotRef(table.head.snapshot_id, "tag"))
    table.delete_positions(table.data_files()[0], [0])
    table.delete_ids(3, partition=("b",))
    table.overwrite(table.data_files()[0], [(9, "a", 9.5)])
    statistics(table, first.snapshot_id)
    set_refs(table, side=SnapshotRef(table.head.snapshot_id, "branch"))
    table.append([(7, "b", 0.5)], branch="side")
    table.append([(8, "b", 0.5)])
    table.overwrite(table.data_files()[0], [(10, "b", 9.5)])


def set_refs(table: SmallTable, **refs: SnapshotRef) -> None:
    change(table, lambda metadata: attrs.evolve(metadata, refs={**metadata.refs, **refs}))


def statistics(table: SmallTable, snapshot_id: int) -> None:
    """Statistics of a snapshot."""
    location = f"{table.metadata.location}/metadata/{snapshot_id}.stats"
    table.storage.create(f"{table.root}/metadata/{snapshot_id}.stats", b"PFA1")
    extras = {"file-footer-size-in-bytes": 1, "blob-metadata": []}
    file = StatisticsFile(snapshot_id, location, 4, extras)
    change(table, lambda metadata: attrs.evolve(metadata, statistics=(*metadata.statistics, file)))


def change(table: SmallTable, how: Any) -> None:
    """Commit a change of the metadata that is no snapshot."""
    base = table.operations.refresh()
    table.operations.commit(base, how(base.metadata))


def opened(root: Path | str, storage: Storage | None = None) -> IcebergTable:
    return IcebergTable(Place(str(root), HadoopTableOperations(storage or LocalStorage(), str(root))))


def plan(root: Path | str, storage: Storage | None = None, **options: str) -> Plan:
    given = {name.replace("cleanup_level", "cleanup-level"): value for name, value in options.items()}
    return opened(root, storage).plan("expire-snapshots", given or ALL, now=NOW, executor=LocalExecutor(1))


def apply(root: Path | str, made: Plan, storage: Storage | None = None, seed: int = 1, later: int = 0) -> Report:
    """Apply a plan, ``later`` seconds later than others do."""
    still = still_env(seed)
    env = attrs.evolve(still, now=lambda: still.now() + timedelta(seconds=later))
    # One thread, so that the n-th operation is the same one on every run.
    return opened(root, storage).apply(made, executor=LocalExecutor(1), env=env, now=NOW)


def files(root: Path | str) -> set[str]:
    """All files of the table but versions, the hint and ledgers; marks too."""
    found = {str(path) for path in Path(root).rglob("*") if path.is_file() and ".lakemeta-ledgers" not in path.parts}
    return {path for path in found if not path.endswith((".metadata.json", "version-hint.text", ".crc"))}


def check(root: Path | str, rows: dict[str, list[str]]) -> None:
    """Every file that a snapshot needs is there, and each ref has the rows that it had."""
    state = TableState.local(root)
    assert state.needed() <= files(root)
    assert state.rows_at_refs() == {name: rows[name] for name in state.metadata["refs"]}

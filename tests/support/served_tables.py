"""A table that every service finds work in, an order in which they do, and its rows at every ref."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

from lakemeta.iceberg.services import SERVICES
from lakemeta.storage import LocalStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.iceberg import IcebergTable
    from lakemeta.plan import Plan

# In an order in which each finds work; services that are not named here come last, without options.
OPTIONS: Mapping[str, Mapping[str, str]] = {
    "rewrite-manifests": {},
    "remove-dangling-deletes": {},
    "rewrite-position-deletes": {"rewrite-all": "true"},
    "convert-equality-deletes": {},
    "rewrite-data-files": {"rewrite-all": "true", "remove-dangling-deletes": "false"},
    "compute-partition-stats": {},
    "compute-table-stats": {},
    "expire-snapshots": {"older_than": "2100-01-01T00:00:00Z", "retain_last": "1", "clean_expired_metadata": "true"},
    "remove-orphan-files": {},
}


def served_table(root: Path, version: int = 2) -> SmallTable:
    """A table on the local disk, filled as :func:`fill` does, with a file too many."""
    table = create_table(LocalStorage(), str(root), version=version, partitioned=True)
    fill(table)
    orphan = Path(root, "data", "orphan.parquet")
    orphan.write_bytes(b"left")
    os.utime(orphan, (1.0, 1.0))
    return table


def fill(table: SmallTable) -> None:
    """Appends to two partitions, a row updated, both kinds of deletes, one of them too many."""
    for start in (0, 10, 20):
        table.append([(start + i, "a", 0.5) for i in range(3)], [(start + i, "b", 1.5) for i in range(3, 6)])
    table.overwrite(table.data_files()[0], [(20, "a", 9.5), (21, "a", 0.5)])
    if table.metadata.format_version < 3:
        table.delete_positions(table.data_files()[1], [1])
        table.delete_positions(table.data_files()[1], [0])
    table.delete_ids(10, partition=("a",))
    table.delete_ids(10, partition=("c",))


def served(table: IcebergTable) -> Iterator[tuple[str, Plan]]:
    """Plan and apply every service; gives each one's name and plan after it was applied."""
    for name in sorted(SERVICES, key=lambda name: [*OPTIONS, name].index(name)):
        plan = table.plan(name, OPTIONS.get(name, {}))
        table.apply(plan)
        yield name, plan


def rows_at_refs(metadata_file: str) -> dict[str, list[str]]:
    """The rows at every branch and tag, read without lakemeta. Every file of every snapshot is read."""
    newest = TableState(metadata_file)
    for snapshot in newest.metadata["snapshots"]:
        TableState(metadata_file, snapshot_id=snapshot["snapshot-id"]).rows()
    refs = newest.metadata["refs"]
    return {name: TableState(metadata_file, snapshot_id=ref["snapshot-id"]).rows() for name, ref in refs.items()}

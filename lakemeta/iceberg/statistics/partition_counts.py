"""What partition statistics count, from the entries of manifests alone (Iceberg's PartitionStatsHandler).

Rules of this module:

1. Full: live entries of a snapshot's manifests count. An entry of a removed file counts as an update of its partition,
   so that a partition which this snapshot emptied has a row of zeros.
2. Incremental: to the rows of an earlier snapshot come, of the manifests that each later one added, the files added
   and, taken away, the files removed. A partition that became empty keeps a row of zeros.
3. A row is of one partition of one spec. It was last updated by the youngest snapshot that its entries name; snapshots
   that have expired have no time, and do not count.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.manifests.delete_entries import partition_key
from lakemeta.iceberg.manifests.entries import EntryStatus, FileContent
from lakemeta.iceberg.spec.values import order_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry
    from lakemeta.iceberg.spec.table_metadata import Snapshot
    from lakemeta.iceberg.spec.types import Value
    from lakemeta.iceberg.statistics.partition_type import UnifiedPartition

COUNTS: Final = (
    "data_record_count",
    "data_file_count",
    "total_data_file_size_in_bytes",
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
    "dv_count",
)


@attrs.define
class PartitionRow:
    """The statistics of one partition of one spec; ``partition`` is of the table's unified struct, times are ms."""

    partition: tuple[Value, ...]
    spec_id: int
    data_record_count: int = 0
    data_file_count: int = 0
    total_data_file_size_in_bytes: int = 0
    position_delete_record_count: int = 0
    position_delete_file_count: int = 0
    equality_delete_record_count: int = 0
    equality_delete_file_count: int = 0
    total_record_count: int | None = None
    last_updated_at: int | None = None
    last_updated_snapshot_id: int | None = None
    dv_count: int = 0

    def add(self, file: DataFile, sign: int) -> None:
        """Count a file once more, or with sign -1 once less."""
        records = sign * file.record_count
        if file.content == FileContent.DATA:
            self.data_record_count += records
            self.data_file_count += sign
            self.total_data_file_size_in_bytes += sign * file.file_size_in_bytes
        elif file.content == FileContent.EQUALITY_DELETES:
            self.equality_delete_record_count += records
            self.equality_delete_file_count += sign
        else:
            self.position_delete_record_count += records
            if file.is_deletion_vector:
                self.dv_count += sign
            else:
                self.position_delete_file_count += sign

    def add_row(self, other: PartitionRow) -> None:
        """Add another row's counts, and its update if that is younger."""
        for name in COUNTS:
            setattr(self, name, getattr(self, name) + getattr(other, name))
        self.updated(other.last_updated_snapshot_id, other.last_updated_at)

    def updated(self, snapshot_id: int | None, at: int | None) -> None:
        """Note an update, unless a younger one is known."""
        if at is not None and (self.last_updated_at is None or self.last_updated_at < at):
            self.last_updated_at, self.last_updated_snapshot_id = at, snapshot_id


def count(
    entries: Iterable[ManifestEntry],
    unified: UnifiedPartition,
    snapshots: Mapping[int, Snapshot],
    *,
    incremental: bool,
) -> list[PartitionRow]:
    """The rows of some manifests' entries, one a partition of a spec."""
    rows: dict[tuple[int, tuple[Value, ...]], PartitionRow] = {}
    for entry in entries:
        file = entry.data_file
        key = (file.spec_id, partition_key(file.partition))
        row = rows.get(key)
        if row is None:
            row = rows[key] = PartitionRow(unified.coerced(file.spec_id, file.partition), file.spec_id)
        if incremental and entry.status == EntryStatus.EXISTING:
            continue
        if entry.is_live or incremental:
            row.add(file, 1 if entry.is_live else -1)
        snapshot = snapshots.get(entry.snapshot_id or 0)
        if snapshot is not None:
            row.updated(snapshot.snapshot_id, snapshot.timestamp_ms)
    return list(rows.values())


def merged(old: Iterable[PartitionRow], changes: Iterable[PartitionRow]) -> list[PartitionRow]:
    """The rows of an earlier snapshot with the changes since."""
    rows = {(row.spec_id, partition_key(row.partition)): attrs.evolve(row) for row in old}
    for row in changes:
        key = (row.spec_id, partition_key(row.partition))
        if key in rows:
            rows[key].add_row(row)
        else:
            rows[key] = attrs.evolve(row)
    return list(rows.values())


def in_order(rows: Iterable[PartitionRow]) -> list[PartitionRow]:
    """Rows sorted by partition, nulls first, and by spec."""
    return sorted(rows, key=lambda row: (tuple(map(order_key, row.partition)), row.spec_id))


def files(rows: Iterable[PartitionRow]) -> tuple[int, int]:
    """How many data files and delete files some rows count."""
    listed = list(rows)
    deletes = sum(r.position_delete_file_count + r.equality_delete_file_count + r.dv_count for r in listed)
    return sum(row.data_file_count for row in listed), deletes

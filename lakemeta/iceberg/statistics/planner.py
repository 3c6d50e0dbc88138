"""Plans statistics of a snapshot: of which, and whether they are there already (I/O: reads metadata)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.service.plans import header_of, id_of
from lakemeta.iceberg.spec.options import check, whole
from lakemeta.iceberg.statistics.columns import chosen_columns, schema_of
from lakemeta.iceberg.statistics.partition_type import UnifiedPartition
from lakemeta.plan import Plan
from lakemeta.plan_operations import WriteStatistics

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, StatisticsFile, TableMetadata

PARTITION_STATS: Final = "compute-partition-stats"
TABLE_STATS: Final = "compute-table-stats"


def plan_partition_stats(request: PlanRequest) -> Plan:
    """Plan on the newest version; a table without snapshot, or with these statistics already, gives an empty plan.

    Raises OptionError for an unknown snapshot or a table without partitions, in the engine's words.
    """
    request.refuse_where(PARTITION_STATS)
    reject_others("compute-partition-stats", request.options)
    metadata = request.place.operations.refresh().metadata
    snapshot = chosen_snapshot(request.options, metadata)
    operations: list[WriteStatistics] = []
    if snapshot is not None:
        partitions = UnifiedPartition.of(metadata).struct.fields
        check(bool(partitions) and not all(s.is_unpartitioned for s in metadata.partition_specs), _UNPARTITIONED)
        nearest = nearest_statistics(metadata.partition_statistics, metadata, snapshot)
        if nearest is None or nearest.snapshot_id != snapshot.snapshot_id:
            how = "full" if nearest is None else f"incremental from snapshot {nearest.snapshot_id}"
            operations.append(WriteStatistics(snapshot.snapshot_id, "partition", how))
    facts = {"snapshot_id": id_of(snapshot)}
    return Plan(header_of(request, PARTITION_STATS, metadata, metadata.current_snapshot, facts), operations)


def plan_table_stats(request: PlanRequest) -> Plan:
    """Plan on the newest version; a table without snapshot gives an empty plan.

    Raises OptionError for an unknown snapshot, or a column that cannot be sketched, in the engine's words.
    """
    request.refuse_where(TABLE_STATS)
    reject_others("compute-table-stats", request.options)
    metadata = request.place.operations.refresh().metadata
    snapshot = chosen_snapshot(request.options, metadata)
    operations: list[WriteStatistics] = []
    if snapshot is not None:
        schema = schema_of(snapshot, metadata)
        names = [schema.names[column.field_id] for column in chosen_columns(request.options, schema)]
        operations.append(WriteStatistics(snapshot.snapshot_id, "table", f"of {', '.join(names)}"))
    facts = {"snapshot_id": id_of(snapshot)}
    return Plan(header_of(request, TABLE_STATS, metadata, metadata.current_snapshot, facts), operations)


_UNPARTITIONED: Final = "Table must be partitioned"


def chosen_snapshot(options: Mapping[str, str], metadata: TableMetadata) -> Snapshot | None:
    """The snapshot that ``snapshot_id`` names, or the current one; None if there is no current one."""
    wanted = whole(options, "snapshot_id", None)
    if wanted is None:
        return metadata.current_snapshot
    check(wanted in metadata.snapshots_by_id, f"Snapshot not found: {wanted}")
    return metadata.snapshot(wanted)


def nearest_statistics(
    files: Sequence[StatisticsFile], metadata: TableMetadata, snapshot: Snapshot
) -> StatisticsFile | None:
    """The statistics of a snapshot, or of its nearest ancestor that has any."""
    known = {file.snapshot_id: file for file in files}
    return next(
        (known[s.snapshot_id] for s in metadata.ancestors(snapshot.snapshot_id) if s.snapshot_id in known), None
    )

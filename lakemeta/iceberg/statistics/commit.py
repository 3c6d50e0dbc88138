"""What applying plans of both kinds of statistics has in common: the snapshot they are of, and the commit (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.iceberg.commit.committer import commit
from lakemeta.iceberg.commit.draft import Base, Draft
from lakemeta.iceberg.spec.metadata_update import set_statistics
from lakemeta.plan_operations import WriteStatistics

if TYPE_CHECKING:
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, StatisticsFile, TableMetadata


def planned_snapshot(request: ApplyRequest, metadata: TableMetadata, kind: str) -> Snapshot | None:
    """The snapshot whose statistics of a kind a plan asks for; None if it was made of a table without any.

    Raises StalePlanError if it is no such plan, or the snapshot is gone.
    """
    ids = {op.snapshot_id for op in request.plan.operations if isinstance(op, WriteStatistics) and op.kind == kind}
    if len(ids) != len(request.plan.operations):
        raise StalePlanError(f"this is no plan of one snapshot's {kind} statistics; make the plan again")
    wanted = next(iter(ids), request.plan.header.facts.get("snapshot_id"))
    if wanted is None:
        return None
    if wanted not in metadata.snapshots_by_id:
        raise StalePlanError(f"snapshot {wanted} is no longer in the table; make the plan again")
    return metadata.snapshot(wanted)


def commit_statistics(
    request: ApplyRequest, data: bytes, *, table: StatisticsFile | None = None, partition: StatisticsFile | None = None
) -> None:
    """Write a file of one kind of statistics, and put it into the metadata in place of its snapshot's.

    Raises CommitConflictError, with nothing left behind, if the snapshot has expired since.
    """
    file = table or partition
    assert file is not None, "one of them is given"

    def change(base: Base) -> Draft:
        if file.snapshot_id not in base.metadata.snapshots_by_id:
            raise CommitConflictError(f"snapshot {file.snapshot_id} has expired; plan again")
        changed = set_statistics(base.metadata, base.location, base.now_ms, table=table, partition=partition)
        return Draft(changed, None, {file.statistics_path: data}, has_arrived)

    def has_arrived(current: TableMetadata) -> bool:
        return file in (*current.statistics, *current.partition_statistics)

    commit(request.place.operations, change, request.env)

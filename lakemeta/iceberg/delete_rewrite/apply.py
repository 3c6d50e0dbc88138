"""Applies a plan of rewrite_position_deletes: writes new delete files for its groups, and commits them (I/O).

Rules of this module:

1. The delete files of a plan are looked up in the newest snapshot; one that is gone makes the plan stale.
2. A group's new files replace all of its files in one commit, with the greatest data sequence number that these had, so
   that they apply to the same data files.
3. A commit that others came before is tried again only if all replaced files are there, and, where vectors are written,
   if no data file of theirs has gone or got another vector meanwhile.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.errors import OptionError, StalePlanError
from lakemeta.iceberg.commit.snapshot_commit import commit_update
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.commit.summary import ENGINE
from lakemeta.iceberg.delete_rewrite.inputs import find_units
from lakemeta.iceberg.delete_rewrite.options import PositionDeleteOptions
from lakemeta.iceberg.delete_rewrite.planner import REWRITE_POSITION_DELETES, check_delete_format
from lakemeta.iceberg.delete_rewrite.runs import UnitRuns
from lakemeta.iceberg.delete_rewrite.units import DeleteJob
from lakemeta.iceberg.manifests.delete_entries import content_size
from lakemeta.iceberg.rewrite.unfinished import RunMarker, left_behind
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.plan_operations import Rewrite
from lakemeta.report import Report

if TYPE_CHECKING:
    from lakemeta.iceberg.delete_rewrite.runs import Batch
    from lakemeta.iceberg.delete_rewrite.units import Granularity
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


def apply_rewrite_position_deletes(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed.

    Raises:
        StalePlanError: a delete file of the plan is no longer in the table, or the table is another one.
        CommitConflictError: another commit came in between and touched the same files; the new files are gone.
        CommitStateUnknownError: it is unknown whether a commit happened; its new files were left alone.
        CorruptMetadataError: a file is not what the metadata says, or rows would not add up; nothing was committed.
        UnsupportedFeatureError: the table cannot be written by lakemeta.
    """
    plan, operations, env = request.plan, request.place.operations, request.env
    metadata = open_plan(request, REWRITE_POSITION_DELETES, (Rewrite,)).metadata
    options = PositionDeleteOptions.parse(plan.header.options, metadata)
    check_delete_format(metadata, options)
    notes = left_behind(operations, metadata, request.executor)
    groups = [op for op in plan.operations if isinstance(op, Rewrite)]
    head = metadata.current_snapshot
    if not groups:
        return _report(request, None, [], notes, partial=False)
    if head is None:
        raise StalePlanError("the table is empty now; make the plan again")
    units = find_units(request, metadata, head, groups)
    marker = RunMarker(operations, env.new_uuid(), env.now_ms(), head.snapshot_id)
    commits = _Commits(request, marker, head)
    runs = UnitRuns(
        request,
        delete_job(request, metadata, marker.uuid),
        units,
        marker,
        commits.commit,
        options.units_per_commit(len(units)),
        options.partial_progress,
        options.max_concurrent,
    )
    runs.run()
    return _report(request, commits.snapshot, runs.committed, [*notes, *runs.notes], partial=bool(runs.notes))


def delete_job(request: ApplyRequest, metadata: TableMetadata, uuid: str) -> DeleteJob:
    """What all units have in common. Workers need the table's shape and not its history, which may be large."""
    shape = attrs.evolve(metadata, snapshots=(), refs={}, current_snapshot_id=None, snapshot_log=(), metadata_log=())
    return DeleteJob(request.place.operations.storage, shape, uuid, granularity(metadata))


def granularity(metadata: TableMetadata) -> Granularity:
    """The granularity of new position deletes; a rewrite writes them by file unless the table says otherwise."""
    found = metadata.properties.get("write.delete.granularity", "file").lower()
    if found == "file":
        return "file"
    if found == "partition":
        return "partition"
    raise OptionError(f"Unknown delete granularity: {found}")


@attrs.define(eq=False)
class _Commits:
    """Commits batches of units; ``snapshot`` is the newest one."""

    request: ApplyRequest
    marker: RunMarker
    head: Snapshot
    snapshot: Snapshot | None = None

    def commit(self, batch: Batch) -> None:
        added = tuple((file, unit.sequence_number) for unit, written in batch for file in written.files)
        touched = (written.touched for _, written in batch if any(f.is_deletion_vector for f in written.files))
        update = SnapshotUpdate(
            added_deletes=added,
            removed_deletes=tuple(file for _, written in batch for file in written.removed),
            starting_snapshot_id=self.head.snapshot_id,
            referenced=frozenset().union(*touched),
            properties=ENGINE,
        )
        request, begins = self.request, self.marker.committing
        operations = request.place.operations
        self.snapshot = commit_update(operations, lambda _: update, request.env, request.executor, begins)


def _report(
    request: ApplyRequest, snapshot: Snapshot | None, committed: Batch, notes: list[str], *, partial: bool
) -> Report:
    removed = [file for _, written in committed for file in written.removed]
    added = [file for _, written in committed for file in written.files]
    result: dict[str, Any] = {
        "rewritten_delete_files_count": len(removed),
        "added_delete_files_count": len(added),
        "rewritten_bytes_count": sum(map(content_size, removed)),
        "added_bytes_count": sum(map(content_size, added)),
    }
    name = None if snapshot is None else str(snapshot.snapshot_id)
    return Report(request.plan.header.plan, request.place.url, name, result=result, notes=tuple(notes), partial=partial)

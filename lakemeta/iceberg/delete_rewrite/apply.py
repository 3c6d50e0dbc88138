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

from lakemeta.errors import StalePlanError
from lakemeta.iceberg.delete_rewrite.commits import DeleteCommits
from lakemeta.iceberg.delete_rewrite.inputs import find_units
from lakemeta.iceberg.delete_rewrite.jobs import delete_job
from lakemeta.iceberg.delete_rewrite.options import PositionDeleteOptions
from lakemeta.iceberg.delete_rewrite.planner import REWRITE_POSITION_DELETES, check_delete_format
from lakemeta.iceberg.delete_rewrite.runs import UnitRuns
from lakemeta.iceberg.manifests.delete_entries import content_size
from lakemeta.iceberg.rewrite.unfinished import RunMarker, left_behind
from lakemeta.iceberg.service.plans import id_of, open_plan, report_of
from lakemeta.plan_operations import Rewrite

if TYPE_CHECKING:
    from lakemeta.iceberg.delete_rewrite.runs import Batch
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot
    from lakemeta.report import Report


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
    commits = DeleteCommits(request, marker, head)
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
    return report_of(request, id_of(snapshot), result, notes, partial)

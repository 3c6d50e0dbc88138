"""Takes delete files that apply to no data file out of a table (I/O; Iceberg's RemoveDanglingDeleteFilesAction).

Rules of this module:

1. A delete file is dangling if a scan of the whole branch applies it to no data file. So equality deletes of an
   unpartitioned spec, which apply to data files of all specs, stay as long as one older data file is there.
2. Only files that a plan names go, and only if they are dangling in the very version of the table that the commit is
   based on: otherwise the plan is stale, and nothing is done.
3. The files themselves stay until no snapshot names them.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import StalePlanError
from lakemeta.iceberg.commit.snapshot_commit import commit_update, without_deletes
from lakemeta.iceberg.manifests.entries import file_key
from lakemeta.iceberg.scan.stored_scan import find_dangling, live_deletes
from lakemeta.iceberg.service.delete_lines import LiveDeletes, removal
from lakemeta.plan_operations import Remove

if TYPE_CHECKING:
    from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


def plan_dangling(request: PlanRequest, metadata: TableMetadata, head: Snapshot) -> list[Remove]:
    """The lines of a plan by which dangling deletes go."""
    found = find_dangling(request.place.operations.storage, metadata, head, request.executor)
    LiveDeletes.of(found, metadata)
    return [removal(entry.data_file, "applies to no data file", metadata) for entry in found]


def remove_dangling(request: ApplyRequest, branch: str) -> tuple[Snapshot | None, list[DataFile]]:
    """Take the delete files that the plan names out of a branch, in one commit: its snapshot, and the files.

    Raises StalePlanError, with nothing changed, unless all of them still are dangling.
    """
    names = [op.path for op in request.plan.operations if isinstance(op, Remove)]
    removed: list[DataFile] = []
    if not names:
        return None, removed

    def update_of(metadata: TableMetadata) -> SnapshotUpdate:
        head = metadata.branch_head(branch)
        if head is None:
            raise StalePlanError(f"the branch {branch} of the plan is gone or empty; make the plan again")
        removed[:] = _still_dangling(request, metadata, head, names)
        return without_deletes(removed, head, branch)

    return commit_update(request.place.operations, update_of, request.env, request.executor), removed


def _still_dangling(request: ApplyRequest, metadata: TableMetadata, head: Snapshot, names: list[str]) -> list[DataFile]:
    storage = request.place.operations.storage
    wanted = LiveDeletes.of(live_deletes(storage, metadata, head, request.executor), metadata).named(names)
    dangling = {file_key(entry.data_file) for entry in find_dangling(storage, metadata, head, request.executor)}
    for entry in wanted:
        if file_key(entry.data_file) not in dangling:
            raise StalePlanError(f"{entry.data_file.file_path} applies to data files of the table; make the plan again")
    return [entry.data_file for entry in wanted]

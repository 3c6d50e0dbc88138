"""May a rewrite that was planned on one snapshot still be committed on top of another?

The rules are those of Iceberg's BaseRewriteFiles and MergingSnapshotProducer: every replaced file must
still be in the table, and no delete that applies to a replaced file may have come since. A rewrite that
keeps the data sequence number of its starting snapshot need not fear equality deletes: they are newer, so
they apply to the new files as well.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import CommitConflictError
from lakemeta.iceberg.manifests.delete_entries import referenced_data_file
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.scan.delete_index import DeleteFileIndex

if TYPE_CHECKING:
    from lakemeta.iceberg.commit.snapshot_update import Manifests, SnapshotUpdate
    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata

ADD_DELETES: Final = frozenset({"overwrite", "delete"})  # the operations whose snapshots can add delete files


def history_since(metadata: TableMetadata, starting: int | None, head: int) -> list[Snapshot]:
    """The snapshots after ``starting`` up to ``head``, newest first; None means all there ever were.

    Raises CommitConflictError if ``starting`` is no ancestor of ``head``, or snapshots between them are gone.
    """
    found: list[Snapshot] = []
    for snapshot in metadata.ancestors(head):
        if snapshot.snapshot_id == starting:
            return found
        found.append(snapshot)
    if found and found[-1].parent_snapshot_id != starting:
        raise CommitConflictError(
            f"Cannot determine history between starting snapshot {starting} and the last known ancestor "
            f"{found[-1].snapshot_id}; plan again"
        )
    return found


def new_delete_entries(
    metadata: TableMetadata, starting: int | None, head: Snapshot, manifests: Manifests
) -> list[ManifestEntry]:
    """The live delete files that came after ``starting``.

    Those that its own snapshots added to their manifests.
    """
    added = [
        manifest
        for snapshot in history_since(metadata, starting, head.snapshot_id)
        if snapshot.operation in ADD_DELETES
        for manifest in manifests.of(snapshot)
        if manifest.is_deletes and manifest.added_snapshot_id == snapshot.snapshot_id
    ]
    since = _starting_sequence(metadata, starting)
    return [
        entry
        for entries in manifests.entries(added)
        for entry in entries
        if entry.is_live and (entry.sequence_number or 0) > since
    ]


def check_no_new_deletes(update: SnapshotUpdate, metadata: TableMetadata, head: Snapshot, manifests: Manifests) -> None:
    """Raise CommitConflictError if a delete that came after the starting snapshot applies to a replaced file."""
    if metadata.format_version < 2 or not update.removed:
        return
    entries = new_delete_entries(metadata, update.starting_snapshot_id, head, manifests)
    replaced = {file.file_path for file in update.removed}
    unscoped: list[ManifestEntry] = []
    for entry in entries:
        scope = referenced_data_file(entry.data_file)
        if scope in replaced:
            raise _new_delete(update, scope)
        if scope is None:
            unscoped.append(entry)
    index = DeleteFileIndex(metadata, unscoped)
    since = _starting_sequence(metadata, update.starting_snapshot_id)
    for file in update.removed:
        if any(_matters(delete, update) for delete in index.for_file(since, file)):
            raise _new_delete(update, file.file_path)


def check_referenced(update: SnapshotUpdate, metadata: TableMetadata, head: Snapshot, manifests: Manifests) -> None:
    """Raise CommitConflictError if a data file that new deletes are about has gone, or has got a deletion vector.

    Those are looked for in what snapshots after the starting one have changed (BaseRowDelta.validateDataFilesExist,
    MergingSnapshotProducer.validateAddedDVs). Deletes are removed or replaced only on top of the starting snapshot:
    after a rollback data files may be live that they apply to, and that were not looked at for that.
    """
    if update.starting_snapshot_id is None or not (update.added_deletes or update.removed_deletes):
        return
    for snapshot in history_since(metadata, update.starting_snapshot_id, head.snapshot_id):
        if snapshot.operation == "append" or not update.referenced:
            continue
        changed = [m for m in manifests.of(snapshot) if m.added_snapshot_id == snapshot.snapshot_id]
        for entries in manifests.entries(changed):
            for entry in entries:
                if entry.snapshot_id == snapshot.snapshot_id:
                    _check_referenced(entry, update.referenced)


def _check_referenced(entry: ManifestEntry, referenced: frozenset[str]) -> None:
    file = entry.data_file
    if file.content == FileContent.DATA and not entry.is_live and file.file_path in referenced:
        raise CommitConflictError(f"Cannot commit, missing data files: {file.file_path}; plan again")
    if file.is_deletion_vector and entry.is_live and file.referenced_data_file in referenced:
        raise CommitConflictError(f"Found concurrently added DV for {file.referenced_data_file}; plan again")


def _matters(delete: DataFile, update: SnapshotUpdate) -> bool:
    """False for equality deletes if the new files are no younger than the old: they apply to both."""
    return update.data_sequence_number is None or delete.content == FileContent.POSITION_DELETES


def _new_delete(update: SnapshotUpdate, path: str | None) -> CommitConflictError:
    kind = "delete" if update.data_sequence_number is None else "position delete"
    return CommitConflictError(f"Cannot commit, found new {kind} for replaced data file: {path}; plan again")


def _starting_sequence(metadata: TableMetadata, starting: int | None) -> int:
    """The sequence number of the starting snapshot; 0, before all others, if it is not known (any more)."""
    snapshot = None if starting is None else metadata.snapshots_by_id.get(starting)
    return snapshot.sequence_number if snapshot else 0

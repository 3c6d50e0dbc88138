"""The next snapshot of a table: which manifests it has, its summary, and the metadata with it.

A pure version of Iceberg's SnapshotProducer and MergingSnapshotProducer. New files come in a new manifest at the front;
manifests that lose files are written anew in their place; manifests that only list files removed by the snapshot
before are left out; small manifests are merged (:mod:`lakemeta.iceberg.commit.manifest_merge`); delete files older than
every data file go.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CommitConflictError, CorruptMetadataError
from lakemeta.iceberg.commit.draft import Base, Draft
from lakemeta.iceberg.commit.manifest_filter import Filtered, Removal, filter_entries, merge_entries
from lakemeta.iceberg.commit.manifest_merge import MergePolicy, merge_bins
from lakemeta.iceberg.commit.summary import Changes, totals
from lakemeta.iceberg.commit.validation import check_no_new_deletes, check_referenced
from lakemeta.iceberg.manifests.codec import write_manifest_list
from lakemeta.iceberg.manifests.entries import (
    UNASSIGNED_SEQUENCE,
    DataFile,
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    file_key,
)
from lakemeta.iceberg.manifests.lines import check_snapshots
from lakemeta.iceberg.rows.row_account import check_replaced
from lakemeta.iceberg.spec.metadata_update import add_snapshot
from lakemeta.iceberg.spec.properties import int_property
from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.commit.new_manifests import NewManifests
    from lakemeta.iceberg.commit.snapshot_update import Manifests, SnapshotUpdate


@attrs.frozen(slots=True, eq=False)
class _Work:
    """What every step needs: the table, its manifests, and those being written."""

    metadata: TableMetadata
    manifests: Manifests
    new: NewManifests


@attrs.frozen(eq=False)
class _Side:
    """The data manifests or the delete manifests of the new snapshot, and what became of the old ones."""

    manifests: list[ManifestFile]
    removed: tuple[DataFile, ...] = ()
    duplicates: int = 0
    replaced: int = 0


def next_snapshot(update: SnapshotUpdate, base: Base, manifests: Manifests, new: NewManifests) -> Draft:
    """The version after ``update``.

    Raises CommitConflictError if a file to be removed is no longer there or has got new deletes.
    """
    work = _Work(base.metadata, manifests, new)
    head = base.metadata.branch_head(update.branch)
    if head is not None:
        check_no_new_deletes(update, base.metadata, head, manifests)
        check_referenced(update, base.metadata, head, manifests)
        check_snapshots(manifests.of(head), head, base.metadata)
    data, deletes = _filter(update, manifests.of(head) if head else (), work)
    merged = _merge([*_added_data(update, work), *data.manifests], work)
    if update.operation == "replace":
        _check_rows(update, merged.manifests, work)
    merged_deletes = _merge([*_added_deletes(update, work), *deletes.manifests], work)
    listed = [*merged.manifests, *merged_deletes.manifests]
    changes = Changes(
        (*update.added, *(file for file, _ in update.added_deletes)),
        (*data.removed, *deletes.removed),
        data.duplicates + deletes.duplicates,
    )
    replaced = sum(side.replaced for side in (data, deletes, merged, merged_deletes))
    counters = _counters(update, changes, base.metadata)
    summary = {
        "operation": update.operation,
        **update.properties,
        **_manifest_counts(listed, new.snapshot_id, replaced),
        **counters,
        **totals(head.summary if head else None, counters),
    }
    return draft_of(update.branch, base, head, listed, summary, new)


def _check_rows(update: SnapshotUpdate, manifests: Sequence[ManifestFile], work: _Work) -> None:
    """Hold what the data manifests written here say of rows against what the update says."""
    mine = [m for m in manifests if m.added_snapshot_id == work.new.snapshot_id]
    gone: Counter[str] = Counter()
    for manifest in mine:
        for entry in work.new.entries(manifest) or ():
            if entry.status == EntryStatus.DELETED and entry.snapshot_id == work.new.snapshot_id:
                gone[entry.data_file.file_path] += entry.data_file.record_count
    check_replaced(update.added, update.removed, sum(m.added_rows_count or 0 for m in mine), gone)


def _filter(update: SnapshotUpdate, listed: Sequence[ManifestFile], work: _Work) -> tuple[_Side, _Side]:
    """The data and delete manifests without the removed files, and without delete files that aged."""
    removal = Removal(frozenset(map(file_key, update.removed)))
    side = _filter_side([m for m in listed if not m.is_deletes], removal, update.hints, work)
    _check_found(update.removed, side.removed)
    aged = Removal(
        frozenset(map(file_key, update.removed_deletes)),
        _min_data_sequence(side.manifests, work.metadata, update.data_sequence_number),
        frozenset(file.file_path for file in update.removed),
    )
    other = _filter_side([m for m in listed if m.is_deletes], aged, frozenset(), work)
    _check_found(update.removed_deletes, other.removed)
    return _living(side, work), _living(other, work)


def _filter_side(listed: Sequence[ManifestFile], removal: Removal, hints: frozenset[str], work: _Work) -> _Side:
    found = {} if removal.is_empty else _losing(listed, removal, hints, work)
    written = [_rewritten(m, found[m.manifest_path], work) if m.manifest_path in found else m for m in listed]
    removed = tuple(file for filtered in found.values() for file in filtered.removed)
    return _Side(written, removed, sum(filtered.duplicates for filtered in found.values()), len(found))


def _rewritten(manifest: ManifestFile, filtered: Filtered, work: _Work) -> ManifestFile:
    key = ("filter", manifest.manifest_path, frozenset(map(file_key, filtered.removed)))
    return work.new.write(key, work.metadata, manifest.content, manifest.partition_spec_id, filtered.entries)


def _losing(
    listed: Sequence[ManifestFile], removal: Removal, hints: frozenset[str], work: _Work
) -> dict[str, Filtered]:
    """The manifests that lose files, by path.

    ``hints`` name those where the files were last seen: the others are opened only if a file is missing there. Where
    named delete files go, only manifests that hold one are written anew (ManifestFilterManager trusts the references).
    """
    living = [m for m in listed if m.may_have_live_files]
    found: dict[str, Filtered] = {}
    for hinted in (True, False):
        part = [m for m in living if (m.manifest_path in hints) == hinted]
        missing = removal.keys - {file_key(file) for filtered in found.values() for file in filtered.removed}
        if removal.keys and not missing:
            break
        if not hinted and part and not part[0].is_deletes:
            part = list(work.manifests.holding(part, {path for path, _ in missing}))
        for manifest, entries in zip(part, work.manifests.to_move(part, work.metadata), strict=True):
            filtered = filter_entries(entries, removal, work.new.snapshot_id)
            if filtered and (not removal.keys or any(file_key(file) in removal.keys for file in filtered.removed)):
                found[manifest.manifest_path] = filtered
    return found


def _check_found(wanted: Iterable[DataFile], found: Iterable[DataFile]) -> None:
    keys = {file_key(file) for file in found}
    missing = [file.file_path for file in wanted if file_key(file) not in keys]
    if missing:
        raise CommitConflictError(
            f"Missing required files to delete: {','.join(missing)}; they were removed by another commit, plan again"
        )


def _min_data_sequence(manifests: Sequence[ManifestFile], metadata: TableMetadata, added: int | None) -> int:
    """The lowest data sequence number any data file has after this commit.

    Iceberg leaves the new files out of the account. They count here, because an equality delete that came
    between planning and committing must outlive files that were appended after it.
    """
    known = [m.min_sequence_number for m in manifests if m.min_sequence_number != UNASSIGNED_SEQUENCE]
    return min([metadata.last_sequence_number, *known, *([] if added is None else [added])])


def _living(side: _Side, work: _Work) -> _Side:
    """A side without the manifests that only list removed files, as their entries show."""

    def may_live(manifest: ManifestFile) -> bool:
        return manifest.may_have_live_files or manifest.added_snapshot_id == work.new.snapshot_id

    for manifest in work.manifests.holding([m for m in side.manifests if not may_live(m)]):
        raise CorruptMetadataError(
            f"{manifest.manifest_path} has live files, and its manifest list says that it has none; nothing was "
            f"committed"
        )
    return attrs.evolve(side, manifests=[m for m in side.manifests if may_live(m)])


def _added_data(update: SnapshotUpdate, work: _Work) -> list[ManifestFile]:
    """The manifests of the new data files, one a partition spec. Their rows get new ids where rows have ids."""
    files = [(attrs.evolve(file, first_row_id=None), update.data_sequence_number) for file in update.added]
    return _added(files, ManifestContent.DATA, work)


def _added_deletes(update: SnapshotUpdate, work: _Work) -> list[ManifestFile]:
    return _added(update.added_deletes, ManifestContent.DELETES, work)


def _added(files: Sequence[tuple[DataFile, int | None]], content: ManifestContent, work: _Work) -> list[ManifestFile]:
    found: list[ManifestFile] = []
    for spec_id in sorted({file.spec_id for file, _ in files}):
        entries = [
            ManifestEntry(EntryStatus.ADDED, work.new.snapshot_id, sequence, None, file)
            for file, sequence in files
            if file.spec_id == spec_id
        ]
        found.append(work.new.write(("added", content, spec_id), work.metadata, content, spec_id, entries))
    return found


def _merge(listed: Sequence[ManifestFile], work: _Work) -> _Side:
    merged: list[ManifestFile] = []
    replaced = 0
    for packed in merge_bins(listed, MergePolicy.of(work.metadata.properties)):
        if len(packed) == 1:
            merged += packed
            continue
        old = [m for m in packed if work.new.entries(m) is None]
        read = dict(zip((m.manifest_path for m in old), work.manifests.to_move(old, work.metadata), strict=True))
        entries = merge_entries((work.new.entries(m) or read[m.manifest_path] for m in packed), work.new.snapshot_id)
        key = ("merge", *(m.manifest_path for m in packed))
        merged.append(work.new.write(key, work.metadata, packed[0].content, packed[0].partition_spec_id, entries))
        replaced += len(old)
    return _Side(merged, replaced=replaced)


def _manifest_counts(manifests: Sequence[ManifestFile], snapshot_id: int, replaced: int) -> dict[str, str]:
    created = sum(m.added_snapshot_id == snapshot_id for m in manifests)
    return {
        "manifests-created": str(created),
        "manifests-kept": str(len(manifests) - created),
        "manifests-replaced": str(replaced),
    }


def _counters(update: SnapshotUpdate, changes: Changes, metadata: TableMetadata) -> dict[str, str]:
    def path(file: DataFile) -> str:
        return metadata.specs_by_id[file.spec_id].path(metadata.schema, file.partition)

    limit = int_property(metadata.properties, "write.summary.partition-limit", 0)
    counters = {**changes.counters(), **changes.partition_entries(path, limit)}
    added, removed = (int(counters.get(key, 0)) for key in ("added-records", "deleted-records"))
    if update.operation == "replace" and added > removed:
        raise CorruptMetadataError(
            f"Invalid REPLACE operation: {added} added records > {removed} replaced records; nothing was committed"
        )
    return counters


def draft_of(
    branch: str,
    base: Base,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    summary: Mapping[str, str],
    new: NewManifests,
) -> Draft:
    """The version in which a new snapshot with these manifests is the head of ``branch``."""
    metadata = base.metadata
    sequence_number = metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
    if sequence_number > LONG_MAX:
        raise CorruptMetadataError(
            f"last-sequence-number is {metadata.last_sequence_number}, after which there is none; restore the metadata "
            f"file from a copy"
        )
    location = new.list_location()
    data, next_row_id = write_manifest_list(
        manifests,
        format_version=metadata.format_version,
        snapshot_id=new.snapshot_id,
        parent_snapshot_id=head.snapshot_id if head else None,
        sequence_number=sequence_number,
        first_row_id=metadata.next_row_id,
    )
    first = metadata.next_row_id
    snapshot = Snapshot(
        snapshot_id=new.snapshot_id,
        timestamp_ms=base.now_ms,
        manifest_list=location,
        parent_snapshot_id=head.snapshot_id if head else None,
        sequence_number=sequence_number,
        summary=summary,
        schema_id=metadata.current_schema_id,
        first_row_id=first,
        added_rows=None if first is None or next_row_id is None else next_row_id - first,
    )
    changed = add_snapshot(metadata, base.location, snapshot, branch)
    return Draft(changed, snapshot, {**new.data(manifests), location: data})

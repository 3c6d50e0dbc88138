"""The next snapshot of a table after a replace: which manifests it has, and its metadata.

A pure version of Iceberg's MergingSnapshotProducer and SnapshotProducer for RewriteFiles. New files come in
a new manifest at the front; manifests that lose files are written anew in their place; manifests that only
told of files removed by the snapshot before are left out; small manifests are merged
(:mod:`lakemeta.iceberg.manifest_merge`); delete files older than every data file go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CommitConflictError
from lakemeta.iceberg.manifest import (
    UNASSIGNED_SEQUENCE,
    DataFile,
    EntryStatus,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
)
from lakemeta.iceberg.manifest_codec import write_manifest_list
from lakemeta.iceberg.manifest_filter import Filtered, Removal, file_key, filter_entries, merge_entries
from lakemeta.iceberg.manifest_merge import MergePolicy, merge_bins
from lakemeta.iceberg.metadata import Snapshot, TableMetadata
from lakemeta.iceberg.metadata_update import add_snapshot
from lakemeta.iceberg.properties import int_property
from lakemeta.iceberg.summary import Changes, totals
from lakemeta.iceberg.validation import check_no_new_deletes

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.new_manifests import NewManifests
    from lakemeta.iceberg.rewrite_files import Manifests, RewriteFiles

REPLACE: Final = "replace"


@attrs.frozen(slots=True, eq=False)
class Draft:
    """A version that could be committed: its metadata, its new snapshot, and its new files by location."""

    metadata: TableMetadata
    snapshot: Snapshot
    files: Mapping[str, bytes]


@attrs.frozen(slots=True, eq=False)
class Base:
    """What a change is applied to: the newest metadata, the location it was read from, and the time (ms)."""

    metadata: TableMetadata
    location: str
    now_ms: int


@attrs.frozen(eq=False)
class _Side:
    """The data manifests or the delete manifests of the new snapshot, and what became of the old ones."""

    manifests: list[ManifestFile]
    removed: tuple[DataFile, ...] = ()
    duplicates: int = 0
    replaced: int = 0


def rewrite_files(update: RewriteFiles, base: Base, manifests: Manifests, new: NewManifests) -> Draft:
    """The version after ``update``.

    Raises CommitConflictError if a file to be replaced is no longer there or has got new deletes.
    """
    metadata = base.metadata
    head = metadata.branch_head(update.branch)
    if head is None:
        _check_found((*update.removed, *update.removed_deletes), ())
    else:
        check_no_new_deletes(update, metadata, head, manifests)
    listed = manifests.of(head) if head else ()
    data, deletes = _filter(update, metadata, listed, manifests, new)
    sides = [data, deletes]
    sides.append(_merge([*_added(update, metadata, new), *data.manifests], metadata, manifests, new))
    sides.append(_merge(deletes.manifests, metadata, manifests, new))
    result = [*sides[2].manifests, *sides[3].manifests]
    changes = Changes(update.added, (*data.removed, *deletes.removed), data.duplicates + deletes.duplicates)
    summary = {
        "operation": REPLACE,
        **update.properties,
        **_manifest_counts(result, new.snapshot_id, sum(side.replaced for side in sides)),
        **_summary(changes, metadata, head),
    }
    return _draft(update.branch, base, head, result, summary, new)


def _filter(
    update: RewriteFiles,
    metadata: TableMetadata,
    listed: Sequence[ManifestFile],
    manifests: Manifests,
    new: NewManifests,
) -> tuple[_Side, _Side]:
    """The data and delete manifests without the removed files, and without delete files that aged."""
    data = [m for m in listed if not m.is_deletes]
    side = _filter_side(data, Removal(frozenset(map(file_key, update.removed))), metadata, manifests, new, update.hints)
    _check_found(update.removed, side.removed)
    aged = Removal(
        frozenset(map(file_key, update.removed_deletes)),
        _min_data_sequence(side.manifests, metadata, update.data_sequence_number),
        frozenset(file.file_path for file in update.removed),
    )
    deletes = [m for m in listed if m.is_deletes]
    other = _filter_side(deletes, aged, metadata, manifests, new, frozenset())
    _check_found(update.removed_deletes, other.removed)
    return _living(side, new.snapshot_id), _living(other, new.snapshot_id)


def _filter_side(
    listed: Sequence[ManifestFile],
    removal: Removal,
    metadata: TableMetadata,
    manifests: Manifests,
    new: NewManifests,
    hints: frozenset[str],
) -> _Side:
    found = _losing(listed, removal, manifests, new.snapshot_id, hints)
    written: list[ManifestFile] = []
    for manifest in listed:
        path = manifest.manifest_path
        if path in found:
            key = ("filter", path, removal.min_sequence_number)
            entries = found[path].entries
            manifest = new.write(key, metadata, manifest.content, manifest.partition_spec_id, entries)
        written.append(manifest)
    removed = tuple(file for filtered in found.values() for file in filtered.removed)
    return _Side(written, removed, sum(filtered.duplicates for filtered in found.values()), len(found))


def _losing(
    listed: Sequence[ManifestFile], removal: Removal, manifests: Manifests, snapshot_id: int, hints: frozenset[str]
) -> dict[str, Filtered]:
    """The manifests that lose files, by path.

    ``hints`` name those where the files were last seen: the others are opened only if a file is missing
    there. Where named delete files go, only manifests that hold one are written anew (ManifestFilterManager
    trusts the references).
    """
    if removal.is_empty:
        return {}
    living = [m for m in listed if m.may_have_live_files]
    found: dict[str, Filtered] = {}
    for part in ([m for m in living if m.manifest_path in hints], [m for m in living if m.manifest_path not in hints]):
        for manifest, entries in zip(part, manifests.entries(part), strict=True):
            filtered = filter_entries(entries, removal, snapshot_id)
            if filtered and (not removal.keys or any(file_key(f) in removal.keys for f in filtered.removed)):
                found[manifest.manifest_path] = filtered
        if removal.keys and removal.keys <= {file_key(f) for filtered in found.values() for f in filtered.removed}:
            break
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


def _living(side: _Side, snapshot_id: int) -> _Side:
    kept = [m for m in side.manifests if m.may_have_live_files or m.added_snapshot_id == snapshot_id]
    return attrs.evolve(side, manifests=kept)


def _added(update: RewriteFiles, metadata: TableMetadata, new: NewManifests) -> list[ManifestFile]:
    """The manifests of the new data files, one a partition spec."""
    found: list[ManifestFile] = []
    for spec_id in sorted({file.spec_id for file in update.added}):
        entries = [
            ManifestEntry(
                EntryStatus.ADDED,
                new.snapshot_id,
                update.data_sequence_number,
                None,
                attrs.evolve(file, first_row_id=None),
            )
            for file in update.added
            if file.spec_id == spec_id
        ]
        found.append(new.write(("added", spec_id), metadata, ManifestContent.DATA, spec_id, entries))
    return found


def _merge(listed: Sequence[ManifestFile], metadata: TableMetadata, manifests: Manifests, new: NewManifests) -> _Side:
    merged: list[ManifestFile] = []
    replaced = 0
    for packed in merge_bins(listed, MergePolicy.of(metadata.properties)):
        if len(packed) == 1:
            merged += packed
            continue
        old = [m for m in packed if new.entries(m) is None]
        read = dict(zip((m.manifest_path for m in old), manifests.entries(old), strict=True))
        entries = merge_entries((new.entries(m) or read[m.manifest_path] for m in packed), new.snapshot_id)
        key = ("merge", *(m.manifest_path for m in packed))
        merged.append(new.write(key, metadata, packed[0].content, packed[0].partition_spec_id, entries))
        replaced += len(old)
    return _Side(merged, replaced=replaced)


def _manifest_counts(manifests: Sequence[ManifestFile], snapshot_id: int, replaced: int) -> dict[str, str]:
    created = sum(m.added_snapshot_id == snapshot_id for m in manifests)
    return {
        "manifests-created": str(created),
        "manifests-kept": str(len(manifests) - created),
        "manifests-replaced": str(replaced),
    }


def _summary(changes: Changes, metadata: TableMetadata, head: Snapshot | None) -> dict[str, str]:
    def path(file: DataFile) -> str:
        return metadata.specs_by_id[file.spec_id].path(metadata.schema, file.partition)

    limit = int_property(metadata.properties, "write.summary.partition-limit", 0)
    counters = {**changes.counters(), **changes.partition_entries(path, limit)}
    return {**counters, **totals(head.summary if head else None, counters)}


def _draft(
    branch: str,
    base: Base,
    head: Snapshot | None,
    manifests: Sequence[ManifestFile],
    summary: Mapping[str, str],
    new: NewManifests,
) -> Draft:
    metadata = base.metadata
    sequence_number = metadata.last_sequence_number + 1 if metadata.format_version > 1 else 0
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

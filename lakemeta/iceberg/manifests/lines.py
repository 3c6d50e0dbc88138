"""Whether the lines of a manifest list, the manifests' own entries, and the table's snapshots agree.

A line is a summary by which manifests are left out, deletes apply to files, and deletes are dropped as too old: one
number that is wrong loses rows or brings deleted ones back. So a line is compared with all else that says the same.
"""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.entries import EntryStatus

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakemeta.iceberg.manifests.entries import EntryColumns, ManifestFile, PartitionFieldSummary
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.iceberg.spec.types import Value

_ADVICE: Final = "nothing was done; restore the manifest list, or roll the table back to an older snapshot"


def check_line(manifest: ManifestFile) -> None:
    """Raise CorruptMetadataError for a line that contradicts itself. Counts that are None say nothing."""
    for status, files, rows in _counted(manifest):
        if files == 0 and rows:
            raise _contradiction(manifest, f"{files} {status.name.lower()} files with {rows} rows")
    if manifest.min_sequence_number > manifest.sequence_number:
        numbers = f"{manifest.sequence_number} and a least one in it of {manifest.min_sequence_number}"
        raise _contradiction(manifest, f"the sequence number {numbers}")


def checked_lines(manifests: Iterable[ManifestFile]) -> tuple[ManifestFile, ...]:
    """The lines of a list; raises CorruptMetadataError for one that contradicts itself."""
    found = tuple(manifests)
    for manifest in found:
        check_line(manifest)
    return found


def check_snapshots(manifests: Iterable[ManifestFile], head: Snapshot, metadata: TableMetadata) -> None:
    """Raise CorruptMetadataError for a line with another sequence number than the snapshot that added the manifest.

    Added files inherit it, and by it deletes apply to data files. No manifest is younger than ``head``, whose list this
    is; of snapshots that have expired nothing more is known. Manifests of version 1 have no sequence numbers.
    """
    if metadata.format_version < 2:
        return
    for manifest in manifests:
        added = metadata.snapshots_by_id.get(manifest.added_snapshot_id or 0)
        if added is not None and added.sequence_number != manifest.sequence_number:
            theirs = f"snapshot {added.snapshot_id}, which added it, has {added.sequence_number}"
            raise _contradiction(manifest, f"the sequence number {manifest.sequence_number}, and {theirs}")
        if manifest.sequence_number > head.sequence_number:
            theirs = f"its snapshot only {head.sequence_number}"
            raise _contradiction(manifest, f"the sequence number {manifest.sequence_number}, and {theirs}")


def check_entries(manifest: ManifestFile, entries: EntryColumns) -> None:
    """Raise CorruptMetadataError unless a manifest's entries are as many, as old, and where its line says."""
    heads = Counter(entries.heads)  # few, of many entries
    for status, files, rows in _counted(manifest):
        found = sum([count for head, count in heads.items() if head[0] == status])
        if files is not None and files != found:
            raise _contradiction(manifest, f"{files} {status.name.lower()} files, and it has {found}")
        if rows is not None and rows != (held := _rows(entries, status, found)):
            raise _contradiction(manifest, f"{rows} {status.name.lower()} rows, and it has {held}")
    numbers = {sequence or 0 for status, _, sequence, _ in heads if status != EntryStatus.DELETED}
    if numbers and min(numbers) < manifest.min_sequence_number:
        said = f"{manifest.min_sequence_number} as the least sequence number in it"
        raise _contradiction(manifest, f"{said}, and it has {min(numbers)}")
    if numbers and max(numbers) > manifest.sequence_number:
        said = f"the sequence number {manifest.sequence_number}"
        raise _contradiction(manifest, f"{said}, and it has files of {max(numbers)}")
    if manifest.partitions and entries.partitions:
        _check_partitions(manifest, set(entries.partitions), manifest.partitions)


def _check_partitions(
    manifest: ManifestFile, partitions: set[tuple[Value, ...]], summaries: Sequence[PartitionFieldSummary]
) -> None:
    """Raise CorruptMetadataError for partitions that are not within the line's summaries of the partition fields."""
    fields = [set(values) for values in zip(*partitions, strict=True)]
    if len(fields) != len(summaries):
        raise _contradiction(manifest, f"{len(summaries)} partition fields, and its spec has {len(fields)}")
    for values, summary in zip(fields, summaries, strict=True):
        if None in values and not summary.contains_null:
            raise _contradiction(manifest, "no partition in it has a null, and one has")
        for kind in (str, int):
            # In UTF-8 texts are in the order of code points, as texts of Python are.
            listed: list[Any] = [value for value in values if type(value) is kind]
            for value in (min(listed), max(listed)) if listed else ():
                _check_bounds(manifest, value, summary)


def _check_bounds(manifest: ManifestFile, value: str | int, summary: PartitionFieldSummary) -> None:
    lower, upper = (_comparable(value, bound) for bound in (summary.lower_bound, summary.upper_bound))
    own: Any = value.encode() if isinstance(value, str) else value
    if (lower is not None and own < lower) or (upper is not None and own > upper):
        raise _contradiction(manifest, f"its partitions lie within bounds that {value!r:.100} does not lie in")


def _comparable(value: str | int, bound: bytes | None) -> Any:
    """A bound in the terms of a text or an int."""
    if bound is None:
        return None
    return bound if isinstance(value, str) else int.from_bytes(bound, "little", signed=True)


def _counted(manifest: ManifestFile) -> tuple[tuple[EntryStatus, int | None, int | None], ...]:
    """What a line says of the entries of each status: files and rows."""
    return (
        (EntryStatus.ADDED, manifest.added_files_count, manifest.added_rows_count),
        (EntryStatus.EXISTING, manifest.existing_files_count, manifest.existing_rows_count),
        (EntryStatus.DELETED, manifest.deleted_files_count, manifest.deleted_rows_count),
    )


def _rows(entries: EntryColumns, status: EntryStatus, found: int) -> int:
    if found in (0, len(entries.heads)):  # as nearly always
        return sum(entries.record_counts) if found else 0
    pairs = zip(entries.heads, entries.record_counts, strict=True)
    return sum([records for head, records in pairs if head[0] == status])


def _contradiction(manifest: ManifestFile, what: str) -> CorruptMetadataError:
    return CorruptMetadataError(f"the manifest list says of {manifest.manifest_path}: {what}; {_ADVICE}")

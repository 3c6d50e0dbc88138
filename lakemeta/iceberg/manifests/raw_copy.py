"""Reading entries that are to be moved to another manifest, without decoding what is only copied.

When a manifest is written anew, or several are merged, most entries differ from what they were in their status
and in what they inherited. Their files are copied as bytes, which costs a tenth of decoding and encoding all metrics.
That needs an old manifest with the very layout of the new one; entries of any other are decoded in full.
"""

from __future__ import annotations

import json
from itertools import chain, islice
from operator import attrgetter
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.columns import ManifestColumns
from lakemeta.iceberg.manifests.entries import (
    UNASSIGNED_SEQUENCE,
    EntryColumns,
    EntryStatus,
    ManifestEntry,
    ManifestFile,
    StoredFile,
)
from lakemeta.iceberg.manifests.fast_reader import FIELDS, contents, data_files
from lakemeta.iceberg.manifests.lines import check_entries
from lakemeta.iceberg.manifests.record_patterns import FILE, UNFAMILIAR, UnfamiliarError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.manifests.entry_writer import EntryLayout
    from lakemeta.iceberg.spec.partitioning import PartitionSpec

_NO_METRICS: Final = frozenset[int]()
_NULLS: Final = b"\x00" * 4  # first_row_id and all that follows it in a data file of version 3
_TEXTS: Final = ("file_path", "file_format", "referenced_data_file")
_ABOUT: Final = ("referenced_data_file", "content_offset", "content_size_in_bytes")
_NUMBERS_OF_VERSION_1: Final = attrgetter("status", "snapshot_id")
_NUMBERS: Final = attrgetter("status", "snapshot_id", "sequence_number", "file_sequence_number")


def read_to_move(data: bytes, manifest: ManifestFile, spec: PartitionSpec, layout: str) -> list[ManifestEntry]:
    """The entries of a manifest as ``read_manifest`` gives them, to be written in the canonical schema ``layout``.

    If it is the manifest's own, files lack metrics, and carry the bytes that hold them (``ManifestEntry.stored``).
    """
    try:
        columns = ManifestColumns(data, manifest, spec, FIELDS | {FILE})
        files = data_files(columns, spec, _NO_METRICS)
        found = zip(columns.heads, files, _files(columns, layout), strict=True)
        return [ManifestEntry(*head, file, StoredFile(stored, layout)) for head, file, stored in found]
    except UNFAMILIAR:
        return read_manifest(data, manifest, spec)


def read_columns(data: bytes, manifest: ManifestFile, spec: PartitionSpec) -> EntryColumns:
    """What the line of a manifest says of its entries, of each; raises as ``read_manifest``."""
    try:
        return _columns(data, manifest, spec, None)
    except UNFAMILIAR:
        return EntryColumns.of(read_manifest(data, manifest, spec))


def live_to_move(data: bytes, manifest: ManifestFile, spec: PartitionSpec, layout: EntryLayout) -> EntryColumns:
    """The live entries of a manifest as existing ones, with their files in Avro in a layout.

    Raises CorruptMetadataError if the manifest is not as its line says, or a file cannot be told in that layout.
    """
    try:
        found = _columns(data, manifest, spec, layout.canonical)
    except UNFAMILIAR:
        entries = read_manifest(data, manifest, spec)
        check_entries(manifest, EntryColumns.of(entries))
        return _encoded([e for e in entries if e.is_live], manifest, spec, layout)
    check_entries(manifest, found)
    different = set(found.heads)
    if any(head[0] == EntryStatus.DELETED for head in different):
        found = found.take([at for at, head in enumerate(found.heads) if head[0] != EntryStatus.DELETED])
    existing = {head: (EntryStatus.EXISTING, *head[1:]) for head in different}
    return attrs.evolve(found, heads=list(map(existing.__getitem__, found.heads)))


def holds_moved(data: bytes, path: str, entries: EntryColumns, layout: EntryLayout) -> bool:
    """True if a manifest holds just these entries in this order: numbers are read again, records compared as bytes."""
    schema, blocks = avro.read_blocks(data, path)
    if avro.canonical(json.dumps(schema)) != layout.canonical:
        return False
    heads = {head: layout.encode_head(head) for head in set(entries.heads)}
    fields = schema["fields"][:-1]
    numbers = json.dumps({"type": "record", "name": "head", "fields": fields})
    for head, encoded in heads.items():
        if tuple(avro.read_datum(numbers, encoded, path).values()) != head[: len(fields)]:
            return False
    left = zip(map(heads.__getitem__, entries.heads), entries.files, strict=True)
    if any(b"".join(chain.from_iterable(islice(left, count))) != block for count, block in blocks):
        return False
    return next(left, None) is None


def _columns(data: bytes, manifest: ManifestFile, spec: PartitionSpec, layout: str | None) -> EntryColumns:
    """All entries, with their files where a layout is given. Raises one of ``UNFAMILIAR``."""
    kept = frozenset(("content", *_TEXTS, *((FILE, *_ABOUT) if layout else ())))
    columns = ManifestColumns(data, manifest, spec, kept)
    contents(columns)
    for name in _TEXTS:
        columns.values(name)  # raises for what is no text
    files = _files(columns, layout) if layout else ()
    return EntryColumns(columns.heads, columns.partitions, columns.record_counts, files)


def _files(columns: ManifestColumns, layout: str) -> Sequence[bytes]:
    """The records of files, which are to be of a layout; with the first row ids that they have or inherit."""
    if avro.canonical(columns.schema_text) != layout:
        raise UnfamiliarError
    stored = columns.encoded[FILE]
    if "first_row_id" not in columns.encoded or columns.row_ids == columns.own_row_ids:
        return stored
    about = zip(*[columns.values(name) for name in _ABOUT], strict=True)
    found = zip(stored, columns.own_row_ids, columns.row_ids, about, strict=True)
    return [_with_row_id(record, own, row_id, of_delete) for record, own, row_id, of_delete in found]


def _with_row_id(stored: bytes, own: int | None, row_id: int | None, of_delete: tuple[Any, ...]) -> bytes:
    """A record with the first row id that its file has, which may be inherited."""
    if (own is None) == (row_id is None):
        return stored
    if row_id is None or of_delete != (None, None, None):
        raise UnfamiliarError  # an id that does not count, or no data file
    return stored[: -len(_NULLS)] + b"\x02" + avro.encode_long(row_id) + _NULLS[1:]


def _encoded(
    entries: Sequence[ManifestEntry], manifest: ManifestFile, spec: PartitionSpec, layout: EntryLayout
) -> EntryColumns:
    """Live entries as existing ones, encoded anew and read again. Raises CorruptMetadataError if that changes one."""
    moved = [entry.changed(EntryStatus.EXISTING, entry.snapshot_id, None) for entry in entries]
    records, columns = list(map(layout.encode, moved)), EntryColumns.of(moved)
    header = {"format-version": str(layout.format_version)}
    data = avro.join_container(layout.schema, records, metadata=header)
    # All files of a list have row ids or none has; what a manifest without a first one says of them is not read.
    has_ids = any(entry.data_file.first_row_id is not None for entry in moved)
    line = attrs.evolve(manifest, first_row_id=0 if has_ids else None, sequence_number=UNASSIGNED_SEQUENCE)
    numbers = _NUMBERS if layout.format_version > 1 else _NUMBERS_OF_VERSION_1
    if list(_told(read_manifest(data, line, spec), numbers)) != list(_told(moved, numbers)):
        raise CorruptMetadataError(
            f"entries of {manifest.manifest_path} would have changed on their way to another manifest; nothing was "
            f"committed"
        )
    heads = map(layout.encode_head, columns.heads)
    return attrs.evolve(columns, files=[record[len(head) :] for record, head in zip(records, heads, strict=True)])


def _told(entries: Sequence[ManifestEntry], numbers: attrgetter[Any]) -> Iterator[tuple[object, ...]]:
    """Entries as values that equal themselves also where a partition has a NaN."""
    for entry in entries:
        file = entry.data_file
        yield numbers(entry), attrs.evolve(file, partition=()), repr(file.partition)

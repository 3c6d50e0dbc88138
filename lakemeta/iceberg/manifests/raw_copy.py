"""Reading entries that are to be moved to another manifest, without decoding what is only copied.

When a manifest is written anew, or several are merged, most entries differ from what they were in their status
and in what they inherited. Their files are copied as bytes, which costs a tenth of decoding and encoding all metrics.
That needs an old manifest with the very layout of the new one; entries of any other are decoded in full.
"""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import TYPE_CHECKING, Final

from lakemeta.avro import container as avro
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.entries import StoredFile
from lakemeta.iceberg.manifests.fast_reader import UNFAMILIAR, VARINT, UnfamiliarError, number_seen, scan

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry, ManifestFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec

_NO_METRICS: Final = frozenset[int]()
_NULLS: Final = b"\x00" * 4  # first_row_id and all that follows it in a data file of version 3


def read_to_move(data: bytes, manifest: ManifestFile, spec: PartitionSpec, layout: str) -> list[ManifestEntry]:
    """The entries of a manifest as ``read_manifest`` gives them, to be written in the canonical schema ``layout``.

    If it is the manifest's own, files lack metrics, and carry the bytes that hold them (``ManifestEntry.stored``).
    """
    try:
        return list(_entries(data, manifest, spec, layout))
    except UNFAMILIAR:
        return read_manifest(data, manifest, spec)


def holds_moved(data: bytes, path: str, entries: Sequence[ManifestEntry], layout: str) -> bool:
    """True if a manifest holds just these entries in this order: numbers are read again, records compared as bytes.

    ``entries`` carry the bytes of their files (``ManifestEntry.stored``), laid out as the canonical schema ``layout``.
    """
    schema, blocks = avro.read_blocks(data, path)
    if avro.canonical(json.dumps(schema)) != layout:
        return False
    nullable = [field["name"] for field in schema["fields"]].index("data_file") - 1
    head = re.compile(b"(%b)" % VARINT + b"(?:\\x00|\\x02(%b))" % VARINT * nullable).match
    left = iter(entries)
    for count, block in blocks:
        end = 0
        for entry in islice(left, count):
            found = head(block, end)
            numbers = (entry.status, entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
            if found is None or tuple(map(number_seen, found.groups())) != numbers[: nullable + 1]:
                return False
            stored = entry.stored
            if stored is None or not block.startswith(stored.data, found.end()):
                return False
            end = found.end() + len(stored.data)
        if end != len(block):
            return False
    return next(left, None) is None


def _entries(data: bytes, manifest: ManifestFile, spec: PartitionSpec, layout: str) -> Iterator[ManifestEntry]:
    schema, _ = avro.read_blocks(data, manifest.manifest_path)
    if avro.canonical(json.dumps(schema)) != layout:
        raise UnfamiliarError
    head = [field["name"] for field in schema["fields"]].index("data_file")  # status, and numbers that may be null
    names, scanned = scan(data, manifest, spec, _NO_METRICS)
    row_id = names.index("first_row_id") if "first_row_id" in names else None
    for entry, row, raw in scanned:
        start = len(row[0]) + sum([1 if number is None else 1 + len(number) for number in row[1:head]])
        stored = raw[start:]
        if row_id is not None:
            stored = _with_row_id(stored, entry.data_file, is_there=row[row_id] is not None)
        yield entry.changed(entry.status, entry.snapshot_id, StoredFile(stored, layout))


def _with_row_id(stored: bytes, file: DataFile, *, is_there: bool) -> bytes:
    """A record with the first row id that its file has, which may be inherited."""
    if is_there == (file.first_row_id is not None):
        return stored
    of_delete = (file.referenced_data_file, file.content_offset, file.content_size_in_bytes)
    if file.first_row_id is None or of_delete != (None, None, None):
        raise UnfamiliarError  # an id that does not count, or no data file
    return stored[: -len(_NULLS)] + b"\x02" + avro.encode_long(file.first_row_id) + _NULLS[1:]

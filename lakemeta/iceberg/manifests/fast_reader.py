"""Reading from a manifest just what planning needs, several times faster than decoding all of it.

Most bytes of a manifest are metrics that planning never looks at. Entries are cut into fields by a pattern
(``record_patterns``), and only fields that are asked for are decoded (``columns``). What patterns do not know is left
to ``codec.read_manifest``.
"""

from __future__ import annotations

import re
from functools import lru_cache
from itertools import repeat
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro import container as avro
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.columns import ManifestColumns
from lakemeta.iceberg.manifests.entries import DataFile, FileContent, ManifestEntry, ManifestFile
from lakemeta.iceberg.manifests.record_patterns import UNFAMILIAR, VARINT

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakemeta.iceberg.spec.partitioning import PartitionSpec

_COUNTS: Final = ("value_counts", "null_value_counts", "nan_value_counts")
_BOUNDS: Final = ("lower_bounds", "upper_bounds")
_LONG: Final = '"long"'
_BINARY: Final = '"bytes"'
_METRICS: Final = frozenset(_COUNTS + _BOUNDS)
FIELDS: Final = frozenset(
    (
        *("content", "file_path", "file_format", "file_size_in_bytes", "key_metadata", "split_offsets"),
        *("sort_order_id", "referenced_data_file", "content_offset", "content_size_in_bytes"),
    )
)
_CONTENTS: Final[dict[int | None, FileContent]] = {None: FileContent.DATA, **dict(enumerate(FileContent))}


def scan_manifest(
    data: bytes, manifest: ManifestFile, spec: PartitionSpec, metrics: frozenset[int]
) -> list[ManifestEntry]:
    """The entries of a manifest as ``read_manifest`` gives them, without most metrics.

    Files carry counts and bounds of the columns ``metrics`` alone (None of no column), and no column_sizes and
    equality_ids. Raises CorruptMetadataError.
    """
    try:
        columns = ManifestColumns(data, manifest, spec, FIELDS | _METRICS if metrics else FIELDS)
        files = data_files(columns, spec, metrics)
        return [ManifestEntry(*head, file) for head, file in zip(columns.heads, files, strict=True)]
    except UNFAMILIAR:
        return read_manifest(data, manifest, spec)


def data_files(columns: ManifestColumns, spec: PartitionSpec, metrics: frozenset[int]) -> Iterable[DataFile]:
    """The files of a manifest that was read with ``FIELDS``; raises one of ``UNFAMILIAR``."""
    offsets = columns.values("split_offsets")
    known = {id(found): None if found is None else tuple(found) for found in offsets}
    return map(
        DataFile,
        contents(columns),
        columns.values("file_path"),
        columns.values("file_format"),
        repeat(spec.spec_id),
        columns.partitions,
        columns.record_counts,
        columns.values("file_size_in_bytes"),
        repeat(None),  # column_sizes
        *(_metrics(columns, name, metrics) for name in _COUNTS),
        *(_metrics(columns, name, metrics) for name in _BOUNDS),
        columns.values("key_metadata"),
        [known[id(found)] for found in offsets],
        repeat(None),  # equality_ids
        columns.values("sort_order_id"),
        columns.row_ids,
        columns.values("referenced_data_file"),
        columns.values("content_offset"),
        columns.values("content_size_in_bytes"),
    )


def contents(columns: ManifestColumns) -> Sequence[FileContent]:
    """What each file holds; raises LookupError for what no file holds."""
    return [_CONTENTS[content] for content in columns.values("content")]


def _metrics(columns: ManifestColumns, name: str, wanted: frozenset[int]) -> Iterable[dict[int, Any] | None]:
    """The values of some columns in a map of metrics of each file: of thousands of columns a filter is about few."""
    if not wanted or name not in columns.encoded:
        return repeat(None)
    value, kind = (VARINT, _LONG) if name in _COUNTS else (columns.text_pattern, _BINARY)
    found: list[dict[int, bytes] | None] = [None if raw == b"\0" else {} for raw in columns.encoded[name]]
    for field_id in sorted(wanted):
        find = _finder(field_id, value)
        matches = [None if raw == b"\0" else find(raw, 1) for raw in columns.encoded[name]]
        there = [(at, match[1]) for at, match in enumerate(matches) if match is not None]
        for (at, _), decoded in zip(there, columns.decoded([raw for _, raw in there], kind), strict=True):
            map_at = found[at]
            assert map_at is not None, "only maps that are there are searched"
            map_at[field_id] = decoded
    return found


@lru_cache(maxsize=256)
def _finder(field_id: int, value: bytes) -> Callable[[bytes, int], re.Match[bytes] | None]:
    """Finds the value of one key in a map, stepping over whole items."""
    key = re.escape(avro.encode_long(field_id))
    return re.compile(b"%b(?:%b%b)*?%b(%b)" % (VARINT, VARINT, value, key, value), re.DOTALL).match

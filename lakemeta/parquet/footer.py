"""What a Parquet footer says, as pure values: row groups that move, and statistics of leaf columns.

Struct field ids are those of parquet.thrift. Sizes and offsets are bytes.
"""

from __future__ import annotations

import math
import struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.parquet import thrift

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

# Field ids of the structs in parquet.thrift.
_SCHEMA, _NUM_ROWS, _ROW_GROUPS, _KEY_VALUES = 2, 3, 4, 5
_CHUNK_META = 3
_DATA_OFFSET, _DICTIONARY_OFFSET = 9, 11
_BLOOM_OFFSET, _BLOOM_LENGTH = 14, 15
_CHUNK_OFFSETS = (2,)
_META_OFFSETS = (_DATA_OFFSET, 10, _DICTIONARY_OFFSET)
_TYPE, _PATH, _NUM_VALUES, _UNCOMPRESSED, _COMPRESSED, _STATISTICS = 1, 3, 5, 6, 7, 12
_GROUP_COLUMNS, _GROUP_BYTES, _GROUP_ROWS, _GROUP_OFFSET, _GROUP_COMPRESSED, _GROUP_ORDINAL = 1, 2, 3, 5, 6, 7
_NULL_COUNT, _MAX_VALUE, _MIN_VALUE = 3, 5, 6
_BYTE_ARRAYS = (6, 7)
_FLOATS = (4, 5)
_FORMS: Final = {0: "<?", 1: "<i", 2: "<q", 4: "<f", 5: "<d"}  # physical type -> struct format of a statistic


@attrs.frozen
class WriteOptions:
    """How a file is encoded; None leaves the choice to pyarrow.

    ``codec`` is pyarrow's name (``zstd``, ``snappy``, ``gzip``, ``none``, ...). ``plain_columns`` are paths of
    columns to write without dictionary. ``bloom_filters`` maps a column path to ``{"ndv": rows, "fpp":
    probability}``. ``key_values`` go to the footer.
    """

    codec: str = "zstd"
    level: int | None = None
    page_version: str = "1.0"
    page_bytes: int | None = None
    page_rows: int | None = None
    dictionary_bytes: int | None = None
    plain_columns: frozenset[str] = frozenset()
    columns_without_statistics: frozenset[str] = frozenset()
    bloom_filters: Mapping[str, Mapping[str, Any]] = attrs.field(factory=dict)
    key_values: Mapping[str, str] = attrs.field(factory=dict)


@attrs.frozen
class ColumnStats:
    """What one leaf column of a file holds.

    ``values`` counts nulls too. ``lower`` and ``upper`` are plain-encoded: numbers little-endian, byte arrays
    as they are, decimals in byte arrays big-endian; None if unknown or if all values are null or NaN.
    ``nulls`` is None if the column was written without statistics, ``nans`` if it is not floating-point.
    """

    field_id: int | None
    path: tuple[str, ...]
    compressed_bytes: int = 0
    values: int = 0
    nulls: int | None = 0
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@attrs.frozen
class Seen:
    """What was seen of a column's values in one row group; None if it was not looked at, or there is none."""

    nulls: int | None = None
    nans: int | None = None
    lower: bytes | None = None
    upper: bytes | None = None


@attrs.frozen
class FileStats:
    """What became of one written file: its rows, size, where its row groups start, and its leaf columns."""

    rows: int
    size: int
    split_offsets: tuple[int, ...]
    columns: tuple[ColumnStats, ...]


@attrs.frozen
class Leaf:
    """One leaf column of a schema; ``order`` turns a statistic into a value that compares right.

    ``kind`` is its physical type's number in parquet.thrift, ``length`` that of values of a fixed length.
    """

    path: tuple[str, ...]
    field_id: int | None
    kind: int
    decimal: bool
    length: int = 0

    def order(self, data: bytes) -> Any:
        """What to compare a lower or upper bound by."""
        if self.kind in _BYTE_ARRAYS:
            return int.from_bytes(data, "big", signed=True) if self.decimal else data
        value = struct.unpack(_FORMS[self.kind], data)[0]
        return (value, math.copysign(1, value)) if self.kind in _FLOATS else value


def chunk_range(chunk: thrift.Struct) -> tuple[int, int]:
    """Where the first page of a column chunk starts, a dictionary if there is one, and the size of all its pages."""
    meta = chunk[_CHUNK_META][1]
    dictionary: int = meta.get(_DICTIONARY_OFFSET, (0, 0))[1]
    data: int = meta[_DATA_OFFSET][1]
    return min(data, dictionary or data), meta[_COMPRESSED][1]


def shift(chunk: thrift.Struct, distance: int) -> None:
    """Move the offsets of a column chunk's pages; an offset of zero means that there is nothing."""
    for struct_, fields in ((chunk, _CHUNK_OFFSETS), (chunk[_CHUNK_META][1], _META_OFFSETS)):
        for field in fields:
            if field in struct_ and struct_[field][1]:
                struct_[field] = (thrift.I64, struct_[field][1] + distance)


def leaf_columns(footer: thrift.Struct) -> list[Leaf]:
    """The leaf columns of a footer's schema, which lists its tree depth first."""
    elements: list[thrift.Struct] = footer[_SCHEMA][1][1]
    leaves: list[Leaf] = []
    at = 0

    def visit(path: tuple[str, ...]) -> None:
        nonlocal at
        element = elements[at]
        at += 1
        name = (*path, element[4][1].decode())
        if 5 in element:
            for _ in range(element[5][1]):
                visit(name)
        else:
            field_id = element[9][1] if 9 in element else None
            decimal, length = element.get(6, (0, None))[1] == 5, element.get(2, (0, 0))[1]
            leaves.append(Leaf(name[1:], field_id, element[_TYPE][1], decimal, length))

    visit(())
    return leaves


def chunk_stats(leaf: Leaf, chunk: thrift.Struct, seen: Seen | None = None) -> ColumnStats:
    """What one row group holds of a column; what was ``seen`` of its values goes before what the footer says."""
    meta = chunk[_CHUNK_META][1]
    stats = meta[_STATISTICS][1] if _STATISTICS in meta else {}
    if seen is None:
        bounds = (stats[_MIN_VALUE][1], stats[_MAX_VALUE][1]) if has_bounds(chunk) else (None, None)
        seen = Seen(None, None, *bounds)
    stated = stats[_NULL_COUNT][1] if _NULL_COUNT in stats else None
    return ColumnStats(
        field_id=leaf.field_id,
        path=leaf.path,
        compressed_bytes=meta[_COMPRESSED][1],
        values=meta[_NUM_VALUES][1],
        nulls=stated if seen.nulls is None else seen.nulls,
        nans=seen.nans,
        lower=seen.lower,
        upper=seen.upper,
    )


def column_stats(leaf: Leaf, chunks: Sequence[ColumnStats]) -> ColumnStats:
    """What the whole file holds of a column; a bound that one row group does not know is not known at all."""
    nulls = [c.nulls for c in chunks if c.nulls is not None]
    known = len(nulls) == len(chunks)
    bounded = known and all(c.lower is not None or _is_void(c) for c in chunks)
    lowers = [c.lower for c in chunks if c.lower is not None]
    uppers = [c.upper for c in chunks if c.upper is not None]
    return ColumnStats(
        field_id=leaf.field_id,
        path=leaf.path,
        compressed_bytes=sum(c.compressed_bytes for c in chunks),
        values=sum(c.values for c in chunks),
        nulls=sum(nulls) if known else None,
        nans=sum(c.nans or 0 for c in chunks) if any(c.nans is not None for c in chunks) else None,
        lower=min(lowers, key=leaf.order) if bounded and lowers else None,
        upper=max(uppers, key=leaf.order) if bounded and uppers else None,
    )


def _is_void(chunk: ColumnStats) -> bool:
    """True if there is nothing but nulls and NaNs."""
    return chunk.values == (chunk.nulls or 0) + (chunk.nans or 0)


def row_groups(footer: thrift.Struct) -> list[thrift.Struct]:
    """The row groups of a footer."""
    groups: list[thrift.Struct] = footer[_ROW_GROUPS][1][1]
    return groups


def column_chunks(row_group: thrift.Struct) -> Iterator[tuple[tuple[str, ...], thrift.Struct]]:
    """The path and the struct of every column chunk of a row group."""
    for chunk in row_group[_GROUP_COLUMNS][1][1]:
        yield tuple(part.decode() for part in chunk[_CHUNK_META][1][_PATH][1][1]), chunk


def has_bounds(chunk: thrift.Struct) -> bool:
    """True if the statistics of a column chunk have a least and a greatest value."""
    meta = chunk[_CHUNK_META][1]
    return _STATISTICS in meta and {_MIN_VALUE, _MAX_VALUE} <= meta[_STATISTICS][1].keys()


def lacks_bounds(chunk: thrift.Struct) -> bool:
    """True if a column chunk has statistics, and no bounds among them."""
    return _STATISTICS in chunk[_CHUNK_META][1] and not has_bounds(chunk)


def row_group_offset(row_group: thrift.Struct) -> int:
    """Where a row group starts in its file."""
    offset: int = row_group[_GROUP_OFFSET][1]
    return offset


def bloom_filter(chunk: thrift.Struct) -> tuple[int, int] | None:
    """Offset and length of a column chunk's bloom filter, if it has one."""
    meta = chunk[_CHUNK_META][1]
    return (meta[_BLOOM_OFFSET][1], meta[_BLOOM_LENGTH][1]) if _BLOOM_OFFSET in meta else None


def place_bloom_filter(chunk: thrift.Struct, offset: int) -> None:
    """Tell a column chunk where its bloom filter is."""
    chunk[_CHUNK_META][1][_BLOOM_OFFSET] = (thrift.I64, offset)


def uncompressed_size(chunk: thrift.Struct) -> int:
    """The bytes of a column chunk's pages before compression, with their headers."""
    size: int = chunk[_CHUNK_META][1][_UNCOMPRESSED][1]
    return size


def row_group(chunks: Sequence[thrift.Struct], *, rows: int, start: int, ordinal: int) -> thrift.Struct:
    """A row group of column chunks that lie one behind the other from ``start``, as they are listed."""
    return {
        _GROUP_COLUMNS: (thrift.LIST, (thrift.STRUCT, list(chunks))),
        _GROUP_BYTES: (thrift.I64, sum(map(uncompressed_size, chunks))),
        _GROUP_ROWS: (thrift.I64, rows),
        _GROUP_OFFSET: (thrift.I64, start),
        _GROUP_COMPRESSED: (thrift.I64, sum(chunk_range(chunk)[1] for chunk in chunks)),
        _GROUP_ORDINAL: (thrift.I16, ordinal & 0x7FFF),
    }


def with_content(
    footer: thrift.Struct, groups: Sequence[thrift.Struct], rows: int, key_values: Mapping[str, str]
) -> thrift.Struct:
    """The footer of an empty file, made that of a file with these row groups and key-value metadata."""
    pairs = [
        {1: (thrift.BINARY, key.encode()), 2: (thrift.BINARY, value.encode())} for key, value in key_values.items()
    ]
    footer = {field: value for field, value in footer.items() if field != _KEY_VALUES}
    if pairs:
        footer[_KEY_VALUES] = (thrift.LIST, (thrift.STRUCT, pairs))
    return {
        **footer,
        _NUM_ROWS: (thrift.I64, rows),
        _ROW_GROUPS: (thrift.LIST, (thrift.STRUCT, list(groups))),
    }

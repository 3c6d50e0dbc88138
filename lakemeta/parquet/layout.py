"""Where a Parquet file's row groups lie, checked by its footer alone: whether every reader finds all of them.

parquet-java takes a row group for that part of a file in which one byte lies: the start of the first column's chunk
plus half the row group's size (ParquetMetadataConverter.filterFileMetaDataByMidpoint). A row group whose byte is in
no part is rows that it never reads, without an error. Sizes and offsets are bytes.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.parquet import thrift
from lakemeta.parquet.footer import leaf_columns

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

MAGIC: Final = b"PAR1"
_ENCRYPTED: Final = b"PARE"
_TAIL: Final = 8  # the length of the footer, and the magic
_FIRST_READ: Final = 64 * 1024

# Field ids of the structs in parquet.thrift.
_NUM_ROWS, _ROW_GROUPS = 3, 4
_COLUMNS, _BYTES, _ROWS, _OFFSET, _COMPRESSED, _ORDINAL = 1, 2, 3, 5, 6, 7
_META, _INDEXES = 3, ((4, 5), (6, 7))
_PATH, _NUM_VALUES, _CHUNK_UNCOMPRESSED, _CHUNK_COMPRESSED, _DATA_PAGE, _DICTIONARY_PAGE = 3, 5, 6, 7, 9, 11
_BLOOM: Final = (14, 15)
_DAMAGE: Final = (LookupError, TypeError, ValueError, AttributeError, RecursionError)  # of values of other types


class _DamageError(Exception):
    """What is wrong with a footer; the public functions say where."""


@attrs.frozen
class LostRowGroup:
    """A row group, counted from 0, that parquet-java reads with no part of its file, and its rows."""

    number: int
    rows: int


def read_footer(read: Callable[[int, int], bytes], size: int, where: str) -> bytes:
    """The footer of a file of ``size`` bytes, without its length and magic; CorruptMetadataError if there is none.

    ``read(start, length)`` gives a part of the file. It is called once, or twice if the footer is longer than 64 KiB.
    """
    tail = read(max(0, size - _FIRST_READ), min(size, _FIRST_READ))
    if tail[-4:] == _ENCRYPTED:
        raise CorruptMetadataError(f"{where} has an encrypted footer, which lakemeta cannot read")
    is_end = tail[-4:] == MAGIC and len(tail) == min(size, _FIRST_READ) >= _TAIL
    length = struct.unpack("<I", tail[-_TAIL:-4])[0] if is_end else size
    if length > size - _TAIL - len(MAGIC):
        raise CorruptMetadataError(f"{where} does not end in a Parquet footer, or has other than {size} bytes")
    if length + _TAIL > len(tail):
        tail = read(size - _TAIL - length, length + _TAIL)
    return tail[-_TAIL - length : -_TAIL]


def check_layout(footer: bytes, size: int, where: str) -> tuple[int, ...]:
    """The rows of each row group of a file of ``size`` bytes as this package and parquet-java write files.

    Row groups follow each other from the magic on, and so do the column chunks of each, in the order of the schema's
    leaf columns. Their sizes and offsets, the row groups' and the file's number of rows agree; bloom filters and page
    indexes lie between the last row group and the footer. Raises CorruptMetadataError, which names ``where`` (the
    file) and the first contradiction.
    """
    try:
        metadata = thrift.loads(footer)
        paths = [leaf.path for leaf in leaf_columns(metadata)]
        end = size - _TAIL - len(footer)
        at, rows = len(MAGIC), []
        for number, group in enumerate(_structs(metadata, _ROW_GROUPS)):
            at = _check_row_group(group, number, paths, at)
            rows.append(_number(group, _ROWS))
        _require(at <= end, f"row groups end at byte {at}, and the footer starts at {end}")
        _check_indexes(metadata, at, end)
        _require(sum(rows) == _number(metadata, _NUM_ROWS), "the rows of its row groups are not those of the file")
    except CorruptMetadataError as error:
        raise CorruptMetadataError(f"{where}: {error}") from error
    except _DamageError as error:
        raise CorruptMetadataError(f"{where} is not laid out as a Parquet file must be: {error}") from error
    except _DAMAGE as error:
        raise CorruptMetadataError(f"{where} has a damaged Parquet footer") from error
    return tuple(rows)


def lost_row_groups(footer: bytes, size: int, where: str, split_offsets: Sequence[int] = ()) -> list[LostRowGroup]:
    """The row groups that parquet-java never reads, whoever wrote the file.

    Its parts reach from the first of ``split_offsets``, or from the start of the file, to ``size``. Raises
    CorruptMetadataError, which names ``where``, for a footer that does not parse.
    """
    start = min(split_offsets, default=0)
    try:
        groups = list(enumerate(_structs(thrift.loads(footer), _ROW_GROUPS)))
        return [LostRowGroup(i, _number(g, _ROWS)) for i, g in groups if not start <= _middle(g) < size]
    except CorruptMetadataError as error:
        raise CorruptMetadataError(f"{where}: {error}") from error
    except (_DamageError, *_DAMAGE) as error:
        raise CorruptMetadataError(f"{where} has a damaged Parquet footer") from error


def _middle(group: thrift.Struct) -> int:
    """The byte by which parquet-java gives a row group to a part of the file."""
    chunks = _structs(group, _COLUMNS)
    start = _chunk_start(chunks[0][_META][1]) if _META in chunks[0] else _number(group, _OFFSET)
    if _COMPRESSED in group:
        return start + _number(group, _COMPRESSED) // 2
    return start + sum(_number(chunk[_META][1], _CHUNK_COMPRESSED) for chunk in chunks) // 2


def _check_row_group(group: thrift.Struct, number: int, paths: Sequence[tuple[str, ...]], start: int) -> int:
    """Where the row group ends, which starts at ``start``."""
    name = f"row group {number}"
    metas = [chunk[_META][1] for chunk in _structs(group, _COLUMNS)]
    found = [tuple(part.decode() for part in meta[_PATH][1][1]) for meta in metas]
    _require(found == list(paths), f"the column chunks of {name} are not those of the schema's leaf columns, in order")
    _require(_number(group, _OFFSET) == start, f"{name} says it starts at {_number(group, _OFFSET)}, not at {start}")
    _require(_ORDINAL not in group or _number(group, _ORDINAL) == number & 0x7FFF, f"{name} has another ordinal")
    at, rows = start, _number(group, _ROWS)
    _require(rows > 0, f"{name} has {rows} rows")
    for path, meta in zip(paths, metas, strict=True):
        what, size = f"the chunk of {'.'.join(path)} in {name}", _number(meta, _CHUNK_COMPRESSED)
        _require(_chunk_start(meta) == at, f"{what} starts at {_chunk_start(meta)}, and the one before it ends at {at}")
        _require(at <= _number(meta, _DATA_PAGE) < at + size, f"{what} has its data pages outside")
        _require(_number(meta, _NUM_VALUES) >= rows, f"{what} has fewer values than rows")
        at += size
    _require(_number(group, _COMPRESSED) == at - start, f"the size of {name} is not that of its column chunks")
    uncompressed = sum(_number(meta, _CHUNK_UNCOMPRESSED) for meta in metas)
    _require(_number(group, _BYTES) == uncompressed, f"the uncompressed size of {name} is not that of its chunks")
    return at


def _check_indexes(metadata: thrift.Struct, start: int, end: int) -> None:
    for number, group in enumerate(_structs(metadata, _ROW_GROUPS)):
        for chunk in _structs(group, _COLUMNS):
            places = [(chunk, fields) for fields in _INDEXES] + [(chunk[_META][1], _BLOOM)]
            for holder, (offset, length) in places:
                if offset in holder:
                    at = _number(holder, offset)
                    inside = start <= at and at + _number(holder, length) <= end
                    _require(inside, f"a bloom filter or page index of row group {number} lies among other bytes")


def _chunk_start(meta: thrift.Struct) -> int:
    """Where the pages of a chunk start: a dictionary's, if there is one before the data."""
    data = _number(meta, _DATA_PAGE)
    dictionary = _number(meta, _DICTIONARY_PAGE) if _DICTIONARY_PAGE in meta else 0
    return dictionary if 0 < dictionary < data else data


def _structs(holder: thrift.Struct, field: int) -> list[thrift.Struct]:
    kind, (element, values) = holder[field]
    _require(
        (kind == thrift.LIST and element == thrift.STRUCT) or not values, f"field {field} is not a list of structs"
    )
    structs: list[thrift.Struct] = values
    return structs


def _number(holder: thrift.Struct, field: int) -> int:
    value: Any = holder[field][1]
    _require(type(value) is int, f"field {field} is no number")
    number: int = value
    return number


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise _DamageError(otherwise)

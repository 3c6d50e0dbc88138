"""Which rows of a data file are deleted: by position, deletion vector, or equality.

Which delete files apply to which data file is decided by scan planning; here they are only applied.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.rows.arrow import runs_of
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import LONG, STRING, UNKNOWN, NestedField, StructType, is_primitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence


DELETE_PATH: Final = NestedField(2147483546, "file_path", STRING, required=True)
DELETE_POSITION: Final = NestedField(2147483545, "pos", LONG, required=True)
POSITION_DELETE_FIELDS: Final = (DELETE_PATH, DELETE_POSITION)
_KEYS_AT_ONCE: Final = 1 << 20
_COUNTED: Final = 1 << 20  # bytes

# The distinct values of a column and, but for the first column, the distinct pairs of (number before it, its own).
_Step = tuple[pa.Array, pa.Array | None]


class DeletedRows:
    """The deleted positions of one data file, a bit a row. Positions past its rows are ignored."""

    def __init__(self, rows: int) -> None:
        """``rows`` is the number of rows in the data file; UnsupportedFeatureError if there is no memory for them."""
        self._rows = rows
        try:
            self._bits = bytearray((rows + 7) // 8)
        except (MemoryError, OverflowError) as error:
            raise UnsupportedFeatureError(f"there is no memory for the position deletes of {rows} rows") from error

    def add_positions(self, positions: Iterable[int]) -> None:
        """Mark rows, counted from 0."""
        bits, rows = self._bits, self._rows
        for row in positions:
            if 0 <= row < rows:
                bits[row >> 3] |= 1 << (row & 7)

    def add_bits(self, start: int, bits: bytes) -> None:
        """Mark the rows from ``start``, a multiple of 8, whose bits are set, lowest bit first."""
        at = start >> 3
        mine = self._bits[at : at + len(bits)]
        marked = int.from_bytes(bits[: len(mine)], "little") & ((1 << max(0, self._rows - start)) - 1)
        merged = int.from_bytes(mine, "little") | marked
        self._bits[at : at + len(bits)] = merged.to_bytes(len(mine), "little")

    def add(self, other: DeletedRows) -> None:
        """Mark what another one of as many rows marks."""
        self.add_bits(0, bytes(other._bits))

    def equals(self, other: DeletedRows) -> bool:
        """True if the same rows of as many are deleted."""
        return self._rows == other._rows and self._bits == other._bits

    @property
    def count(self) -> int:
        """How many rows are deleted."""
        parts = (self._bits[at : at + _COUNTED] for at in range(0, len(self._bits), _COUNTED))
        return sum(int.from_bytes(part, "little").bit_count() for part in parts)

    def keep(self, start: int, rows: int) -> pa.BooleanArray | None:
        """A mask of the rows to keep among ``rows`` rows from ``start``; None if that is all of them."""
        part = self._bits[start >> 3 : (start + rows + 7) >> 3]
        if part.count(0) == len(part):
            return None
        deleted = pa.Array.from_buffers(pa.bool_(), rows, [None, pa.py_buffer(self._bits)], offset=start, null_count=0)
        return pc.invert(deleted)


def add_position_deletes(batch: pa.RecordBatch, targets: Mapping[str, DeletedRows], where: str) -> None:
    """Mark the rows that a batch of a position delete file names, for those data files that it is applied to.

    The batch has the columns :data:`POSITION_DELETE_FIELDS`. Raises as :func:`check_positions`; what lies behind the
    end of a file is nothing, as in Iceberg.
    """
    check_positions(batch, where)
    positions = batch.column(1)
    for path, start, end in runs_of(batch.column(0)):
        if path in targets:
            targets[path].add_positions(positions.slice(start, end - start).to_pylist())


def check_positions(batch: pa.RecordBatch, where: str) -> None:
    """Raise CorruptMetadataError, naming ``where``, if a path or position is missing, or a position negative."""
    if batch.column(0).null_count or batch.column(1).null_count:
        raise CorruptMetadataError(f"the position delete file {where} has rows without file path or position")
    least = pc.min(batch.column(1)).as_py()
    if least is not None and least < 0:
        raise CorruptMetadataError(f"the position delete file {where} names the row {least} of a file")


@attrs.frozen
class EqualityDeletes:
    """Keys of deleted rows over some columns; null equals null (spec: "Equality Delete Files").

    ``keys`` has the columns that :func:`key_columns` makes of ``field_ids``. They are looked up among the rows of a
    batch, and not rows among the keys: Arrow makes a hash table for each look-up, and one of many keys takes ten times
    their memory.
    """

    field_ids: tuple[int, ...]
    keys: pa.Table

    def keep(self, columns: Sequence[pa.Array]) -> pa.BooleanArray:
        """A mask of the rows to keep, given the key columns of data rows."""
        numbers, steps = _numbered(columns)
        found = [_find(part, steps) for part in self.keys.to_batches(max_chunksize=_KEYS_AT_ONCE)]
        return pc.invert(pc.is_in(numbers, value_set=pc.unique(pa.chunked_array(found, pa.int64()))))


def _numbered(columns: Sequence[pa.Array]) -> tuple[pa.Array, list[_Step]]:
    """A number for each row, the same for rows with the same values, and what the numbers stand for."""
    steps: list[_Step] = []
    numbers: pa.Array | None = None
    for column in columns:
        encoded = pc.dictionary_encode(column, null_encoding="encode")
        own, pairs = encoded.indices.cast(pa.int64()), None
        if numbers is not None:
            paired = pc.dictionary_encode(_pair(numbers, own, len(encoded.dictionary)))
            own, pairs = paired.indices.cast(pa.int64()), paired.dictionary
        numbers = own
        steps.append((encoded.dictionary, pairs))
    return numbers, steps


def _find(keys: pa.RecordBatch, steps: Sequence[_Step]) -> pa.Array:
    """The numbers of those keys that some row has."""
    numbers: pa.Array | None = None
    for place, (values, pairs) in enumerate(steps):
        found = pc.index_in(keys.column(place), value_set=values).cast(pa.int64())
        if numbers is not None:
            found = pc.index_in(_pair(numbers, found, len(values)), value_set=pairs).cast(pa.int64())
        held = pc.is_valid(found)
        keys, numbers = keys.filter(held), found.filter(held)
    return numbers


def equality_deletes(
    parts: Sequence[tuple[tuple[int, ...], pa.Table]], *, budget: int, where: str
) -> list[EqualityDeletes]:
    """Gather the keys of delete files, one set for each combination of columns.

    ``budget`` is in bytes; more keys than that raise UnsupportedFeatureError naming ``where``: a set that
    does not fit would have to be searched on disk, row by row.
    """
    size = sum(keys.nbytes for _, keys in parts)
    if size > budget:
        raise UnsupportedFeatureError(
            f"the equality deletes of {where} take {size} bytes, more than the {budget} set aside for them; "
            f"give the rewrite more memory"
        )
    together: dict[tuple[int, ...], list[pa.Table]] = {}
    for field_ids, keys in parts:
        together.setdefault(field_ids, []).append(keys)
    return [EqualityDeletes(field_ids, pa.concat_tables(keys)) for field_ids, keys in together.items()]


def key_columns(batch: pa.RecordBatch, schema: Schema, field_ids: Sequence[int]) -> list[pa.Array]:
    """What rows are compared by: columns with the given ids, and of each struct that one lies in, whether it is there.

    Iceberg compares whole structs (DeleteFilter, StructLikeSet): a null struct equals a null struct, and not one whose
    fields are null. ``schema`` is that of the batch.
    """
    fields = _known(schema.fields)
    columns: dict[tuple[int, ...], pa.Array] = {}
    for field_id in field_ids:
        path = _path(fields, field_id)
        array = batch.column(fields[path[0]].name)
        for depth in range(1, len(path)):
            columns[path[:depth]] = pc.is_valid(_nested(array, path[:depth]))
        columns[path] = _nested(array, path)
    return list(columns.values())


def value_columns(batch: pa.RecordBatch, schema: Schema, field_ids: Sequence[int]) -> list[pa.Array]:
    """The columns with the given ids alone, of structs the fields in them."""
    fields = _known(schema.fields)
    paths = [_path(fields, field_id) for field_id in field_ids]
    return [_nested(batch.column(fields[path[0]].name), path) for path in paths]


def _known(fields: Sequence[NestedField]) -> list[NestedField]:
    """The fields that batches have: those of type unknown are left out."""
    return [field for field in fields if field.type != UNKNOWN]


def _nested(array: pa.Array, path: tuple[int, ...]) -> pa.Array:
    """A column, or a field in its structs, which is null where they are."""
    return pc.struct_field(array, list(path[1:])) if path[1:] else array


def _path(fields: Sequence[NestedField], field_id: int) -> tuple[int, ...]:
    """Where a field is: its place among the columns, then its places in structs."""
    for place, field in enumerate(fields):
        if field.field_id == field_id and is_primitive(field.type):
            return (place,)
        if isinstance(field.type, StructType) and field_id in Schema(field.type.fields).by_id:
            return (place, *_path(_known(field.type.fields), field_id))
    raise UnsupportedFeatureError(
        f"column id {field_id}, by which equality deletes tell rows, is no single value: it is or lies in a list, map "
        f"or struct; nothing was rewritten"
    )


def key_fields(fields: Sequence[NestedField], ids: Sequence[int]) -> tuple[NestedField, ...]:
    """Those of some columns that equality deletes compare; of structs, those of their fields. All are optional."""
    kept = []
    for field in fields:
        below = key_fields(field.type.fields, ids) if isinstance(field.type, StructType) else ()
        if field.field_id in ids:
            kept.append(attrs.evolve(field, required=False))
        elif below:
            kept.append(attrs.evolve(field, required=False, type=StructType(below)))
    return tuple(kept)


def _pair(codes: pa.Array, found: pa.Array, distinct: int) -> pa.Array:
    return pc.add(pc.multiply(codes, distinct), found)

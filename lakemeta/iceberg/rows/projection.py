"""Rows of data files of any age as rows of one schema (spec: "Column Projection").

Columns are matched by field id, never by name: a renamed column keeps its values, a column that was dropped
and added again starts empty. A column that a file lacks is, in this order: the value of an identity partition
field of it, its initial default, null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.rows.arrow import (
    arrow_field,
    arrow_type,
    constant,
    element_field,
    entry_fields,
    field_id,
    nulls,
    without_nulls,
)
from lakemeta.iceberg.rows.promotion import may_become
from lakemeta.iceberg.spec.types import LONG, UNKNOWN, ListType, MapType, NestedField, StructType, Value
from lakemeta.row_sort import count_up

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.spec.schema import MappedField

ROW_ID = NestedField(2147483540, "_row_id", LONG)
LAST_UPDATED = NestedField(2147483539, "_last_updated_sequence_number", LONG)
LINEAGE = (ROW_ID, LAST_UPDATED)


@attrs.frozen
class Lineage:
    """What rows of a file inherit (spec: "Row Lineage").

    Row ids count up from ``first_row_id``, which is None for rows without ids; ``sequence_number`` is the
    data sequence number of the file.
    """

    first_row_id: int | None
    sequence_number: int


class _UnfitError(Exception):
    """What a file has that the wanted fields cannot have, in the words that follow its name."""


@attrs.frozen
class Projection:
    """How the columns of one file become columns of ``fields``.

    ``columns`` are the top-level columns to read, ``source`` says which of them holds a field id, ``ids`` are
    the trees of ids below them. ``where`` names the file in messages.
    """

    fields: tuple[NestedField, ...]
    columns: tuple[str, ...]
    source: Mapping[int, str]
    ids: Mapping[str, Any]
    constants: Mapping[int, Value]
    where: str

    def apply(self, batch: pa.RecordBatch, position: int, lineage: Lineage | None) -> pa.RecordBatch:
        """The batch, whose first row is row ``position`` of its file, in terms of ``fields``.

        Raises CorruptMetadataError, naming the file, for values that the fields cannot have.
        """
        try:
            arrays = [self._column(field, batch) for field in self.fields]
        except _UnfitError as problem:
            raise CorruptMetadataError(f"{self.where} has {problem}") from None
        except pa.ArrowException as error:
            said = " ".join(str(error).split())
            raise CorruptMetadataError(
                f"{self.where} has values that the table's columns cannot have: {said}"
            ) from error
        if lineage is not None:
            inherited = dict(zip(LINEAGE, _inherited(lineage, position, batch.num_rows), strict=True))
            arrays = [
                pc.coalesce(array, inherited[field]) if field in inherited else array
                for field, array in zip(self.fields, arrays, strict=True)
            ]
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema([arrow_field(f) for f in self.fields]))

    def _column(self, field: NestedField, batch: pa.RecordBatch) -> pa.Array:
        name = self.source.get(field.field_id)
        if name is not None:
            return _held(_project(batch.column(name), self.ids[name], field), field, None)
        if field.field_id in self.constants:
            return constant(field.type, self.constants[field.field_id], batch.num_rows)
        return _absent(field, batch.num_rows)


def projection(
    file_schema: pa.Schema,
    fields: Sequence[NestedField],
    *,
    where: str,
    constants: Mapping[int, Value] | None = None,
    name_mapping: Sequence[MappedField] | None = None,
) -> Projection:
    """Plan how a file becomes ``fields``.

    ``constants`` are the values of identity partition fields by source id, ``name_mapping`` names the columns
    of files without field ids. Raises CorruptMetadataError, naming ``where``, if there are neither, or if the file has
    values of a column of type unknown, which are nowhere in its rows.
    """
    ids = {field.name: _ids(field.type) for field in file_schema}
    tops = {field.name: field_id(field) for field in file_schema}
    if file_schema and all(i is None for i in tops.values()):
        if name_mapping is None:
            raise CorruptMetadataError(
                f"{where} has no field ids and the table no schema.name-mapping.default; set that property"
            )
        tops, ids = _mapped(file_schema, name_mapping)
    wanted = {f.field_id for f in fields if f.type != UNKNOWN}
    held = {tops[column.name]: column.type for column in file_schema}
    try:
        for field in fields:
            if field.type == UNKNOWN and field.field_id in held:
                _check(held[field.field_id], field)
    except _UnfitError as problem:
        raise CorruptMetadataError(f"{where} has {problem}") from None
    source = {i: name for name, i in tops.items() if i is not None and i in wanted}
    kept = tuple(f for f in fields if f.type != UNKNOWN)
    columns = tuple(name for name in file_schema.names if tops[name] in wanted)
    return Projection(kept, columns, source, ids, constants or {}, where)


def lacking(file_schema: pa.Schema, fields: Sequence[NestedField]) -> str | None:
    """The full name of the first of some fields, or of their own in structs, that a file lacks; None if it has all.

    Columns are known by their ids.
    """
    return _lacking([(field_id(field), field.type) for field in file_schema], fields)


def _lacking(held: Sequence[tuple[int | None, pa.DataType]], fields: Sequence[NestedField]) -> str | None:
    kinds = dict(held)
    for field in fields:
        if field.field_id not in kinds:
            return field.name
        if isinstance(field.type, StructType):
            below = [(field_id(child), child.type) for child in _children(kinds[field.field_id])]
            missing = _lacking(below, field.type.fields)
            if missing is not None:
                return f"{field.name}.{missing}"
    return None


def _ids(kind: pa.DataType) -> list[tuple[int | None, Any]]:
    """The ids below a column, as a tree: one (id, tree) for each child."""
    return [(field_id(child), _ids(child.type)) for child in _children(kind)]


def _children(kind: pa.DataType) -> list[pa.Field]:
    if pa.types.is_map(kind):
        return [kind.key_field, kind.item_field]
    if pa.types.is_struct(kind) or pa.types.is_list(kind) or pa.types.is_large_list(kind):
        return [kind.field(i) for i in range(kind.num_fields)]
    return []


def _mapped(file_schema: pa.Schema, mapping: Sequence[MappedField]) -> tuple[dict[str, int | None], dict[str, Any]]:
    found = {f.name: (_match(f.name, mapping), f) for f in file_schema}
    tops = {name: match.field_id if match else None for name, (match, _) in found.items()}
    trees = {name: _mapped_ids(f.type, match.fields if match else ()) for name, (match, f) in found.items()}
    return tops, trees


def _mapped_ids(kind: pa.DataType, mapping: Sequence[MappedField]) -> list[tuple[int | None, Any]]:
    names = [child.name for child in _children(kind)]
    if pa.types.is_map(kind):
        names = ["key", "value"]
    elif not pa.types.is_struct(kind):
        names = ["element"] * len(names)
    matches = [_match(name, mapping) for name in names]
    return [
        (match.field_id if match else None, _mapped_ids(child.type, match.fields if match else ()))
        for match, child in zip(matches, _children(kind), strict=True)
    ]


def _match(name: str, mapping: Sequence[MappedField]) -> MappedField | None:
    return next((m for m in mapping if name in m.names), None)


def _project(array: pa.Array, ids: list[tuple[int | None, Any]], field: NestedField) -> pa.Array:
    kind = field.type
    _check(array.type, field)
    if isinstance(kind, StructType):
        return _project_struct(array, ids, kind)
    if isinstance(kind, ListType):
        return _project_list(array, ids, kind)
    if isinstance(kind, MapType):
        return _project_map(array, ids, kind)
    wanted = arrow_type(kind)
    return array if array.type == wanted else _cast(array, wanted)


def _check(held: pa.DataType, field: NestedField) -> None:
    """Raise for a type that the column cannot have had, and that is none of those it is promoted from."""
    if not may_become(held, field.type):
        raise _UnfitError(f"values of type {held} in column {field.name}, which is {field.type}; restore the schema")


def _cast(array: pa.Array, wanted: pa.DataType) -> pa.Array:
    if pa.types.is_time64(wanted) and pa.types.is_int64(array.type):  # ORC has no type for it
        return array.view(wanted)
    if pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type) and array.type.unit == wanted.unit:
        return array.view(wanted)  # an instant is an instant, whatever zone the file names
    # ORC keeps nanoseconds; what an Iceberg type cannot hold is cut as Iceberg's reader cuts it.
    exact = not (pa.types.is_timestamp(wanted) and pa.types.is_timestamp(array.type)) or wanted.unit == "ns"
    return array.cast(wanted, safe=exact)


def _project_struct(array: pa.Array, ids: list[tuple[int | None, Any]], kind: StructType) -> pa.Array:
    at = {i: (n, below) for n, (i, below) in enumerate(ids) if i is not None}
    for field in kind.fields:
        if field.type == UNKNOWN and field.field_id in at:
            _check(array.type.field(at[field.field_id][0]).type, field)
    known = [field for field in kind.fields if field.type != UNKNOWN]
    there = array.is_valid() if array.null_count else None
    children = []
    for field in known:
        if field.field_id in at:
            n, below = at[field.field_id]
            children.append(_held(_project(array.field(n), below, field), field, there))
        elif array.null_count < len(array):
            children.append(_absent(field, len(array)))
        else:
            children.append(_held(nulls(field.type, len(array)), field, there))
    fields = [arrow_field(f) for f in known]
    return pa.StructArray.from_arrays(children, fields=fields, mask=None if there is None else pc.invert(there))


def _project_list(array: pa.Array, ids: list[tuple[int | None, Any]], kind: ListType) -> pa.Array:
    if pa.types.is_large_list(array.type):
        array = array.cast(pa.list_(array.type.value_field))
    element = element_field(kind)
    values = _held(_project(array.values, ids[0][1], element), element, None)
    return _rewrap(array, arrow_type(kind), values)


def _project_map(array: pa.Array, ids: list[tuple[int | None, Any]], kind: MapType) -> pa.Array:
    key, value = entry_fields(kind)
    parts = zip((key, value), (array.keys, array.items), ids, strict=True)
    entries = pa.StructArray.from_arrays(
        [_held(_project(part, below, field), field, None) for field, part, (_, below) in parts],
        fields=[arrow_field(key), arrow_field(value)],
    )
    return _rewrap(array, arrow_type(kind), entries)


def _held(array: pa.Array, field: NestedField, there: pa.Array | None) -> pa.Array:
    """The values of a field, checked: a required one is null nowhere but in structs that are null themselves.

    ``there`` is True where the struct around is not null; None for everywhere.
    """
    if not field.required or not array.null_count:
        return array
    if there is None or pc.any(pc.and_(there, array.is_null())).as_py():
        raise _UnfitError(f"nulls in column {field.name}, which is required")
    return without_nulls(array)


def _rewrap(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    """The same lists around other values; ``values`` are all of them, so offsets stay as they are."""
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])


def _absent(field: NestedField, length: int) -> pa.Array:
    if field.required and field.initial_default is None:
        raise _UnfitError(f"no values of column {field.name}, which is required and has no default")
    return constant(field.type, field.initial_default, length)


def _inherited(lineage: Lineage, position: int, rows: int) -> tuple[pa.Array, pa.Array]:
    sequence = pa.repeat(pa.scalar(lineage.sequence_number, pa.int64()), rows)
    if lineage.first_row_id is None:
        return pa.nulls(rows, pa.int64()), sequence
    return count_up(lineage.first_row_id + position, rows), sequence

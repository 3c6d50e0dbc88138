"""Rows of an Iceberg table as any reader gives them in Arrow, in one spelling, so that two readers can be compared.

Numbers and times are whole numbers, floats their bits (so -0.0 is not 0.0; all NaN are one), text and identifiers are
bytes, maps are lists of pairs sorted by key. Rows are sorted by ``rid``, which is theirs alone. Shares no code with
lakemeta.
"""

from __future__ import annotations

import re
import uuid
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
from generate.iceberg_schemas import KEY

Json = Any
WHOLE = ("int", "long", "boolean")
TIMES = {
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
}


def canonical(table: pa.Table, schema: Json) -> pa.Table:
    """The columns of ``schema`` in its order, rows sorted by key."""
    spelled = {f["name"]: spelling(_whole(table.column(f["name"])), f["type"]) for f in schema["fields"]}
    return pa.table(spelled).sort_by(KEY)


def spelling(array: pa.Array, kind: Json) -> pa.Array:
    """An array of an Iceberg type in the spelling of all readers."""
    if pa.types.is_dictionary(array.type):
        array = array.dictionary_decode()
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    if isinstance(kind, dict):
        return _nested(array, kind)
    if kind == "unknown":
        assert array.null_count == len(array), "a column of type unknown holds values"
        return pa.nulls(len(array), pa.int8())
    if kind in ("float", "double"):
        into, bits = (pa.float32(), pa.int32()) if kind == "float" else (pa.float64(), pa.int64())
        one_nan = pc.if_else(pc.is_nan(array.cast(into)), pa.scalar(float("nan"), into), array.cast(into))
        return one_nan.view(bits)
    if kind == "uuid" and "string" in str(array.type):
        return pa.array([None if v is None else uuid.UUID(str(v)).bytes for v in array.to_pylist()], pa.binary())
    if kind in WHOLE:
        return array.cast(pa.int64())
    if kind == "date":
        return array.cast(pa.date32()).view(pa.int32())
    if kind in TIMES:
        return array.cast(TIMES[kind]).view(pa.int64())
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
        return array.cast(pa.decimal128(38, int(match[2])))
    return array.cast(pa.binary())


def _nested(array: pa.Array, kind: Json) -> pa.Array:
    mask = array.is_null()
    if kind["type"] == "struct":
        given = dict(
            zip((array.type.field(i).name for i in range(array.type.num_fields)), array.flatten(), strict=True)
        )
        parts = {f["name"]: spelling(given[f["name"]], f["type"]) for f in kind["fields"]}
        return pa.StructArray.from_arrays(list(parts.values()), names=list(parts), mask=mask)
    if pa.types.is_map(array.type):  # the same entries as a list of pairs
        pair = pa.struct([("key", array.type.key_type), ("value", array.type.item_type)])
        pairs = pa.StructArray.from_arrays([array.keys, array.items], fields=list(pair))
        array = pa.ListArray.from_arrays(array.offsets, pairs, mask=None if array.null_count == 0 else mask)
    if not pa.types.is_list(array.type):  # large lists and views of lists
        array = array.cast(pa.list_(array.type.value_type))
    lengths = pc.fill_null(pc.list_value_length(array), 0).to_pylist()
    offsets = [0]
    for length in lengths:
        offsets.append(offsets[-1] + length)
    values = pc.list_flatten(array)
    if kind["type"] == "list":
        inner = spelling(values, kind["element"])
    else:
        keys, items = values.flatten()
        parts = [spelling(keys, kind["key"]), spelling(items, kind["value"])]
        owners = pa.array([row for row, length in enumerate(lengths) for _ in range(length)], pa.int64())
        entries = pa.table({"row": owners, "key": parts[0]})
        order = pc.sort_indices(entries, sort_keys=[("row", "ascending"), ("key", "ascending")])
        inner = pa.StructArray.from_arrays(parts, names=["key", "value"]).take(order)
    return pa.ListArray.from_arrays(pa.array(offsets, pa.int32()), inner, mask=mask)


def _whole(column: pa.ChunkedArray) -> pa.Array:
    if column.num_chunks == 1:
        return column.chunk(0)
    return pa.concat_arrays(column.chunks) if column.num_chunks else pa.array([], column.type)


def difference(found: pa.Table, wanted: pa.Table) -> str | None:
    """What differs between two canonical tables, in one sentence; ``wanted`` may have more columns and parts."""
    wanted = pa.table([_narrowed(_whole(wanted.column(f.name)), f.type) for f in found.schema], found.column_names)
    ours, theirs = found.column(KEY), wanted.column(KEY)
    if not ours.equals(theirs):
        lost = sorted(set(theirs.to_pylist()) - set(ours.to_pylist()))
        more = sorted(set(ours.to_pylist()) - set(theirs.to_pylist()))
        return (
            f"{len(ours)} rows for {len(theirs)}: {len(lost)} lost (rid {lost[:5]}), {len(more)} that were deleted or "
            f"never written (rid {more[:5]})"
        )
    for name in found.column_names:
        if not found.column(name).equals(wanted.column(name)):
            return _cell(found, wanted, name)
    return None


def _narrowed(array: pa.Array, into: pa.DataType) -> pa.Array:
    """A canonical array less the parts of structs that ``into`` has not."""
    if array.type == into:
        return array
    if pa.types.is_struct(into):
        parts = [_narrowed(array.field(part.name), part.type) for part in into]
        return pa.StructArray.from_arrays(parts, fields=list(into), mask=array.is_null())
    if pa.types.is_list(into):
        inner = _narrowed(array.values, into.value_type)
        return pa.ListArray.from_arrays(array.offsets, inner, type=into, mask=array.is_null())
    return array


def _cell(found: pa.Table, wanted: pa.Table, name: str) -> str:
    pairs = zip(found.column(KEY), found.column(name), wanted.column(name), strict=True)
    differing = [(key, ours, theirs) for key, ours, theirs in pairs if not ours.equals(theirs)]
    if not differing:
        return f"column {name} is of type {found.column(name).type}, not {wanted.column(name).type}"
    key, ours, theirs = differing[0]
    return f"column {name}: {len(differing)} values differ, at rid {key} {str(ours)[:120]} for {str(theirs)[:120]}"

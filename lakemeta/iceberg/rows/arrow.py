"""Iceberg types and values in Arrow's terms. Field ids travel as Parquet field ids in field metadata."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.spec.types import (
    UNKNOWN,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    Value,
)

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

FIELD_ID: Final = b"PARQUET:field_id"

_ARROW: Final[dict[str, Any]] = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", tz="UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", tz="UTC"),
    "string": pa.string(),
    "binary": pa.binary(),
    "uuid": pa.binary(16),
    "unknown": pa.null(),
}


def arrow_type(kind: Type) -> pa.DataType:
    """The Arrow type of an Iceberg type; raises UnsupportedFeatureError for one that is not handled."""
    if isinstance(kind, DecimalType):
        return pa.decimal128(kind.precision, kind.scale)
    if isinstance(kind, FixedType):
        return pa.binary(kind.length)
    if isinstance(kind, StructType):
        return _struct_type(kind)
    if isinstance(kind, ListType):
        return pa.list_(_known(element_field(kind), kind))
    if isinstance(kind, MapType):
        key, value = entry_fields(kind)
        return pa.map_(arrow_field(key), _known(value, kind))
    if kind.name not in _ARROW:
        raise UnsupportedFeatureError(f"rewriting columns of type {kind} is not supported; nothing was written")
    return _ARROW[kind.name]


def _struct_type(kind: StructType) -> pa.DataType:
    fields = [arrow_field(f) for f in kind.fields if f.type != UNKNOWN]
    if not fields:
        raise UnsupportedFeatureError(
            f"a column of type {kind} has no fields that Parquet can hold; drop it, or give it a field of a known type"
        )
    return pa.struct(fields)


def _known(part: NestedField, kind: Type) -> pa.Field:
    """An element or value of a list or map; neither Iceberg nor lakemeta can write those of no known type."""
    if part.type == UNKNOWN:
        raise UnsupportedFeatureError(f"a column of type {kind} cannot be written to Parquet; change its type first")
    return arrow_field(part)


def arrow_field(field: NestedField) -> pa.Field:
    """The Arrow field of an Iceberg field, with its id."""
    return pa.field(
        field.name,
        arrow_type(field.type),
        nullable=not field.required,
        metadata={FIELD_ID: str(field.field_id)},
    )


def arrow_schema(fields: Iterable[NestedField]) -> pa.Schema:
    """The Arrow schema of fields; those of type unknown are left out, as data files do not hold them."""
    return pa.schema([arrow_field(f) for f in fields if f.type != UNKNOWN])


def parquet_schema(fields: Iterable[NestedField]) -> pa.Schema:
    """As :func:`arrow_schema`, but a uuid is Arrow's uuid, so that Parquet marks it as one."""
    return pa.schema([f.with_type(_marked(n.type, f.type)) for n, f in _pairs(fields)])


def element_field(kind: ListType) -> NestedField:
    """The element of a list as a field."""
    return NestedField(kind.element_id, "element", kind.element, kind.element_required)


def entry_fields(kind: MapType) -> tuple[NestedField, NestedField]:
    """Key and value of a map as fields."""
    key = NestedField(kind.key_id, "key", kind.key, required=True)
    return key, NestedField(kind.value_id, "value", kind.value, kind.value_required)


def constant(kind: Type, value: Value, length: int) -> pa.Array:
    """An array that repeats one value of a primitive type; None repeats null."""
    if value is not None and isinstance(kind, StructType | ListType | MapType):
        raise UnsupportedFeatureError(f"a default value of type {kind} is not supported; nothing was written")
    if value is None:
        return nulls(kind, length)
    return pa.repeat(pa.scalar(value, arrow_type(kind)), length)


def nulls(kind: Type, length: int) -> pa.Array:
    """An array of nulls; required fields of structs have values below them, as Arrow and Parquet want it."""
    if not isinstance(kind, StructType):
        return pa.nulls(length, arrow_type(kind))
    known = [(f, nulls(f.type, length)) for f in kind.fields if f.type != UNKNOWN]
    children = [without_nulls(array) if f.required else array for f, array in known]
    mask = pa.repeat(pa.scalar(True), length)
    return pa.StructArray.from_arrays(children, fields=list(arrow_type(kind)), mask=mask)


def without_nulls(array: pa.Array) -> pa.Array:
    """The array with whatever values lie below its nulls in their place."""
    if isinstance(array, pa.StructArray):
        children = [array.field(i) for i in range(array.type.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(array.type))
    below = [array.values] if isinstance(array, pa.ListArray) else None  # a map is a list, too
    own = array.buffers()[: 2 if below else None]
    return pa.Array.from_buffers(array.type, len(array), [None, *own[1:]], 0, array.offset, below)


def field_id(field: pa.Field) -> int | None:
    """The Iceberg field id that a file says of a field: Parquet field id or ORC attribute."""
    metadata = field.metadata or {}
    text = metadata.get(FIELD_ID, metadata.get(b"iceberg.id"))
    return None if text is None else int(text)


def _pairs(fields: Iterable[NestedField]) -> list[tuple[NestedField, pa.Field]]:
    return [(f, arrow_field(f)) for f in fields if f.type != UNKNOWN]


def _marked(kind: Type, plain: pa.DataType) -> pa.DataType:
    if isinstance(kind, StructType):
        return pa.struct([f.with_type(_marked(n.type, f.type)) for n, f in _pairs(kind.fields)])
    if isinstance(kind, ListType):
        (element,) = _pairs([element_field(kind)])
        return pa.list_(element[1].with_type(_marked(kind.element, element[1].type)))
    if isinstance(kind, MapType):
        key, value = _pairs(entry_fields(kind))
        return pa.map_(
            key[1].with_type(_marked(kind.key, key[1].type)),
            value[1].with_type(_marked(kind.value, value[1].type)),
        )
    return pa.uuid() if str(kind) == "uuid" else plain


def runs_of(values: pa.Array | pa.ChunkedArray) -> Iterator[tuple[Any, int, int]]:
    """Each run of equal values: the value, where it begins, and where it ends. A run ends with its chunk."""
    start = 0
    for chunk in values.chunks if isinstance(values, pa.ChunkedArray) else [values]:
        runs = pc.run_end_encode(chunk, run_end_type=pa.int64())
        ends = [start + end for end in runs.run_ends.to_pylist()]
        yield from zip(runs.values.to_pylist(), [start, *ends[:-1]], ends, strict=False)
        start += len(chunk)

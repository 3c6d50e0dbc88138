"""Random Iceberg schemas as their metadata spells them in JSON, and rows for them as Arrow tables with field ids.

Every column has a size of its own, from one bit to a thousand bytes a row: what a writer does about unlike columns
shows. Column ``rid`` tells the rows apart. Shares no code with lakemeta.
"""

from __future__ import annotations

import math
import random
import re
from collections.abc import Callable
from decimal import Decimal
from itertools import accumulate, count
from typing import Any

import pyarrow as pa
from generate.iceberg_columns import STRINGS

Json = Any
KEY = "rid"
FLAT = (
    *("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "string", "string"),
    *("binary", "decimal(5, 2)", "decimal(9, 2)", "decimal(18, 6)", "decimal(20, 0)", "decimal(30, 6)"),
    *("decimal(38, 10)", "decimal(38, 38)"),
)
JAVA = ("time", "uuid", "fixed[1]", "fixed[13]", "fixed[16]")  # that no DDL of Spark names
VERSION_3 = ("timestamp_ns", "timestamptz_ns", "unknown")
SPARK_LACKS = ("time", "timestamp_ns", "timestamptz_ns")  # no type of Spark 3.5 holds them
KEYS = ("int", "long", "date", "string", "binary", "decimal(9, 2)", "timestamp", "timestamptz")
MICROS = (-62_135_596_800_000_000, 253_402_300_799_999_999)  # from year 1 to year 9999
EDGES: dict[str, tuple[Any, ...]] = {
    "int": (-(2**31), -1, 0, 1, 2**31 - 1),
    "long": (-(2**63), -1, 0, 1, 2**31, 2**63 - 1),
    "float": (math.nan, -math.inf, -0.0, 0.0, 1.5, 2.0**-149, math.inf),
    "double": (math.nan, -math.inf, -0.0, 0.0, 0.1, 5e-324, math.inf),
    "date": (-719_162, -1, 0, 1, 2_932_896),
    "time": (0, 1, 86_399_999_999),
    "timestamp": (MICROS[0], -1, 0, 1, MICROS[1]),
    "timestamptz": (MICROS[0], -1, 0, 1, MICROS[1]),
    "timestamp_ns": (-(2**62), -1, 0, 1, 999, 2**62),
    "timestamptz_ns": (-(2**62), -1, 0, 1, 999, 2**62),
    "string": STRINGS,
    "binary": (b"", b"\0", b"ab", b"\x7f", b"\x80", b"\xff\xff"),
}


def random_schema(chance: random.Random, types: tuple[str, ...], columns: int) -> Json:
    """A struct of ``columns`` columns and column ``rid`` among them; nested ones three levels deep at most."""
    ids = count(1)
    fields = [_field(chance, f"c{n}", types, 0, ids) for n in range(columns)]
    at = chance.randint(0, columns)
    fields.insert(at, {"id": next(ids), "name": KEY, "required": chance.random() < 0.3, "type": "long"})
    return {"type": "struct", "fields": fields}


def _field(chance: random.Random, name: str, types: tuple[str, ...], depth: int, ids: Any) -> Json:
    kind = random_type(chance, types, depth, ids)
    required = chance.random() < 0.1 and kind != "unknown"
    return {"id": next(ids), "name": name, "required": required, "type": kind}


def random_type(chance: random.Random, types: tuple[str, ...], depth: int, ids: Any) -> Json:
    """A primitive type of ``types``, or a struct, list or map around some."""
    if depth == 3 or chance.random() < 0.8:
        return chance.choice(types)
    shape = chance.choice(("struct", "list", "map"))
    if shape == "struct":
        fields = [_field(chance, f"f{n}", types, depth + 1, ids) for n in range(chance.randint(1, 4))]
        if all(f["type"] == "unknown" for f in fields):
            fields.append({"id": next(ids), "name": "known", "required": False, "type": "int"})
        return {"type": "struct", "fields": fields}
    inner = random_type(chance, tuple(t for t in types if t != "unknown"), depth + 1, ids)
    required = chance.random() < 0.3
    if shape == "list":
        return {"type": "list", "element-id": next(ids), "element": inner, "element-required": required}
    key = {"key-id": next(ids), "key": chance.choice(KEYS)}
    return {"type": "map", **key, "value-id": next(ids), "value": inner, "value-required": required}


def holds(kind: Json, wanted: Callable[[str], bool]) -> bool:
    """True if a primitive type for which ``wanted`` is true is anywhere in a type."""
    if isinstance(kind, str):
        return wanted(kind)
    if kind["type"] == "struct":
        return any(holds(f["type"], wanted) for f in kind["fields"])
    parts = (kind["element"],) if kind["type"] == "list" else (kind["key"], kind["value"])
    return any(holds(part, wanted) for part in parts)


def without(schema: Json, unwanted: Callable[[str], bool]) -> Json:
    """A schema less the fields, also of structs, that hold an unwanted primitive type."""
    fields = []
    for field in schema["fields"]:
        kind = field["type"]
        if isinstance(kind, dict) and kind["type"] == "struct":
            kind = without(kind, unwanted)
            if kind["fields"]:
                fields.append(field | {"type": kind})
        elif not holds(kind, unwanted):
            fields.append(field)
    return schema | {"fields": fields}


def arrow_schema(schema: Json, *, spark: bool = False) -> pa.Schema:
    """The schema of files of such rows, with field ids; ``spark``: in types that Spark's own reader knows."""
    return pa.schema([_arrow_field(f, spark) for f in schema["fields"] if f["type"] != "unknown"])


def _arrow_field(field: Json, spark: bool) -> pa.Field:
    return _named(field["name"], field["id"], field["type"], field["required"], spark)


def _named(name: str, field_id: int, kind: Json, required: bool, spark: bool) -> pa.Field:
    known = {"PARQUET:field_id": str(field_id)}
    return pa.field(name, arrow_type(kind, spark=spark), nullable=not required, metadata=known)


def arrow_type(kind: Json, *, spark: bool = False) -> pa.DataType:
    """The Arrow type of an Iceberg type; ``spark``: uuid is text and fixed is binary."""
    if isinstance(kind, dict):
        if kind["type"] == "struct":
            return pa.struct([_arrow_field(f, spark) for f in kind["fields"] if f["type"] != "unknown"])
        if kind["type"] == "list":
            return pa.list_(_named("element", kind["element-id"], kind["element"], kind["element-required"], spark))
        key = _named("key", kind["key-id"], kind["key"], True, spark)
        return pa.map_(key, _named("value", kind["value-id"], kind["value"], kind["value-required"], spark))
    if spark and kind == "uuid":
        return pa.string()
    if match := re.fullmatch(r"fixed\[(\d+)\]", kind):
        return pa.binary() if spark else pa.binary(int(match[1]))
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
        return pa.decimal128(int(match[1]), int(match[2]))
    return _ARROW[kind]


_ARROW = {
    "boolean": pa.bool_(),
    "int": pa.int32(),
    "long": pa.int64(),
    "float": pa.float32(),
    "double": pa.float64(),
    "date": pa.date32(),
    "time": pa.time64("us"),
    "timestamp": pa.timestamp("us"),
    "timestamptz": pa.timestamp("us", "UTC"),
    "timestamp_ns": pa.timestamp("ns"),
    "timestamptz_ns": pa.timestamp("ns", "UTC"),
    "string": pa.string(),
    "uuid": pa.uuid(),
    "binary": pa.binary(),
}


def random_rows(chance: random.Random, schema: Json, keys: range, fixed: tuple[str, ...] = ()) -> pa.Table:
    """Rows of these keys; a column of ``fixed`` holds one value in all of them."""
    arrays = []
    for field in arrow_schema(schema):
        kind = next(f["type"] for f in schema["fields"] if f["name"] == field.name)
        if field.name == KEY:
            arrays.append(pa.array(keys, pa.int64()))
        elif field.name in fixed:
            value = _primitives(chance, kind, 1, field.nullable)
            arrays.append(pa.concat_arrays([value] * len(keys)) if len(keys) else value)
        else:
            arrays.append(random_array(chance, kind, len(keys), field.nullable))
    return pa.Table.from_arrays(arrays, schema=arrow_schema(schema))


def random_array(chance: random.Random, kind: Json, size: int, nullable: bool) -> pa.Array:
    """Values of a type, with nulls if they may be."""
    if isinstance(kind, str):
        return _primitives(chance, kind, size, nullable)
    share = chance.choice((0.0, 0.1, 0.9)) if nullable else 0.0
    nulls = [chance.random() < share for _ in range(size)]
    mask = pa.array(nulls, pa.bool_()) if share else None
    into = arrow_type(kind)
    if kind["type"] == "struct":
        parts = [(f["type"], not f["required"]) for f in kind["fields"] if f["type"] != "unknown"]
        children = [random_array(chance, part, size, may) for part, may in parts]
        return pa.StructArray.from_arrays(children, fields=list(into), mask=mask)
    lengths = [0 if null else chance.choice((0, 1, 1, 2, 3)) for null in nulls]
    offsets = pa.array([0, *accumulate(lengths)], pa.int32())
    if kind["type"] == "list":
        values = random_array(chance, kind["element"], sum(lengths), not kind["element-required"])
        return pa.ListArray.from_arrays(offsets, values, type=into, mask=mask)
    pool = list(dict.fromkeys(_values(chance, kind["key"], 20)))
    names = [key for length in lengths for key in chance.sample(pool, length)]
    keys = _array(names, kind["key"])
    values = random_array(chance, kind["value"], sum(lengths), not kind["value-required"])
    return pa.MapArray.from_arrays(offsets, keys, values, type=into, mask=mask)


def _primitives(chance: random.Random, kind: str, size: int, nullable: bool) -> pa.Array:
    distinct = min(size, chance.choice((1, 2, 5, 40, size, size)))
    pool = _values(chance, kind, distinct)
    found = pool if distinct == size else chance.choices(pool, k=size)
    share = chance.choice((0.0, 0.0, 0.1, 0.95)) if nullable else 0.0
    if share:
        found = [None if chance.random() < share else value for value in found]
    return _array(found, kind)


def _array(values: list[Any], kind: str) -> pa.Array:
    into = arrow_type(kind)
    if kind == "uuid":
        return pa.ExtensionArray.from_storage(into, pa.array(values, pa.binary(16)))
    if pa.types.is_temporal(into) and kind != "date":
        return pa.array(values, pa.int64()).cast(into)
    return pa.array(values, pa.int32()).cast(into) if kind == "date" else pa.array(values, into)


def _values(chance: random.Random, kind: str, size: int) -> list[Any]:
    """Values of a primitive type, edges among them; temporal ones as integers."""
    edges = EDGES.get(kind, ())
    one = _one(chance, kind)
    return [chance.choice(edges) if edges and chance.random() < 0.1 else one() for _ in range(size)]


def _one(chance: random.Random, kind: str) -> Callable[[], Any]:
    """Draws values of a type at random; the lengths of text and bytes are alike within a column."""
    if match := re.fullmatch(r"fixed\[(\d+)\]", kind):
        return lambda: chance.randbytes(int(match[1]))
    if match := re.fullmatch(r"decimal\((\d+), ?(\d+)\)", kind):
        digits, scale = int(match[1]), int(match[2])
        return lambda: Decimal(f"{chance.randrange(-(10**digits) + 1, 10**digits)}e-{scale}")
    width = chance.choice((1, 3, 3, 12, 12, 60, 300, 900))
    draws: dict[str, Callable[[], Any]] = {
        "boolean": lambda: chance.random() < 0.5,
        "int": lambda: chance.randrange(-(2**31), 2**31),
        "long": lambda: chance.randrange(-(2**63), 2**63),
        "float": lambda: chance.randrange(-(10**6), 10**6) / 64,
        "double": lambda: chance.gauss(0, 1e9),
        "date": lambda: chance.randrange(-30_000, 30_000),
        "time": lambda: chance.randrange(86_400_000_000),
        "string": lambda: chance.randbytes(chance.randint(0, width)).hex(),
        "uuid": lambda: chance.randbytes(16),
        "binary": lambda: chance.randbytes(chance.randint(0, width)),
    }
    if kind.startswith("timestamp"):
        unit = 10**9 if kind.endswith("_ns") else 10**6
        return lambda: chance.randrange(-(2**31) * unit, 2**31 * unit)
    return draws[kind]


def for_spark(rows: pa.Table, schema: Json) -> pa.Table:
    """The same rows in types that Spark's own Parquet reader knows."""
    wanted = arrow_schema(schema, spark=True)
    return pa.Table.from_arrays([_respelled(rows[f.name].combine_chunks(), f.type) for f in wanted], schema=wanted)


def _respelled(array: pa.Array, into: pa.DataType) -> pa.Array:
    if array.type == into:
        return array
    if isinstance(array, pa.ChunkedArray):
        array = pa.concat_arrays(array.chunks)
    if pa.types.is_struct(into):
        children = [_respelled(array.field(i), into.field(i).type) for i in range(into.num_fields)]
        return pa.StructArray.from_arrays(children, fields=list(into), mask=array.is_null())
    if pa.types.is_map(into):
        items = _respelled(array.items, into.item_type)
        keys = _respelled(array.keys, into.key_type)
        return pa.MapArray.from_arrays(array.offsets, keys, items, type=into, mask=array.is_null())
    if pa.types.is_list(into):
        values = _respelled(array.values, into.value_type)
        return pa.ListArray.from_arrays(array.offsets, values, type=into, mask=array.is_null())
    if isinstance(array, pa.ExtensionArray):
        texts = [None if v is None else _uuid_text(v) for v in array.storage.to_pylist()]
        return pa.array(texts, into)
    return array.cast(into)


def _uuid_text(value: bytes) -> str:
    text = value.hex()
    return "-".join((text[:8], text[8:12], text[12:16], text[16:20], text[20:]))

"""Every type in every place: files of the Java API in each format, rewritten by lakemeta, hold the same rows.

Types lie in columns, structs, required fields of structs that may be null, lists, lists of structs, and in keys and
values of maps. As partitions they lie where the engine puts them. IcebergGenerics reads before and after.
"""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from generate.iceberg_schemas import KEY, random_rows
from interop.iceberg_canonical import difference
from interop.iceberg_engine import IcebergEngine
from interop.iceberg_readers import Readers

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = pytest.mark.engine

Json = Any
SEED = 14
ROWS = 60
TYPES = (
    *("boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"),
    *("timestamptz_ns", "string", "binary", "uuid", "fixed[13]", "fixed[16]"),
    *("decimal(9, 2)", "decimal(18, 6)", "decimal(38, 10)"),
)
INTEGERS = ("int", "long", "decimal(9, 2)", "decimal(38, 10)")
MOMENTS = ("timestamp", "timestamptz", "timestamp_ns", "timestamptz_ns")
ORDERED = ("boolean", "int", "long", "float", "double", "date", "timestamp", "timestamptz", "string", "binary")
LONG = ("string", "binary")  # may be longer than a directory's name
UNREADABLE = ("timestamp_ns", "timestamptz_ns", "fixed[13]", "fixed[16]")  # partitions that IcebergGenerics cannot read


def named(number: int, name: str, kind: Json, *, required: bool = False) -> Json:
    return {"id": number, "name": name, "required": required, "type": kind}


def places(kind: str, name: str, ids: Iterator[int]) -> list[Json]:
    """Columns that hold a type in every place."""

    def inner() -> Json:
        return {"type": "struct", "fields": [named(next(ids), "f", kind), named(next(ids), "n", "int")]}

    def listed(element: Json) -> Json:
        return {"type": "list", "element-id": next(ids), "element-required": False, "element": element}

    def mapped(key: str, *, required: bool) -> Json:
        parts = {"key-id": next(ids), "value-id": next(ids), "value-required": required}
        return {"type": "map", "key": key, "value": kind, **parts}

    strict = {"type": "struct", "fields": [named(next(ids), "f", kind, required=True)]}
    found = [
        named(next(ids), f"{name}_top", kind),
        named(next(ids), f"{name}_struct", inner()),
        named(next(ids), f"{name}_strict", strict),
        named(next(ids), f"{name}_list", listed(kind)),
        named(next(ids), f"{name}_structs", listed(inner())),
        named(next(ids), f"{name}_values", mapped("string", required=False)),
    ]
    # Two booleans are too few for keys of maps that are drawn.
    return found if kind == "boolean" else [*found, named(next(ids), f"{name}_keys", mapped(kind, required=True))]


def schema_of(*columns: list[Json]) -> Json:
    return {"type": "struct", "fields": [named(1, KEY, "long", required=True), *(f for part in columns for f in part)]}


def create(engine: IcebergEngine, name: str, schema: Json, spec: list[Json] | None = None, **properties: str) -> Json:
    """A table; its schema, as the engine numbers it."""
    properties = {"format-version": "3", **properties}
    table = f"ice.db.{name}"
    engine.call("create", table=table, schema=schema, spec=spec or [], order=[], properties=properties)
    return engine.schema(name)


def append(engine: IcebergEngine, name: str, rows: Any, scratch: Path, form: str = "PARQUET") -> None:
    path = scratch / "rows.parquet"
    pq.write_table(rows, path, store_schema=False)
    engine.call("java_append", table=f"ice.db.{name}", path=str(path), form=form)


def rewrite(engine: IcebergEngine, name: str, **options: str) -> None:
    table = IcebergTable.open(str(engine.path(name)))
    table.apply(table.plan_rewrite_data_files({"rewrite-all": "true", **options}))


@pytest.mark.parametrize("form", ["PARQUET", "ORC", "AVRO"])
def test_every_type_in_every_place(engine, form, tmp_path):
    """Files of each format become Parquet with the same rows; so they do when sorted by every type, and z-ordered."""
    ids, chance = count(2), random.Random(SEED)
    unknown = named(next(ids), "u_top", "unknown")
    wanted = schema_of(*(places(kind, f"c{n}", ids) for n, kind in enumerate(TYPES)), [unknown])
    name = f"types_{form.lower()}"
    schema = create(engine, name, wanted)
    for start in (0, ROWS):
        append(engine, name, random_rows(chance, schema, range(start, start + ROWS)), tmp_path, form)
    before = unordered(Readers(engine, name, tmp_path).generics())
    assert len(before) == 2 * ROWS
    orders = [f"zorder({', '.join(f'c{n}_top' for n, kind in enumerate(TYPES) if kind in ORDERED)})"]
    orders.append(", ".join(f"c{n}_top DESC NULLS FIRST" for n in range(len(TYPES))))
    for options in ({}, *({"strategy": "sort", "sort_order": order} for order in orders)):
        rewrite(engine, name, **options)
        readers = Readers(engine, name, tmp_path)
        assert {file["format"] for file in readers.live} == {"PARQUET"}
        after = unordered(readers.generics())
        # The Java API's reader of ORC files gives all rows of a file its first row id.
        assert difference(after.drop_columns(["_row_id"] if form == "ORC" else []), before) is None, options


def unordered(table: pa.Table) -> pa.Table:
    """The rows with the pairs of maps in an order of their own: the Java API's reader of ORC files shuffles them."""
    for at, field in enumerate(table.schema):
        if field.name.endswith(("_keys", "_values")):
            rows = [row and sorted(row, key=lambda pair: pair["key"]) for row in table.column(at).to_pylist()]
            table = table.set_column(at, field, pa.array(rows, field.type))
    return table


TRANSFORMS = {
    "identity": [(kind, "identity") for kind in TYPES if kind not in (*LONG, *UNREADABLE)],
    "unreadable": [(kind, "identity") for kind in UNREADABLE],
    "twice": [(kind, "identity") for kind in ("decimal(9, 2)", "uuid", "fixed[13]", "fixed[16]") for _ in range(2)],
    "bucket": [(kind, "bucket", 3) for kind in TYPES if kind not in ("boolean", "float", "double")],
    "truncate": [(kind, "truncate", 3) for kind in (*INTEGERS, "string", "binary")],
    "time": [(kind, unit) for kind in ("date", *MOMENTS) for unit in ("year", "month", "day", "hour")],
}


@pytest.mark.parametrize("group", TRANSFORMS)
def test_every_type_as_a_partition(engine, group, tmp_path):
    """Files of a table that is partitioned by all of them lie where they did, twice over, as the engine reads it."""
    pairs = [pair for pair in TRANSFORMS[group] if pair[0] != "date" or pair[1] != "hour"]
    wanted = schema_of([named(2 + n, f"c{n}", kind) for n, (kind, *_) in enumerate(pairs)])
    spec = [[f"c{n}", *how] for n, (_, *how) in enumerate(pairs)]
    name, chance = f"parted_{group}", random.Random(SEED)
    schema = create(engine, name, wanted, spec)
    columns = tuple(f["name"] for f in schema["fields"][1:])
    for start in (0, 5, 10):
        append(engine, name, random_rows(chance, schema, range(start, start + 5), fixed=columns), tmp_path)
    readable = not any(how == ["identity"] and kind in UNREADABLE for kind, *how in pairs)
    before = Readers(engine, name, tmp_path).generics() if readable else None
    partitions = where(engine, name)
    for _ in range(2):
        rewrite(engine, name)
        assert where(engine, name) == partitions
        if before is not None:
            assert difference(Readers(engine, name, tmp_path).generics(), before) is None


def where(engine: IcebergEngine, name: str) -> list[tuple[str, str]]:
    """Of every live file its directory, and its partition as the engine reads it in manifests."""
    files = engine.call("files", table=f"ice.db.{name}")
    return sorted((file["path"].rpartition("/")[0], str(file["partition"])) for file in files)


def test_filters_on_types_without_zone_keep_the_wall_clock(engine):
    """The engine's own expressions of a text with a zone and a timestamp without one."""
    engine.sql("CREATE TABLE ice.db.walls (ts timestamp_ntz) USING iceberg")
    texts = ("2020-01-01 00:00:00+02:00", "2020-01-01T00:00:00-0800", "2020-01-01 00:00:00 UTC")
    asked = [{"options": {"rewrite-all": "true"}, "where": f"ts > '{text}'"} for text in texts]
    found = [plan["expression"] for plan in engine.call("plans", table="ice.db.walls", asked=asked)]
    assert found == ['(not_null(ref(name="ts")) and ref(name="ts") > 1577836800000000)'] * len(texts)

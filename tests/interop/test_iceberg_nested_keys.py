"""Equality deletes whose keys are fields of structs: the engine reads the same rows before and after a rewrite."""

from __future__ import annotations

import random
from itertools import count
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from interop.iceberg_engine import IcebergEngine

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.engine

STRUCT = "st struct<p: bigint, q: string, r: struct<x: int>>"
ST, P, Q, R, X = 2, 3, 4, 5, 6  # as the engine numbers the fields of the table
STRUCTS = [
    None,
    *({"p": p, "q": q, "r": r} for p in (None, 1, 2) for q in (None, "a") for r in (None, {"x": None}, {"x": 7})),
]
CASES = [(2, (P,)), (2, (X,)), (2, (P, Q)), (3, (1, P, X))]
SEED = 20


def field(name: str, kind: pa.DataType, field_id: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(field_id)})


def key_schema(ids: tuple[int, ...]) -> pa.Schema:
    """The columns of a delete file, with just those fields of structs that it deletes by."""
    inner = [field("x", pa.int32(), X)] if X in ids else []
    parts = [field("p", pa.int64(), P)] * (P in ids) + [field("q", pa.string(), Q)] * (Q in ids)
    parts += [field("r", pa.struct(inner), R)] if inner else []
    return pa.schema([field("id", pa.int64(), 1)] * (1 in ids) + [field("st", pa.struct(parts), ST)])


def pruned(value: Any, kind: pa.DataType) -> Any:
    """A struct with only the fields of a type."""
    if not pa.types.is_struct(kind) or value is None:
        return value
    return {child.name: pruned(value[child.name], child.type) for child in kind}


def delete(engine: IcebergEngine, table: str, ids: tuple[int, ...], rows: list[dict[str, Any]], number: int) -> None:
    """Write an equality delete file and commit it by the Java API."""
    schema = key_schema(ids)
    keys = [{child.name: pruned(row[child.name], child.type) for child in schema} for row in rows]
    path = engine.path(table) / "data" / f"deletes-{number}.parquet"
    pq.write_table(pa.Table.from_pylist(keys, schema=schema), path, store_schema=False)
    file = {
        "spec-id": 0,
        "content": "EQUALITY_DELETES",
        "file-path": str(path),
        "file-format": "PARQUET",
        "partition": [],
        "file-size-in-bytes": path.stat().st_size,
        "record-count": len(keys),
        "equality-ids": list(ids),
        "sort-order-id": 0,
    }
    engine.call("delete_rows", table=f"ice.db.{table}", files=[file])


def insert(engine: IcebergEngine, table: str, rows: list[dict[str, Any]]) -> None:
    values = ", ".join(f"({row['id']}, {literal(row['st'])})" for row in rows)
    engine.sql(f"INSERT INTO ice.db.{table} VALUES {values}")


def literal(struct: dict[str, Any] | None) -> str:
    if struct is None:
        return "null"
    p, q = ("null" if struct["p"] is None else struct["p"], "null" if struct["q"] is None else f"'{struct['q']}'")
    inner = struct["r"] if struct["r"] is None else f"named_struct('x', {struct['r']['x'] or 'cast(null AS int)'})"
    return (
        f"named_struct('p', cast({p} AS bigint), 'q', cast({q} AS string), "
        f"'r', {inner or 'cast(null AS struct<x: int>)'})"
    )


@pytest.mark.parametrize(("version", "ids"), CASES, ids=[f"{v}-{ids}" for v, ids in CASES])
def test_nested_keys_delete_what_the_engine_deletes(engine: IcebergEngine, version: int, ids: tuple[int, ...]) -> None:
    """Null structs, null fields, structs in structs, files from before the struct was there; each key in turn."""
    name = f"nested_{version}_{'_'.join(map(str, ids))}"
    engine.sql(f"CREATE TABLE ice.db.{name} (id bigint) USING iceberg TBLPROPERTIES ('format-version'='{version}')")
    engine.sql(f"INSERT INTO ice.db.{name} VALUES (1000), (1001)")
    engine.sql(f"ALTER TABLE ice.db.{name} ADD COLUMN {STRUCT}")
    rows = [{"id": n, "st": struct} for n, struct in enumerate(STRUCTS)]
    insert(engine, name, rows)
    chance, numbers = random.Random(f"{SEED} {ids}"), count()
    for chosen in ([rows[0]], chance.sample(rows, 2), chance.sample(rows[1:], 3)):
        delete(engine, name, ids, chosen, next(numbers))
        before = engine.rows(name)
        table = IcebergTable.open(str(engine.path(name)))
        table.apply(table.plan_rewrite_data_files({"rewrite-all": "true"}))
        assert engine.rows(name) == before
        insert(engine, name, rows)
    assert len(before) < 2 + 3 * len(rows)

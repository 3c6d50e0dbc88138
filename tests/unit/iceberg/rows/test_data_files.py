"""Data files of three formats as batches with field ids."""

from __future__ import annotations

import io
from decimal import Decimal
from typing import Any, BinaryIO, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyarrow import orc

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, StorageError, UnsupportedFeatureError
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file
from lakemeta.iceberg.rows.projection import projection
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.types import NestedField as Field
from lakemeta.storage.streams import RangeReader

FIELDS = (
    Field(1, "id", t.LONG),
    Field(2, "day", t.DATE),
    Field(3, "ts", t.TIMESTAMPTZ),
    Field(4, "price", t.DecimalType(30, 2)),
    Field(5, "other_price", t.DecimalType(30, 2)),
    Field(6, "u", t.UUID),
    Field(7, "s", t.StructType((Field(8, "d", t.DecimalType(9, 2)), Field(9, "x", t.STRING)))),
    Field(10, "l", t.ListType(11, t.DecimalType(9, 2))),
    Field(12, "m", t.MapType(13, t.STRING, 14, t.TIME)),
    Field(15, "pairs", t.MapType(16, t.LONG, 17, t.STRING)),
    Field(18, "local", t.TIMESTAMP),
    Field(19, "raw", t.BINARY),
)
BIG = Decimal("1234567890123456789012345678.91")


def decimal(precision: int, size: int, name: str = "") -> dict[str, Any]:
    return {
        "type": "fixed",
        "name": name or f"decimal_{precision}_2",
        "size": size,
        "logicalType": "decimal",
        "precision": precision,
        "scale": 2,
    }


# As Iceberg writes it: a fixed type is defined once and named from then on, map keys that are no strings make a list.
AVRO: dict[str, Any] = {
    "type": "record",
    "name": "table",
    "fields": [
        {"name": "id", "type": "long", "field-id": 1},
        {"name": "day", "type": ["null", {"type": "int", "logicalType": "date"}], "field-id": 2},
        {
            "name": "ts",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": True}],
            "field-id": 3,
        },
        {"name": "price", "type": ["null", decimal(30, 13)], "field-id": 4},
        {"name": "other_price", "type": ["null", "decimal_30_2"], "field-id": 5},
        {
            "name": "u",
            "type": ["null", {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}],
            "field-id": 6,
        },
        {
            "name": "s",
            "type": [
                "null",
                {
                    "type": "record",
                    "name": "r7",
                    "fields": [
                        {"name": "d", "type": ["null", decimal(9, 4)], "field-id": 8},
                        {"name": "x", "type": ["null", "string"], "field-id": 9},
                    ],
                },
            ],
            "field-id": 7,
        },
        {
            "name": "l",
            "type": ["null", {"type": "array", "items": ["null", "decimal_9_2"], "element-id": 11}],
            "field-id": 10,
        },
        {
            "name": "m",
            "type": [
                "null",
                {
                    "type": "map",
                    "values": ["null", {"type": "long", "logicalType": "time-micros"}],
                    "key-id": 13,
                    "value-id": 14,
                },
            ],
            "field-id": 12,
        },
        {
            "name": "pairs",
            "type": [
                "null",
                {
                    "type": "array",
                    "logicalType": "map",
                    "items": {
                        "type": "record",
                        "name": "k16_v17",
                        "fields": [
                            {"name": "key", "type": "long", "field-id": 16},
                            {"name": "value", "type": ["null", "string"], "field-id": 17},
                        ],
                    },
                },
            ],
            "field-id": 15,
        },
        {
            "name": "local",
            "type": ["null", {"type": "long", "logicalType": "timestamp-micros", "adjust-to-utc": False}],
            "field-id": 18,
        },
        {"name": "raw", "type": ["null", "bytes"], "field-id": 19},
    ],
}


def unscaled(value: Decimal, size: int) -> bytes:
    return int(value * 100).to_bytes(size, "big", signed=True)


def test_avro_values_become_those_of_iceberg() -> None:
    """Logical types, named types, decimals of any size, maps of any key; instants beyond Python's years too."""
    long = int("123456789012345678901234567891").to_bytes(13, "big")
    full = {
        "id": 1,
        "day": -1,
        "ts": 2**60,
        "price": long,
        "other_price": unscaled(Decimal("-0.05"), 13),
        "u": bytes(range(16)),
        "s": {"d": unscaled(Decimal("-1.25"), 4), "x": "x"},
        "l": [unscaled(Decimal("2.50"), 4), None],
        "m": {"a": 5, "b": None},
        "pairs": [{"key": 7, "value": "seven"}, {"key": 8, "value": None}],
        "local": -1,
        "raw": b"\0\xff",
    }
    empty = dict.fromkeys(full) | {"id": 2}
    batch = read(avro.write_container(AVRO, [full, empty]), "avro")
    first, second = batch.select(["id", "price", "other_price", "u", "s", "l", "pairs", "raw"]).to_pylist()
    assert first == {
        "id": 1,
        "price": BIG,
        "other_price": Decimal("-0.05"),
        "u": bytes(range(16)),
        "s": {"d": Decimal("-1.25"), "x": "x"},
        "l": [Decimal("2.50"), None],
        "pairs": [(7, "seven"), (8, None)],
        "raw": b"\0\xff",
    }
    assert {v for k, v in second.items() if k != "id"} == {None}
    assert batch.column("day").view(pa.int32()).to_pylist() == [-1, None]
    assert batch.column("ts").view(pa.int64()).to_pylist() == [2**60, None]
    assert batch.column("local").view(pa.int64()).to_pylist() == [-1, None]
    assert batch.column("m").items.view(pa.int64()).to_pylist() == [5, None]


def read(data: bytes, kind: str, fields: tuple[Field, ...] = FIELDS) -> pa.RecordBatch:
    file = open_data_file(kind, data, "f")
    plan = projection(file.schema, fields, where="f")
    (batch,) = [plan.apply(raw, 0, None) for raw in file.read(plan.columns, WHOLE)]
    assert batch.schema.equals(arrow_schema(fields), check_metadata=True)
    batch.validate(full=True)
    return batch


def test_rows_count_without_columns() -> None:
    """A file that has none of the wanted columns still has its rows, in every format."""
    schema = {"type": "record", "name": "t", "fields": AVRO["fields"][:1]}
    table = pa.table({"id": [1, 2, 3]}, schema=arrow_schema(FIELDS[:1]))
    parquet, as_orc = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    orc.write_table(table, as_orc)
    files = {
        "AVRO": avro.write_container(schema, [{"id": 1}] * 3),
        "PARQUET": parquet.getvalue(),
        "ORC": as_orc.getvalue(),
    }
    for kind, data in files.items():
        (batch,) = open_data_file(kind, data, "f").read([], WHOLE)
        assert (kind, batch.num_rows, batch.num_columns) == (kind, 3, 0)


def test_orc_columns_have_ids() -> None:
    """ORC keeps field ids as attributes, also below the top; a time is a long there, a uuid is binary."""

    def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
        return pa.field(name, kind, metadata={"iceberg.id": str(number)})

    kind = pa.struct([field("d", pa.decimal128(9, 2), 8), field("x", pa.string(), 9)])
    schema = pa.schema(
        [
            field("ident", pa.int64(), 1),
            field("ts", pa.timestamp("ns", tz="UTC"), 3),
            field("u", pa.binary(), 6),
            field("s", kind, 7),
            field("l", pa.list_(field("element", pa.decimal128(9, 2), 11)), 10),
            field("m", pa.map_(field("key", pa.string(), 13).with_nullable(False), field("value", pa.int64(), 14)), 12),
        ]
    )
    rows = [
        {
            "ident": n,
            "ts": n * 1_000_000_000 + 999,
            "u": bytes([n] * 16),
            "s": {"d": Decimal(n), "x": "x"},
            "l": [Decimal(n)],
            "m": [("a", n)],
        }
        for n in range(3)
    ]
    out = io.BytesIO()
    orc.write_table(pa.Table.from_pylist(rows, schema=schema), out)
    wanted = tuple(f for f in FIELDS if f.field_id in (1, 3, 6, 7, 10, 12))
    file = open_data_file("orc", out.getvalue(), "f")
    if all(f.metadata is None or b"iceberg.id" not in f.metadata for f in file.schema):
        pytest.skip("this pyarrow does not write ORC attributes")
    batch = read(out.getvalue(), "orc", wanted)
    assert batch.column("ts").view(pa.int64()).to_pylist() == [0, 1_000_000, 2_000_000]
    assert batch.select(["id", "u", "s", "l"]).to_pylist()[2] == {
        "id": 2,
        "u": bytes([2] * 16),
        "s": {"d": Decimal(2), "x": "x"},
        "l": [Decimal(2)],
    }


def test_other_formats_and_damage_are_named() -> None:
    """A format that is not read is refused, bytes that are not what they should be are damage."""
    with pytest.raises(UnsupportedFeatureError, match="f is a LANCE file"):
        open_data_file("LANCE", b"", "f")
    for kind in ("PARQUET", "ORC", "AVRO"):
        with pytest.raises(CorruptMetadataError, match="file-name"):
            open_data_file(kind, b"nothing of the kind", "file-name")


class Failing:
    """A store that gives so many ranges, and then none."""

    def __init__(self, data: bytes, ranges: int) -> None:
        self.data, self.left = data, ranges

    def read_range(self, _: str, start: int, length: int) -> bytes:
        self.left -= 1
        if self.left < 0:
            raise StorageError("the service is busy")
        return self.data[start : start + length]


@pytest.mark.parametrize("ranges", range(3))
def test_a_store_that_fails_is_no_damage(ranges: int) -> None:
    """Whatever part of a file of whatever format the store does not give: it may be asked again."""
    schema = {"type": "record", "name": "t", "fields": AVRO["fields"][:1]}
    table = pa.table({"id": range(30_000)}, schema=arrow_schema(FIELDS[:1]))
    parquet, as_orc = io.BytesIO(), io.BytesIO()
    pq.write_table(table, parquet)
    orc.write_table(table, as_orc)
    rows = avro.write_container(schema, [{"id": 1}] * 3)
    for kind, data in (("AVRO", rows), ("PARQUET", parquet.getvalue()), ("ORC", as_orc.getvalue())):
        source = cast("BinaryIO", RangeReader(Failing(data, ranges), "f", len(data)))
        if kind == "AVRO" and ranges:  # it is read at once
            continue
        with pytest.raises(StorageError, match="the service is busy"):
            list(open_data_file(kind, source, "f").read(["id"], WHOLE))


def test_damage_inside_a_file_is_found_while_reading() -> None:
    """A page that does not decompress is damage of that file, not an accident of Arrow's."""
    out = io.BytesIO()
    pq.write_table(pa.table({"a": ["x" * n for n in range(100)]}), out, compression="zstd")
    data = bytearray(out.getvalue())
    data[40:60] = bytes(20)
    file = open_data_file("PARQUET", bytes(data), "file-name")
    with pytest.raises(CorruptMetadataError, match="file-name cannot be read"):
        list(file.read(["a"], WHOLE))


def test_columns_of_unknown_type_in_avro() -> None:
    """Iceberg writes them as Avro's null, at any depth; no bytes, and nothing but nulls."""
    inner = {
        "type": "record",
        "name": "r3",
        "fields": [
            {"name": "u", "type": "null", "default": None, "field-id": 4},
            {"name": "x", "type": ["null", "int"], "default": None, "field-id": 5},
        ],
    }
    schema = {
        "type": "record",
        "name": "table",
        "fields": [
            {"name": "k", "type": "int", "field-id": 1},
            {"name": "u", "type": "null", "default": None, "field-id": 2},
            {"name": "s", "type": ["null", inner], "default": None, "field-id": 3},
        ],
    }
    rows = [{"k": 1, "u": None, "s": {"u": None, "x": 2}}, {"k": 3, "u": None, "s": None}]
    opened = open_data_file("AVRO", avro.write_container(schema, rows), "f.avro")
    fields = (
        Field(1, "k", t.INT),
        Field(2, "u", t.UNKNOWN),
        Field(3, "s", t.StructType((Field(4, "u", t.UNKNOWN), Field(5, "x", t.INT)))),
    )
    plan = projection(opened.schema, fields, where="f.avro")
    (batch,) = opened.read(plan.columns, WHOLE)
    assert plan.apply(batch, 0, None).to_pylist() == [{"k": 1, "s": {"x": 2}}, {"k": 3, "s": None}]

"""Sort orders as text, and z-values."""

from __future__ import annotations

import struct
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import OptionError
from lakemeta.iceberg.rewrite.row_order import ZOrder, parse_row_order
from lakemeta.iceberg.rewrite.sort_columns import sort_columns, z_values
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortField, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import NestedField, StructType

SCHEMA = Schema(
    (
        NestedField(1, "id", t.LONG),
        NestedField(2, "x", t.STRING),
        NestedField(3, "ts", t.TIMESTAMP),
        NestedField(4, "s", StructType((NestedField(5, "a.b", t.DOUBLE),))),
    )
)


@pytest.mark.parametrize(
    ("text", "fields"),
    [
        ("id", [SortField(1, Transform("identity"), "asc", "nulls-first")]),
        ("id DESC", [SortField(1, Transform("identity"), "desc", "nulls-last")]),
        (
            "ID desc nulls first, `s`.`a.b`".replace("`s`.`a.b`", "s.a.b ASC NULLS LAST"),
            [
                SortField(1, Transform("identity"), "desc", "nulls-first"),
                SortField(5, Transform("identity"), "asc", "nulls-last"),
            ],
        ),
        (
            "bucket(4, x), truncate(x, 3) DESC",
            [
                SortField(2, Transform("bucket", 4), "asc", "nulls-first"),
                SortField(2, Transform("truncate", 3), "desc", "nulls-last"),
            ],
        ),
        (
            "days(ts), hour(ts) nulls last",
            [
                SortField(3, Transform("day"), "asc", "nulls-first"),
                SortField(3, Transform("hour"), "asc", "nulls-last"),
            ],
        ),
    ],
)
def test_sort_orders_are_read_as_spark_reads_them(text: str, fields: list[SortField]) -> None:
    """Nulls come first in ascending order and last in descending order unless the text says otherwise."""
    assert parse_row_order(text, SCHEMA) == SortOrder(0, tuple(fields))


def test_zorder_is_read() -> None:
    """Several columns, in any case."""
    assert parse_row_order(" ZORDER( id , `x` ) ", SCHEMA) == ZOrder((1, 2))


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("", "empty"),
        ("nosuch", "unknown option column nosuch"),
        ("id sideways", "cannot be read from"),
        ("id,, x", "cannot be read from"),
        ("zorder(id), x", "is not a transform"),
        ("zorder(s)", "cannot be z-ordered"),
        ("zorder(nosuch)", "unknown option"),
        ("bucket(x)", "is not a transform"),
        ("bucket(0, x)", "is not a transform"),
        ("day(id)", "cannot be applied"),
        ("s", "cannot be applied"),
    ],
)
def test_what_is_wrong_is_named(text: str, message: str) -> None:
    """A sort order that cannot be read is an option error."""
    with pytest.raises(OptionError, match=message):
        parse_row_order(text, SCHEMA)


def test_sort_columns_stand_behind_the_rows() -> None:
    """Partition values first, then the order's own keys, under names no column has."""
    batch = pa.RecordBatch.from_pylist([{"id": 17, "x": None, "ts": None, "s": {"a.b": 1.5}}])
    batch = batch.set_column(1, "x", pa.array([None], pa.string()))
    spec = PartitionSpec(0, (PartitionField(1, 1000, "id_bucket", Transform("truncate", 10)),))
    out, keys = sort_columns(batch, SCHEMA, parse_row_order("s.a.b DESC", SCHEMA), spec)
    assert out.schema.names[:4] == batch.schema.names
    assert [out.column(key.column).to_pylist() for key in keys] == [[10], [1.5]]
    assert [(key.direction, key.nulls_first) for key in keys] == [("ascending", True), ("descending", False)]


LONGS = st.none() | st.integers(-(2**63), 2**63 - 1) | st.integers(-9, 9)
COLUMNS: dict[str, tuple[pa.DataType, st.SearchStrategy[Any]]] = {
    "long": (pa.int64(), LONGS),
    "int": (pa.int32(), st.none() | st.integers(-(2**31), 2**31 - 1)),
    "double": (pa.float64(), st.none() | st.floats()),
    "text": (pa.string(), st.none() | st.text(max_size=10)),
    "flag": (pa.bool_(), st.none() | st.booleans()),
}


def ordered_bytes(kind: str, value: Any, size: int) -> bytes:
    """Bytes that sort as the values do (engine: ZOrderByteUtils)."""
    if kind == "text":
        return (value or "").encode().ljust(size, b"\0")[:size]
    if value is None:
        return bytes(8)
    if kind == "flag":
        return (b"\x81" if value else b"\0") + bytes(7)
    if kind == "double":
        (bits,) = struct.unpack(">q", struct.pack(">d", value if value == value else float("nan")))
        return struct.pack(">Q", (bits ^ (bits >> 63 | -(1 << 63))) & (1 << 64) - 1)
    return struct.pack(">Q", (value ^ -(1 << 63)) & (1 << 64) - 1)


def interleaved(columns: list[bytes]) -> str:
    """Bit by bit, a column that has no more is skipped."""
    texts = ["".join(f"{byte:08b}" for byte in column) for column in columns]
    return "".join(text[i] for i in range(max(map(len, texts))) for text in texts if i < len(text))


@given(st.data(), st.lists(st.sampled_from(sorted(COLUMNS)), min_size=1, max_size=4), st.sampled_from([4, 8, 11]))
def test_z_values_interleave_ordered_bits(data: st.DataObject, kinds: list[str], size: int) -> None:
    """The words sort as the interleaved bytes of the columns do."""
    rows = data.draw(st.lists(st.tuples(*(COLUMNS[kind][1] for kind in kinds)), max_size=4))
    arrays = [pa.array([row[i] for row in rows], COLUMNS[kind][0]) for i, kind in enumerate(kinds)]
    words = z_values(arrays, size)
    found = ["".join(f"{word:064b}" for word in row) for row in zip(*(w.to_pylist() for w in words), strict=True)]
    for row, bits in zip(rows, found, strict=True):
        expected = interleaved([ordered_bytes(kind, value, size) for kind, value in zip(kinds, row, strict=True)])
        assert bits.rstrip("0") == expected.rstrip("0")

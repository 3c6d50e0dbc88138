"""The columns of random Iceberg tables: their types, values worth trying, and how Spark SQL spells them.

A value is in lakemeta's form (``lakemeta.iceberg.spec.types.Value``): days, microseconds, unscaled-exact decimals,
bytes.
"""

from __future__ import annotations

import math
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import (
    BOOLEAN,
    DATE,
    DOUBLE,
    FLOAT,
    INT,
    LONG,
    STRING,
    TIMESTAMP,
    TIMESTAMPTZ,
    DecimalType,
    PrimitiveType,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.spec.types import Type

BINARY = PrimitiveType("binary")
DAY, SECOND = 86_400 * 10**6, 10**6
LONG_TEXT = "x" * 300
STRINGS = ("", "a", "ab", "abc", "b", "ü", "\uffff", "\U0001f600", "a=b", "a/b", "50%", "a b", "null", "NULL", "it's")
TIMES = (-1, 0, 1, -DAY - 1, -DAY, 31 * DAY, 366 * DAY + 5 * SECOND, -3600 * SECOND, 1_700_000_000 * SECOND, -400 * DAY)


@attrs.frozen
class Column:
    """One column. ``sql_type`` is None for a field of a struct; ``name`` has dots then."""

    field_id: int
    name: str
    type: Type
    sql_type: str | None
    values: Sequence[Any]

    @property
    def is_float(self) -> bool:
        return str(self.type) in ("float", "double")


COLUMNS = (
    Column(1, "id", LONG, "BIGINT", (-(2**63), -7, -1, 0, 1, 5, 7, 100, 2**31, 2**63 - 1)),
    Column(2, "i", INT, "INT", (-(2**31), -11, -10, -1, 0, 1, 9, 10, 2**31 - 1)),
    Column(3, "b", BOOLEAN, "BOOLEAN", (False, True)),
    Column(4, "f", FLOAT, "FLOAT", (-math.inf, -1.5, -0.0, 0.0, 0.25, 3.0, 1e30, math.inf)),
    Column(5, "d", DOUBLE, "DOUBLE", (-math.inf, -1e10, -0.0, 0.0, 0.1, 2.0, 5e-324, math.inf)),
    Column(
        6, "n", DecimalType(9, 2), "DECIMAL(9, 2)", tuple(map(Decimal, ("-99.99", "-0.01", "0.00", "1.50", "14.20")))
    ),
    Column(
        7,
        "big",
        DecimalType(30, 6),
        "DECIMAL(30, 6)",
        tuple(map(Decimal, ("-5.000001", "0.000000", "1" * 24 + ".000001"))),
    ),
    Column(8, "day", DATE, "DATE", (-719162, -366, -31, -1, 0, 1, 30, 59, 18262, 19675)),
    Column(9, "at", TIMESTAMPTZ, "TIMESTAMP", TIMES),
    Column(10, "lt", TIMESTAMP, "TIMESTAMP_NTZ", TIMES),
    Column(11, "s", STRING, "STRING", (*STRINGS, LONG_TEXT)),
    Column(12, "bin", BINARY, "BINARY", (b"", b"\0", b"ab", b"abc", b"\x7f", b"\x80", b"\xff\xff")),
    Column(13, "st", STRING, "STRUCT<x: BIGINT, y: STRING>", ()),
    Column(14, "l", STRING, "ARRAY<INT>", ()),
    Column(15, "m", STRING, "MAP<STRING, INT>", ()),
    Column(16, "st.x", LONG, None, (-3, 0, 4, 2**40)),
    Column(17, "st.y", STRING, None, STRINGS),
)
PRIMITIVES = tuple(column for column in COLUMNS if column.values)
BY_NAME = {column.name: column for column in PRIMITIVES}


def definitions() -> str:
    """The columns as CREATE TABLE takes them."""
    return ", ".join(f"{c.name} {c.sql_type}" for c in COLUMNS if c.sql_type)


def literal(column: Column, value: Any) -> str:
    """A value as a Spark SQL literal."""
    if value is None:
        return "NULL"
    kind = str(column.type)
    if kind in ("float", "double"):
        return _float_literal(kind, value)
    if kind == "boolean":
        return str(value).lower()
    if kind == "string":
        return "'" + value.replace("\\", "\\\\").replace("'", "\\'") + "'"
    if kind == "binary":
        return f"X'{value.hex()}'"
    if kind == "date":
        return f"DATE '{values.day_to_text(value)}'"
    if kind.startswith("timestamp"):
        word = "TIMESTAMP" if kind == "timestamptz" else "TIMESTAMP_NTZ"
        return f"{word} '{values.timestamp_to_text(value, 6, offset=False).replace('T', ' ')}'"
    if isinstance(column.type, DecimalType):
        return f"{value:f}BD"
    return f"{value}L" if kind == "long" else str(value)


def _float_literal(kind: str, value: float) -> str:
    suffix = "F" if kind == "float" else "D"
    if math.isfinite(value):
        return f"{value!r}{suffix}"
    text = "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")
    return f"{kind}('{text}')"

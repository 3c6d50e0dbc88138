"""Random filters in Spark SQL over the columns of random tables."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from generate.iceberg_columns import BY_NAME, PRIMITIVES, Column, literal

if TYPE_CHECKING:
    import random

COMPARISONS = ("=", "<>", "<", "<=", ">", ">=", "==", "!=", "<=>")
# What people write although it fits no column exactly, and less common forms: Spark casts, folds and infers.
SPELLINGS = (
    "i > 1.5",
    "i = 1.5",
    "i < 3000000000",
    "i >= -2147483649",
    "i = '5'",
    "id > '7'",
    "id = 5.0",
    "id < 9223372036854775808",
    "d = 1",
    "d > 2",
    "d = 0.1",
    "d < 1e3",
    "f > 1",
    "f = 0.1",
    "f = 0.25",
    "n = 1.5",
    "n > 1",
    "n < 1.555",
    "n = 14.20",
    "big = 0",
    "big > -5.0000011",
    "day = '1970-01-01'",
    "day > '1969-12-31'",
    "day < '2020'",
    "at >= '1970-01-01'",
    "at < '1969-12-31 23:59:59.999999'",
    "at > DATE '1970-01-02'",
    "at = TIMESTAMP '1970-01-01T00:00:00Z'",
    "at = TIMESTAMP '1970-01-01 01:00:00+01:00'",
    "at < TIMESTAMP '1971'",
    "lt > '1970-01-01 00:00:00'",
    "lt = TIMESTAMP_NTZ '1970-01-01'",
    "s > 'a' AND s < 'b'",
    's = "a"',
    "s IN ('a')",
    "s LIKE 'a%'",
    "s LIKE 'ab'",
    "s LIKE ''",
    "s NOT LIKE 'a%'",
    "NOT s LIKE 'ab%'",
    "s <=> NULL",
    "d = double('NaN')",
    "d <> float('NaN')",
    "NOT (d > 0D)",
    "b",
    "NOT b",
    "b = true AND i = 1",
    "b IS TRUE",
    "b IS NOT TRUE",
    "true",
    "false",
    "i > -3",
    "i BETWEEN -1 AND 9",
    "i NOT BETWEEN -1 AND 9",
    "i BETWEEN 9 AND 1",
    "i IN (1, 2, 2, 1)",
    "i IN (1)",
    "i NOT IN (1)",
    "i IN (1, 3000000000)",
    "id IN (1, 2.0)",
    "I = 1",
    "`i` = 1",
    "st.X = 4",
    "`st`.`y` = 'a'",
    "st.x IS NULL",
    "st IS NULL",
    "st IS NOT NULL",
    "l IS NULL",
    "5 < i",
    "'a' = s",
    "i <=> 1",
    "NOT i <=> 1",
    "NOT (i = 1 AND s = 'a')",
    "NOT (i = 1 OR s IS NULL)",
    "NOT (NOT (i = 1))",
    "i IS NOT NULL OR s IS NULL",
    "day >= DATE('1970-01-01')",
    "bin = X'6162'",
    "bin > X''",
    "bin = 'ab'",
    "b = 'true'",
    "i\n=\n1",
    "i = +1",
    "i = 1.",
    "i = .5",
    "i = 1L",
    "i = 1S",
    "n = 1.50BD",
    "day = DATE '1970-1-1'",
    "day = DATE '1970-01'",
    "day = DATE '-0001-01-01'",
    "day = DATE '+12345-01-01'",
    "at > TIMESTAMP '1970-01-01 00'",
    "at > TIMESTAMP_LTZ '1970-01-01 00:00:00'",
    "s = 'it\\'s'",
    "s = 'a\\u0041'",
    "s = 'a\\tb'",
    "s > ''",
)


def random_filter(chance: random.Random, depth: int = 2) -> str:
    """A filter of up to ``2 ** depth`` tests."""
    kind = chance.random()
    if depth == 0 or kind < 0.4:
        return _test(chance)
    if kind < 0.5:
        return f"NOT ({random_filter(chance, depth - 1)})"
    word = chance.choice(("AND", "OR"))
    return f"({random_filter(chance, depth - 1)}) {word} ({random_filter(chance, depth - 1)})"


def _test(chance: random.Random) -> str:
    column = chance.choice(PRIMITIVES)
    kind = chance.random()
    if kind < 0.12:
        return f"{column.name} IS {chance.choice(('', 'NOT '))}NULL"
    if column.is_float and kind < 0.3:
        return f"{chance.choice(('', 'NOT '))}{column.name} = {literal(column, math.nan)}"
    if kind < 0.3:
        some = ", ".join(_literals(chance, column, chance.randint(1, 4)))
        return f"{column.name} {chance.choice(('', 'NOT '))}IN ({some})"
    if column.type == BY_NAME["s"].type and kind < 0.5:
        start = chance.choice(column.values).replace("%", "").replace("_", "")[:3] or "a"
        prefix = literal(column, start + "%")
        return f"{column.name} {chance.choice(('', 'NOT '))}LIKE {prefix}"
    if kind < 0.55:
        low, high = _literals(chance, column, 2)
        return f"{column.name} {chance.choice(('', 'NOT '))}BETWEEN {low} AND {high}"
    (value,) = _literals(chance, column, 1)
    sides = [column.name, value]
    if chance.random() < 0.15:
        sides.reverse()
    return f" {chance.choice(COMPARISONS)} ".join(sides)


def _literals(chance: random.Random, column: Column, count: int) -> list[str]:
    return [literal(column, _near(chance, column)) for _ in range(count)]


def _near(chance: random.Random, column: Column) -> object:
    """A value of the column, or one beside it."""
    value = chance.choice(column.values)
    if isinstance(value, int) and not isinstance(value, bool) and abs(value) < 10**6 and chance.random() < 0.3:
        return value + chance.choice((-1, 1))
    if isinstance(value, str) and len(value) < 4 and chance.random() < 0.2:
        return value + chance.choice("ab\u00fc")
    return value

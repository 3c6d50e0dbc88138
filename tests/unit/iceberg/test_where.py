"""The text of --where."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from iceberg_values import SCHEMA

from lakemeta.errors import OptionError
from lakemeta.iceberg import types as t
from lakemeta.iceberg.expressions import (
    FALSE,
    TRUE,
    Always,
    And,
    Expression,
    Or,
    Predicate,
    and_,
    field_ids,
    negate,
    or_,
)
from lakemeta.iceberg.schema import Schema
from lakemeta.iceberg.where import parse_where

WIDE = Schema(
    (
        *SCHEMA.fields,
        t.NestedField(11, "dec", t.DecimalType(9, 2)),
        t.NestedField(12, "flag", t.BOOLEAN),
        t.NestedField(13, "u", t.UUID),
        t.NestedField(14, "bin", t.BINARY),
        t.NestedField(15, "f", t.FLOAT),
        t.NestedField(16, "i", t.INT),
        t.NestedField(17, "tm", t.TIME),
        t.NestedField(18, "l", t.ListType(19, t.LONG)),
        t.NestedField(20, "odd name", t.LONG),
        t.NestedField(21, "fx", t.FixedType(2)),
    )
)


def parse(text: str) -> Expression:
    return parse_where(text, WIDE)


def show(node: Expression) -> Any:
    """A filter as nested tuples of names, operations and values."""
    if isinstance(node, Always):
        return node.result
    if isinstance(node, Predicate):
        name = WIDE.names[node.field_id]
        return (name, node.op) if node.value is None else (name, node.op, node.value)
    return ("and" if isinstance(node, And) else "or", show(node.left), show(node.right))


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("id = 5", ("id", "eq", 5)),
        ("ID == 5", ("id", "eq", 5)),
        ("id <= -5", ("id", "lt-eq", -5)),
        ("5 < id", ("id", "gt", 5)),
        ("id in (3, 1)", ("id", "in", (3, 1))),
        ("not id < 5", ("id", "gt-eq", 5)),
        ("id between 1 and 9", ("and", ("id", "gt-eq", 1), ("id", "lt-eq", 9))),
        ("id not between 1 and 9", ("or", ("id", "lt", 1), ("id", "gt", 9))),
        ("id < 1e3", ("id", "lt", 1000)),
        ("name = 'it''s'", ("name", "eq", "it's")),
        ('name = "it\'s ""so"""', ("name", "eq", 'it\'s "so"')),
        ("name <> 'a'", ("and", ("name", "not-null"), ("name", "not-eq", "a"))),
        ("name not in ('a')", ("and", ("name", "not-null"), ("name", "not-in", ("a",)))),
        ("name is null", ("name", "is-null")),
        ("name IS NOT NULL", ("name", "not-null")),
        ("id is null", False),
        ("id is not null", True),
        ("name like 'a%'", ("name", "starts-with", "a")),
        ("name like 'a'", ("name", "eq", "a")),
        (r"name like 'a\_b%'", ("name", "starts-with", "a_b")),
        ("name not like 'a%'", ("and", ("name", "not-null"), ("name", "not-starts-with", "a"))),
        ("v is nan", ("v", "is-nan")),
        ("v is not nan", ("v", "not-nan")),
        ("v > 1e9", ("v", "gt", 1e9)),
        ("v >= 2", ("v", "gt-eq", 2.0)),
        ("f = 0.1", ("f", "eq", 0.10000000149011612)),
        ("d = date'2024-01-03'", ("d", "eq", 19725)),
        ("d = '2024-01-03'", ("d", "eq", 19725)),
        ("ts >= timestamp '2024-01-02 00:00:00'", ("ts", "gt-eq", 1704153600000000)),
        ("ts < '2024-01-02T01:00:00+01:00'", ("ts", "lt", 1704153600000000)),
        ("ts < '2024-01-02'", ("ts", "lt", 1704153600000000)),
        ("tm = '00:00:01'", ("tm", "eq", 1_000_000)),
        ("dec < 10", ("dec", "lt", Decimal("10.00"))),
        ("dec = 1.5", ("dec", "eq", Decimal("1.50"))),
        ("flag = true", ("flag", "eq", True)),
        ("bin = X'00ff'", ("bin", "eq", b"\x00\xff")),
        ("fx = x'00ff'", ("fx", "eq", b"\x00\xff")),
        ("u = '00000000-0000-0000-0000-000000000001'", ("u", "eq", bytes(15) + b"\x01")),
        ("s.x < 10", ("s.x", "lt", 10)),
        ("s.`y.z` = 'a'", ("s.y.z", "eq", "a")),
        ("`odd name` = 1", ("odd name", "eq", 1)),
        ("true", True),
        ("id = 1 and true", ("id", "eq", 1)),
        ("id = 1 or false", ("id", "eq", 1)),
        ("id = 1 or id = 2 and id = 3", ("or", ("id", "eq", 1), ("and", ("id", "eq", 2), ("id", "eq", 3)))),
        ("(id = 1 or id = 2) and id = 3", ("and", ("or", ("id", "eq", 1), ("id", "eq", 2)), ("id", "eq", 3))),
        (
            "not (id = 1 and name = 'a')",
            (
                "or",
                ("and", ("id", "not-null"), ("id", "not-eq", 1)),
                ("and", ("name", "not-null"), ("name", "not-eq", "a")),
            ),
        ),
        ("i = 5000000000", False),
        ("i < 5000000000", True),
        ("i > 5000000000", False),
        ("i <> 5000000000", True),
        ("i > -5000000000", True),
        ("i in (5000000000)", False),
        ("i in (5000000000, 7)", ("i", "in", (7,))),
    ],
)
def test_filters(text: str, shown: Any) -> None:
    """What each form means, typed by the column; negative comparisons leave null out, as in SQL."""
    assert show(parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idd = 5", "no column idd; it has id, name"),
        ("id = 'x'", "'x' is not a value of column id of type long"),
        ("id = 1.5", "1.5 is not a value of column id"),
        ("dec = 1.234", "1.234 is not a value of column dec"),
        ("d = '2024-13-01'", "is not a value of column d"),
        ("ts = 'noon'", "is not a value of column ts"),
        ("u = '12'", "is not a value of column u"),
        ("flag = 1", "is not a value of column flag"),
        ("s = 1", "which a filter cannot compare"),
        ("l.element = 1", "list or map"),
        ("id is nan", "which has no NaN"),
        ("id like 'a%'", "LIKE needs a string column"),
        ("name like '%a'", "only a prefix"),
        ("name = null", "write IS NULL"),
        ("id", "ends too early"),
        ("id =", "ends too early"),
        ("id = 5 5", "5 is not expected"),
        ("id = 5 and", "ends too early"),
        ("(id = 5", "ends too early"),
        ("id in ()", r"\) is not expected"),
        ("id in 5", "5 is not expected"),
        ("id in (5 6)", "6 is not expected"),
        ("id is 5", "5 is not expected"),
        ("id not 5", "5 is not expected"),
        ("id between 1 or 2", "or is not expected"),
        ("and id = 5", "and is not expected"),
        ("id = ?", r"\? is not expected"),
        ("id = 5x", "5x is not expected"),
        ("id, 5", ", is not expected"),
    ],
)
def test_mistakes_are_named(text: str, message: str) -> None:
    """The message names the word, value or column that is wrong."""
    with pytest.raises(OptionError, match=message):
        parse(text)


def test_simplification() -> None:
    """Constants vanish from AND and OR."""
    test = Predicate(1, t.LONG, "eq", 1)
    assert (and_(TRUE, test), and_(test, FALSE), and_(FALSE, test), and_(test, TRUE)) == (test, FALSE, FALSE, test)
    assert (or_(FALSE, test), or_(test, TRUE), or_(TRUE, test), or_(test, FALSE)) == (test, TRUE, TRUE, test)
    assert negate(negate(Or(test, And(test, TRUE)))) in (test, Or(test, test))
    assert field_ids(Or(test, Predicate(2, t.LONG, "eq", 1))) == {1, 2}
    assert field_ids(TRUE) == frozenset()

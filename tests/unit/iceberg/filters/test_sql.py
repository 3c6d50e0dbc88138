"""The text of --where."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support.iceberg_values import SCHEMA

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import (
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
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.schema import Schema

NULL_SAFE = ("and", ("name", "eq", "a"), ("name", "not-null"))
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
        t.NestedField(22, "local", t.TIMESTAMP),
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
        ("name not in ('a')", ("and", ("name", "not-null"), ("name", "not-eq", "a"))),
        ("name not in ('a', 'b', 'a')", ("and", ("name", "not-null"), ("name", "not-in", ("a", "b")))),
        ("name in ('a', 'a')", ("name", "eq", "a")),
        (r"name = 'it\'s\t\u00fc\\'", ("name", "eq", "it's\t\u00fc\\")),
        ("name <=> 'a'", NULL_SAFE),
        ("'a' <=> name", NULL_SAFE),
        ("name <=> null", ("name", "is-null")),
        ("not name <=> 'a'", ("or", ("name", "not-eq", "a"), ("name", "is-null"))),
        ("id <=> 5", ("id", "eq", 5)),
        ("s is null", ("s", "is-null")),
        ("l is not null", ("l", "not-null")),
        ("name is null", ("name", "is-null")),
        ("name IS NOT NULL", ("name", "not-null")),
        ("id is null", False),
        ("id is not null", True),
        ("name like 'a%'", ("and", ("name", "not-null"), ("name", "starts-with", "a"))),
        ("name like 'a'", ("name", "eq", "a")),
        (r"name like 'a\_b%'", ("and", ("name", "not-null"), ("name", "starts-with", "a_b"))),
        ("name not like 'a%'", ("and", ("name", "not-null"), ("name", "not-starts-with", "a"))),
        ("v = double('NaN')", ("and", ("v", "not-null"), ("v", "is-nan"))),
        ("v <> 'nan'", ("and", ("v", "not-null"), ("v", "not-nan"))),
        ("v is not nan", ("or", ("v", "not-nan"), ("v", "is-null"))),
        ("v in ('NaN', 1)", ("or", ("v", "is-nan"), ("v", "eq", 1.0))),
        ("v > 1e9", ("and", ("v", "not-null"), ("v", "gt", 1e9))),
        ("v = -.5e1d", ("v", "eq", -5.0)),
        ("v = 0.1f", ("v", "eq", 0.10000000149011612)),
        ("v = '-Infinity'", ("v", "eq", float("-inf"))),
        ("f = 0.1f", ("f", "eq", 0.10000000149011612)),
        ("f = '0.1'", ("f", "eq", 0.10000000149011612)),
        ("f = 0.25", ("f", "eq", 0.25)),
        ("f = 0.1", False),
        ("f <> 0.1", ("f", "not-null")),
        ("f < 0.1", ("and", ("f", "not-null"), ("f", "lt", 0.10000000149011612))),
        ("f > 0.1", ("and", ("f", "not-null"), ("f", "gt-eq", 0.10000000149011612))),
        ("f <= 0.7", ("and", ("f", "not-null"), ("f", "lt-eq", 0.699999988079071))),
        ("f = 1e60", False),
        ("d = date'2024-01-03'", ("d", "eq", 19725)),
        ("d = '2024-01-03'", ("d", "eq", 19725)),
        ("d = date('2024-1-3')", ("d", "eq", 19725)),
        ("d = '2024'", ("d", "eq", 19723)),
        ("d = '0000-12-31'", ("d", "eq", -719163)),
        ("d = '-0001-01-01'", ("d", "eq", -719893)),
        ("ts = timestamp '2024-01-02 00:00:00'", ("ts", "eq", 1704153600000000)),
        ("ts = timestamp_ltz '2024-01-02 00'", ("ts", "eq", 1704153600000000)),
        ("ts = '2024-01-02T01:00:00+01:00'", ("ts", "eq", 1704153600000000)),
        ("ts = '2024-01-02 00:00:00.000001 UTC'", ("ts", "eq", 1704153600000001)),
        ("ts = '2024-01-02'", ("ts", "eq", 1704153600000000)),
        ("ts = timestamp_ntz '2024-01-02 00:00:00+01:00'", ("ts", "eq", 1704153600000000)),
        ("local = '2024-01-02 00:00:00+01:00'", ("local", "eq", 1704153600000000)),
        ("local = '2024-01-02 00:00:00 UTC'", ("local", "eq", 1704153600000000)),
        ("local = '2024-01-02T00:00:00.5-08:00'", ("local", "eq", 1704153600500000)),
        ("local = timestamp_ntz '2024-01-02 00:00:00+01:00'", ("local", "eq", 1704153600000000)),
        ("local = timestamp '2024-01-02 01:00:00+01:00'", ("local", "eq", 1704153600000000)),
        ("tm = '00:00:01'", ("tm", "eq", 1_000_000)),
        ("dec < 10", ("and", ("dec", "not-null"), ("dec", "lt", Decimal("10.00")))),
        ("dec = 1.5BD", ("dec", "eq", Decimal("1.50"))),
        ("dec = 1.234", False),
        ("dec < 1.555", ("and", ("dec", "not-null"), ("dec", "lt-eq", Decimal("1.55")))),
        ("dec >= -1.555", ("and", ("dec", "not-null"), ("dec", "gt", Decimal("-1.56")))),
        ("flag = true", ("flag", "eq", True)),
        ("flag", ("flag", "eq", True)),
        ("(flag)", ("flag", "eq", True)),
        ("not flag", ("and", ("flag", "not-null"), ("flag", "not-eq", True))),
        ("flag <> 'false'", ("flag", "eq", True)),
        ("flag in (false)", ("and", ("flag", "not-null"), ("flag", "not-eq", True))),
        ("flag in (false, true)", ("flag", "in", (False, True))),
        ("flag <=> false", ("and", ("flag", "eq", False), ("flag", "not-null"))),
        ("flag is not false", ("or", ("flag", "not-eq", False), ("flag", "is-null"))),
        ("flag is not true", ("or", ("flag", "not-eq", True), ("flag", "is-null"))),
        ("bin = 'ab'", ("bin", "eq", b"ab")),
        ("bin = X'00ff'", ("bin", "eq", b"\x00\xff")),
        ("fx = x'00ff'", ("fx", "eq", b"\x00\xff")),
        ("u = '00000000-0000-0000-0000-000000000001'", ("u", "eq", bytes(15) + b"\x01")),
        ("s.x < 10L", ("and", ("s.x", "not-null"), ("s.x", "lt", 10))),
        ("s.`y.z` = 'a'", ("s.y.z", "eq", "a")),
        ("`odd name` = 1", ("odd name", "eq", 1)),
        ("true", True),
        ("id = 1 and true", ("id", "eq", 1)),
        ("id = 1 or false", ("id", "eq", 1)),
        ("id = 1 or id = 2 and id = 3", ("or", ("id", "eq", 1), ("and", ("id", "eq", 2), ("id", "eq", 3)))),
        ("(id = 1 or id = 2) and id = 3", ("and", ("or", ("id", "eq", 1), ("id", "eq", 2)), ("id", "eq", 3))),
        (
            "not (id = 1 and name = 'a')",
            ("or", ("id", "not-eq", 1), ("name", "not-eq", "a")),
        ),
        (
            "id = 1 or name not in ('a', 'b')",
            ("or", ("id", "eq", 1), ("and", ("name", "not-null"), ("name", "not-in", ("a", "b")))),
        ),
        ("i = 5000000000", False),
        ("i < 5000000000", ("i", "not-null")),
        ("i > 5000000000", False),
        ("i <> 5000000000", ("i", "not-null")),
        ("i > -5000000000", ("i", "not-null")),
        ("s.x < 9223372036854775808", True),
        ("i in (5000000000)", False),
        ("i in (5000000000, 7)", ("i", "eq", 7)),
        ("i = '7'", ("i", "eq", 7)),
        ("id > 1.5", ("id", "gt", 1)),
        ("id <= -1.5", ("id", "lt-eq", -2)),
        ("id = 1.5", False),
    ],
)
def test_filters(text: str, shown: Any) -> None:
    """What Spark asks of Iceberg for each form: typed by the column, and not-null where it infers that."""
    assert show(parse(text)) == shown


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("idd = 5", "no column idd; it has id, name"),
        ("id = 'x'", "'x' is not a value of column id of type long"),
        ("name = 5", "5 is not a value of column name"),
        ("v > double('NaN')", "'NaN' is not a value of column v"),
        ("d = '2024-01-01 00:00'", "is not a value of column d"),
        ("v = date('2024-01-01'", "ends too early"),
        ("d = '2024-13-01'", "is not a value of column d"),
        ("ts = 'noon'", "is not a value of column ts"),
        ("u = '12'", "is not a value of column u"),
        ("flag = 1", "is not a value of column flag"),
        ("s = 1", "which a filter cannot compare"),
        ("name", "ends too early"),
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


def test_long_chains_make_low_trees() -> None:
    """Expressions are walked recursively, so a thousand alternatives must not make a tree of a thousand levels."""

    def height(node: Expression) -> int:
        return 1 + max(height(node.left), height(node.right)) if isinstance(node, And | Or) else 1

    for word in ("and", "or"):
        found = parse(f" {word} ".join(f"id > {n}" for n in range(5000)))
        assert height(found) <= 16
        assert negate(negate(found)) == found


@pytest.mark.parametrize("text", ["(" * 101 + "id = 5" + ")" * 101, "not " * 101 + "id = 5"])
def test_nesting_has_an_end(text: str) -> None:
    """A hundred levels are enough for a person."""
    with pytest.raises(OptionError, match="nests more than 100 levels"):
        parse(text)
    assert parse(text.replace("(", "", 1).replace(")", "", 1).replace("not ", "", 1))


def test_simplification() -> None:
    """Constants vanish from AND and OR."""
    test = Predicate(1, t.LONG, "eq", 1)
    assert (and_(TRUE, test), and_(test, FALSE), and_(FALSE, test), and_(test, TRUE)) == (test, FALSE, FALSE, test)
    assert (or_(FALSE, test), or_(test, TRUE), or_(TRUE, test), or_(test, FALSE)) == (test, TRUE, TRUE, test)
    assert negate(negate(Or(test, And(test, TRUE)))) in (test, Or(test, test))
    assert field_ids(Or(test, Predicate(2, t.LONG, "eq", 1))) == {1, 2}
    assert field_ids(TRUE) == frozenset()

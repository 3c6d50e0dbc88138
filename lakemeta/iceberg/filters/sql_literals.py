"""Literals of filters and what a comparison with one means for a column, as Spark SQL types and folds them.

A number that no value of the column equals still has a place among them: ``i > 1.5`` asks for ``i > 1``, ``i = 1.5``
for nothing (Spark: UnwrapCastInBinaryComparison, DecimalPrecision).
"""

from __future__ import annotations

import math
import re
from decimal import ROUND_FLOOR, Context, Decimal, InvalidOperation
from functools import reduce
from typing import Final, NamedTuple

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import FALSE, TRUE, Expression, Op, Predicate, and_, or_
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import DecimalType, FixedType, Type, Value, is_primitive

_BITS: Final = {"int": 31, "long": 63}
_EXACT: Final = Context(prec=100, rounding=ROUND_FLOOR)
_SUFFIXED: Final = re.compile(r"(.*?)(BD|[LSYFD])?", re.IGNORECASE)
_NUMBER: Final = re.compile(r"[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?", re.ASCII)
_NOT_FINITE: Final = {"nan": math.nan, "infinity": math.inf, "inf": math.inf}
_ESCAPED: Final = re.compile(r"\\(?:u([\da-fA-F]{4})|U([\da-fA-F]{8})|([0-3][0-7]{2})|(.))", re.DOTALL)
_ESCAPES: Final = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_MOMENT: Final = re.compile(
    r"([+-]?\d{4,6})(?:-(\d{1,2})(?:-(\d{1,2}))?)?"
    r"(?:[T ](\d{1,2})(?::(\d{1,2})(?::(\d{1,2})(?:\.(\d{1,9}))?)?)? ?(Z|UTC|[+-]\d\d:?\d\d)?)?",
    re.ASCII,
)


class Column(NamedTuple):
    """A column that a filter names; ``required`` columns hold no null."""

    name: str
    field_id: int
    type: Type
    required: bool


class Literal(NamedTuple):
    """One literal: ``kind`` is number (with its suffix), text (unescaped), hex, or word (true, false).

    ``type`` is the word before it that says its type, in small letters, as in ``TIMESTAMP '2026-08-01'``.
    """

    kind: str
    text: str
    type: str = ""


def unescape(quoted: str) -> str:
    r"""The text of a quoted literal: Spark's backslash escapes; ``\%`` and ``\_`` are left to LIKE, as there."""
    quote = quoted[0]
    inner = quoted[1:-1].replace(quote * 2, quote)
    text = _ESCAPED.sub(_character, inner)
    return text.encode("utf-16-le", "surrogatepass").decode("utf-16-le", "replace")


def _character(match: re.Match[str]) -> str:
    for digits, base in ((match[1] or match[2], 16), (match[3], 8)):
        if digits:
            return chr(min(int(digits, base), 0x10FFFF))
    return _ESCAPES.get(match[4], match[4])


def compare(column: Column, op: Op, literal: Literal) -> Expression:
    """``column op literal``, without the tests for null; raises OptionError if the literal is none of the column's."""
    if not is_primitive(column.type):
        raise OptionError(f"column {column.name} is of type {column.type}, which a filter cannot compare")
    try:
        return _compare(column, op, literal)
    except (ValueError, InvalidOperation, OverflowError) as error:
        what = f"'{literal.text}'" if literal.kind == "text" else literal.text
        raise OptionError(f"{what} is not a value of column {column.name} of type {column.type}") from error


def same(column: Column, literal: Literal) -> Expression:
    """``column <=> literal``, an equality that is never unknown: its negation is true of null."""
    found = compare(column, "eq", literal)
    if isinstance(found, Predicate) and found.op == "not-eq":  # Spark simplifies ``b = false`` and leaves this alone
        found = attrs.evolve(found, op="eq", value=False)
    return and_(found, not_null(column))


def one_of(column: Column, literals: list[Literal]) -> Expression:
    """IN: each value once, and one alone as an equality, as Spark's OptimizeIn has it."""
    found = [compare(column, "eq", literal) for literal in literals]
    if any(isinstance(e, Predicate) and e.op == "is-nan" for e in found):
        return reduce(or_, found)
    # FALSE stands for what no row can hold; ``b = false`` came back as ``b <> true``.
    known = (e.value if e.op == "eq" else not e.value for e in found if isinstance(e, Predicate))
    chosen = tuple(dict.fromkeys(known))
    if len(chosen) > 1:
        return Predicate(column.field_id, column.type, "in", chosen)
    return equality(Predicate(column.field_id, column.type, "eq", chosen[0])) if chosen else FALSE


def equality(predicate: Predicate) -> Predicate:
    """A test of a boolean as Spark simplifies it: equal or not to true."""
    if str(predicate.type) != "boolean" or predicate.op not in ("eq", "not-eq"):
        return predicate
    return attrs.evolve(predicate, op="eq" if predicate.value == (predicate.op == "eq") else "not-eq", value=True)


def not_null(column: Column) -> Expression:
    """The test that a column is not null; always true of a required one."""
    return TRUE if column.required else Predicate(column.field_id, column.type, "not-null")


def _compare(column: Column, op: Op, literal: Literal) -> Expression:
    kind = column.type
    name = "fixed" if isinstance(kind, FixedType) else str(kind)
    if name in ("int", "long") or isinstance(kind, DecimalType):
        return _exact(column, op, _decimal(literal))
    if name in ("float", "double"):
        return _floating(column, op, literal)
    return equality(Predicate(column.field_id, kind, op, _other(kind, name, literal)))


def _decimal(literal: Literal) -> Decimal:
    text = _digits(literal)
    if not _NUMBER.fullmatch(text) or (
        literal.kind == "text" and not re.fullmatch(r"[+-]?\d+(\.\d*)?", text, re.ASCII)
    ):
        raise ValueError(literal.text)
    return Decimal(text)


def _digits(literal: Literal) -> str:
    """A number without its suffix."""
    if literal.kind == "number":
        match = _SUFFIXED.fullmatch(literal.text)
        return match[1] if match else literal.text
    if literal.kind == "text":
        return literal.text.strip()
    raise ValueError(literal.text)


def _exact(column: Column, op: Op, number: Decimal) -> Expression:
    """A comparison of whole numbers or decimals; with one between two of the column's values it is with the lower."""
    scale = column.type.scale if isinstance(column.type, DecimalType) else 0
    floor = _EXACT.quantize(number, Decimal(1).scaleb(-scale))
    value: Value = floor if isinstance(column.type, DecimalType) else int(floor)
    bits = _BITS.get(str(column.type))
    if bits is not None and not -(1 << bits) <= value < 1 << bits:  # no row can hold such a number
        above = value > 0
        if op != "not-eq" and not op.startswith("lt" if above else "gt"):
            return FALSE
        return not_null(column) if bits < 63 or op == "not-eq" else TRUE
    if floor == number:
        return Predicate(column.field_id, column.type, op, value)
    return _between(column, op, value, above_value=True)


def _between(column: Column, op: Op, nearest: Value, *, above_value: bool) -> Expression:
    """A comparison with a number just above or below ``nearest``, the value of the column next to it."""
    if op in ("eq", "not-eq"):
        return FALSE if op == "eq" else not_null(column)
    less: Op = "lt-eq" if above_value else "lt"
    more: Op = "gt" if above_value else "gt-eq"
    return Predicate(column.field_id, column.type, less if op.startswith("lt") else more, nearest)


def _floating(column: Column, op: Op, literal: Literal) -> Expression:
    number = _float(literal)
    if math.isnan(number):
        if op not in ("eq", "not-eq"):
            raise ValueError(literal.text)
        return Predicate(column.field_id, column.type, "is-nan" if op == "eq" else "not-nan")
    nearest = values.single(number) if str(column.type) == "float" else number
    # A text is cast to the column's type, a float is one; any other number is compared as a double.
    if nearest == number or literal.kind == "text" or literal.text[-1] in "fF":
        return Predicate(column.field_id, column.type, op, nearest)
    return _between(column, op, nearest, above_value=number > nearest)


def _float(literal: Literal) -> float:
    text = _digits(literal)
    if literal.kind == "text" and text.lstrip("+-").lower() in _NOT_FINITE:
        return math.copysign(1, -text.startswith("-") or 1) * _NOT_FINITE[text.lstrip("+-").lower()]
    if not _NUMBER.fullmatch(text):
        raise ValueError(literal.text)
    return values.single(float(text)) if literal.kind == "number" and literal.text[-1] in "fF" else float(text)


def _other(kind: Type, name: str, literal: Literal) -> Value:
    if literal.kind == "hex" and name in ("binary", "fixed"):
        return bytes.fromhex(literal.text)
    if name == "boolean":
        return _truth(literal)
    if literal.kind != "text":
        raise ValueError(literal.text)
    if name in ("string", "binary"):
        return literal.text if name == "string" else literal.text.encode()
    if name in ("time", "uuid"):
        return (values.time_from_text if name == "time" else values.uuid_from_text)(literal.text)
    return _moment(kind, literal)


def _truth(literal: Literal) -> bool:
    if literal.text.lower() not in ("true", "false"):
        raise ValueError(literal.text)
    return literal.text.lower() == "true"


def _moment(kind: Type, literal: Literal) -> Value:
    """A date or timestamp; like Spark, what is left out at the end is the first of it, and zeros may be left out.

    A text that becomes a timestamp without zone keeps its wall clock, whatever zone it names.
    """
    text = literal.text
    match = _MOMENT.fullmatch(text.strip())
    digits = values.ticks_digits(kind)
    if match is None or (str(kind) != "date" and digits is None):
        raise ValueError(text)
    year, month, day, hour, minute, second, fraction, zone = match.groups()
    date = f"{year}-{int(month or 1):02}-{int(day or 1):02}"
    if digits is None:
        if hour is not None:
            raise ValueError(text)
        return values.day_from_text(date)
    time = f"{int(hour or 0):02}:{int(minute or 0):02}:{int(second or 0):02}.{fraction or 0}"
    local = literal.type == "timestamp_ntz" or (not literal.type and not values.has_offset(kind))
    return values.timestamp_from_text(f"{date}T{time}{'' if local or zone in (None, 'UTC') else zone}", digits)

"""The text of ``--where``: a small SQL, parsed into an expression bound to the columns of a schema.

Comparisons (= == != <> < <= > >=) of a column with a literal, IN, BETWEEN, IS NULL, IS NAN, LIKE 'prefix%', all
with NOT, joined by AND, OR, NOT and parentheses. Columns of structs are written ``a.b``, odd names in backticks.
Literals are typed by their column: numbers, 'text' or "text" (as in Spark SQL), true, false, DATE '...',
TIMESTAMP '...' (the words may be left out; no offset means UTC) and X'00ff'.
"""

from __future__ import annotations

import re
import struct
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from lakemeta.errors import OptionError
from lakemeta.iceberg import values
from lakemeta.iceberg.expressions import (
    FALSE,
    TRUE,
    Expression,
    Op,
    Predicate,
    and_,
    negate,
    or_,
    reject_nulls,
)
from lakemeta.iceberg.types import DecimalType, FixedType, ListType, MapType, Type, Value, is_primitive

if TYPE_CHECKING:
    from lakemeta.iceberg.schema import Schema

_TOKENS: Final = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?![\w.]))
    | (?P<hex>[xX]'[^']*')
    | (?P<text>'(?:[^']|'')*'|"(?:[^"]|"")*")
    | (?P<name>(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:\w+|`[^`]+`))*)
    | (?P<sign><=>|<>|!=|==|<=|>=|[=<>(),])
    )""",
    re.VERBOSE,
)
_OPS: Final[dict[str, Op]] = {
    "=": "eq",
    "==": "eq",
    "<>": "not-eq",
    "!=": "not-eq",
    "<": "lt",
    "<=": "lt-eq",
    ">": "gt",
    ">=": "gt-eq",
}
_FLIPPED: Final[dict[Op, Op]] = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq"}
_RANGES: Final = {"int": 31, "long": 63}
_WORDS: Final = frozenset(("and", "or", "not", "in", "is", "null", "nan", "like", "between"))


class _Token(NamedTuple):
    kind: str
    text: str


class _Literal(NamedTuple):
    kind: str  # number, text, hex or word (true, false)
    text: str


def parse_where(text: str, schema: Schema) -> Expression:
    """Parse a filter; raises OptionError that names the word or column that is wrong."""
    parser = _Parser(text, schema)
    expression = parser.either()
    if parser.peek().kind != "end":
        raise parser.unexpected()
    return reject_nulls(expression)


class _Parser:
    """Recursive descent over the tokens of one filter."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text, self.schema = text, schema
        self.tokens, self.at = _tokenize(text), 0

    def peek(self) -> _Token:
        return self.tokens[self.at]

    def next(self) -> _Token:
        self.at += 1
        return self.tokens[self.at - 1]

    def word(self, *words: str) -> bool:
        """Take these keywords if they come next."""
        ahead = [t.text.lower() if t.kind == "name" else "" for t in self.tokens[self.at : self.at + len(words)]]
        if ahead != list(words):
            return False
        self.at += len(words)
        return True

    def sign(self, text: str) -> bool:
        """Take this sign if it comes next."""
        if self.peek() != ("sign", text):
            return False
        self.at += 1
        return True

    def unexpected(self) -> OptionError:
        found = self.peek()
        what = "it ends too early" if found.kind == "end" else f"{found.text} is not expected there"
        return OptionError(f"cannot read the filter {self.text}: {what}")

    def either(self) -> Expression:
        left = self.both()
        while self.word("or"):
            left = or_(left, self.both())
        return left

    def both(self) -> Expression:
        left = self.single()
        while self.word("and"):
            left = and_(left, self.single())
        return left

    def single(self) -> Expression:
        if self.word("not"):
            return negate(self.single())
        if self.sign("("):
            inner = self.either()
            if not self.sign(")"):
                raise self.unexpected()
            return inner
        if self.peek().kind != "name" or self._literal_follows():
            return self.flipped()
        return self.test()

    def _literal_follows(self) -> bool:
        word = self.peek().text.lower()
        return word in ("true", "false") or (word in ("date", "timestamp") and self.tokens[self.at + 1].kind == "text")

    def flipped(self) -> Expression:
        """A literal first: ``5 < a``; or true or false alone."""
        literal = self.literal()
        if literal.kind == "word" and self.peek().text not in _OPS:
            return TRUE if literal.text == "true" else FALSE
        op = self.operator()
        return self.compare(self.column(), _FLIPPED.get(op, op), literal)

    def test(self) -> Expression:
        """A column first."""
        column = self.column()
        if self.word("is"):
            return self.is_(column, negated=self.word("not"))
        negated = self.word("not")
        expression = self.set_or_range(column)
        if expression is None and negated:
            raise self.unexpected()
        if expression is None:
            op = self.operator()
            expression = self.compare(column, op, self.literal())
        return negate(expression) if negated else expression

    def is_(self, column: _Column, *, negated: bool) -> Expression:
        if self.word("null"):
            expression: Expression = Predicate(column.field_id, column.type, "is-null")
            expression = FALSE if column.required else expression
        elif self.word("nan"):
            if str(column.type) not in ("float", "double"):
                raise OptionError(f"column {column.name} is of type {column.type}, which has no NaN")
            expression = Predicate(column.field_id, column.type, "is-nan")
        else:
            raise self.unexpected()
        return negate(expression) if negated else expression

    def set_or_range(self, column: _Column) -> Expression | None:
        if self.word("in"):
            found = [self.compare(column, "eq", literal) for literal in self.list()]
            chosen = tuple(e.value for e in found if isinstance(e, Predicate))
            return Predicate(column.field_id, column.type, "in", chosen) if chosen else FALSE
        if self.word("between"):
            low = self.compare(column, "gt-eq", self.literal())
            if not self.word("and"):
                raise self.unexpected()
            return and_(low, self.compare(column, "lt-eq", self.literal()))
        return self.like(column) if self.word("like") else None

    def like(self, column: _Column) -> Expression:
        if str(column.type) != "string":
            raise OptionError(f"LIKE needs a string column, and {column.name} is of type {column.type}")
        pattern = self.literal()
        plain = re.fullmatch(r"((?:[^%_\\]|\\.)*)(%?)", pattern.text, re.DOTALL)
        if pattern.kind != "text" or plain is None:
            raise OptionError(f"LIKE '{pattern.text}' is not supported; only a prefix, as in 'abc%', is")
        prefix = re.sub(r"\\(.)", r"\1", plain[1], flags=re.DOTALL)
        return Predicate(column.field_id, column.type, "starts-with" if plain[2] else "eq", prefix)

    def operator(self) -> Op:
        token = self.peek()
        if token.kind != "sign" or token.text not in _OPS:
            raise self.unexpected()
        return _OPS[self.next().text]

    def list(self) -> list[_Literal]:
        if not self.sign("("):
            raise self.unexpected()
        found = [self.literal()]
        while self.sign(","):
            found.append(self.literal())
        if not self.sign(")"):
            raise self.unexpected()
        return found

    def literal(self) -> _Literal:
        token = self.peek()
        if token.kind == "name" and self._literal_follows():
            self.at += 1
            return (
                self.literal() if token.text.lower() in ("date", "timestamp") else _Literal("word", token.text.lower())
            )
        if token.kind == "name" and token.text.lower() == "null":
            raise OptionError(f"in the filter {self.text}, write IS NULL to ask for null")
        if token.kind not in ("number", "text", "hex"):
            raise self.unexpected()
        self.at += 1
        quote = token.text[0]
        unquoted = {"text": token.text[1:-1].replace(quote * 2, quote), "hex": token.text[2:-1]}
        text = unquoted.get(token.kind, token.text)
        return _Literal(token.kind, text)

    def column(self) -> _Column:
        token = self.peek()
        if token.kind != "name" or token.text.lower() in _WORDS:
            raise self.unexpected()
        self.at += 1
        return _find_column(self.schema, token.text.replace("`", ""))

    def compare(self, column: _Column, op: Op, literal: _Literal) -> Expression:
        try:
            value = _value(column.type, literal)
        except (ValueError, InvalidOperation, OverflowError) as error:
            what = f"'{literal.text}'" if literal.kind == "text" else literal.text
            raise OptionError(f"{what} is not a value of column {column.name} of type {column.type}") from error
        bits = _RANGES.get(str(column.type))
        if bits is not None and not -(1 << bits) <= value < 1 << bits:  # no row can hold such a number
            above = value > 0
            return TRUE if op == "not-eq" or op.startswith("lt" if above else "gt") else FALSE
        return Predicate(column.field_id, column.type, op, value)


class _Column(NamedTuple):
    name: str
    field_id: int
    type: Type
    required: bool


def _tokenize(text: str) -> list[_Token]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKENS.match(text, at)
        if match is None:
            raise OptionError(f"cannot read the filter {text}: {text[at:].strip()[:20]} is not expected there")
        tokens.append(_Token(cast("str", match.lastgroup), match[cast("str", match.lastgroup)]))
        at = match.end()
    return [*tokens, _Token("end", "")]


def _find_column(schema: Schema, name: str) -> _Column:
    field = schema.find(name)
    if field is None:
        raise OptionError(f"the table has no column {name}; it has {', '.join(f.name for f in schema.fields)}")
    full, required = schema.names[field.field_id], field.required
    for end in (i for i, c in enumerate(full) if c == "."):
        parent = schema.find(full[:end])
        required = required and parent is not None and parent.required
        if parent is not None and isinstance(parent.type, ListType | MapType):
            raise OptionError(f"column {name} lies in a list or map, which a filter cannot look into")
    if not is_primitive(field.type):
        raise OptionError(f"column {name} is of type {field.type}, which a filter cannot compare")
    return _Column(full, field.field_id, field.type, required)


def _value(kind: Type, literal: _Literal) -> Value:
    name = "fixed" if isinstance(kind, FixedType) else str(kind)
    if literal.kind == "hex" and name in ("binary", "fixed"):
        return bytes.fromhex(literal.text)
    if literal.kind == "word" and name == "boolean":
        return literal.text == "true"
    if literal.kind == "text" and name == "string":
        return literal.text
    if literal.kind == "number":
        return _number(kind, literal.text)
    if literal.kind == "text" and name in ("date", "time", "uuid"):
        parse = {"date": values.day_from_text, "time": values.time_from_text, "uuid": values.uuid_from_text}
        return parse[name](literal.text)
    digits = values.ticks_digits(kind)
    if literal.kind != "text" or digits is None:
        raise ValueError(literal.text)
    text = literal.text if ":" in literal.text else f"{literal.text}T00:00:00"
    return values.timestamp_from_text(text, digits)


def _number(kind: Type, text: str) -> Value:
    number, name = Decimal(text), str(kind)
    if name in ("int", "long"):
        if number != int(number):
            raise ValueError(text)
        return int(number)
    if name == "float":
        return struct.unpack("<f", struct.pack("<f", float(number)))[0]
    if name == "double":
        return float(number)
    if isinstance(kind, DecimalType) and number == round(number, kind.scale):
        return round(number, kind.scale)
    raise ValueError(text)

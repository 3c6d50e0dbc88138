"""The text of ``--where``: a small SQL, parsed into an expression bound to the columns of a schema.

Comparisons (= == != <> < <= > >= <=>) of a column with a literal, IN, BETWEEN, IS NULL, IS NAN, IS TRUE, LIKE
'prefix%', a boolean column alone, all with NOT, joined by AND, OR, NOT and parentheses. Columns of structs are written
``a.b``, odd names in backticks. Literals are typed by their column: numbers (with or without Spark's suffixes), 'text'
or "text" (as in Spark SQL), true, false, DATE '...', TIMESTAMP '...' (the words may be left out; no offset means UTC),
DOUBLE('NaN') and X'00ff'.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, NamedTuple, cast

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import (
    FALSE,
    TRUE,
    Expression,
    Op,
    Predicate,
    and_,
    infer_not_null,
    joined,
    negate,
    or_,
)
from lakemeta.iceberg.filters.sql_literals import Column, Literal, compare, not_null, one_of, same, unescape
from lakemeta.iceberg.spec.types import ListType, MapType

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.iceberg.spec.schema import Schema

_TOKENS: Final = re.compile(
    r"""\s*(?:
      (?P<number>[+-]?(?:\d+\.?\d*|\.\d+)(?:[eE][+-]?\d+)?(?:[bB][dD]|[lLsSyYfFdD])?(?![\w.]))
    | (?P<hex>[xX]'[^']*')
    | (?P<text>'(?:[^'\\]|\\.|'')*'|"(?:[^"\\]|\\.|"")*")
    | (?P<name>(?:[^\W\d]\w*|`[^`]+`)(?:\.(?:\w+|`[^`]+`))*)
    | (?P<sign><=>|<>|!=|==|<=|>=|[=<>(),])
    )""",
    re.VERBOSE | re.DOTALL,
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
_SAME: Final = "<=>"
_DEEPEST: Final = 100
_FLIPPED: Final[dict[Op, Op]] = {"lt": "gt", "gt": "lt", "lt-eq": "gt-eq", "gt-eq": "lt-eq"}
_WORDS: Final = frozenset(("and", "or", "not", "in", "is", "null", "nan", "like", "between"))
_TYPE_WORDS: Final = ("date", "timestamp", "timestamp_ntz", "timestamp_ltz", "float", "double")


class _Token(NamedTuple):
    kind: str
    text: str


def parse_where(text: str, schema: Schema) -> Expression:
    """Parse a filter; raises OptionError that names the word or column that is wrong."""
    parser = _Parser(text, schema)
    expression = parser.either()
    if parser.peek().kind != "end":
        raise parser.unexpected()
    return infer_not_null(expression, parser.nullable)


class _Parser:
    """Recursive descent over the tokens of one filter."""

    def __init__(self, text: str, schema: Schema) -> None:
        self.text, self.schema = text, schema
        self.nullable: set[int] = set()
        self.depth = 0
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
        terms = [self.both()]
        while self.word("or"):
            terms.append(self.both())
        return joined(or_, terms)

    def both(self) -> Expression:
        terms = [self.single()]
        while self.word("and"):
            terms.append(self.single())
        return joined(and_, terms)

    def single(self) -> Expression:
        if self.word("not"):
            return negate(self.nested(self.single))
        if self.sign("("):
            inner = self.nested(self.either)
            if not self.sign(")"):
                raise self.unexpected()
            return inner
        if self.peek().kind != "name" or self._literal_follows():
            return self.flipped()
        return self.test()

    def nested(self, parse: Callable[[], Expression]) -> Expression:
        """What ``parse`` gives, one level deeper; expressions are walked recursively, so depth has an end."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise OptionError(f"the filter nests more than {_DEEPEST} levels of parentheses and NOT; write it flatter")
        inner = parse()
        self.depth -= 1
        return inner

    def _literal_follows(self) -> bool:
        word = self.peek().text.lower()
        if word not in _TYPE_WORDS:
            return word in ("true", "false")
        ahead = self.tokens[self.at + 1 : self.at + 3]
        return ahead[0].kind == "text" or (ahead[0].text == "(" and ahead[1].kind == "text")

    def flipped(self) -> Expression:
        """A literal first: ``5 < a``; or true or false alone."""
        literal = self.literal()
        if literal.kind == "word" and self.peek().text not in (*_OPS, _SAME):
            return TRUE if literal.text == "true" else FALSE
        if self.sign(_SAME):
            return same(self.column(), literal)
        op = self.operator()
        return compare(self.column(), _FLIPPED.get(op, op), literal)

    def test(self) -> Expression:
        """A column first; a boolean one may stand alone."""
        column = self.column()
        if self.word("is"):
            return self.is_(column, negated=self.word("not"))
        negated = self.word("not")
        expression = self.set_or_range(column)
        if expression is None and negated:
            raise self.unexpected()
        if expression is None:
            expression = self.comparison(column)
        return negate(expression) if negated else expression

    def comparison(self, column: Column) -> Expression:
        if self.sign(_SAME):
            return is_null(column) if self.word("null") else same(column, self.literal())
        ahead = self.peek()
        if str(column.type) == "boolean" and (ahead.kind in ("end", "name") or ahead.text == ")"):
            return compare(column, "eq", Literal("word", "true"))
        op = self.operator()
        return compare(column, op, self.literal())

    def is_(self, column: Column, *, negated: bool) -> Expression:
        if self.word("null"):
            expression = is_null(column)
        elif self.word("nan"):
            if str(column.type) not in ("float", "double"):
                raise OptionError(f"column {column.name} is of type {column.type}, which has no NaN")
            expression = and_(Predicate(column.field_id, column.type, "is-nan"), not_null(column))
        elif self._literal_follows():
            expression = same(column, self.literal())
        else:
            raise self.unexpected()
        return negate(expression) if negated else expression

    def set_or_range(self, column: Column) -> Expression | None:
        if self.word("in"):
            return one_of(column, self.list())
        if self.word("between"):
            low = compare(column, "gt-eq", self.literal())
            if not self.word("and"):
                raise self.unexpected()
            return and_(low, compare(column, "lt-eq", self.literal()))
        return self.like(column) if self.word("like") else None

    def like(self, column: Column) -> Expression:
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

    def list(self) -> list[Literal]:
        if not self.sign("("):
            raise self.unexpected()
        found = [self.literal()]
        while self.sign(","):
            found.append(self.literal())
        if not self.sign(")"):
            raise self.unexpected()
        return found

    def literal(self) -> Literal:
        token = self.peek()
        if token.kind == "name" and self._literal_follows():
            self.at += 1
            word = token.text.lower()
            return self.typed()._replace(type=word) if word in _TYPE_WORDS else Literal("word", word)
        if token.kind == "name" and token.text.lower() == "null":
            raise OptionError(f"in the filter {self.text}, write IS NULL to ask for null")
        if token.kind not in ("number", "text", "hex"):
            raise self.unexpected()
        self.at += 1
        if token.kind == "text":
            return Literal("text", unescape(token.text))
        return Literal(token.kind, token.text[2:-1] if token.kind == "hex" else token.text)

    def typed(self) -> Literal:
        """What follows the name of a type: a text, or one in parentheses."""
        opened = self.sign("(")
        literal = self.literal()
        if opened and not self.sign(")"):
            raise self.unexpected()
        return literal

    def column(self) -> Column:
        token = self.peek()
        if token.kind != "name" or token.text.lower() in _WORDS:
            raise self.unexpected()
        self.at += 1
        found = _find_column(self.schema, token.text.replace("`", ""))
        if not found.required:
            self.nullable.add(found.field_id)
        return found


def is_null(column: Column) -> Expression:
    """The test that a column is null; never true of a required one."""
    return negate(not_null(column))


def _tokenize(text: str) -> list[_Token]:
    tokens, at = [], 0
    while text[at:].strip():
        match = _TOKENS.match(text, at)
        if match is None:
            raise OptionError(f"cannot read the filter {text}: {text[at:].strip()[:20]} is not expected there")
        tokens.append(_Token(cast("str", match.lastgroup), match[cast("str", match.lastgroup)]))
        at = match.end()
    return [*tokens, _Token("end", "")]


def _find_column(schema: Schema, name: str) -> Column:
    field = schema.find(name)
    if field is None:
        raise OptionError(f"the table has no column {name}; it has {', '.join(f.name for f in schema.fields)}")
    full, required = schema.names[field.field_id], field.required
    for end in (i for i, c in enumerate(full) if c == "."):
        parent = schema.find(full[:end])
        required = required and parent is not None and parent.required
        if parent is not None and isinstance(parent.type, ListType | MapType):
            raise OptionError(f"column {name} lies in a list or map, which a filter cannot look into")
    return Column(full, field.field_id, field.type, required)

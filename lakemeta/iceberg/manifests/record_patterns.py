r"""Stepping over whole Avro records, one regular expression to a record, several times faster than decoding them.

Avro has no way to seek over values, and even a compiled decoder spends its time on making objects of them. In a
pattern a number is ``[\\x80-\\xff]*[\\x00-\\x7f]`` and a text an alternation by length. A first byte decides every
alternative and nothing is tried twice, so a match is the only way to read the bytes. How long long texts are, and how
many items arrays have, is learned from records that are decoded: the entries of a table are much alike. What patterns
cannot say raises :class:`UnfamiliarError`.
"""

from __future__ import annotations

import json
import re
from functools import lru_cache
from io import BytesIO
from itertools import islice
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    Row = tuple[bytes, ...]

RECORD: Final = "a whole record"
HEAD: Final = "the fields before data_file"
FILE: Final = "data_file"

_SHORT: Final = 64  # texts below this many bytes are in every pattern,
_COMMON: Final = (8, 4, 16, 1)  # these first: numbers, and texts of truncated metrics
_NEAR: Final = 8  # with a long text those that are so many bytes shorter or longer, too
_LONGEST: Final = 8192  # bytes of a text, or items of an array
_LEARNED_AT_ONCE: Final = 32  # records
_LEARNED: Final = 24  # times that a pattern is made anew for one block
_MOST: Final = 400  # learned lengths and numbers of items in one pattern
_UNROLLED: Final = 16


class UnfamiliarError(Exception):
    """These bytes are not laid out as the patterns have it; read them another way."""


UNFAMILIAR: Final = (UnfamiliarError, CorruptMetadataError, LookupError, ValueError)


@lru_cache(maxsize=64)
def record_scanner(schema_text: str, kept: frozenset[str]) -> RecordScanner:
    """The scanner of a schema, with what it has learned so far."""
    return RecordScanner(schema_text, kept)


@attrs.frozen(slots=True)
class _Shape:
    """What records look like: numbers of items by array (None for null), and the lengths of long texts in bytes."""

    counts: Mapping[str, frozenset[int | None]]
    lengths: frozenset[int]

    def joined(self, other: _Shape) -> _Shape:
        none = frozenset[int | None]()
        names = self.counts.keys() | other.counts.keys()
        counts = {name: self.counts.get(name, none) | other.counts.get(name, none) for name in sorted(names)}
        return _Shape(counts, self.lengths | other.lengths)

    @property
    def size(self) -> int:
        return len(self.lengths) + sum(map(len, self.counts.values()))


class RecordScanner:
    """Cuts blocks of records of one schema into the fields ``kept``, as bytes with what says which branch of a union.

    Threads may share it: what one has learned is another's gain, and changes nothing but how long it takes.
    """

    def __init__(self, schema_text: str, kept: frozenset[str]) -> None:
        """``names`` are those of ``kept`` that the schema has, as rows have them. Raises UnfamiliarError."""
        self._text, self._kept = schema_text, kept
        self._schema = avro.spelled_out(json.loads(schema_text))
        nothing = _Shape({}, frozenset())
        pattern, self.names = self._compiled(nothing)
        self._known = nothing, pattern

    @property
    def text_pattern(self) -> bytes:
        """Matches texts of all lengths that were seen so far."""
        return _text(_lengths(self._known[0]))

    def rows(self, count: int, block: bytes) -> list[Row]:
        """The kept fields of each of the ``count`` records that fill a block. Raises one of ``UNFAMILIAR``."""
        rows: list[Row] = []
        end = 0
        for _ in range(_LEARNED):
            shape, pattern = self._known
            found = None
            # Matches that follow each other without a gap, which no other method of patterns gives (as in re.Scanner).
            match = pattern.scanner(block, end).match  # type: ignore[attr-defined]
            for found in islice(iter(match, None), count - len(rows)):
                rows.append(found.groups())
            end = end if found is None else found.end()
            if len(rows) == count:
                break
            self._learn(shape, block, end, count - len(rows))
        if len(rows) != count or end != len(block):
            raise UnfamiliarError
        return rows

    def _learn(self, before: _Shape, block: bytes, position: int, left: int) -> None:
        stream = BytesIO(block)
        stream.seek(position)
        found = before
        for _ in range(min(left, _LEARNED_AT_ONCE)):
            record = avro.read_from(self._text, stream, "a manifest")
            found = found.joined(_shape(record))
        if found == before or found.size > _MOST:
            raise UnfamiliarError
        self._known = found, self._compiled(found)[0]

    def _compiled(self, shape: _Shape) -> tuple[re.Pattern[bytes], tuple[str, ...]]:
        layout = _Layout(self._kept, shape)
        pattern = layout.record(self._schema)
        if RECORD in self._kept:
            return re.compile(b"(" + pattern + b")", re.DOTALL), (RECORD,)
        return re.compile(pattern, re.DOTALL), tuple(layout.names)


def _shape(record: Mapping[str, Any]) -> _Shape:
    counts: dict[str, frozenset[int | None]] = {}
    lengths = set[int]()
    for name, value in record.items():
        if isinstance(value, dict):
            inner = _shape(value)
            counts |= inner.counts
            lengths |= inner.lengths
        elif isinstance(value, list):
            counts[name] = frozenset({len(value)})
            for item in value:
                lengths.update(_shape(item).lengths if isinstance(item, dict) else _long(item))
        else:
            lengths.update(_long(value))
            counts |= {name: frozenset({None})} if value is None else {}
    return _Shape(counts, frozenset(lengths))


def _long(value: Any) -> Iterable[int]:
    size = len(value.encode()) if isinstance(value, str) else len(value) if isinstance(value, bytes) else 0
    return range(max(_SHORT, size - _NEAR), size + _NEAR + 1) if size >= _SHORT else ()


class _Layout:
    """Writes the pattern of records of one shape; ``names`` are those of its groups."""

    def __init__(self, kept: frozenset[str], shape: _Shape) -> None:
        self.names: list[str] = []
        self._kept, self._shape = kept, shape
        self._text = _text(_lengths(shape))

    def record(self, schema: avro.Schema) -> bytes:
        """The pattern of an entry, or of another record; nested ones are taken apart in an entry's file alone."""
        at = next((i for i, field in enumerate(schema["fields"]) if field["name"] == FILE), None)
        if at is None:
            return self._fields(schema["fields"])
        if at != len(schema["fields"]) - 1 or not isinstance(file := schema["fields"][at]["type"], dict):
            raise UnfamiliarError
        if HEAD in self._kept:
            self.names.append(HEAD)
        head = self._group(HEAD, self._fields(schema["fields"][:at]))
        if FILE in self._kept:
            self.names.append(FILE)
        return head + self._group(FILE, self._fields(file["fields"]))

    def _group(self, name: str, pattern: bytes) -> bytes:
        return b"(" + pattern + b")" if name in self._kept else pattern

    def _fields(self, fields: Iterable[avro.Schema]) -> bytes:
        return b"".join([self._field(field["name"], field["type"]) for field in fields])

    def _field(self, name: str, kind: avro.Schema) -> bytes:
        if name in self._kept:
            self.names.append(name)
        if not _is_array(kind):
            return self._group(name, self._value(kind))
        item = kind[1]["items"]
        counts = sorted(n for n in self._shape.counts.get(name, ()) if n and n < _LONGEST)
        several = [_items(self._value(item), count) for count in counts]
        return self._group(name, b"(?>\\x00|\\x02(?>" + b"|".join([b"\\x00", *several]) + b"))")

    def _value(self, kind: avro.Schema) -> bytes:
        if kind in ("string", "bytes"):
            return self._text
        if isinstance(kind, str) and kind in _PATTERNS:
            return _PATTERNS[kind]
        if isinstance(kind, list) and 0 < len(kind) < _SHORT:
            branches = [re.escape(bytes([2 * i])) + self._value(branch) for i, branch in enumerate(kind)]
            return b"(?>" + b"|".join(branches) + b")"
        if not isinstance(kind, dict):
            raise UnfamiliarError  # the name of a type defined before
        if kind["type"] == "record":
            return b"".join([self._value(field["type"]) for field in kind["fields"]])
        if kind["type"] != "fixed":
            return self._value(kind["type"])
        if "logicalType" not in kind:
            raise UnfamiliarError  # encoded in one of two ways
        return b".{%d}+" % kind["size"] if kind["size"] else b""


VARINT: Final = rb"[\x80-\xff]*+[\x00-\x7f]"
_PATTERNS: Final[dict[str, bytes]] = {
    "null": b"",
    "boolean": b"[\\x00\\x01]",
    "int": VARINT,
    "long": VARINT,
    "float": b".{4}+",
    "double": b".{8}+",
}


def _items(item: bytes, count: int) -> bytes:
    """One block of so many items, and the end of the array."""
    several = item * count if len(item) * count <= _UNROLLED * len(VARINT) * 2 else b"(?:%b){%d}" % (item, count)
    return re.escape(length(count)) + several + b"\\x00"


def _lengths(shape: _Shape) -> tuple[int, ...]:
    longer = (n for n in sorted(shape.lengths) if n < _LONGEST)
    return (*_COMMON, *(n for n in range(_SHORT) if n not in _COMMON), *longer)


def _text(lengths: Iterable[int]) -> bytes:
    return b"(?>" + b"|".join([re.escape(length(n)) + (b".{%d}+" % n if n else b"") for n in lengths]) + b")"


def length(number: int) -> bytes:
    """A count or length below 8192 as Avro writes it."""
    twice = 2 * number
    return bytes([twice]) if twice < 0x80 else bytes([twice & 0x7F | 0x80, twice >> 7])


def _is_array(kind: avro.Schema) -> bool:
    return (
        isinstance(kind, list)
        and len(kind) == 2
        and kind[0] == "null"
        and isinstance(kind[1], dict)
        and kind[1].get("type") == "array"
    )

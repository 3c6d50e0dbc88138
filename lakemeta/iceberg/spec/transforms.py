"""Partition transforms (spec: "Partition Transforms", "Appendix B: 32-bit Hash Requirements")."""

from __future__ import annotations

import base64
import re
import struct
from decimal import Decimal
from typing import Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import (
    DATE,
    INT,
    STRING,
    TIMESTAMP_NS,
    TIMESTAMPTZ_NS,
    UUID,
    DecimalType,
    FixedType,
    Type,
    Value,
)

_TIMES: Final = ("year", "month", "day", "hour")
_WITH_WIDTH: Final = re.compile(r"(bucket|truncate)\[([0-9]+)\]")
_DIGITS: Final = 10  # of Java's int
_MASK: Final = 0xFFFFFFFF


@attrs.frozen(slots=True)
class Transform:
    """One transform: identity, bucket, truncate, year, month, day, hour, void, or an unknown one.

    ``width`` is N of ``bucket[N]`` and W of ``truncate[W]``. Transforms of None give None.
    """

    name: str
    width: int = 0

    def __str__(self) -> str:
        return f"{self.name}[{self.width}]" if self.width else self.name

    @classmethod
    def parse(cls, text: str) -> Transform:
        """Read a transform's spelling; unknown ones are kept, so that metadata that uses them can be read."""
        lowered = text.lower()
        if match := _WITH_WIDTH.fullmatch(lowered):
            if len(match[2]) > _DIGITS or int(match[2]) == 0:
                raise CorruptMetadataError(f"transform {text:.100} has no width that a column can have")
            return cls(match[1], int(match[2]))
        return cls(lowered) if lowered in ("identity", "void", *_TIMES) else cls(text)

    @property
    def is_known(self) -> bool:
        """False for a transform of a newer specification: such fields take no part in pruning."""
        return self.name in ("identity", "bucket", "truncate", "void", *_TIMES)

    @property
    def preserves_order(self) -> bool:
        """True if a <= b implies transform(a) <= transform(b)."""
        return self.name in ("identity", "truncate", *_TIMES)

    def result_type(self, source: Type) -> Type:
        """The type of the partition values of a column of type ``source``."""
        if self.name in ("bucket", "year", "month", "hour"):
            return INT
        if self.name == "day":
            return DATE
        return source if self.is_known else STRING

    def apply(self, source: Type, value: Value) -> Value:
        """The partition value of a column value; an unknown transform raises UnsupportedFeatureError."""
        if value is None or self.name == "void":
            return None
        if self.name == "identity":
            return value
        if self.name == "bucket":
            return (bucket_hash(source, value) & 0x7FFFFFFF) % self.width
        if self.name == "truncate":
            return _truncate(source, value, self.width)
        if self.name in _TIMES:
            return _time_part(self.name, source, value)
        raise UnsupportedFeatureError(f"transform {self} is not known; use a newer lakemeta for this table")

    def human(self, result: Type, value: Value) -> str:
        """A partition value as it stands in paths, before URL encoding (engine: Transform.toHumanString)."""
        if value is None:
            return "null"
        if self.name == "year":
            return f"{1970 + value:04}"
        if self.name == "month":
            return f"{1970 + value // 12:04}-{value % 12 + 1:02}"
        if self.name == "hour":
            return f"{values.day_to_text(value // 24)}-{value % 24:02}"
        return _human(result, value)


IDENTITY: Final = Transform("identity")


def bucket_hash(source: Type, value: Value) -> int:
    """The 32-bit Murmur3 hash of a value, signed bits as an unsigned number (x86 variant, seed 0)."""
    if source in (TIMESTAMP_NS, TIMESTAMPTZ_NS):
        value = value // 1000
    if isinstance(value, bool | float):
        raise UnsupportedFeatureError(f"values of type {source} cannot be bucketed")
    if isinstance(value, int):
        return murmur3_32(struct.pack("<q", value))
    if isinstance(value, Decimal) and isinstance(source, DecimalType):
        return murmur3_32(values.unscaled_to_bytes(values.unscaled(value, source)))
    return murmur3_32(value.encode() if isinstance(value, str) else value)


def murmur3_32(data: bytes) -> int:
    """MurmurHash3 x86 32-bit with seed 0."""
    whole = len(data) & ~3
    state = 0
    for (word,) in struct.iter_unpack("<I", data[:whole]):
        state ^= _mix(word)
        state = (_rotate(state, 13) * 5 + 0xE6546B64) & _MASK
    if whole < len(data):
        state ^= _mix(int.from_bytes(data[whole:], "little"))
    state ^= len(data)
    state = ((state ^ (state >> 16)) * 0x85EBCA6B) & _MASK
    state = ((state ^ (state >> 13)) * 0xC2B2AE35) & _MASK
    return state ^ (state >> 16)


def _mix(word: int) -> int:
    return (_rotate((word * 0xCC9E2D51) & _MASK, 15) * 0x1B873593) & _MASK


def _rotate(word: int, bits: int) -> int:
    return ((word << bits) | (word >> (32 - bits))) & _MASK


def _truncate(source: Type, value: Value, width: int) -> Value:
    if isinstance(source, DecimalType):
        number = values.unscaled(value, source)
        return values.scaled(number - number % width, source.scale)
    return values.wrapped(source, value - value % width) if isinstance(value, int) else value[:width]


def _time_part(unit: str, source: Type, value: int) -> int:
    digits = values.ticks_digits(source)
    if digits is None and source != DATE:
        raise CorruptMetadataError(f"transform {unit} cannot be applied to type {source}")
    seconds = value * 86400 if digits is None else value // 10**digits
    if unit == "hour":
        return seconds // 3600
    day = seconds // 86400
    if unit == "day":
        return day
    year, month, _ = values.civil_from_day(day)
    return year - 1970 if unit == "year" else (year - 1970) * 12 + month - 1


def _human(kind: Type, value: Value) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return java_float(value, single=str(kind) == "float")
    if isinstance(value, bytes):
        return values.uuid_to_text(value) if kind == UUID else base64.b64encode(value).decode()
    if kind == DATE or str(kind).startswith("timestamp"):
        return values.text_of(kind, value)
    if str(kind) == "time":
        return _java_time(value)
    return str(value)


def _java_time(micros: int) -> str:
    """A time as java.time.LocalTime prints it: no zero seconds, fraction in groups of three digits."""
    text = values.time_to_text(micros)
    whole, _, fraction = text.partition(".")
    if not fraction:
        return whole.removesuffix(":00")
    return f"{whole}.{fraction.ljust(-(-len(fraction) // 3) * 3, '0')}"


def java_float(value: float, *, single: bool) -> str:
    """A number as Java prints a float (``single``) or a double: shortest digits, ``1.0E10`` from 10**7 on."""
    if value != value or value in (float("inf"), float("-inf")):
        return "NaN" if value != value else ("Infinity" if value > 0 else "-Infinity")
    digits = Decimal(values.shortest_single(value) if single else repr(value))
    sign, figures, exponent = digits.normalize().as_tuple()
    if not digits:
        return "-0.0" if sign else "0.0"
    text = "".join(map(str, figures))
    point = len(text) + int(exponent)
    if 1e-3 <= abs(value) < 1e7:
        plain = format(digits.normalize(), "f")
        return plain if "." in plain else plain + ".0"
    return f"{'-' if sign else ''}{text[0]}.{text[1:] or '0'}E{point - 1}"


def fits(transform: Transform, source: Type) -> bool:
    """True if the transform may be applied to columns of this type."""
    name = str(source)
    if transform.name in ("year", "month", "day"):
        return source == DATE or name.startswith("timestamp")
    if transform.name == "hour":
        return name.startswith("timestamp")
    if transform.name == "truncate":
        return name in ("int", "long", "string", "binary") or isinstance(source, DecimalType)
    if transform.name == "bucket":
        plain = ("int", "long", "date", "time", "string", "uuid", "binary")
        return name in plain or name.startswith("timestamp") or isinstance(source, DecimalType | FixedType)
    return True

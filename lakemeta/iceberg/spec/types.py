"""Iceberg types: the primitives of format versions 1 to 3, and struct, list and map.

Values of a type are plain Python values, the same in partition tuples, bounds, literals and defaults:

- boolean: bool; int, long: int; float, double: float; string: str; binary, fixed: bytes; uuid: its 16 bytes
- date: days, time: microseconds of the day, timestamp and timestamptz: microseconds, timestamp_ns and
  timestamptz_ns: nanoseconds, all ints counted from 1970-01-01 (UTC)
- decimal: decimal.Decimal with the type's scale
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Mapping

Json = Any  # a value that json.dumps takes
Value = Any  # a value of an Iceberg type, as the module text says

_NAMES: Final = frozenset(
    (
        "boolean",
        "int",
        "long",
        "float",
        "double",
        "date",
        "time",
        "string",
        "uuid",
        "binary",
        "timestamp",
        "timestamptz",
        "timestamp_ns",
        "timestamptz_ns",
        "unknown",
        "variant",
        "geometry",
        "geography",
    )
)
_FIXED: Final = re.compile(r"fixed\[\s*([0-9]{1,9})\s*\]")
_DECIMAL: Final = re.compile(r"decimal\(\s*([0-9]{1,9})\s*,\s*([0-9]{1,9})\s*\)")
_GEO: Final = re.compile(r"(geometry|geography)\(.*\)")


@attrs.frozen(slots=True)
class PrimitiveType:
    """A type without parts; ``name`` is its spelling in metadata (``long``, ``geometry(srid:3857)``)."""

    name: str

    def __str__(self) -> str:
        return self.name


@attrs.frozen(slots=True)
class FixedType:
    """Byte strings of one length."""

    length: int

    def __str__(self) -> str:
        return f"fixed[{self.length}]"


@attrs.frozen(slots=True)
class DecimalType:
    """Decimal numbers of at most ``precision`` digits, ``scale`` of them after the point."""

    precision: int
    scale: int

    def __str__(self) -> str:
        return f"decimal({self.precision}, {self.scale})"


@attrs.frozen(slots=True)
class NestedField:
    """One field of a struct. Defaults are values of the field's type; None means no default."""

    field_id: int
    name: str
    type: Type
    required: bool = False
    doc: str | None = None
    initial_default: Value = attrs.field(default=None, hash=False)
    write_default: Value = attrs.field(default=None, hash=False)
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)


@attrs.frozen(slots=True)
class StructType:
    """Named fields in order."""

    fields: tuple[NestedField, ...]

    def __str__(self) -> str:
        inner = ", ".join(f"{f.field_id}: {f.name}: {f.type}" for f in self.fields)
        return f"struct<{inner}>"


@attrs.frozen(slots=True)
class ListType:
    """A list; its element has a field id of its own."""

    element_id: int
    element: Type
    element_required: bool = False

    def __str__(self) -> str:
        return f"list<{self.element}>"


@attrs.frozen(slots=True)
class MapType:
    """A map; its keys and values have field ids of their own. Keys are always required."""

    key_id: int
    key: Type
    value_id: int
    value: Type
    value_required: bool = False

    def __str__(self) -> str:
        return f"map<{self.key}, {self.value}>"


Type = PrimitiveType | FixedType | DecimalType | StructType | ListType | MapType

BOOLEAN: Final = PrimitiveType("boolean")
INT: Final = PrimitiveType("int")
LONG: Final = PrimitiveType("long")
FLOAT: Final = PrimitiveType("float")
DOUBLE: Final = PrimitiveType("double")
DATE: Final = PrimitiveType("date")
TIME: Final = PrimitiveType("time")
TIMESTAMP: Final = PrimitiveType("timestamp")
TIMESTAMPTZ: Final = PrimitiveType("timestamptz")
TIMESTAMP_NS: Final = PrimitiveType("timestamp_ns")
TIMESTAMPTZ_NS: Final = PrimitiveType("timestamptz_ns")
STRING: Final = PrimitiveType("string")
UUID: Final = PrimitiveType("uuid")
BINARY: Final = PrimitiveType("binary")
UNKNOWN: Final = PrimitiveType("unknown")
VARIANT: Final = PrimitiveType("variant")


def is_primitive(kind: Type) -> bool:
    """True for types that hold one value: no struct, list, map or variant."""
    return not isinstance(kind, StructType | ListType | MapType) and kind != VARIANT


def primitive_from_name(name: str) -> Type:
    """The type that metadata spells ``name``; raises UnsupportedFeatureError for an unknown name."""
    if name in _NAMES or _GEO.fullmatch(name):
        return PrimitiveType(name)
    if match := _FIXED.fullmatch(name):
        return FixedType(int(match[1]))
    if match := _DECIMAL.fullmatch(name):
        precision, scale = int(match[1]), int(match[2])
        if not 0 < precision <= 38 or scale > precision:
            raise CorruptMetadataError(f"type {name} is no decimal of at most 38 digits")
        return DecimalType(precision, scale)
    raise UnsupportedFeatureError(f"type {name:.100} is not known; use a newer lakemeta for this table")


def decimal_bytes(precision: int) -> int:
    """The least number of bytes that holds every unscaled value of ``precision`` digits, two's complement."""
    largest: int = 10**precision
    return largest.bit_length() // 8 + 1

"""Single values: binary form (bounds, partition summaries), JSON form (defaults), and truncation of bounds.

Spec: "Appendix D: Single-value serialization". What values look like in Python is said in ``types``.
"""

from __future__ import annotations

import math
import re
import struct
from datetime import UTC, date, datetime, timedelta
from decimal import Context, Decimal
from typing import Final

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.types import (
    DecimalType,
    FixedType,
    Json,
    ListType,
    MapType,
    PrimitiveType,
    StructType,
    Type,
    Value,
)

_PACKED: Final = {
    "boolean": "<?",
    "int": "<i",
    "date": "<i",
    "long": "<q",
    "time": "<q",
    "timestamp": "<q",
    "timestamptz": "<q",
    "timestamp_ns": "<q",
    "timestamptz_ns": "<q",
    "float": "<f",
    "double": "<d",
}
_PYTHON: Final[dict[str, type]] = {
    "boolean": bool,
    "float": float,
    "double": float,
    "string": str,
    "binary": bytes,
    "uuid": bytes,
    "fixed": bytes,
}
_NOT_FINITE: Final = ("NaN", "Infinity", "-Infinity")
_DAY: Final = {"timestamp": 86_400 * 10**6, "timestamp_ns": 86_400 * 10**9}
_EPOCH: Final = date(1970, 1, 1).toordinal()
_MAX_CODE_POINT: Final = 0x10FFFF
_MOST_BITS: Final = 256  # of the number behind a decimal
_EXACT: Final = Context(prec=80)  # Python rounds to 28 digits by default, and decimals have up to 38


def is_of(kind: Type, value: Value) -> bool:
    """True if a value from a manifest is one that values of a primitive type can be; null is one of every type."""
    name = _name(kind)
    if value is None or name == "unknown":
        return True
    if isinstance(kind, DecimalType):
        return isinstance(value, Decimal)
    wanted = _PYTHON.get(name, int)
    return isinstance(value, wanted) and (wanted is bool or not isinstance(value, bool))


def to_bytes(kind: Type, value: Value) -> bytes:
    """The binary form of a value; raises UnsupportedFeatureError for a type that has none here."""
    name = _name(kind)
    if name in _PACKED:
        return struct.pack(_PACKED[name], value)
    if name == "string":
        return str(value).encode()
    if name in ("binary", "uuid", "fixed"):
        return bytes(value)
    if isinstance(kind, DecimalType):
        return unscaled_to_bytes(unscaled(value, kind))
    raise UnsupportedFeatureError(f"values of type {kind} have no binary form that lakemeta can write")


def from_bytes(kind: Type, data: bytes) -> Value:
    """The value behind a binary form. An int or float bound of a column since promoted is widened."""
    name = _name(kind)
    if name in _PACKED:
        return _unpack(name, data)
    if name == "string":
        return data.decode("utf-8", "surrogateescape")
    if name in ("binary", "uuid", "fixed"):
        return bytes(data)
    if isinstance(kind, DecimalType):
        return scaled(int.from_bytes(data, "big", signed=True), kind.scale)
    raise UnsupportedFeatureError(f"bounds of type {kind} cannot be compared; keep such columns out of --where")


def scaled(number: int, scale: int) -> Decimal:
    """The decimal with ``scale`` digits after the point that is stored as ``number``.

    Raises CorruptMetadataError for a number of more than twice the bits of any decimal: its digits take long to find.
    """
    if number.bit_length() > _MOST_BITS:
        raise CorruptMetadataError(f"a decimal of {number.bit_length()} bits has more than 38 digits")
    return _EXACT.scaleb(Decimal(number), -scale)


def unscaled(value: Decimal, kind: DecimalType) -> int:
    """The whole number behind a decimal value at the type's scale."""
    return int(_EXACT.scaleb(value, kind.scale))


def unscaled_to_bytes(number: int, length: int | None = None) -> bytes:
    """Big-endian two's complement, in the least number of bytes or in ``length`` bytes."""
    magnitude = number if number >= 0 else ~number
    return number.to_bytes(length or magnitude.bit_length() // 8 + 1, "big", signed=True)


def order_key(value: Value) -> tuple[bool, bool, Value]:
    """What a value of one type is sorted by, as engines sort partitions: nulls first, NaN last, 0.0 as -0.0."""
    if value is None:
        return False, False, 0
    is_nan = value != value
    return True, is_nan, 0 if is_nan else value


def wrapped(kind: Type, number: int) -> int:
    """A whole number as Java's arithmetic leaves it in the 32 bits of an int or date, or the 64 of any other type."""
    half = 1 << (31 if _name(kind) in ("int", "date") else 63)
    return (number + half) % (2 * half) - half


def to_json(kind: Type, value: Value) -> Json:
    """The JSON form of a value, spelled as Iceberg's SingleValueParser spells it."""
    if value is None:
        return None
    if isinstance(kind, StructType):
        return {str(f.field_id): to_json(f.type, v) for f, v in zip(kind.fields, value, strict=True) if v is not None}
    if isinstance(kind, ListType):
        return [to_json(kind.element, v) for v in value]
    if isinstance(kind, MapType):
        return {
            "keys": [to_json(kind.key, k) for k, _ in value],
            "values": [to_json(kind.value, v) for _, v in value],
        }
    return _scalar_to_json(kind, value)


def from_json(kind: Type, value: Json) -> Value:
    """The value behind a JSON form; structs and lists become tuples, maps tuples of pairs."""
    if value is None:
        return None
    try:
        if isinstance(kind, StructType):
            return tuple(from_json(f.type, value.get(str(f.field_id))) for f in kind.fields)
        if isinstance(kind, ListType):
            return tuple(from_json(kind.element, v) for v in value)
        if isinstance(kind, MapType):
            pairs = zip(value["keys"], value["values"], strict=True)
            return tuple((from_json(kind.key, k), from_json(kind.value, v)) for k, v in pairs)
        return _scalar_from_json(kind, value)
    except (ValueError, TypeError, KeyError, AttributeError, ArithmeticError) as error:
        raise CorruptMetadataError(f"{value!r} is not a value of type {kind}") from error


def truncate_string(text: str, length: int) -> str:
    """The first ``length`` code points."""
    return text[:length]


def truncate_upper_string(text: str, length: int) -> str | None:
    """An upper bound of at most ``length`` code points; None if all are the last code point there is."""
    if len(text) <= length:
        return text
    points = [ord(c) for c in text[:length]]
    while points:
        following = points.pop() + 1
        following = 0xE000 if 0xD800 <= following <= 0xDFFF else following
        if following <= _MAX_CODE_POINT:
            return "".join(map(chr, [*points, following]))
    return None


def truncate_upper_bytes(data: bytes, length: int) -> bytes | None:
    """An upper bound of at most ``length`` bytes; None if there is none (all bytes 0xff)."""
    if len(data) <= length:
        return data
    kept = data[:length].rstrip(b"\xff")
    return kept[:-1] + bytes([kept[-1] + 1]) if kept else None


def truncate_bounds(kind: Type, lower: Value, upper: Value, length: int) -> tuple[Value, Value | None]:
    """Bounds as metrics mode truncate(``length``) keeps them; only strings and binary are ever cut (ParquetMetrics)."""
    if _name(kind) == "string":
        return truncate_string(lower, length), truncate_upper_string(upper, length)
    if _name(kind) == "binary":
        return lower[:length], truncate_upper_bytes(upper, length)
    return lower, upper


def civil_from_day(day: int) -> tuple[int, int, int]:
    """Year, month and day of the month of a day since 1970-01-01 in the Gregorian calendar, of any year."""
    eras, day_of_era = divmod(day + 719_468, 146_097)  # 400-year eras that start on a first of March
    year = (day_of_era - day_of_era // 1460 + day_of_era // 36_524 - day_of_era // 146_096) // 365
    day_of_year = day_of_era - (365 * year + year // 4 - year // 100)
    shifted = (5 * day_of_year + 2) // 153
    month = shifted + 3 if shifted < 10 else shifted - 9
    return year + 400 * eras + (month <= 2), month, day_of_year - (153 * shifted + 2) // 5 + 1


def day_to_text(days: int) -> str:
    """A date as ISO text."""
    year, month, day = civil_from_day(days)
    return f"{year:04}-{month:02}-{day:02}"


def time_to_text(micros: int) -> str:
    """A time of day as Java's ISO_LOCAL_TIME writes it: fraction without trailing zeros, none if zero."""
    seconds, fraction = divmod(micros, 1_000_000)
    return f"{seconds // 3600:02}:{seconds // 60 % 60:02}:{seconds % 60:02}" + _fraction(fraction, 6)


def timestamp_to_text(ticks: int, digits: int, *, offset: bool) -> str:
    """A timestamp in 10**-digits seconds as ISO text, with ``+00:00`` if ``offset``."""
    seconds, fraction = divmod(ticks, 10**digits)
    day, second = divmod(seconds, 86_400)
    whole = f"{day_to_text(day)}T{time_to_text(second * 1_000_000)}"
    return whole + _fraction(fraction, digits) + ("+00:00" if offset else "")


def day_from_text(text: str) -> int:
    """Days since 1970-01-01 of an ISO date ``YYYY-MM-DD``, of any year."""
    match = re.fullmatch(r"([+-]?\d{4,6})-(\d\d)-(\d\d)", text, re.ASCII)
    if not match:
        raise ValueError(f"{text} is not a date")
    eras, year = divmod(int(match[1]) - 2000, 400)  # Python's dates have years from 1 to 9999, and eras are alike
    return date(2000 + year, int(match[2]), int(match[3])).toordinal() - _EPOCH + eras * 146_097


def time_from_text(text: str) -> int:
    """Microseconds of the day of ``HH:MM[:SS[.ffffff]]``."""
    match = re.fullmatch(r"(\d\d):(\d\d)(?::(\d\d)(?:\.(\d{1,6})\d*)?)?", text)
    if not match:
        raise ValueError(f"{text} is not a time")
    hours, minutes, seconds, fraction = match.groups()
    return ((int(hours) * 60 + int(minutes)) * 60 + int(seconds or 0)) * 1_000_000 + _digits(fraction, 6)


def timestamp_from_text(text: str, digits: int) -> int:
    """Units of 10**-digits seconds since the epoch of an ISO timestamp; no offset means UTC."""
    match = re.fullmatch(r"([+-]?[\d-]+)[T ](\d\d:\d\d(?::\d\d)?)(?:\.(\d{1,9}))?(Z|[+-]\d\d:?\d\d)?", text)
    if not match:
        raise ValueError(f"{text} is not a timestamp")
    moment = datetime.fromisoformat(f"1970-01-01T{match[2]}{match[4] or 'Z'}")
    seconds = (moment - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(seconds=1) + day_from_text(match[1]) * 86_400
    return seconds * int(10**digits) + _digits(match[3], digits)


def ticks_digits(kind: Type) -> int | None:
    """Digits after the second of a timestamp type: 6 or 9; None for any other type."""
    name = _name(kind)
    if not name.startswith("timestamp"):
        return None
    return 9 if name.endswith("_ns") else 6


def has_offset(kind: Type) -> bool:
    """True for the timestamp types that are instants (with time zone)."""
    return _name(kind).startswith("timestamptz")


def _name(kind: Type) -> str:
    if isinstance(kind, PrimitiveType):
        return kind.name
    return "fixed" if isinstance(kind, FixedType) else ""


def _unpack(name: str, data: bytes) -> Value:
    form, unit = _PACKED[name], 1
    if len(data) == 4 and form in ("<q", "<d"):  # written before the column became long, double or a timestamp
        form = "<i" if form == "<q" else "<f"
        unit = _DAY.get(name, 1)
    try:
        return struct.unpack(form, data)[0] * unit
    except struct.error as error:
        raise CorruptMetadataError(f"{data!r} is not the binary form of a value of type {name}") from error


def _scalar_to_json(kind: Type, value: Value) -> Json:
    name = _name(kind)
    if isinstance(kind, DecimalType):
        return format(value, "f")
    if name in ("binary", "fixed"):
        return value.hex().upper()
    if name == "uuid":
        return uuid_to_text(value)
    if name in ("float", "double"):
        return _float_to_json(value, single=name == "float")
    return text_of(kind, value) if name == "date" or name.startswith("time") else value


def _float_to_json(value: float, *, single: bool) -> Json:
    """A number in its least digits; what JSON has no number for is text, as Jackson writes it."""
    if math.isfinite(value):
        return float(shortest_single(value)) if single else value
    return "NaN" if math.isnan(value) else ("Infinity" if value > 0 else "-Infinity")


def single(value: float) -> float:
    """The value of type float that is nearest to a number."""
    try:
        return float(struct.unpack("<f", struct.pack("<f", value))[0])
    except OverflowError:
        return math.copysign(math.inf, value)


def shortest_single(value: float) -> str:
    """The least digits that tell a finite float from its neighbours."""
    for precision in range(1, 10):
        text = f"{value:.{precision}g}"
        if single(float(text)) == single(value):
            return text
    return repr(value)


def uuid_to_text(value: bytes) -> str:
    """The dashed text of a UUID's 16 bytes."""
    digits = value.hex()
    return "-".join((digits[:8], digits[8:12], digits[12:16], digits[16:20], digits[20:]))


def text_of(kind: Type, value: int) -> str:
    """The ISO text of a date, time or timestamp value."""
    if (digits := ticks_digits(kind)) is not None:
        return timestamp_to_text(value, digits, offset=has_offset(kind))
    return day_to_text(value) if _name(kind) == "date" else time_to_text(value)


def _scalar_from_json(kind: Type, value: Json) -> Value:
    name = _name(kind)
    if isinstance(kind, DecimalType):
        return Decimal(value)
    if (digits := ticks_digits(kind)) is not None:
        return timestamp_from_text(value, digits)
    if name in ("binary", "fixed"):
        return bytes.fromhex(value)
    parse = {"uuid": uuid_from_text, "date": day_from_text, "time": time_from_text}.get(name)
    if parse is not None:
        return parse(value)
    return _plain(name, value)


def _plain(name: str, value: Json) -> Value:
    numbers = {"int": int, "long": int, "float": int | float, "double": int | float}
    if name in ("float", "double") and value in _NOT_FINITE:
        return float(value)
    expected = {"boolean": bool, "string": str, **numbers}.get(name)
    if expected is None or not isinstance(value, expected) or isinstance(value, bool) != (name == "boolean"):
        raise ValueError(f"{value!r} is not a {name}")
    if name == "float":
        return single(float(value))
    return float(value) if name == "double" else value


def uuid_from_text(text: str) -> bytes:
    """The 16 bytes of a dashed UUID text."""
    data = bytes.fromhex(text.replace("-", ""))
    if len(data) != 16:
        raise ValueError(f"{text} is not a UUID")
    return data


def _fraction(number: int, digits: int) -> str:
    text = f"{number:0{digits}}".rstrip("0")
    return f".{text}" if text else ""


def _digits(text: str | None, digits: int) -> int:
    return int((text or "").ljust(digits, "0")[:digits] or 0)

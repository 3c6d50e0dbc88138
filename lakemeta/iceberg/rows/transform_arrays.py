"""Partition transforms over whole Arrow arrays; what they mean is said in ``transforms``.

Whole numbers are transformed in Arrow. Everything else goes value by value through ``Transform.apply``, once for
each distinct value of an array.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.rows.arrow import arrow_type
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import TIMESTAMP_NS, TIMESTAMPTZ_NS, Type, Value

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.transforms import Transform

_INTEGERS: Final = ("int", "long", "date", "time")
_HOUR: Final = 3600
_DAY: Final = 86_400


def transform_array(transform: Transform, kind: Type, array: pa.Array) -> pa.Array:
    """The transform of every value of ``array``, whose Iceberg type is ``kind``, in the result's Arrow type."""
    if transform.name == "identity":
        return array
    result = arrow_type(transform.result_type(kind))
    if transform.name == "void":
        return pa.nulls(len(array), result)
    if transform.name in ("year", "month"):
        return _calendar(transform.name, array).cast(result)
    if transform.name in ("day", "hour"):
        return _to_type(_floor_divide(_ticks(array), _ticks_per(transform.name, kind)), result)
    if _is_integer(kind) and transform.name == "truncate":
        numbers = _ticks(array)
        down = pc.multiply(_floor_divide(numbers, transform.width), transform.width)
        return _to_type(down, result)
    if _is_integer(kind) and transform.name == "bucket":
        return _bucket(kind, array, transform.width)
    return _by_value(transform, kind, array, result)


def python_values(array: pa.Array, kind: Type) -> list[Value]:
    """The values of an array as ``types`` says that they look in Python."""
    if _is_integer(kind):
        numbers: list[Value] = _ticks(array).to_pylist()
        return numbers
    plain: list[Value] = array.to_pylist()
    return plain


def _is_integer(kind: Type) -> bool:
    return str(kind) in _INTEGERS or values.ticks_digits(kind) is not None


def _ticks(array: pa.Array) -> pa.Array:
    """Dates, times and timestamps as the numbers that Iceberg counts them in."""
    width = array.type.bit_width
    return array.view(pa.int32() if width == 32 else pa.int64()).cast(pa.int64())


def _to_type(numbers: pa.Array, wanted: pa.DataType) -> pa.Array:
    """Numbers in the width of a type; those beyond it wrap, as in Java."""
    return numbers.cast(pa.int32() if wanted.bit_width == 32 else pa.int64(), safe=False).view(wanted)


def _floor_divide(numbers: pa.Array, by: int) -> pa.Array:
    """Division that rounds down, also below zero."""
    quotient = pc.divide(numbers, by)
    over = pc.greater(pc.multiply(quotient, by), numbers)
    return pc.subtract(quotient, over.cast(pa.int64()))


def _ticks_per(unit: str, kind: Type) -> int:
    digits = values.ticks_digits(kind)
    if digits is None:
        return 1  # a date already counts days
    ticks: int = (_HOUR if unit == "hour" else _DAY) * 10**digits
    return ticks


def _calendar(unit: str, array: pa.Array) -> pa.Array:
    years = pc.subtract(pc.year(array), 1970)
    if unit == "year":
        return years
    return pc.subtract(pc.add(pc.multiply(years, 12), pc.month(array)), 1)


def _by_value(transform: Transform, kind: Type, array: pa.Array, result: pa.DataType) -> pa.Array:
    encoded = array.dictionary_encode()
    distinct = [transform.apply(kind, value) for value in python_values(encoded.dictionary, kind)]
    return pa.array(distinct, result).take(encoded.indices)


def _bucket(kind: Type, array: pa.Array, width: int) -> pa.Array:
    """Murmur3 of the eight bytes of each number (spec: "Appendix B"), modulo the number of buckets."""
    numbers = _ticks(array)
    if kind in (TIMESTAMP_NS, TIMESTAMPTZ_NS):
        numbers = _floor_divide(numbers, 1000)
    words = numbers.view(pa.uint64())
    low, high = _low(words), pc.shift_right(words, _u64(32))
    state = _round(pa.repeat(_u64(0), len(array)), low)
    state = pc.bit_wise_xor(_round(state, high), _u64(8))
    state = _low(pc.multiply(_xor_shifted(state, 16), _u64(0x85EBCA6B)))
    state = _low(pc.multiply(_xor_shifted(state, 13), _u64(0xC2B2AE35)))
    positive = pc.bit_wise_and(_xor_shifted(state, 16), _u64(0x7FFFFFFF)).cast(pa.int64())
    buckets = pc.subtract(positive, pc.multiply(_floor_divide(positive, width), width))
    return pc.if_else(pc.is_valid(array), buckets, None).cast(pa.int32())


def _round(state: pa.Array, word: pa.Array) -> pa.Array:
    mixed = _low(pc.multiply(_rotated(_low(pc.multiply(word, _u64(0xCC9E2D51))), 15), _u64(0x1B873593)))
    state = _rotated(pc.bit_wise_xor(state, mixed), 13)
    return _low(pc.add(pc.multiply(state, _u64(5)), _u64(0xE6546B64)))


def _rotated(words: pa.Array, bits: int) -> pa.Array:
    left = pc.shift_left(words, _u64(bits))
    return _low(pc.bit_wise_or(left, pc.shift_right(words, _u64(32 - bits))))


def _xor_shifted(words: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_xor(words, pc.shift_right(words, _u64(bits)))


def _low(words: pa.Array) -> pa.Array:
    return pc.bit_wise_and(words, _u64(0xFFFFFFFF))


def _u64(value: int) -> Any:
    return pa.scalar(value, pa.uint64())

"""Hashes of values for theta sketches: MurmurHash3 (x64, 128 bits) of their binary form, a whole column at a time.

Rules of this module (Puffin spec; engine: ThetaSketchAgg, DataSketches' UpdateSketch.update of bytes):

1. A value is hashed as its Iceberg single-value binary form: numbers in little-endian, decimals as the shortest
   big-endian two's complement, texts as UTF-8. A uuid is hashed as its text, because it is one to Spark.
2. Nulls count for nothing, and neither do values whose binary form is empty.
3. The hash is the first 64 bits, with one bit shifted out.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import DecimalType
from lakemeta.iceberg.statistics.theta import SEED

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.iceberg.spec.types import Type

_C1: Final = 0x87C37B91114253D5
_C2: Final = 0x4CF5AD432745937F
_MIX: Final = (0xFF51AFD7ED558CCD, 0xC4CEB9FE1A85EC53)
_BLOCK: Final = 16
_LONG: Final = 1024  # bytes; longer values are hashed one by one
_WORD: Final = 2**64 - 1


def hashes(column: pa.Array, kind: Type) -> Iterator[pa.Array]:
    """The hashes of the different values of a column of a primitive type, in uint64 arrays."""
    distinct = pc.unique(column.drop_null())
    if isinstance(kind, DecimalType):
        distinct = pa.array([values.to_bytes(kind, value) for value in distinct.to_pylist()], pa.binary())
    elif str(kind) == "uuid":
        distinct = pa.array([values.uuid_to_text(value) for value in distinct.to_pylist()], pa.string())
    if pa.types.is_boolean(distinct.type):
        yield _hashed(1, [(distinct.cast(pa.uint8()).cast(pa.uint64()), None)])
    elif _is_bytes(distinct.type):
        yield from _of_bytes(distinct.cast(pa.binary()))
    else:
        width = distinct.type.bit_width // 8
        yield _hashed(width, [(distinct.view(_UNSIGNED[width]).cast(pa.uint64()), None)])


_UNSIGNED: Final = {4: pa.uint32(), 8: pa.uint64()}


def _is_bytes(kind: pa.DataType) -> bool:
    return any(test(kind) for test in (pa.types.is_string, pa.types.is_binary, pa.types.is_fixed_size_binary))


def _of_bytes(column: pa.Array) -> Iterator[pa.Array]:
    """Values of one length at a time."""
    lengths = pc.binary_length(column)
    order = pc.sort_indices(lengths)
    column, start = column.take(order), 0
    for run in pc.value_counts(lengths.take(order)).to_pylist():
        length, count = run["values"], run["counts"]
        part = column.slice(start, count)
        start += count
        if length > _LONG:
            yield pa.array([_hashed_alone(value) for value in part.to_pylist()], pa.uint64())
        elif length:
            yield _hashed(length, [_block(part, at, length) for at in range(0, length, _BLOCK)])


def _block(part: pa.Array, at: int, length: int) -> tuple[pa.Array, pa.Array | None]:
    return _word(part, at, length), _word(part, at + 8, length) if length > at + 8 else None


def _word(part: pa.Array, at: int, length: int) -> pa.Array:
    """Eight bytes of each value as a number, filled with zeros behind their end."""
    taken = pc.binary_slice(part, at, at + 8)
    if length < at + 8:
        taken = pc.binary_join_element_wise(taken, bytes(at + 8 - length), b"")
    data = taken.buffers()[2].slice(8 * taken.offset, 8 * len(taken))
    return pa.Array.from_buffers(pa.uint64(), len(taken), [None, data])


def _hashed(length: int, blocks: list[tuple[pa.Array, pa.Array | None]]) -> pa.Array:
    """The hashes of values of ``length`` bytes, given their blocks of two words; the last one need not be whole."""
    first = second = pa.repeat(pa.scalar(SEED, pa.uint64()), len(blocks[0][0]))
    for number, (low, high) in enumerate(blocks, 1):
        first = pc.bit_wise_xor(first, _times(_rotated(_times(low, _C1), 31), _C2))
        mixed = None if high is None else _times(_rotated(_times(high, _C2), 33), _C1)
        if number * _BLOCK <= length:
            first = _plus(_times(_plus(_rotated(first, 27), second), 5), 0x52DCE729)
            second = pc.bit_wise_xor(second, mixed)
            second = _plus(_times(_plus(_rotated(second, 31), first), 5), 0x38495AB5)
        elif mixed is not None:
            second = pc.bit_wise_xor(second, mixed)
    first, second = (pc.bit_wise_xor(word, _number(length)) for word in (first, second))
    first = _plus(first, second)
    second = _plus(second, first)
    return pc.shift_right(_plus(_mixed(first), _mixed(second)), _number(1))


def _number(value: int) -> pa.Scalar:
    return pa.scalar(value, pa.uint64())


def _times(words: pa.Array, factor: int) -> pa.Array:
    return pc.multiply(words, _number(factor))  # wraps at 64 bits, as pc.add does


def _plus(words: pa.Array, more: Any) -> pa.Array:
    return pc.add(words, _number(more) if isinstance(more, int) else more)


def _rotated(words: pa.Array, bits: int) -> pa.Array:
    return pc.bit_wise_or(pc.shift_left(words, _number(bits)), pc.shift_right(words, _number(64 - bits)))


def _mixed(words: pa.Array) -> pa.Array:
    for factor in _MIX:
        words = _times(pc.bit_wise_xor(words, pc.shift_right(words, _number(33))), factor)
    return pc.bit_wise_xor(words, pc.shift_right(words, _number(33)))


def _hashed_alone(data: bytes) -> int:
    """As ``_hashed``, of one value."""
    first = second = SEED
    for at in range(0, len(data), _BLOCK):
        low, high = struct.unpack("<QQ", data[at : at + _BLOCK].ljust(_BLOCK, b"\0"))
        first ^= _turned(low * _C1, 31) * _C2 & _WORD
        second_part = _turned(high * _C2, 33) * _C1 & _WORD
        if at + _BLOCK <= len(data):
            first = ((_turned(first, 27) + second) * 5 + 0x52DCE729) & _WORD
            second = ((_turned(second ^ second_part, 31) + first) * 5 + 0x38495AB5) & _WORD
        else:
            second ^= second_part  # nothing, where only zeros were filled in
    first, second = first ^ len(data), second ^ len(data)
    first = (first + second) & _WORD
    second = (second + first) & _WORD
    return ((_stirred(first) + _stirred(second)) & _WORD) >> 1


def _turned(word: int, bits: int) -> int:
    word &= _WORD
    return (word << bits | word >> (64 - bits)) & _WORD


def _stirred(word: int) -> int:
    for factor in _MIX:
        word = (word ^ word >> 33) * factor & _WORD
    return word ^ word >> 33

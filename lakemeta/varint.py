"""Numbers without sign in seven bits a byte, the lowest first: Thrift's, protobuf's and ORC's base 128 varints.

Avro's longs have a reader of their own (``avro.container``), which undoes the sign and runs for every value of a
manifest.
"""

from __future__ import annotations

from typing import Final

_MOST_BITS: Final = 64  # no format writes more, so that a damaged length cannot run through a whole file


def read_varint(data: bytes, at: int) -> tuple[int, int]:
    """The number at ``at`` and where the next one starts; IndexError at the end, ValueError for more than ten bytes."""
    byte = data[at]
    at += 1
    if byte < 0x80:
        return byte, at
    value, shift = byte & 0x7F, 7
    while shift < _MOST_BITS:
        byte = data[at]
        at += 1
        value |= (byte & 0x7F) << shift
        if byte < 0x80:
            return value, at
        shift += 7
    raise ValueError("a varint is too long")


def write_varint(out: bytearray, value: int) -> None:
    """Append a number, which is not negative."""
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)

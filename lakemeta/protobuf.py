"""Messages of protocol buffers, without their schema: fields by number, with values that are ints or bytes.

Source: the encoding of protocol buffers. Fields of fixed width are given as their bytes; groups are not read.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.varint import read_varint, write_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

_VARINT: Final = 0
_BYTES: Final = 2
_FIXED: Final = {1: 8, 5: 4}  # wire type: bytes


def read_fields(data: bytes, *, fixed: bool = False) -> Iterator[tuple[int, int | bytes]]:
    """(field number, value) of each field, in order; ``fixed`` says that fields of fixed width may be among them.

    Raises ValueError or IndexError if it is no message.
    """
    at = 0
    while at < len(data):
        tag, at = read_varint(data, at)
        kind = tag & 7
        if kind == _VARINT:
            value, at = read_varint(data, at)
            yield tag >> 3, value
            continue
        if kind == _BYTES:
            size, at = read_varint(data, at)
        elif fixed and kind in _FIXED:
            size = _FIXED[kind]
        else:
            raise ValueError(f"wire type {kind} is not used here")
        if at + size > len(data):
            raise ValueError("a field runs past the end")
        yield tag >> 3, data[at : at + size]
        at += size


def write_fields(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    """A message of these fields: ints, which are not negative, as varints, and bytes with their length."""
    out = bytearray()
    for number, value in fields:
        if isinstance(value, int):
            write_varint(out, number << 3 | _VARINT)
            write_varint(out, value)
        else:
            write_varint(out, number << 3 | _BYTES)
            write_varint(out, len(value))
            out += value
    return bytes(out)

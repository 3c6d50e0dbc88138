"""Thrift's compact protocol, read and written without a schema: what Parquet footers are made of.

A struct is a dict from field id to ``(type, value)``. Values keep their wire types, so a struct that is read
and written again has the same bytes. Integers are Python ints, binary is bytes, a list is ``(element type,
values)``, a map ``(key type, value type, pairs)``. Source: thrift-compact-protocol.md of Apache Thrift.
"""

from __future__ import annotations

from typing import Any, Final

from lakemeta.errors import CorruptMetadataError
from lakemeta.varint import read_varint, write_varint

TRUE: Final = 1
FALSE: Final = 2
BYTE: Final = 3
I16: Final = 4
I32: Final = 5
I64: Final = 6
DOUBLE: Final = 7
BINARY: Final = 8
LIST: Final = 9
SET: Final = 10
MAP: Final = 11
STRUCT: Final = 12

_DEEPEST: Final = 50  # values within values; footers have no ten

Struct = dict[int, tuple[int, Any]]


def loads(data: bytes) -> Struct:
    """Read one struct from the start of ``data``; raises CorruptMetadataError if it does not parse."""
    try:
        return _Reader(data).struct()
    except (IndexError, KeyError, ValueError) as error:
        raise CorruptMetadataError("a Parquet footer is truncated or damaged") from error


def dumps(struct: Struct) -> bytes:
    """The bytes of one struct."""
    out = bytearray()
    _write_struct(out, struct)
    return bytes(out)


class _Reader:
    """A cursor over the bytes of one struct."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.at = 0
        self.depth = 0

    def struct(self) -> Struct:
        fields: Struct = {}
        last = 0
        while head := self.byte():
            kind = head & 0x0F
            last = last + (head >> 4) if head >> 4 else self.zigzag()
            fields[last] = (kind, self.value(kind))
        return fields

    def value(self, kind: int) -> Any:
        if kind in (I16, I32, I64):
            return self.zigzag()
        if kind in (TRUE, FALSE):
            return kind == TRUE
        if kind == BINARY:
            return self.take(self.varint())
        if kind in (BYTE, DOUBLE):
            return self.take(1 if kind == BYTE else 8)
        return self.nested(kind)

    def nested(self, kind: int) -> Any:
        """A value with values in it, KeyError if there is no such kind; ValueError where they are nested too deep."""
        self.depth += 1
        if self.depth > _DEEPEST:
            raise ValueError("it is nested too deep")
        value = {STRUCT: self.struct, LIST: self.sequence, SET: self.sequence, MAP: self.mapping}[kind]()
        self.depth -= 1
        return value

    def sequence(self) -> tuple[int, list[Any]]:
        head = self.byte()
        size = head >> 4 if head >> 4 != 15 else self.varint()
        return head & 0x0F, [self.element(head & 0x0F) for _ in range(size)]

    def mapping(self) -> tuple[int, int, list[tuple[Any, Any]]]:
        size = self.varint()
        kinds = self.byte() if size else 0
        key, value = kinds >> 4, kinds & 0x0F
        return key, value, [(self.element(key), self.element(value)) for _ in range(size)]

    def element(self, kind: int) -> Any:
        return self.byte() == TRUE if kind in (TRUE, FALSE) else self.value(kind)

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def take(self, size: int) -> bytes:
        self.at += size
        if self.at > len(self.data):
            raise IndexError(self.at)
        return self.data[self.at - size : self.at]

    def varint(self) -> int:
        value, self.at = read_varint(self.data, self.at)
        return value

    def zigzag(self) -> int:
        value = self.varint()
        return (value >> 1) ^ -(value & 1)


def _write_struct(out: bytearray, struct: Struct) -> None:
    last = 0
    for field, (kind, value) in sorted(struct.items()):
        wire = (TRUE if value else FALSE) if kind in (TRUE, FALSE) else kind
        if 0 < field - last <= 15:
            out.append((field - last) << 4 | wire)
        else:
            out.append(wire)
            write_varint(out, _zigzag(field))
        last = field
        if kind not in (TRUE, FALSE):
            _write_value(out, kind, value)
    out.append(0)


def _write_value(out: bytearray, kind: int, value: Any) -> None:
    if kind in (I16, I32, I64):
        write_varint(out, _zigzag(value))
    elif kind in (TRUE, FALSE):
        out.append(TRUE if value else FALSE)
    elif kind == BINARY:
        write_varint(out, len(value))
        out += value
    elif kind == STRUCT:
        _write_struct(out, value)
    elif kind == MAP:
        _write_map(out, *value)
    elif kind in (LIST, SET):
        _write_list(out, *value)
    else:
        out += value


def _write_list(out: bytearray, element: int, values: list[Any]) -> None:
    if len(values) < 15:
        out.append(len(values) << 4 | element)
    else:
        out.append(0xF0 | element)
        write_varint(out, len(values))
    for value in values:
        _write_value(out, element, value)


def _write_map(out: bytearray, key: int, value: int, pairs: list[tuple[Any, Any]]) -> None:
    write_varint(out, len(pairs))
    if pairs:
        out.append(key << 4 | value)
    for k, v in pairs:
        _write_value(out, key, k)
        _write_value(out, value, v)


def _zigzag(value: int) -> int:
    return value << 1 if value >= 0 else (-value << 1) - 1

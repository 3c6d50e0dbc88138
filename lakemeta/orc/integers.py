"""Runs of integers in ORC files, without sign (ORC specification: Integer Run Length Encoding, versions 1 and 2)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import CorruptMetadataError
from lakemeta.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Callable

_MASK: Final = (1 << 64) - 1  # writers count in 64 bits, and over their end
_WIDTHS: Final = (*range(1, 25), 26, 28, 30, 32, 40, 48, 56, 64)  # bits of a value by their code


def unsigned_integers(data: bytes, count: int, version: int, where: str) -> list[int]:
    """The first ``count`` integers; ``version`` is that of the encoding. Raises CorruptMetadataError."""
    reader = _Reader(data)
    run: Callable[[], list[int]] = reader.run_1 if version == 1 else reader.run_2
    found: list[int] = []
    try:
        while len(found) < count:
            found += [value & _MASK for value in run()]
    except (IndexError, ValueError):
        raise CorruptMetadataError(f"{where} is damaged: a column ends after {len(found)} of {count} values") from None
    return found[:count]


class _Reader:
    """A cursor over bytes; IndexError at their end."""

    def __init__(self, data: bytes) -> None:
        self.data, self.at = data, 0

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def number(self, size: int) -> int:
        """A whole number of so many bytes, the highest first."""
        self.at += size
        if self.at > len(self.data):
            raise IndexError
        return int.from_bytes(self.data[self.at - size : self.at], "big")

    def varint(self) -> int:
        value, self.at = read_varint(self.data, self.at)
        return value

    def packed(self, count: int, width: int) -> list[int]:
        """So many values of so many bits, the highest first."""
        size = (count * width + 7) // 8
        bits = self.number(size)
        mask, last = (1 << width) - 1, 8 * size - width
        return [bits >> (last - i * width) & mask for i in range(count)]

    def run_1(self) -> list[int]:
        control = self.byte()
        if control >= 0x80:
            return [self.varint() for _ in range(256 - control)]
        step = self.byte()
        step -= (step & 0x80) << 1
        base = self.varint()
        return [base + i * step for i in range(control + 3)]

    def run_2(self) -> list[int]:
        head = self.byte()
        if head < 0x40:  # one value, again and again
            value = self.number((head >> 3 & 7) + 1)
            return [value] * ((head & 7) + 3)
        code = head >> 1 & 0x1F
        count = ((head & 1) << 8 | self.byte()) + 1
        if head < 0x80:
            return self.packed(count, _WIDTHS[code])
        return self.patched(count, _WIDTHS[code]) if head < 0xC0 else self.deltas(count, _WIDTHS[code] if code else 0)

    def patched(self, count: int, width: int) -> list[int]:
        """Values above a base, some of which have more bits, given apart."""
        third, fourth = self.byte(), self.byte()
        base_size, patch_width = (third >> 5) + 1, _WIDTHS[third & 0x1F]
        gap_width, patches = (fourth >> 5) + 1, fourth & 0x1F
        base, sign = self.number(base_size), 1 << (8 * base_size - 1)
        base = -(base ^ sign) if base & sign else base
        values, at = self.packed(count, width), 0
        whole = next(bits for bits in _WIDTHS if bits >= gap_width + patch_width)
        for entry in self.packed(patches, whole):
            at += entry >> patch_width
            values[at] |= (entry & ((1 << patch_width) - 1)) << width
        return [base + value for value in values]

    def deltas(self, count: int, width: int) -> list[int]:
        """A value, and how much each differs from the one before; all go up or all go down."""
        values, first = [self.varint()], self.varint()
        first = (first >> 1) ^ -(first & 1)
        if not width:
            return [values[0] + i * first for i in range(count)]
        values.append(values[0] + first)
        for delta in self.packed(count - 2, width):
            values.append(values[-1] + (delta if first >= 0 else -delta))
        return values[:count]

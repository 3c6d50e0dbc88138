"""Deletion vectors: the blobs of Puffin files that say which rows of a data file are deleted.

A blob is a big-endian length, a magic number, a 64-bit Roaring bitmap in the portable format, and a CRC-32
of magic and bitmap (Puffin spec: "deletion-vector-v1"; Roaring's RoaringFormatSpec). The bitmap is decoded
here: its dense containers already are bits in the order that Arrow wants, so nothing is gained by going
through a set of numbers.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import TYPE_CHECKING, Final

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Generator, Iterator

DV_MAGIC: Final = b"\xd1\xd3\x39\x64"
RUN_COOKIE: Final = 12347
PLAIN_COOKIE: Final = 12346
ARRAY_MAX: Final = 4096
NO_OFFSETS_BELOW: Final = 4
_HIGH_END: Final = (1 << 31) - 1  # Iceberg takes no higher keys (RoaringPositionBitmap)
CONTAINER_ROWS: Final = 65_536
CONTAINER_BYTES: Final = CONTAINER_ROWS // 8


def deletion_vector(blob: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    """The bitmap of a blob: (first row, 8192 bytes of bits, lowest first) for each 65536 rows with deletes, ascending.

    One at a time: a run of a few bytes may stand for 65536 rows. Raises CorruptMetadataError, naming ``where``, if
    length, magic, CRC or bitmap are wrong.
    """
    if len(blob) < 12 or blob[4:8] != DV_MAGIC or struct.unpack(">I", blob[:4])[0] != len(blob) - 8:
        raise CorruptMetadataError(f"the deletion vector in {where} does not start as one")
    if zlib.crc32(blob[4:-4]) != struct.unpack(">I", blob[-4:])[0]:
        raise CorruptMetadataError(f"the deletion vector in {where} does not match its checksum")
    try:
        yield from _bitmaps(blob[8:-4])
    except struct.error as error:
        raise CorruptMetadataError(f"the deletion vector in {where} is cut off") from error
    except _DamageError as error:
        raise CorruptMetadataError(f"the deletion vector in {where} is no Roaring bitmap: {error}") from error


class _DamageError(Exception):
    """What is wrong with a bitmap."""


def _bitmaps(data: bytes) -> Generator[tuple[int, bytes], None, None]:
    (count,) = struct.unpack_from("<Q", data)
    at, before = 8, -1
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        _require(before < high < _HIGH_END, "its 32-bit parts are not in order")
        before = high
        at = yield from _containers(data, at + 4, high << 32)


def _containers(data: bytes, at: int, first: int) -> Generator[tuple[int, bytes], None, int]:
    """The containers of one 32-bit bitmap, whose rows count from ``first``; gives back where it ends."""
    size, runs, at = _header(data, at)
    _require(size <= CONTAINER_ROWS, f"it says that it has {size} containers")
    pairs = struct.unpack_from(f"<{2 * size}H", data, at)
    _require(all(a < b for a, b in pairwise(pairs[::2])), "its containers are not in order")
    at += 4 * size
    if not runs or size >= NO_OFFSETS_BELOW:
        at += 4 * size
    for n in range(size):
        is_run = bool(runs) and bool(runs[n // 8] >> n % 8 & 1)
        bits, at = _container(data, at, pairs[2 * n + 1] + 1, is_run)
        yield first + pairs[2 * n] * CONTAINER_ROWS, bits
    return at


def _header(data: bytes, at: int) -> tuple[int, bytes, int]:
    """The number of containers, which are runs (a bit each, empty if none may be), where it goes on."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie & 0xFFFF == RUN_COOKIE:
        size = (cookie >> 16) + 1
        end = at + 4 + (size + 7) // 8
        if end > len(data):
            raise struct.error
        return size, data[at + 4 : end], end
    _require(cookie == PLAIN_COOKIE, f"it starts with {cookie}")
    return struct.unpack_from("<I", data, at + 4)[0], b"", at + 8


def _container(data: bytes, at: int, cardinality: int, is_run: bool) -> tuple[bytes, int]:
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        return _from_runs(struct.unpack_from(f"<{2 * count}H", data, at + 2)), at + 2 + 4 * count
    if cardinality > ARRAY_MAX:
        return struct.unpack_from(f"{CONTAINER_BYTES}s", data, at)[0], at + CONTAINER_BYTES
    bits = bytearray(CONTAINER_BYTES)
    for row in struct.unpack_from(f"<{cardinality}H", data, at):
        bits[row >> 3] |= 1 << (row & 7)
    return bytes(bits), at + 2 * cardinality


def _from_runs(runs: tuple[int, ...]) -> bytes:
    """Bits from pairs of a start and the number of rows after it, which stay in their container and do not overlap."""
    bits, before = 0, -1
    for start, length in zip(runs[::2], runs[1::2], strict=True):
        _require(before < start, "its runs overlap")
        before = start + length
        bits |= ((1 << length + 1) - 1) << start
        _require(before < CONTAINER_ROWS, f"a run goes up to {before}, beyond its container")
    return bits.to_bytes(CONTAINER_BYTES, "little")


def _require(right: bool, otherwise: str) -> None:
    if not right:
        raise _DamageError(otherwise)

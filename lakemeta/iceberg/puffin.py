"""Deletion vectors: the blobs of Puffin files that say which rows of a data file are deleted.

A blob is a big-endian length, a magic number, a 64-bit Roaring bitmap in the portable format, and a CRC-32
of magic and bitmap (Puffin spec: "deletion-vector-v1"; Roaring's RoaringFormatSpec). The bitmap is decoded
here: its dense containers already are bits in the order that Arrow wants, so nothing is gained by going
through a set of numbers.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator

DV_MAGIC: Final = b"\xd1\xd3\x39\x64"
_RUN_COOKIE: Final = 12347
_PLAIN_COOKIE: Final = 12346
_ARRAY_MAX: Final = 4096
_NO_OFFSETS_BELOW: Final = 4
CONTAINER_ROWS: Final = 65_536
CONTAINER_BYTES: Final = CONTAINER_ROWS // 8


def deletion_vector(blob: bytes, where: str) -> Iterator[tuple[int, bytes]]:
    """The bitmap of a blob: (first row, 8192 bytes of bits, lowest first) for each 65536 rows with deletes.

    Raises CorruptMetadataError, naming ``where``, if length, magic, CRC or bitmap are wrong.
    """
    if len(blob) < 12 or blob[4:8] != DV_MAGIC or struct.unpack(">I", blob[:4])[0] != len(blob) - 8:
        raise CorruptMetadataError(f"the deletion vector in {where} does not start as one")
    if zlib.crc32(blob[4:-4]) != struct.unpack(">I", blob[-4:])[0]:
        raise CorruptMetadataError(f"the deletion vector in {where} does not match its checksum")
    try:
        yield from _bitmaps(blob[8:-4])
    except (struct.error, IndexError) as error:
        raise CorruptMetadataError(f"the deletion vector in {where} is cut off") from error


def _bitmaps(data: bytes) -> Iterator[tuple[int, bytes]]:
    (count,) = struct.unpack_from("<Q", data)
    at = 8
    for _ in range(count):
        (high,) = struct.unpack_from("<I", data, at)
        containers, at = _containers(data, at + 4)
        for key, bits in containers:
            yield (high << 32) + key * CONTAINER_ROWS, bits


def _containers(data: bytes, at: int) -> tuple[list[tuple[int, bytes]], int]:
    """The containers of one 32-bit bitmap, and where it ends."""
    size, runs, at = _header(data, at)
    pairs = struct.unpack_from(f"<{2 * size}H", data, at)
    at += 4 * size
    if not runs or size >= _NO_OFFSETS_BELOW:
        at += 4 * size
    found = []
    for n in range(size):
        is_run = bool(runs) and bool(runs[n // 8] >> n % 8 & 1)
        bits, at = _container(data, at, pairs[2 * n + 1] + 1, is_run)
        found.append((pairs[2 * n], bits))
    return found, at


def _header(data: bytes, at: int) -> tuple[int, bytes, int]:
    """The number of containers, which are runs (a bit each, empty if none may be), where it goes on."""
    (cookie,) = struct.unpack_from("<I", data, at)
    if cookie & 0xFFFF == _RUN_COOKIE:
        size = (cookie >> 16) + 1
        end = at + 4 + (size + 7) // 8
        return size, data[at + 4 : end], end
    if cookie != _PLAIN_COOKIE:
        raise IndexError(cookie)
    return struct.unpack_from("<I", data, at + 4)[0], b"", at + 8


def _container(data: bytes, at: int, cardinality: int, is_run: bool) -> tuple[bytes, int]:
    if is_run:
        (count,) = struct.unpack_from("<H", data, at)
        return _from_runs(struct.unpack_from(f"<{2 * count}H", data, at + 2)), at + 2 + 4 * count
    if cardinality > _ARRAY_MAX:
        return struct.unpack_from(f"{CONTAINER_BYTES}s", data, at)[0], at + CONTAINER_BYTES
    bits = bytearray(CONTAINER_BYTES)
    for row in struct.unpack_from(f"<{cardinality}H", data, at):
        bits[row >> 3] |= 1 << (row & 7)
    return bytes(bits), at + 2 * cardinality


def _from_runs(runs: tuple[int, ...]) -> bytes:
    bits = 0
    for start, length in zip(runs[::2], runs[1::2], strict=True):
        bits |= ((1 << length + 1) - 1) << start
    return bits.to_bytes(CONTAINER_BYTES, "little")

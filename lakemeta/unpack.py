"""Decompression with an end: what a few bytes may become is bounded, for a file from a stranger may become anything.

A file may unpack to ``FLOOR`` bytes, or ``RATIO`` times its size if that is more. Metadata of real tables shrinks to
a twentieth at best; a file made to exhaust memory shrinks to a thousandth. Data may have columns of one value, so a
data file may unpack to ``DATA_RATIO`` times its size, the most that deflate can do.
"""

from __future__ import annotations

import bz2
import lzma
import struct
import zlib
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Callable

FLOOR: Final = 64 * 2**20
RATIO: Final = 100
DATA_RATIO: Final = 1032
_CHUNK: Final = 2**20
GZIP_MAGIC: Final = b"\x1f\x8b"
ERRORS: Final = (zlib.error, lzma.LZMAError, OSError, ValueError, EOFError, IndexError, MemoryError)


_RECORDS: Final = 100_000
_DENSE: Final = 40
_DENSE_FROM: Final = 4 * 2**20  # bytes
_VALUES: Final = 5_000_000


class TooLargeError(ValueError):
    """Bytes unpack to more than they may."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"it unpacks to more than {limit} bytes, the most that lakemeta reads of a file of its size")


def allowance(packed: int, ratio: int = RATIO) -> int:
    """How many bytes a file of ``packed`` bytes may unpack to."""
    return max(FLOOR, ratio * packed)


def most_records(packed: int) -> int:
    """How many records a metadata file of ``packed`` bytes may hold: each names something of its own."""
    return _RECORDS + packed


def reader(content: bytes, packed: int) -> BytesIO:
    """The content of a block of ``packed`` bytes, to decode from.

    Of one that shrank as no metadata does, the reads are counted, of which each value takes one or more: a value is
    two hundred times as large in memory as its byte. Counting makes decoding several times slower.
    """
    is_dense = len(content) > max(_DENSE_FROM, _DENSE * packed)
    return _Counted(content, _VALUES + _DENSE * packed) if is_dense else BytesIO(content)


class _Counted(BytesIO):
    def __init__(self, content: bytes, reads: int) -> None:
        super().__init__(content)
        self._left = reads

    def read(self, size: int | None = -1, /) -> bytes:
        self._left -= 1
        if self._left < 0:
            raise ValueError("it holds more values than a block of its size does")
        return super().read(size)


def gunzip(data: bytes, limit: int) -> bytes:
    """The content of a gzip file, of one member or several; raises one of ``ERRORS``."""
    parts, left, room = [], data, limit
    while left:
        unpacker = zlib.decompressobj(16 + zlib.MAX_WBITS)
        part = _all(unpacker, left, room, limit)
        parts.append(part)
        room -= len(part)
        left = unpacker.unused_data.lstrip(b"\0")
    return b"".join(parts)


def unpack_block(codec: str, data: bytes, limit: int) -> bytes | None:
    """The content of a block in one of Avro's codecs, None for one that is not known; raises one of ``ERRORS``."""
    unpack: Callable[[bytes, int], bytes] | None = {
        "null": lambda raw, _: bytes(raw),
        "deflate": lambda raw, most: _all(zlib.decompressobj(-zlib.MAX_WBITS), raw, most, most),
        "bzip2": lambda raw, most: _all(bz2.BZ2Decompressor(), raw, most, most),
        "xz": lambda raw, most: _all(lzma.LZMADecompressor(), raw, most, most),
        "zstandard": _zstandard,
        "snappy": _snappy,
    }.get(codec)
    return None if unpack is None else unpack(data, limit)


def _all(unpacker: Any, data: bytes, room: int, limit: int) -> bytes:
    # One byte more than there is room for shows what does not fit.
    content: bytes = unpacker.decompress(data, room + 1)
    if len(content) > room:
        raise TooLargeError(limit)
    if not unpacker.eof:
        raise EOFError("the compressed bytes are cut off")
    return content


def _zstandard(data: bytes, limit: int) -> bytes:
    import pyarrow as pa

    stream, parts, size = pa.CompressedInputStream(pa.BufferReader(data), "zstd"), [], 0
    while chunk := stream.read(_CHUNK):
        parts.append(chunk)
        size += len(chunk)
        if size > limit:
            raise TooLargeError(limit)
    return b"".join(parts)


def _snappy(data: bytes, limit: int) -> bytes:
    """A block of Snappy starts with its unpacked length; Avro puts a CRC-32 of the content behind it."""
    import pyarrow as pa

    size, shift = 0, 0
    for byte in data[:5]:
        size |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    if size > limit:
        raise TooLargeError(limit)
    unpacked: bytes = pa.decompress(data[:-4], size, "snappy", asbytes=True)
    if struct.pack(">I", zlib.crc32(unpacked)) != data[-4:]:
        raise ValueError("its checksum differs")
    return unpacked

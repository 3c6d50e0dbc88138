"""What ORC files say of themselves, as far as it takes to read a column's stream, or to read a column as another type.

Source: the ORC specification, version 1. Messages are protocol buffers: a message is a dict from field number to the
values of that field, in order, which are ints or bytes.
"""

from __future__ import annotations

import io
import zlib
from typing import TYPE_CHECKING, BinaryIO, Final

import attrs
import pyarrow as pa

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.protobuf import read_fields, write_fields
from lakemeta.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Mapping

Message = dict[int, list["int | bytes"]]

SECONDARY: Final = 5
_CODECS: Final = ("none", "zlib", "snappy", "lzo", "lz4", "zstd")
_LEAST_BLOCK: Final = 1024
# Field numbers of the messages in orc_proto.proto.
_FOOTER_LENGTH, _COMPRESSION, _BLOCK_SIZE = 1, 2, 3
_STRIPES, _TYPES = 3, 4
_KIND, _SUBTYPES = 1, 2


@attrs.frozen
class OrcFile:
    """A file's tail. ``kinds`` and ``children`` are of its types, which are numbered depth first."""

    source: BinaryIO
    where: str
    postscript: Message
    footer: Message
    footer_start: int
    kinds: tuple[int, ...]
    children: tuple[tuple[int, ...], ...]

    @classmethod
    def open(cls, source: BinaryIO, where: str) -> OrcFile:
        """Read the tail of a file; raises CorruptMetadataError."""
        try:
            size = source.seek(0, io.SEEK_END)
            length = _read(source, size - 1, 1)[0]
            postscript = _message(_read(source, size - 1 - length, length))
            footer_start = size - 1 - length - _int(postscript, _FOOTER_LENGTH)
            packed = _read(source, footer_start, _int(postscript, _FOOTER_LENGTH))
            footer = _message(_unpacked(packed, postscript, where))
            types = [_message(_bytes(part)) for part in footer[_TYPES]]
            kinds = tuple(_int(kind, _KIND) for kind in types)
            children = tuple(_ints(kind.get(_SUBTYPES, [])) for kind in types)
        except (LookupError, ValueError, TypeError, OSError, zlib.error) as error:
            raise CorruptMetadataError(f"{where} has an ORC footer that does not parse") from error
        return cls(source, where, postscript, footer, footer_start, kinds, children)

    def with_kinds(self, kinds: Mapping[int, int]) -> BinaryIO:
        """The file with other kinds for some of its types."""
        types: list[int | bytes] = []
        for number, part in enumerate(self.footer[_TYPES]):
            kind = _message(_bytes(part))
            types.append(_dumped({**kind, _KIND: [kinds.get(number, _int(kind, _KIND))]}))
        footer = _packed(_dumped({**self.footer, _TYPES: types}), self.postscript)
        postscript = _dumped({**self.postscript, _FOOTER_LENGTH: [len(footer)]})
        return io.BufferedReader(
            _Spliced(self.source, self.footer_start, footer + postscript + bytes([len(postscript)]))
        )

    def stripe(self, number: int) -> Stripe:
        """A stripe's own footer."""
        try:
            stripe = _message(_bytes(self.footer[_STRIPES][number]))
            start = _int(stripe, 1)
            end = start + _int(stripe, 2) + _int(stripe, 3)
            packed = _read(self.source, end, _int(stripe, 4))
            footer = _message(_unpacked(packed, self.postscript, self.where))
            streams: dict[tuple[int, int], tuple[int, int]] = {}
            for part in footer.get(1, []):
                stream = _message(_bytes(part))
                streams[_int(stream, 1), _int(stream, 2)] = (start, _int(stream, 3))
                start += _int(stream, 3)
            encodings = tuple(_int(_message(_bytes(part)), 1) for part in footer.get(2, []))
            zone = b"".join(map(_bytes, footer.get(3, []))).decode()
        except (LookupError, ValueError, TypeError, OSError, zlib.error) as error:
            raise CorruptMetadataError(f"{self.where} has a stripe footer that does not parse") from error
        return Stripe(self, streams, encodings, zone)


@attrs.frozen
class Stripe:
    """Where streams lie, by kind and column, how columns are encoded, and the time zone of its writer."""

    file: OrcFile
    streams: Mapping[tuple[int, int], tuple[int, int]]
    encodings: tuple[int, ...]
    zone: str

    def stream(self, kind: int, column: int) -> bytes:
        """The unpacked bytes of a stream, none if the stripe does not have it."""
        start, length = self.streams.get((kind, column), (0, 0))
        try:
            return _unpacked(_read(self.file.source, start, length), self.file.postscript, self.file.where)
        except (LookupError, ValueError, OSError, zlib.error) as error:
            raise CorruptMetadataError(f"{self.file.where} has a stream that does not unpack") from error


class _Spliced(io.RawIOBase):
    """A file up to a byte, and other bytes from there on."""

    def __init__(self, source: BinaryIO, end: int, tail: bytes) -> None:
        self._source, self._end, self._tail, self._at = source, end, tail, 0

    def readable(self) -> bool:
        return True

    def seekable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._at

    def seek(self, offset: int, whence: int = io.SEEK_SET) -> int:
        base = {io.SEEK_SET: 0, io.SEEK_CUR: self._at, io.SEEK_END: self._end + len(self._tail)}[whence]
        self._at = base + offset
        return self._at

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        if self._at < self._end:
            found = _read(self._source, self._at, min(len(buffer), self._end - self._at))
        else:
            found = self._tail[self._at - self._end :][: len(buffer)]
        buffer[: len(found)] = found
        self._at += len(found)
        return len(found)


def _read(source: BinaryIO, start: int, length: int) -> bytes:
    if start < 0:
        raise ValueError("before the start of the file")
    source.seek(start)
    found = source.read(length)
    if len(found) != length:
        raise ValueError("after the end of the file")
    return found


def _message(data: bytes) -> Message:
    found: Message = {}
    for number, value in read_fields(data, fixed=True):
        found.setdefault(number, []).append(value)
    return found


def _dumped(message: Message) -> bytes:
    """A message whose values are ints, texts and messages: what footers have."""
    return write_fields((number, part) for number, parts in sorted(message.items()) for part in parts)


def _int(message: Message, number: int) -> int:
    """A number of a message; zero is not written."""
    value = message.get(number, [0])[-1]
    if not isinstance(value, int):
        raise TypeError("bytes where a number should stand")
    return value


def _bytes(part: int | bytes) -> bytes:
    if not isinstance(part, bytes):
        raise TypeError("a number where bytes should stand")
    return part


def _ints(parts: list[int | bytes]) -> tuple[int, ...]:
    """Numbers that may be packed."""
    found: list[int] = []
    for part in parts:
        if isinstance(part, int):
            found.append(part)
            continue
        at = 0
        while at < len(part):
            number, at = read_varint(part, at)
            found.append(number)
    return tuple(found)


def _unpacked(data: bytes, postscript: Message, where: str) -> bytes:
    codec = _CODECS[_int(postscript, _COMPRESSION)]
    if codec == "none":
        return data
    limit = max(_LEAST_BLOCK, _int(postscript, _BLOCK_SIZE))
    out, at = bytearray(), 0
    while at < len(data):
        head = int.from_bytes(data[at : at + 3], "little")
        chunk = data[at + 3 : at + 3 + (head >> 1)]
        if len(chunk) != head >> 1:
            raise ValueError("a block is cut off")
        out += chunk if head & 1 else _block(codec, chunk, limit, where)
        at += 3 + len(chunk)
    return bytes(out)


def _block(codec: str, data: bytes, limit: int, where: str) -> bytes:
    """A block, which takes no more than ``limit`` bytes."""
    if codec == "zlib":
        return zlib.decompressobj(-zlib.MAX_WBITS).decompress(data, limit)
    if codec == "zstd":
        with pa.CompressedInputStream(pa.BufferReader(data), "zstd") as stream:
            return bytes(stream.read(limit))
    if codec == "snappy":
        return bytes(pa.decompress(data, min(limit, read_varint(data, 0)[0]), "snappy", asbytes=True))
    raise UnsupportedFeatureError(
        f"{where} has timestamps before 1677 or after 2262, which lakemeta does not read from ORC files in {codec}; "
        f"rewrite them with another engine first"
    )


def _packed(data: bytes, postscript: Message) -> bytes:
    """Bytes in blocks that are not compressed, if the file has blocks."""
    if not _int(postscript, _COMPRESSION):
        return data
    step = max(_LEAST_BLOCK, _int(postscript, _BLOCK_SIZE))
    parts = (data[at : at + step] for at in range(0, len(data), step))
    return b"".join((len(part) << 1 | 1).to_bytes(3, "little") + part for part in parts)

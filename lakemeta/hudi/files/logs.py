"""Hudi's log file format: blocks one after another, as bytes in and out.

The same form holds data deltas, the archived timeline of table version 6 and the metadata table. All
integers are big-endian. A block is::

    "#HUDI#"   i64 size of what follows   i32 version (1)   i32 type   header map
    i64 content length, content   footer map   i64 size of everything before this field

and a map is ``i32 count`` and ``count`` times ``i32 key, i32 length, UTF-8 text``. Source:
HoodieLogFormatWriter and HoodieLogFileReader.
"""

from __future__ import annotations

import struct
from enum import IntEnum
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC: Final = b"#HUDI#"
VERSION: Final = 1
_SIZE: Final = struct.Struct(">q")
_INT: Final = struct.Struct(">i")
_MIN_BLOCK: Final = 4 + 4 + 4 + 8 + 4 + 8  # version, type, two empty maps, empty content, reverse pointer


class BlockType(IntEnum):
    """What a block holds (HoodieLogBlockType, in its order)."""

    COMMAND = 0
    DELETE = 1
    CORRUPT = 2
    AVRO_DATA = 3
    HFILE_DATA = 4
    PARQUET_DATA = 5
    CDC_DATA = 6


class HeaderKey(IntEnum):
    """The keys of a block's header (HeaderMetadataType, in its order)."""

    INSTANT_TIME = 0
    TARGET_INSTANT_TIME = 1
    SCHEMA = 2
    COMMAND_BLOCK_TYPE = 3
    COMPACTED_BLOCK_TIMES = 4
    RECORD_POSITIONS = 5
    BLOCK_IDENTIFIER = 6
    IS_PARTIAL = 7
    BASE_FILE_INSTANT_TIME_OF_RECORD_POSITIONS = 8


ROLLBACK_COMMAND: Final = "0"  # the one COMMAND_BLOCK_TYPE there is: HoodieCommandBlockTypeEnum.ROLLBACK_BLOCK


@attrs.frozen(slots=True)
class LogBlock:
    """One whole block; ``offset`` is the byte of its magic in the file. Unknown header keys stay ints."""

    offset: int
    type: BlockType
    header: Mapping[int, str]
    content: bytes = attrs.field(repr=False)

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block."""
        return self.header.get(HeaderKey.INSTANT_TIME)

    @property
    def rolled_back_instant(self) -> str | None:
        """For a rollback command: the instant whose earlier blocks no longer count."""
        if self.type is BlockType.COMMAND and self.header.get(HeaderKey.COMMAND_BLOCK_TYPE) == ROLLBACK_COMMAND:
            return self.header.get(HeaderKey.TARGET_INSTANT_TIME)
        return None

    @property
    def schema(self) -> str | None:
        """The Avro schema (JSON) that the block's records were written with."""
        return self.header.get(HeaderKey.SCHEMA)


@attrs.frozen(slots=True)
class CorruptBlock:
    """Bytes from a magic to the next one (or the end) that are no whole block, as a torn write leaves them.

    ``header`` is what could be read of it, for finding out whose write it was; often empty.
    """

    offset: int
    end: int
    problem: str
    header: Mapping[int, str] = attrs.field(factory=dict)

    @property
    def instant_time(self) -> str | None:
        """The instant that wrote the block, if that much of it can be read."""
        return self.header.get(HeaderKey.INSTANT_TIME)


def read_blocks(data: bytes, where: str) -> Iterator[LogBlock | CorruptBlock]:
    """The blocks of a log file, in file order; an empty file has none.

    A block whose size, reverse pointer or successor does not fit comes as CorruptBlock, and reading goes on
    at the next magic, as HoodieLogFileReader does. Raises CorruptMetadataError, naming ``where`` and the
    byte, if the file does not start with the magic, or for a block type or format version that does not
    exist.
    """
    position = 0
    while position < len(data):
        if not data.startswith(MAGIC, position):
            raise _error(where, position, "a block of a Hudi log file should start here")
        end = _block_end(data, position)
        block = _parse(data, position, end, where) if end is not None else None
        if block is None:
            following = data.find(MAGIC, position + len(MAGIC))
            end = following if following >= 0 else len(data)
            yield CorruptBlock(position, end, "the block is cut off or damaged", _salvage_header(data, position, end))
        else:
            yield block
        assert end is not None
        position = end


def encode_block(block_type: BlockType, header: Mapping[int, str], content: bytes) -> bytes:
    """The bytes of one block; header keys go in the order given, the footer is empty."""
    body = b"".join(
        (
            _INT.pack(VERSION),
            _INT.pack(block_type),
            _encode_map(header),
            _SIZE.pack(len(content)),
            content,
            _encode_map({}),
        )
    )
    total = len(MAGIC) + 8 + len(body)
    return b"".join((MAGIC, _SIZE.pack(len(body) + 8), body, _SIZE.pack(total)))


def _block_end(data: bytes, position: int) -> int | None:
    start = position + len(MAGIC)
    if start + 8 > len(data):
        return None
    (size,) = _SIZE.unpack_from(data, start)
    end = start + 8 + size
    if size < _MIN_BLOCK or end > len(data):
        return None
    (reverse,) = _SIZE.unpack_from(data, end - 8)
    if reverse != size + len(MAGIC) or not (end == len(data) or data.startswith(MAGIC, end)):
        return None
    return int(end)


def _parse(data: bytes, position: int, end: int, where: str) -> LogBlock | None:
    start = position + len(MAGIC) + 8
    version, type_number = struct.unpack_from(">ii", data, start)
    if version != VERSION:
        raise _error(where, start, f"log format version {version} is unknown, only {VERSION} is read")
    if type_number not in BlockType._value2member_map_:
        raise _error(where, start + 4, f"block type {type_number} is unknown")
    limit = end - 8
    try:
        header, content_at = _decode_map(data, start + 8, limit)
        (length,) = _SIZE.unpack_from(data, content_at)
        content_end = content_at + 8 + length
        if not 0 <= length <= limit - content_at - 8:
            return None
        _, footer_end = _decode_map(data, content_end, limit)
    except (struct.error, ValueError):
        return None
    if footer_end != limit:
        return None
    return LogBlock(position, BlockType(type_number), header, data[content_at + 8 : content_end])


def _salvage_header(data: bytes, position: int, end: int) -> dict[int, str]:
    try:
        return _decode_map(data, position + len(MAGIC) + 16, end)[0]
    except (struct.error, ValueError):
        return {}


def _encode_map(entries: Mapping[int, str]) -> bytes:
    parts = [_INT.pack(len(entries))]
    for key, text in entries.items():
        raw = text.encode()
        parts += [_INT.pack(key), _INT.pack(len(raw)), raw]
    return b"".join(parts)


def _decode_map(data: bytes, position: int, limit: int) -> tuple[dict[int, str], int]:
    (count,) = _INT.unpack_from(data, position)
    position += 4
    entries: dict[int, str] = {}
    if not 0 <= count <= (limit - position) // 8:
        raise ValueError("a map cannot have that many entries")
    for _ in range(count):
        key, length = struct.unpack_from(">ii", data, position)
        position += 8
        if not 0 <= length <= limit - position:
            raise ValueError("a map entry is longer than its block")
        entries[key] = data[position : position + length].decode()
        position += length
    return entries, position


def _error(where: str, position: int, problem: str) -> CorruptMetadataError:
    return CorruptMetadataError(f"{where} is damaged at byte {position}: {problem}")

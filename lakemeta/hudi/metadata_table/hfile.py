"""Reading HFile version 3, the sorted key-value file of Hudi's metadata table, block by block.

A file is data blocks, meta blocks, then what is loaded on open (root index, meta index, file info), then a
trailer of 4096 bytes. Keys are record keys as UTF-8 and sorted as bytes; the HBase cell around them
(family, timestamp, type) is constant. Both writers are read: HBase's (Hudi up to 1.0, minor version 3,
CRC32C) and Hudi's own (1.1 and newer, minor version 0, no checksum). Integers are big-endian. Sources:
HBase HFileBlock, HFileBlockIndex, FixedFileTrailer; Hudi HFileReaderImpl and HFileWriterImpl.

Codecs are NONE and GZ. A gzip stream carries its own CRC32, so a CRC32C of a block is not computed again.
"""

from __future__ import annotations

import struct
from bisect import bisect_right
from itertools import pairwise
from operator import lt
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.metadata_table.hfile_format import (
    CODECS,
    DATA,
    FILE_INFO,
    INTERMEDIATE_INDEX,
    LEAF_INDEX,
    MAJOR_VERSION,
    MAX_INDEX_LEVELS,
    ROOT_INDEX,
    TRAILER_MAGIC,
    TRAILER_SIZE,
    IndexEntry,
    corrupt,
    parse_nonroot_index,
    parse_pairs,
    parse_root_index,
    protobuf_bytes,
    protobuf_ints,
    read_block,
)
from lakemeta.varint import read_varint

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping

    Read = Callable[[int, int], bytes]

_NOT_IN_ORDER = "the keys of a block are not in order"


@attrs.frozen(slots=True)
class HFile:
    """An open HFile. ``info`` is its file info, ``entry_count`` the number of its key-value pairs.

    ``read`` gives bytes of it by offset and length, ``end`` is where its trailer begins, and ``first_and_last`` are the
    offsets that the trailer gives of its data blocks.
    """

    where: str
    read: Read = attrs.field(repr=False)
    end: int
    codec: str
    entry_count: int
    first_and_last: tuple[int | None, int | None]
    index: tuple[IndexEntry, ...] = attrs.field(repr=False)
    index_levels: int
    info: Mapping[str, bytes] = attrs.field(repr=False)

    @property
    def schema(self) -> str:
        """The Avro schema (JSON) of the values."""
        try:
            return self.info["schema"].decode()
        except (KeyError, UnicodeDecodeError) as error:
            raise corrupt(self.where, 0, "its file info has no Avro schema") from error

    def entries(self) -> Iterator[tuple[bytes, bytes]]:
        """Every (key, value) in key order; raises CorruptMetadataError where the file is damaged."""
        found = 0
        last = b""
        for leaf in self._leaves(self.index, self.index_levels):
            pairs = self._pairs(leaf)
            if pairs and pairs[0][0] <= last:
                raise corrupt(self.where, leaf.offset, _NOT_IN_ORDER)
            last = pairs[-1][0] if pairs else last
            found += len(pairs)
            yield from pairs
        if found != self.entry_count:
            raise corrupt(self.where, 0, f"it holds {found} entries, the trailer says {self.entry_count}")

    def get(self, key: bytes) -> bytes | None:
        """The value of one key, or None; reads the one block it can be in."""
        entries, level = self.index, self.index_levels
        while True:
            at = bisect_right(entries, key, key=lambda entry: entry.key) - 1
            if at < 0:
                return None
            if level == 1:
                return dict(self._pairs(entries[at])).get(key)
            entries, level = self._index_block(entries[at]), level - 1

    def blocks(self) -> list[IndexEntry]:
        """Where its data blocks are, in key order.

        Raises CorruptMetadataError if they are not one after the other, or are not all there: nothing but the codec
        guards the index, and what it misses would seem to have no entries.
        """
        blocks = list(self._leaves(self.index, self.index_levels))
        for before, block in pairwise([IndexEntry(b"", 0, 0), *blocks]):
            after = before.offset + before.size
            # Only blocks of an index of several levels lie between data blocks.
            fits = block.offset == after if self.index_levels == 1 else block.offset >= after
            if not fits or not 0 < block.size <= self.end - block.offset or (after and block.key <= before.key):
                raise corrupt(self.where, block.offset, "by its index, a block cannot be here")
        if blocks and (blocks[0].offset, blocks[-1].offset) != self.first_and_last:
            raise corrupt(self.where, self.end, "its index does not have the blocks that the trailer names")
        if not blocks and self.entry_count:
            raise corrupt(self.where, self.end, f"its index is empty, and the trailer says {self.entry_count} entries")
        return blocks

    def _leaves(self, entries: tuple[IndexEntry, ...], level: int) -> Iterator[IndexEntry]:
        for entry in entries:
            if level == 1:
                yield entry
            else:
                yield from self._leaves(self._index_block(entry), level - 1)

    def _index_block(self, entry: IndexEntry) -> tuple[IndexEntry, ...]:
        magic, body = read_block(_at(self.read, entry, self.end), entry.offset, self.codec, self.where)
        if magic not in (LEAF_INDEX, INTERMEDIATE_INDEX):
            raise corrupt(self.where, entry.offset, f"an index block was expected, not {magic!r}")
        try:
            return parse_nonroot_index(body)
        except (struct.error, ValueError, IndexError) as error:
            raise corrupt(self.where, entry.offset, "an index block is damaged") from error

    def _pairs(self, entry: IndexEntry) -> list[tuple[bytes, bytes]]:
        return read_pairs(_at(self.read, entry, self.end), entry.offset, self.codec, self.where)


def read_pairs(block: bytes, offset: int, codec: str, where: str) -> list[tuple[bytes, bytes]]:
    """The (key, value) pairs of the data block at an offset, in key order; ``block`` as for ``read_block``."""
    magic, body = read_block(block, offset, codec, where)
    if magic != DATA:
        raise corrupt(where, offset, f"a data block was expected, not {magic!r}")
    try:
        pairs = parse_pairs(body)
    except (struct.error, ValueError, IndexError) as error:
        raise corrupt(where, offset, f"a data block is damaged: {error}") from error
    keys = [key for key, _ in pairs]
    if not all(map(lt, keys, keys[1:])):
        raise corrupt(where, offset, _NOT_IN_ORDER)
    return pairs


def _at(read: Read, entry: IndexEntry, end: int) -> bytes:
    """What the index says is there, as far as it lies before the trailer."""
    return read(entry.offset, min(entry.size, end - entry.offset)) if 0 <= entry.offset < end else b""


def open_hfile(data: bytes, where: str) -> HFile:
    """Open an HFile that is at hand as a whole; raises as :func:`open_stored_hfile`."""
    return open_stored_hfile(lambda offset, length: data[offset : offset + length], len(data), where)


def open_stored_hfile(read: Read, size: int, where: str) -> HFile:
    """Open an HFile of ``size`` bytes: read trailer, root index and file info, which lie at its end.

    ``read`` gives bytes by offset and length. Raises CorruptMetadataError, naming ``where`` and the byte, if it is
    none or damaged, and UnsupportedFeatureError for codecs but NONE and GZ, encrypted files, cells with tags and
    encoded data blocks.
    """
    end = size - TRAILER_SIZE
    trailer = _read_trailer(read(end, TRAILER_SIZE) if end >= 0 else b"", max(end, 0), where)
    codec = _codec(trailer.get(12, 2), where)
    if trailer.get(13):
        raise UnsupportedFeatureError(f"{where} is an encrypted HFile, which lakemeta does not read")
    levels = trailer.get(8, 1)
    if not 1 <= levels <= MAX_INDEX_LEVELS:
        raise corrupt(where, end, f"the trailer names {levels} index levels")
    info_at, index_at = trailer.get(1, 0), trailer.get(2, 0)
    magic, body = read_block(_from(read, index_at, end), index_at, codec, where)
    info = _read_file_info(_from(read, info_at, end), info_at, codec, where)
    if magic != ROOT_INDEX:
        raise corrupt(where, index_at, f"the root index was expected, not {magic!r}")
    try:
        index = parse_root_index(body, trailer.get(5, 0), whole=levels == 1)
    except (struct.error, ValueError, IndexError) as error:
        raise corrupt(where, index_at, "the root index is damaged") from error
    return HFile(where, read, end, codec, trailer.get(7, 0), (trailer.get(9), trailer.get(10)), index, levels, info)


def _from(read: Read, offset: int, end: int) -> bytes:
    return read(offset, end - offset) if offset < end else b""


def _read_trailer(trailer: bytes, start: int, where: str) -> dict[int, int]:
    if len(trailer) != TRAILER_SIZE or not trailer.startswith(TRAILER_MAGIC):
        raise corrupt(where, start, "no HFile trailer here; the file is cut off or no HFile")
    (version,) = struct.unpack_from(">I", trailer, TRAILER_SIZE - 4)
    if version & 0xFFFFFF != MAJOR_VERSION:
        raise UnsupportedFeatureError(f"{where} is HFile version {version & 0xFFFFFF}, lakemeta reads 3")
    try:
        length, at = read_varint(trailer, len(TRAILER_MAGIC))
        if at + length > TRAILER_SIZE - 4:
            raise ValueError("too long")
        return protobuf_ints(trailer[at : at + length])
    except (ValueError, IndexError) as error:
        raise corrupt(where, start, "the trailer does not parse") from error


def _codec(number: int, where: str) -> str:
    if number >= len(CODECS):
        raise CorruptMetadataError(f"{where} names HFile codec {number}, which does not exist")
    if CODECS[number] not in ("GZ", "NONE"):
        raise UnsupportedFeatureError(
            f"{where} is compressed with {CODECS[number]}; lakemeta reads HFiles of codec GZ and NONE"
        )
    return CODECS[number]


def _read_file_info(block: bytes, offset: int, codec: str, where: str) -> dict[str, bytes]:
    magic, body = read_block(block, offset, codec, where)
    if magic != FILE_INFO or not body.startswith(b"PBUF"):
        raise corrupt(where, offset, "the file info was expected here")
    try:
        length, at = read_varint(body, 4)
        info = dict(_info_pair(pair) for pair in protobuf_bytes(body[at : at + length], 1))
    except (ValueError, IndexError) as error:
        raise corrupt(where, offset, "the file info does not parse") from error
    if info.get("DATA_BLOCK_ENCODING", b"NONE") != b"NONE" or "hfile.MAX_TAGS_LEN" in info:
        raise UnsupportedFeatureError(f"{where} has tagged or encoded cells, which Hudi never writes")
    return info


def _info_pair(message: bytes) -> tuple[str, bytes]:
    key, value = b"".join(protobuf_bytes(message, 1)), b"".join(protobuf_bytes(message, 2))
    return key.decode(), value

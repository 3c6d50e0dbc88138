"""Writing HFile version 3, in the form that every Hudi release reads.

- Index entries and ``hfile.LASTKEY`` carry the full cell key. Hudi's own writer leaves out the cell suffix, and then
  HBase's reader (Hudi up to 0.14, other engines) fails every seek; Hudi's own reader takes both.
- Blocks end once they hold 64 KiB. Hudi's reader stops iterating a block 4 bytes per 16 KiB before its end, so in a
  larger block a short last entry would be lost without a word; closing a block right after the entry that fills it
  keeps the last entry longer than that.
- Checksums are of type NULL (zeros), as Hudi's own writer has it; the gzip streams carry CRC32s of their own.
"""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING, Final

from lakemeta.hudi.metadata_table.hfile_format import (
    BLOCK_HEADER,
    BYTES_PER_CHECKSUM,
    CELL_SUFFIX,
    CODECS,
    DATA,
    FILE_INFO,
    MAJOR_VERSION,
    ROOT_INDEX,
    TRAILER_MAGIC,
    TRAILER_SIZE,
    IndexEntry,
)
from lakemeta.protobuf import write_fields
from lakemeta.varint import write_varint

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

BLOCK_SIZE: Final = 64 * 1024
_COMPARATOR: Final = b"org.apache.hudi.io.storage.HoodieHBaseKVComparator"
_GZIP_LEVEL: Final = 6
_CELL: Final = struct.Struct(">iiH")


def write_hfile(entries: Iterable[tuple[bytes, bytes]], schema: str, created_ms: int, *, codec: str = "GZ") -> bytes:
    """An HFile of the given (key, value) pairs, whose values have an Avro schema (JSON).

    Keys are UTF-8, unique and sorted as bytes, at most 32 KiB long; there is at least one. ``created_ms``
    is the creation time in ms since the epoch that the file info carries. Raises ValueError otherwise.
    """
    writer = _Writer(codec)
    for key, value in entries:
        writer.add(key, value)
    return writer.finish(schema, created_ms)


class _Writer:
    def __init__(self, codec: str) -> None:
        if codec not in ("GZ", "NONE"):
            raise ValueError(f"HFiles are written with codec GZ or NONE, not {codec}")
        self.codec = codec
        self.parts: list[bytes] = []
        self.size = 0
        self.body = bytearray()
        self.first_key = self.last_key = b""
        self.index: list[IndexEntry] = []
        self.count = self.key_bytes = self.value_bytes = 0

    def add(self, key: bytes, value: bytes) -> None:
        if key <= self.last_key or len(key) > 0x7FFF:
            raise ValueError(f"the keys of an HFile are sorted, unique and short; {key!r} does not fit")
        if not self.body:
            self.first_key = key
        self.body += _CELL.pack(len(key) + 12, len(value), len(key))
        self.body += key
        self.body += CELL_SUFFIX
        self.body += value
        self.body.append(0)
        self.last_key = key
        self.count += 1
        self.key_bytes += len(key)
        self.value_bytes += len(value)
        if len(self.body) >= BLOCK_SIZE:
            self.close_data_block()

    def close_data_block(self) -> None:
        previous = self.index[-1].offset if self.index else -1
        offset = self.add_block(DATA, bytes(self.body), previous)
        self.index.append(IndexEntry(self.first_key, offset, self.size - offset))
        self.body.clear()

    def add_block(self, magic: bytes, body: bytes, previous: int = -1) -> int:
        packed = _gzip(body) if self.codec == "GZ" else body
        with_header = BLOCK_HEADER.size + len(packed)
        checksums = bytes(4 * -(-with_header // BYTES_PER_CHECKSUM))
        header = BLOCK_HEADER.pack(
            magic, len(packed) + len(checksums), len(body), previous, 0, BYTES_PER_CHECKSUM, with_header
        )
        offset = self.size
        self.parts += [header, packed, checksums]
        self.size += with_header + len(checksums)
        return offset

    def finish(self, schema: str, created_ms: int) -> bytes:
        if not self.count:
            raise ValueError("an HFile without entries is not written")
        if self.body:
            self.close_data_block()
        root = b"".join(_index_entry(entry) for entry in self.index)
        load_on_open = self.add_block(ROOT_INDEX, root)
        self.add_block(ROOT_INDEX, b"")  # the meta index: no meta blocks
        info = self.add_block(FILE_INFO, _file_info(self.file_info(schema, created_ms)))
        fields: list[tuple[int, int | bytes]] = [
            (1, info),
            (2, load_on_open),
            (3, len(root)),
            (5, len(self.index)),
            (6, 0),
            (7, self.count),
            (8, 1),
            (9, self.index[0].offset),
            (10, self.index[-1].offset),
            (11, _COMPARATOR),
            (12, CODECS.index(self.codec)),
        ]
        return b"".join([*self.parts, _trailer(fields)])

    def file_info(self, schema: str, created_ms: int) -> dict[str, bytes]:
        return {
            "KEY_VALUE_VERSION": struct.pack(">i", 1),
            "MAX_MEMSTORE_TS_KEY": struct.pack(">q", 0),
            "hfile.AVG_KEY_LEN": struct.pack(">i", self.key_bytes // self.count),
            "hfile.AVG_VALUE_LEN": struct.pack(">i", self.value_bytes // self.count),
            "hfile.CREATE_TIME_TS": struct.pack(">q", created_ms),
            "hfile.LASTKEY": _cell_key(self.last_key),
            "schema": schema.encode(),
        }


def _gzip(body: bytes) -> bytes:
    # zlib's own gzip frame has no time stamp, so the same body gives the same bytes.
    packer = zlib.compressobj(_GZIP_LEVEL, zlib.DEFLATED, 16 + zlib.MAX_WBITS)
    return packer.compress(body) + packer.flush()


def _cell_key(key: bytes) -> bytes:
    return struct.pack(">H", len(key)) + key + CELL_SUFFIX


def _index_entry(entry: IndexEntry) -> bytes:
    key = _cell_key(entry.key)
    return struct.pack(">qi", entry.offset, entry.size) + _hadoop_vint(len(key)) + key


def _file_info(info: Mapping[str, bytes]) -> bytes:
    pairs = (write_fields([(1, key.encode()), (2, value)]) for key, value in info.items())
    message = write_fields([(1, pair) for pair in pairs])
    return b"PBUF" + _with_length(message)


def _trailer(fields: Iterable[tuple[int, int | bytes]]) -> bytes:
    message = write_fields(fields)
    head = TRAILER_MAGIC + _with_length(message)
    return head.ljust(TRAILER_SIZE - 4, b"\0") + struct.pack(">I", MAJOR_VERSION)


def _with_length(data: bytes) -> bytes:
    out = bytearray()
    write_varint(out, len(data))
    return bytes(out + data)


def _hadoop_vint(value: int) -> bytes:
    # WritableUtils.writeVLong, for numbers that are not negative.
    if value <= 127:
        return bytes([value])
    raw = value.to_bytes((value.bit_length() + 7) // 8, "big")
    return bytes([256 - 112 - len(raw)]) + raw

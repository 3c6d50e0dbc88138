"""HFiles in the form of HBase's writer, whose index may have several levels."""

from __future__ import annotations

import struct
import zlib
from typing import TYPE_CHECKING

from lakemeta.hudi.metadata_table.hfile_format import (
    BLOCK_HEADER,
    CELL_SUFFIX,
    DATA,
    FILE_INFO,
    INTERMEDIATE_INDEX,
    LEAF_INDEX,
    ROOT_INDEX,
    TRAILER_MAGIC,
    TRAILER_SIZE,
)

if TYPE_CHECKING:
    from collections.abc import Sequence

PAIRS = [(b"key%03d" % i, b"value%d" % i) for i in range(32)]


def varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    return bytes([*out, value])


def cell(key: bytes, value: bytes) -> bytes:
    head = struct.pack(">iiH", len(key) + 12, len(value), len(key))
    return head + key + CELL_SUFFIX + value + b"\0"


def stored(magic: bytes, body: bytes, checksum: int = 0) -> bytes:
    """A block without compression; checksum type 1 is CRC32."""
    sums = bytes(4)
    header = BLOCK_HEADER.pack(magic, len(body) + 4, len(body), -1, checksum, 16384, 33 + len(body))
    if checksum == 1:
        sums = struct.pack(">I", zlib.crc32(header + body))
    return header + body + sums


def hbase_file(
    levels: int,
    checksum: int = 0,
    info: tuple[bytes, bytes] = (b"k", b"v"),
    pairs: Sequence[tuple[bytes, bytes]] = PAIRS,
) -> tuple[bytes, dict[bytes, bytes]]:
    """A file in HBase's form with an index of 1 to 3 levels: data blocks of 4 cells, 2 children an index block."""
    data = b""
    children: list[tuple[bytes, int, int]] = []
    for start in range(0, len(pairs), 4):
        block = stored(DATA, b"".join(cell(*pair) for pair in pairs[start : start + 4]), checksum)
        children.append((pairs[start][0], len(data), len(block)))
        data += block
    last = children[-1][1]
    for level in range(1, levels):
        parents = []
        for start in range(0, len(children), 2):
            block = stored(LEAF_INDEX if level == 1 else INTERMEDIATE_INDEX, nonroot(children[start : start + 2]))
            parents.append((children[start][0], len(data), len(block)))
            data += block
        children = parents
    root = b"".join(
        struct.pack(">qi", o, s) + bytes([len(k) + 2]) + struct.pack(">H", len(k)) + k for k, o, s in children
    )
    index_at = len(data)
    data += stored(ROOT_INDEX, root)
    info_at = len(data)
    pair = b"".join(bytes([number << 3 | 2]) + varint(len(part)) + part for number, part in enumerate(info, 1))
    message = bytes([1 << 3 | 2]) + varint(len(pair)) + pair
    data += stored(FILE_INFO, b"PBUF" + varint(len(message)) + message)
    fields = {1: info_at, 2: index_at, 5: len(children), 7: len(pairs), 8: levels, 9: 0, 10: last, 12: 2}
    message = b"".join(varint(n << 3) + varint(v) for n, v in fields.items())
    trailer = (TRAILER_MAGIC + varint(len(message)) + message).ljust(TRAILER_SIZE - 4, b"\0")
    return data + trailer + struct.pack(">I", 3 << 24 | 3), dict(pairs)


def nonroot(children: list[tuple[bytes, int, int]]) -> bytes:
    entries = [struct.pack(">qi", o, s) + struct.pack(">H", len(k)) + k for k, o, s in children]
    starts = [sum(map(len, entries[:i])) for i in range(len(entries) + 1)]
    return struct.pack(f">i{len(starts)}i", len(entries), *starts) + b"".join(entries)

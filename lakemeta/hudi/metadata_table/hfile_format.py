"""The parts of HFile version 3: constants, blocks, indexes, cells and small encodings.

Integers are big-endian. A block is a header of 33 bytes, the (compressed) body and its checksums; the
header says magic, on-disk size without header, size of the body, offset of the previous block of its kind,
checksum type, bytes per checksum, and on-disk size of header and body. Sources: HBase HFileBlock and
HFileBlockIndex.
"""

from __future__ import annotations

import struct
import zlib
from itertools import pairwise
from typing import Final

import attrs

from lakemeta import unpack
from lakemeta.errors import CorruptMetadataError
from lakemeta.protobuf import read_fields

TRAILER_SIZE: Final = 4096
TRAILER_MAGIC: Final = b'TRABLK"$'
MAJOR_VERSION: Final = 3
CODECS: Final = ("LZO", "GZ", "NONE", "SNAPPY", "LZ4", "BZIP2", "ZSTD")  # by the number in the trailer
DATA, ROOT_INDEX, LEAF_INDEX, INTERMEDIATE_INDEX, FILE_INFO = (
    b"DATABLK*",
    b"IDXROOT2",
    b"IDXLEAF2",
    b"IDXINTE2",
    b"FILEINF2",
)
CELL_SUFFIX: Final = b"\x00\x7f\xff\xff\xff\xff\xff\xff\xff\x04"  # no family, newest timestamp, type Put
BLOCK_HEADER: Final = struct.Struct(">8siiqBii")
BYTES_PER_CHECKSUM: Final = 16384
CHECKSUM_CRC32: Final = 1
MAX_INDEX_LEVELS: Final = 8


@attrs.frozen(slots=True)
class IndexEntry:
    """The block at ``offset``, ``size`` bytes with its header, starts at ``key`` or later."""

    key: bytes
    offset: int
    size: int


def read_block(block: bytes, offset: int, codec: str, where: str) -> tuple[bytes, bytes]:
    """(magic, body) of the block at an offset of a file, of which ``block`` holds what is there and maybe more.

    Raises CorruptMetadataError if it is damaged.
    """
    if len(block) < BLOCK_HEADER.size:
        raise corrupt(where, offset, "a block cannot start here")
    magic, on_disk, size, _, checksum, per_checksum, with_header = BLOCK_HEADER.unpack_from(block)
    end = BLOCK_HEADER.size + on_disk
    if not BLOCK_HEADER.size <= with_header <= end <= len(block) or size < 0:
        raise corrupt(where, offset, "the sizes of a block make no sense")
    if checksum == CHECKSUM_CRC32:
        _check_crc32(block[:with_header], block[with_header:end], per_checksum, where, offset)
    return magic, _unpack(block[BLOCK_HEADER.size : with_header], size, codec, where, offset)


def _unpack(packed: bytes, size: int, codec: str, where: str, offset: int) -> bytes:
    body = packed
    if codec == "GZ":
        if size > unpack.allowance(len(packed)):
            raise corrupt(where, offset, f"a block says it unpacks to {size} bytes from {len(packed)}")
        gunzip = zlib.decompressobj(16 + zlib.MAX_WBITS)
        try:
            # One byte more than promised shows a block that says too little, without unpacking a bomb.
            body = gunzip.decompress(packed, size + 1) if packed else b""
        except zlib.error as error:
            raise corrupt(where, offset, f"a block does not decompress: {error}") from error
        # The CRC at the end of a gzip stream is read only once the stream is done.
        if packed and not gunzip.eof:
            raise corrupt(where, offset, "the gzip stream of a block is cut off or longer than it says")
    if len(body) != size:
        raise corrupt(where, offset, f"a block has {len(body)} bytes where its header says {size}")
    return body


def _check_crc32(block: bytes, sums: bytes, per_checksum: int, where: str, offset: int) -> None:
    if per_checksum <= 0:
        raise corrupt(where, offset, "a block says its checksums cover no bytes")
    chunks = [block[i : i + per_checksum] for i in range(0, len(block), per_checksum)]
    if b"".join(struct.pack(">I", zlib.crc32(chunk)) for chunk in chunks) != sums:
        raise corrupt(where, offset, "the checksum of a block does not fit")


def parse_root_index(body: bytes, count: int, *, whole: bool) -> tuple[IndexEntry, ...]:
    """The entries of a root index; raises ValueError, IndexError or struct.error if they do not parse.

    They are the ``whole`` body where the root index is the only one; over others it ends with where the middle is.
    """
    entries: list[IndexEntry] = []
    position = 0
    for _ in range(count):
        offset, size = struct.unpack_from(">qi", body, position)
        length, position = read_hadoop_vint(body, position + 12)
        key = body[position : position + length]
        if length < 0 or len(key) != length:
            raise ValueError("a key runs past the end")
        entries.append(IndexEntry(_row(key), offset, size))
        position += length
    if whole and position != len(body):
        raise ValueError("there are more entries than the trailer says")
    return tuple(entries)


def parse_nonroot_index(body: bytes) -> tuple[IndexEntry, ...]:
    """The entries of a leaf or intermediate index; raises as :func:`parse_root_index`."""
    (count,) = struct.unpack_from(">i", body)
    if not 0 <= count <= len(body) // 16:
        raise ValueError("the block cannot hold that many entries")
    starts = struct.unpack_from(f">{count + 1}i", body, 4)
    first = 4 * (count + 2)
    entries: list[IndexEntry] = []
    for start, stop in pairwise(starts):
        if not 0 <= start <= stop - 12 or first + stop > len(body):
            raise ValueError("an entry lies outside its block")
        offset, size = struct.unpack_from(">qi", body, first + start)
        entries.append(IndexEntry(_row(body[first + start + 12 : first + stop]), offset, size))
    return tuple(entries)


def parse_pairs(body: bytes) -> list[tuple[bytes, bytes]]:
    """The (key, value) pairs of a data block; raises as :func:`parse_root_index`."""
    pairs: list[tuple[bytes, bytes]] = []
    head = struct.Struct(">iiH")
    position, size = 0, len(body)
    while position < size:
        key_length, value_length, row_length = head.unpack_from(body, position)
        row_end = position + 10 + row_length
        value_at = position + 8 + key_length
        end = value_at + value_length
        if key_length != row_length + 12 or value_length < 0 or end >= size or body[row_end:value_at] != CELL_SUFFIX:
            raise ValueError(f"no cell of Hudi's at byte {position} of its body")
        pairs.append((body[position + 10 : row_end], body[value_at:end]))
        # The cell's write number; 0 and hence one byte, unless another program wrote the file.
        position = end + 1 if body[end] == 0 else read_hadoop_vint(body, end)[1]
    return pairs


def _row(key: bytes) -> bytes:
    (length,) = struct.unpack_from(">H", key)
    if len(key) < length + 2:
        raise ValueError("a key is shorter than its row")
    return key[2 : 2 + length]


def protobuf_ints(message: bytes) -> dict[int, int]:
    """The varint fields of a protobuf message by number; raises ValueError or IndexError if it is none."""
    return {number: value for number, value in read_fields(message) if isinstance(value, int)}


def protobuf_bytes(message: bytes, number: int) -> list[bytes]:
    """The values of a repeated bytes field; raises ValueError or IndexError if it is no protobuf message."""
    return [v for n, v in read_fields(message) if n == number and isinstance(v, bytes)]


def read_hadoop_vint(data: bytes, position: int) -> tuple[int, int]:
    """(value, next position) of a WritableUtils number: one byte for -112..127, else length and magnitude."""
    first = data[position] - 256 if data[position] > 127 else data[position]
    if first >= -112:
        return first, position + 1
    negative = first < -120
    length = -first - (120 if negative else 112)
    raw = data[position + 1 : position + 1 + length]
    if len(raw) != length:
        raise ValueError("a vint runs past the end")
    value = int.from_bytes(raw, "big")
    return (~value if negative else value), position + 1 + length


def corrupt(where: str, position: int, problem: str) -> CorruptMetadataError:
    """The error for damage at a byte of a file."""
    return CorruptMetadataError(f"{where} is damaged at byte {position}: {problem}")

"""Keys of metadata table records, and the file group a key lies in.

``id64`` stands for a column or partition and ``id128`` for a file name; a partition's own name in keys is
``.`` for a table without partitions. Sources: HoodieMetadataPayload, ColumnIndexID, PartitionIndexID,
FileIndexID, HoodieTableMetadataUtil.mapRecordKeyToFileGroupIndex.
"""

from __future__ import annotations

import base64
import hashlib
from functools import lru_cache
from typing import Final

ALL_PARTITIONS: Final = "__all_partitions__"
UNPARTITIONED: Final = "."
FILE_SUFFIX_LENGTH: Final = 36  # id64(partition) + id128(file): how every key about one file ends

_SEED: Final = 0xFFFFFFFFDABADABA  # the Java int 0xdabadaba is sign-extended to a long
_MASK: Final = (1 << 64) - 1
_P1: Final = 0x9E3779B185EBCA87
_P2: Final = 0xC2B2AE3D27D4EB4F
_P3: Final = 0x165667B19E3779F9
_P4: Final = 0x85EBCA77C2B2AE63
_P5: Final = 0x27D4EB2F165667C5


def partition_key(partition: str) -> str:
    """How a partition path is written in keys and in the ``files`` partition."""
    return partition or UNPARTITIONED


def partition_path(key: str) -> str:
    """The partition path of a key of the ``files`` partition."""
    return "" if key == UNPARTITIONED else key


@lru_cache(maxsize=4096)
def id64(name: str) -> str:
    """Base64 of the XXH64 of a column or partition name, 12 characters."""
    return base64.b64encode(xxh64(name.encode(), _SEED).to_bytes(8, "big")).decode()


def id128(file_name: str) -> str:
    """Base64 of the MD5 of a file name without directories, 24 characters."""
    return base64.b64encode(hashlib.md5(file_name.encode(), usedforsecurity=False).digest()).decode()


def file_suffix(partition: str, file_name: str) -> str:
    """How the key of every column_stats, bloom_filters or expression index record about one file ends."""
    return id64(partition_key(partition)) + id128(file_name)


def file_group_index(key: str, groups: int) -> int:
    """Which of ``groups`` file groups, ordered by file id, holds a key: Java's String.hashCode, abs and %."""
    if groups == 1:
        return 0
    value = _java_hash(key)
    # abs of Java's smallest int is itself, and its remainder keeps the sign of the dividend.
    remainder = abs(value) % groups if value != -(1 << 31) else -((1 << 31) % groups)
    return abs(remainder)


def _java_hash(text: str) -> int:
    units = text.encode("utf-16-be")
    value = 0
    for i in range(0, len(units), 2):
        value = (31 * value + (units[i] << 8 | units[i + 1])) & 0xFFFFFFFF
    return value - (1 << 32) if value >> 31 else value


def xxh64(data: bytes, seed: int) -> int:
    """The XXH64 hash of bytes, as an unsigned number."""
    length, position = len(data), 0
    if length >= 32:
        lanes = [seed + _P1 + _P2, seed + _P2, seed, seed - _P1]
        while position <= length - 32:
            for lane in range(4):
                lanes[lane] = _round(lanes[lane] & _MASK, _little(data, position, 8))
                position += 8
        value = sum(_rotate(v, by) for v, by in zip(lanes, (1, 7, 12, 18), strict=True)) & _MASK
        for lane_value in lanes:
            value = ((value ^ _round(0, lane_value)) * _P1 + _P4) & _MASK
    else:
        value = (seed + _P5) & _MASK
    return _tail(data, position, (value + length) & _MASK)


def _tail(data: bytes, position: int, value: int) -> int:
    length = len(data)
    while position + 8 <= length:
        value = (_rotate(value ^ _round(0, _little(data, position, 8)), 27) * _P1 + _P4) & _MASK
        position += 8
    if position + 4 <= length:
        value = (_rotate(value ^ (_little(data, position, 4) * _P1 & _MASK), 23) * _P2 + _P3) & _MASK
        position += 4
    for byte in data[position:]:
        value = _rotate(value ^ (byte * _P5 & _MASK), 11) * _P1 & _MASK
    value = (value ^ value >> 33) * _P2 & _MASK
    value = (value ^ value >> 29) * _P3 & _MASK
    return value ^ value >> 32


def _round(accumulator: int, lane: int) -> int:
    return _rotate((accumulator + lane * _P2) & _MASK, 31) * _P1 & _MASK


def _rotate(value: int, by: int) -> int:
    return (value << by | value >> (64 - by)) & _MASK


def _little(data: bytes, position: int, size: int) -> int:
    return int.from_bytes(data[position : position + size], "little")

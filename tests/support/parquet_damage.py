"""Parquet files as an early build wrote them, column chunks largest first: parquet-java loses their rows."""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

from lakemeta.parquet import thrift
from lakemeta.parquet.footer import chunk_range, row_groups, shift

if TYPE_CHECKING:
    from collections.abc import Callable

_COLUMNS, _OFFSET = 1, 5
_INDEX_FIELDS = (4, 5, 6, 7)


def reordered(data: bytes, key: Callable[[int, int], int] = lambda _, size: -size) -> bytes:
    """The same rows in a file of the same size whose row groups have their chunks in another order on disk.

    ``key`` of a chunk's number in the schema and its size sorts them. Page indexes are taken out of the footer, whose
    length is kept by filling up the file.
    """
    length = struct.unpack("<I", data[-8:-4])[0]
    footer = thrift.loads(data[-8 - length : -8])
    out = bytearray(data)
    for group in row_groups(footer):
        chunks = group[_COLUMNS][1][1]
        at = group[_OFFSET][1]
        for number in sorted(range(len(chunks)), key=lambda n: key(n, chunk_range(chunks[n])[1])):
            start, size = chunk_range(chunks[number])
            out[at : at + size] = data[start : start + size]
            shift(chunks[number], at - start)
            for field in _INDEX_FIELDS:
                chunks[number].pop(field, None)
            at += size
    new = thrift.dumps(footer)
    end = len(data) - 8 - len(new)
    return bytes(out[: len(data) - 8 - length]).ljust(end, b"\0") + new + struct.pack("<I", len(new)) + b"PAR1"

"""Deletion vectors as bytes: which rows of one data file are deleted (Puffin spec: "deletion-vector-v1").

The counterpart of ``rows/deletion_vectors``, which reads them and says how they look. A container of 65,536 rows is
written as runs if that is shorter, as Iceberg does (``RoaringBitmap.runOptimize``), else as a sorted list of up to
4,096 rows, else as bits.
"""

from __future__ import annotations

import struct
import zlib
from typing import Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.rows.arrow import runs_of
from lakemeta.iceberg.rows.deletion_vectors import (
    ARRAY_MAX,
    CONTAINER_BYTES,
    CONTAINER_ROWS,
    DV_MAGIC,
    NO_OFFSETS_BELOW,
    PLAIN_COOKIE,
    RUN_COOKIE,
)

_KEY_BITS: Final = 16
_HIGH_BITS: Final = 32
_ALL_LOWS: Final = pa.array(range(CONTAINER_ROWS), pa.uint16())


def encode_vector(positions: pa.Array) -> bytes:
    """The blob of a deletion vector of some rows, given as int64, ascending and each once.

    Raises ValueError if they are not: a vector with another order names other rows.
    """
    if positions.null_count or not _ascends(positions):
        raise ValueError("the rows of a deletion vector must ascend, and each be there once")
    highs = pc.shift_right(positions, _HIGH_BITS)
    parts = [struct.pack("<Q", pc.count_distinct(highs).as_py())]
    for high, first, end in runs_of(highs):
        parts += [struct.pack("<I", high), _bitmap(positions.slice(first, end - first))]
    payload = DV_MAGIC + b"".join(parts)
    return struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def _ascends(positions: pa.Array) -> bool:
    if not len(positions):
        return True
    rises = pc.all(pc.less(positions.slice(0, len(positions) - 1), positions.slice(1)), min_count=0).as_py()
    return bool(rises) and positions[0].as_py() >= 0


def _bitmap(positions: pa.Array) -> bytes:
    """A 32-bit bitmap in Roaring's portable format, of rows that share all higher bits."""
    lows = pc.bit_wise_and(positions, CONTAINER_ROWS - 1).cast(pa.uint16())
    keys = pc.bit_wise_and(pc.shift_right(positions, _KEY_BITS), CONTAINER_ROWS - 1)
    containers = [(key, *_container(lows.slice(at, end - at))) for key, at, end in runs_of(keys)]
    count = len(containers)
    described = b"".join(struct.pack("<HH", key, rows - 1) for key, rows, _, _ in containers)
    bodies = [body for *_, body in containers]
    runs = sum(1 << n for n, (_, _, is_run, _) in enumerate(containers) if is_run)
    if runs:
        flags = runs.to_bytes((count + 7) // 8, "little")
        head = struct.pack("<I", RUN_COOKIE | (count - 1) << _KEY_BITS) + flags + described
    else:
        head = struct.pack("<II", PLAIN_COOKIE, count) + described
    if not runs or count >= NO_OFFSETS_BELOW:
        head += _offsets(len(head) + 4 * count, bodies)
    return head + b"".join(bodies)


def _offsets(at: int, bodies: list[bytes]) -> bytes:
    offsets = []
    for body in bodies:
        offsets.append(at)
        at += len(body)
    return struct.pack(f"<{len(offsets)}I", *offsets)


def _container(lows: pa.Array) -> tuple[int, bool, bytes]:
    """How many rows there are, whether they are written as runs, and the bytes."""
    rows, wide = len(lows), lows.cast(pa.int32())
    steps = pc.subtract(wide.slice(1), wide.slice(0, rows - 1))
    begins = [0, *(at + 1 for at in pc.indices_nonzero(pc.not_equal(steps, 1)).to_pylist())]
    plain = CONTAINER_BYTES if rows > ARRAY_MAX else 2 * rows
    if plain > 2 + 4 * len(begins):
        return rows, True, _runs(wide, begins)
    if rows > ARRAY_MAX:
        return rows, False, _buffer(pc.is_in(_ALL_LOWS, value_set=lows))[:CONTAINER_BYTES]
    return rows, False, _buffer(lows)[2 * lows.offset : 2 * (lows.offset + rows)]


def _runs(lows: pa.Array, begins: list[int]) -> bytes:
    ends = [*begins[1:], len(lows)]
    firsts = lows.take(pa.array(begins)).to_pylist()
    pairs = [n for first, begin, end in zip(firsts, begins, ends, strict=True) for n in (first, end - begin - 1)]
    return struct.pack(f"<H{len(pairs)}H", len(begins), *pairs)


def _buffer(array: pa.Array) -> bytes:
    """The values of an array, with those before its offset; Arrow's are little-endian, booleans a bit each."""
    return bytes(array.buffers()[1])

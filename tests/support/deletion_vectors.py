"""Deletion vectors for tests, encoded without lakemeta: right ones of every shape, and any bytes in a right blob."""

from __future__ import annotations

import struct
import zlib

MAGIC = b"\xd1\xd3\x39\x64"


def vector(positions: list[int], *, runs: bool) -> bytes:
    """A deletion vector blob, with run containers or with array and bitmap containers."""
    by_high: dict[int, dict[int, list[int]]] = {}
    for position in positions:
        high, low = divmod(position, 1 << 32)
        by_high.setdefault(high, {}).setdefault(low >> 16, []).append(low & 0xFFFF)
    body = struct.pack("<Q", len(by_high))
    for high, containers in by_high.items():
        body += struct.pack("<I", high) + (with_runs(containers) if runs else without_runs(containers))
    return blob_of(body)


def keys(containers: dict[int, list[int]]) -> bytes:
    return b"".join(struct.pack("<HH", key, len(lows) - 1) for key, lows in containers.items())


def without_runs(containers: dict[int, list[int]]) -> bytes:
    parts = []
    for lows in containers.values():
        if len(lows) <= 4096:
            parts.append(struct.pack(f"<{len(lows)}H", *lows))
        else:
            parts.append(sum(1 << low for low in lows).to_bytes(8192, "little"))
    head = struct.pack("<II", 12346, len(containers)) + keys(containers)
    return head + bytes(4 * len(containers)) + b"".join(parts)


def with_runs(containers: dict[int, list[int]]) -> bytes:
    parts = []
    for lows in containers.values():
        pairs = [(start, end - start) for start, end in zip(starts_of(lows), ends_of(lows), strict=True)]
        parts.append(struct.pack("<H", len(pairs)) + b"".join(struct.pack("<HH", *pair) for pair in pairs))
    count = len(containers)
    flags = ((1 << count) - 1).to_bytes((count + 7) // 8, "little")
    offsets = bytes(4 * count) if count >= 4 else b""
    return struct.pack("<I", 12347 | count - 1 << 16) + flags + keys(containers) + offsets + b"".join(parts)


def starts_of(lows: list[int]) -> list[int]:
    known = set(lows)
    return [low for low in lows if low - 1 not in known]


def ends_of(lows: list[int]) -> list[int]:
    known = set(lows)
    return [low for low in lows if low + 1 not in known]


def blob_of(body: bytes) -> bytes:
    """A blob with the right length, magic and checksum around any bytes."""
    payload = MAGIC + body
    return struct.pack(">I", len(payload)) + payload + struct.pack(">I", zlib.crc32(payload))


def run_containers(*containers: tuple[int, list[tuple[int, int]]]) -> bytes:
    """One 32-bit bitmap of run containers: (key, [(start, rows after it)])."""
    flags = ((1 << len(containers)) - 1).to_bytes((len(containers) + 7) // 8, "little")
    heads = b"".join(struct.pack("<HH", key, 0) for key, _ in containers)
    offsets = bytes(4 * len(containers)) if len(containers) >= 4 else b""
    bodies = b"".join(
        struct.pack("<H", len(runs)) + b"".join(struct.pack("<HH", *run) for run in runs) for _, runs in containers
    )
    return struct.pack("<I", 12347 | len(containers) - 1 << 16) + flags + heads + offsets + bodies

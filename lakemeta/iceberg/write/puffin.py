"""Writes Puffin files: blobs one after the other, and a footer that says what each of them is (I/O).

Puffin spec: the magic, the blobs, and the footer: the magic, a JSON object, its length as a 32-bit little-endian
number, four bytes of flags, and the magic. Nothing is compressed here, so no flag is set.
"""

from __future__ import annotations

import json
import struct
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.version import __version__

if TYPE_CHECKING:
    from collections.abc import Mapping
    from typing import BinaryIO

MAGIC: Final = b"PFA1"
INHERITED: Final = -1  # snapshot id and sequence number of a blob whose manifest entry says them


@attrs.frozen(slots=True)
class Blob:
    """What the footer says of a blob; ``fields`` are ids of the columns that it is about."""

    type: str
    fields: tuple[int, ...]
    snapshot_id: int = INHERITED
    sequence_number: int = INHERITED
    properties: Mapping[str, str] = attrs.field(factory=dict)

    def to_json(self) -> dict[str, Any]:
        """What a footer says of the blob, and table metadata that names the file; without its place in the file."""
        described: dict[str, Any] = {
            "type": self.type,
            "snapshot-id": self.snapshot_id,
            "sequence-number": self.sequence_number,
            "fields": list(self.fields),
        }
        return {**described, "properties": dict(self.properties)} if self.properties else described


class PuffinWriter:
    """Writes one Puffin file to ``sink``, which stays the caller's to close."""

    def __init__(self, sink: BinaryIO) -> None:
        """The first blob begins behind the magic."""
        self._sink = sink
        self._blobs: list[dict[str, Any]] = []
        self.size = 0
        self._put(MAGIC)

    def add(self, blob: Blob, data: bytes) -> int:
        """Append a blob; the offset in bytes at which it begins."""
        offset = self.size
        self._blobs.append({**blob.to_json(), "offset": offset, "length": len(data)})
        self._put(data)
        return offset

    def finish(self) -> int:
        """Write the footer; the bytes of the file."""
        footer = {"blobs": self._blobs, "properties": {"created-by": f"lakemeta {__version__}"}}
        payload = json.dumps(footer, separators=(",", ":"), ensure_ascii=False).encode()
        self._put(MAGIC + payload + struct.pack("<i", len(payload)) + bytes(4) + MAGIC)
        return self.size

    def _put(self, data: bytes) -> None:
        self._sink.write(data)
        self.size += len(data)

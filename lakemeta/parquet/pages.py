"""Page indexes of a Parquet file (spec: PageIndex.md): what pages hold, and where they are.

They lie behind all row groups, first what pages hold, then where they are, so those of column chunks that are joined
are cut off, moved along, and written at the end of the file. Offsets are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.parquet import thrift

if TYPE_CHECKING:
    from collections.abc import Sequence

# Field ids of the structs in parquet.thrift.
_WHERE, _WHAT = (4, 5), (6, 7)  # of ColumnChunk: offset and length of its OffsetIndex and of its ColumnIndex
_LOCATIONS: Final = 1
_OFFSET: Final = 1


@attrs.frozen
class PageIndex:
    """Of one column chunk: ``what`` its pages hold, as bytes (empty if not counted), and ``where`` they are."""

    what: bytes
    where: thrift.Struct

    def moved(self, distance: int) -> PageIndex:
        """The index of a chunk whose pages lie that much further on."""
        element, locations = self.where[_LOCATIONS][1]
        moved = [{**page, _OFFSET: (thrift.I64, page[_OFFSET][1] + distance)} for page in locations]
        return attrs.evolve(self, where={**self.where, _LOCATIONS: (thrift.LIST, (element, moved))})


def cut_off(data: memoryview, chunk: thrift.Struct) -> PageIndex | None:
    """The page index of a column chunk of the file ``data``, if there is one; the chunk no longer says where."""
    if _WHERE[0] not in chunk:
        return None
    parts = []
    for start, length in (_WHAT, _WHERE):
        offset, size = (chunk.pop(field, (thrift.I64, 0))[1] for field in (start, length))
        parts.append(bytes(data[offset : offset + size]))
    return PageIndex(parts[0], thrift.loads(parts[1]))


def page_indexes(chunks: Sequence[tuple[thrift.Struct, PageIndex]], start: int) -> bytes:
    """The page indexes of a file's column chunks, as they are written at ``start``; sets the chunks' offsets."""
    out = bytearray()
    for fields, of in ((_WHAT, lambda pages: pages.what), (_WHERE, lambda pages: thrift.dumps(pages.where))):
        for chunk, pages in chunks:
            if data := of(pages):
                chunk[fields[0]] = (thrift.I64, start + len(out))
                chunk[fields[1]] = (thrift.I32, len(data))
                out += data
    return bytes(out)

"""Whether a Parquet file's bytes lie as parquet-java needs them: read by the letter of the format.

Shares no code with lakemeta: it has its own reader of Thrift's compact protocol. Sources: parquet.thrift, README.md,
PageIndex.md and BloomFilter.md of the format, and parquet-java's ParquetMetadataConverter.filterFileMetaDataByMidpoint,
which decides what part of a file a row group belongs to.

Every column chunk's pages are walked header by header, and compared with the footer, the page indexes and each other.
"""

from __future__ import annotations

import struct
from itertools import pairwise
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Sequence

Fields = dict[int, Any]

DATA, INDEX, DICTIONARY, DATA_V2 = range(4)
PLAIN_DICTIONARY, RLE_DICTIONARY = 2, 8
REQUIRED, REPEATED = 0, 2


class Compact:
    """A reader of Thrift's compact protocol that gives structs as dicts from field id to plain values."""

    def __init__(self, data: bytes | memoryview, at: int = 0) -> None:
        self.data, self.at = data, at

    def byte(self) -> int:
        self.at += 1
        return self.data[self.at - 1]

    def varint(self) -> int:
        value = shift = 0
        while True:
            byte = self.byte()
            value |= (byte & 127) << shift
            shift += 7
            if byte < 128:
                return value

    def number(self) -> int:
        value = self.varint()
        return value >> 1 ^ -(value & 1)

    def value(self, kind: int) -> Any:
        if kind in (4, 5, 6):
            return self.number()
        if kind == 8:
            size = self.varint()
            self.at += size
            return bytes(self.data[self.at - size : self.at])
        if kind in (9, 10):
            head = self.byte()
            size = head >> 4 if head < 0xF0 else self.varint()
            of = head & 15
            return [self.byte() == 1 if of in (1, 2) else self.value(of) for _ in range(size)]
        if kind == 12:
            return self.struct()
        size = {3: 1, 7: 8}[kind]
        self.at += size
        return bytes(self.data[self.at - size : self.at])

    def struct(self) -> Fields:
        found: Fields = {}
        field = 0
        while head := self.byte():
            kind = head & 15
            field = field + (head >> 4) if head >> 4 else self.number()
            found[field] = kind == 1 if kind in (1, 2) else self.value(kind)
        return found


class Leaf:
    """A leaf column of the schema, and whether every row has exactly one value of it."""

    def __init__(self, path: tuple[str, ...], *, flat: bool) -> None:
        self.path, self.flat = path, flat


def leaves(elements: Sequence[Fields]) -> list[Leaf]:
    """The leaf columns of a schema, which is a list of its tree, depth first."""
    found: list[Leaf] = []
    rest = iter(elements)

    def visit(path: tuple[str, ...], flat: bool) -> None:
        element = next(rest)
        path = (*path, element[4].decode())
        flat = flat and element.get(3, REQUIRED) != REPEATED
        if element.get(5):
            for _ in range(element[5]):
                visit(path, flat)
        else:
            found.append(Leaf(path[1:], flat=flat))

    visit((), True)
    assert next(rest, None) is None, "schema elements are left over"
    return found


def check(data: bytes, split_offsets: Sequence[int] | None = None) -> int:
    """The rows of a file; AssertionError with the first rule that its bytes or its ``split_offsets`` break."""
    assert data[:4] == data[-4:] == b"PAR1", "no magic at both ends"
    (length,) = struct.unpack("<I", data[-8:-4])
    start = len(data) - 8 - length
    reader = Compact(data, start)
    footer = reader.struct()
    assert reader.at == len(data) - 8, "the footer does not end where its length says"
    columns = leaves(footer[2])
    groups = footer[4]
    view = memoryview(data)
    at = 4
    for number, group in enumerate(groups):
        at = _check_row_group(view, group, columns, number, at)
    assert sum(group[3] for group in groups) == footer[3], "rows of row groups are not those of the file"
    _check_behind(view, groups, at, start)
    if split_offsets is not None:
        assert list(split_offsets) == [group[5] for group in groups], "split offsets are not where row groups start"
    _check_splits(groups, len(data), split_offsets)
    rows: int = footer[3]
    return rows


def _check_row_group(data: memoryview, group: Fields, columns: Sequence[Leaf], number: int, at: int) -> int:
    where = f"row group {number}"
    assert group[5] == at, f"{where} starts at {group[5]}, not where the one before it ends, {at}"
    assert group[3] > 0, f"{where} is empty"
    assert group.get(7, number) == number, f"{where} has the ordinal {group[7]}"
    metas = [chunk[3] for chunk in group[1]]
    paths = [tuple(part.decode() for part in meta[3]) for meta in metas]
    assert paths == [leaf.path for leaf in columns], f"{where} has other columns than the schema, or in another order"
    for leaf, chunk in zip(columns, group[1], strict=True):
        at = _Chunk(data, chunk, leaf, group[3], f"{'.'.join(leaf.path)} in {where}").check(at)
    assert group[6] == at - group[5] == sum(meta[7] for meta in metas), f"{where}: total_compressed_size is wrong"
    assert group[2] == sum(meta[6] for meta in metas), f"{where}: total_byte_size is wrong"
    return at


class _Chunk:
    """A column chunk, whose pages are walked from its start."""

    def __init__(self, data: memoryview, chunk: Fields, leaf: Leaf, rows: int, where: str) -> None:
        self.data, self.chunk, self.meta, self.leaf, self.rows, self.where = data, chunk, chunk[3], leaf, rows, where

    def check(self, start: int) -> int:
        """Where the chunk ends, which must start at ``start``."""
        meta, where = self.meta, self.where
        dictionary = meta.get(11)
        assert start == (meta[9] if dictionary is None else dictionary), f"{where} starts elsewhere than at {start}"
        assert 1 not in self.chunk, f"{where} lies in another file"
        assert self.chunk.get(2, 0) in (0, start, meta[9]), f"{where}: file_offset is wrong"
        assert 10 not in meta, f"{where} has index pages"
        pages, at, uncompressed = [], start, 0
        while at < start + meta[7]:
            reader = Compact(self.data, at)
            header = reader.struct()
            pages.append((at, reader.at - at + header[3], header))
            uncompressed += reader.at - at + header[2]
            at = reader.at + header[3]
        assert at == start + meta[7], f"{where}: pages are not total_compressed_size bytes"
        assert uncompressed == meta[6], f"{where}: pages are not total_uncompressed_size bytes"
        if dictionary is not None:
            assert pages[0][2][1] == DICTIONARY, f"{where} does not start with its dictionary"
            del pages[0]
        assert pages, f"{where} has no data page"
        assert pages[0][0] == meta[9], f"{where}: the first data page is not at data_page_offset"
        assert all(header[1] in (DATA, DATA_V2) for _, _, header in pages), f"{where} has other pages among its data"
        self._check_values([header for _, _, header in pages], dictionary is not None)
        self._check_offset_index(pages)
        self._check_column_index([header for _, _, header in pages])
        return at

    def _check_values(self, headers: Sequence[Fields], has_dictionary: bool) -> None:
        meta, where = self.meta, self.where
        values = [_of_page(header)[1] for header in headers]
        assert sum(values) == meta[5], f"{where}: the values of its pages are not num_values"
        assert meta[5] == self.rows if self.leaf.flat else meta[5] >= self.rows, f"{where} has {meta[5]} values"
        used = {_of_page(header)[4 if header[1] == DATA_V2 else 2] for header in headers}
        assert used <= set(meta[2]), f"{where} has pages of encodings {used} and lists {meta[2]}"
        by_dictionary = bool(used & {PLAIN_DICTIONARY, RLE_DICTIONARY})
        assert has_dictionary or not by_dictionary, f"{where} has no dictionary that its pages could use"
        if all(header[1] == DATA_V2 for header in headers):
            assert sum(header[8][3] for header in headers) == self.rows, f"{where}: the rows of its pages are wrong"
            nulls = sum(header[8][2] for header in headers)
            stated = meta.get(12, {}).get(3)
            assert stated in (None, nulls), f"{where}: its pages have {nulls} nulls, its statistics {stated}"

    def _check_offset_index(self, pages: Sequence[tuple[int, int, Fields]]) -> None:
        if 4 not in self.chunk:
            assert 6 not in self.chunk, f"{self.where} has a column index without an offset index"
            return
        locations = self._index(4, 5)[1]
        found = [(location[1], location[2]) for location in locations]
        assert found == [(at, size) for at, size, _ in pages], f"{self.where}: the offset index names other pages"
        firsts = [location[3] for location in locations]
        assert firsts[0] == 0, f"{self.where}: the first page does not start with row 0"
        assert all(a < b for a, b in pairwise((*firsts, self.rows))), f"{self.where}: first rows of pages do not ascend"
        for (_, _, header), first, following in zip(pages, firsts, (*firsts[1:], self.rows), strict=True):
            rows = header[8][3] if header[1] == DATA_V2 else header[5][1] if self.leaf.flat else following - first
            assert following - first == rows, f"{self.where}: a page has other rows than the offset index says"

    def _check_column_index(self, headers: Sequence[Fields]) -> None:
        if 6 not in self.chunk:
            return
        index, where = self._index(6, 7), self.where
        nulls, least, greatest = index[1], index[2], index[3]
        assert len(nulls) == len(least) == len(greatest) == len(headers), f"{where}: column index of other pages"
        assert all(not low and not high for is_null, low, high in zip(nulls, least, greatest, strict=True) if is_null)
        counts = index.get(5)
        if counts:
            values = [_of_page(header)[1] for header in headers]
            assert len(counts) == len(headers), f"{where}: null counts of other pages"
            assert all(n <= v for n, v in zip(counts, values, strict=True)), f"{where}: more nulls than values"
            full = [n == v for n, v in zip(counts, values, strict=True)]
            assert full == nulls, f"{where}: null pages and null counts contradict each other"
            stated = self.meta.get(12, {}).get(3)
            assert stated in (None, sum(counts)), f"{where}: null counts are not those of the statistics"

    def _index(self, offset: int, length: int) -> Fields:
        reader = Compact(self.data, self.chunk[offset])
        found = reader.struct()
        assert reader.at - self.chunk[offset] == self.chunk[length], f"{self.where}: an index of another length"
        return found


def _of_page(header: Fields) -> Fields:
    """The DataPageHeader of either version; field 1 is its number of values."""
    fields: Fields = header[8] if header[1] == DATA_V2 else header[5]
    return fields


def _check_behind(data: memoryview, groups: Sequence[Fields], start: int, end: int) -> None:
    """Bloom filters and page indexes lie between the last row group and the footer, and do not overlap."""
    places = []
    for group in groups:
        for chunk in group[1]:
            places += [(chunk[at], chunk[size]) for at, size in ((4, 5), (6, 7)) if at in chunk]
            if 14 in chunk[3]:
                reader = Compact(data, chunk[3][14])
                size = reader.struct()[1]  # BloomFilterHeader.numBytes
                assert 15 not in chunk[3] or chunk[3][15] == reader.at - chunk[3][14] + size, "bloom filter's length"
                places.append((chunk[3][14], reader.at - chunk[3][14] + size))
    at = start
    for offset, size in sorted(places):
        assert offset >= at, f"a bloom filter or page index at {offset} lies among other bytes"
        at = offset + size
    assert at == end, f"the footer starts at {end}, what comes before it ends at {at}"


def _check_splits(groups: Sequence[Fields], size: int, offsets: Sequence[int] | None) -> None:
    """However the file is cut, parquet-java reads each row group for exactly one part."""
    middles = [_middle(group) for group in groups]
    cuts = [
        range(0, size, step) for step in (size, size // 2 + 1, size // 3 + 1, 64 * 1024, 1024) if size // step < 999
    ]
    for starts in (*cuts, *([offsets] if offsets else [])):
        parts = list(pairwise((*starts, size)))
        for number, middle in enumerate(middles):
            taken = sum(start <= middle < end for start, end in parts)
            assert taken == 1, f"row group {number} is read by {taken} of the parts {parts[:9]} of {size} bytes"


def _middle(group: Fields) -> int:
    first = group[1][0][3]
    start: int = first[9]
    if first.get(11, start) < start:
        start = first[11]
    size: int = group[6]
    return start + size // 2

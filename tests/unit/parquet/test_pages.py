"""Page indexes of files whose row groups were encoded in parts: read back by the letter of the format."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from lakemeta.parquet import thrift
from lakemeta.parquet.footer import WriteOptions, column_chunks, row_groups
from lakemeta.parquet.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Sequence

DATA_PAGES = (0, 3)  # PageType: the two versions of data pages
SIZES = ((4, 5), (6, 7))


def table(first: int, rows: int) -> pa.Table:
    numbers = range(first, first + rows)
    return pa.table(
        {
            "id": pa.array(numbers, pa.int64()),
            "city": pa.array([f"city {n % 7}" for n in numbers]),
            "none": pa.array([None] * rows, pa.float64()),
            "at": pa.array([{"x": n / 2, "y": None if n % 3 else f"{n:09}"} for n in numbers]),
        }
    )


def written(tables: Sequence[pa.Table], **options: Any) -> bytes:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, tables[0].schema, WriteOptions(**options))
    for part in tables:
        writer.write(part)
    stats = writer.close()
    assert stats.size == len(sink.getvalue())
    return sink.getvalue()


def footer(data: bytes) -> thrift.Struct:
    length = struct.unpack("<I", data[-8:-4])[0]
    return thrift.loads(data[-8 - length : -8])


def locations(data: bytes, chunk: thrift.Struct) -> list[tuple[int, int, int]]:
    """Offset, size and first row of each page."""
    offset, length = chunk[4][1], chunk[5][1]
    index = thrift.loads(data[offset : offset + length])
    return [(page[1][1], page[2][1], page[3][1]) for page in index[1][1][1]]


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_page_lies_where_the_index_says(version: str) -> None:
    """At each place a data page of that size starts, and rows follow each other up to those of the row group."""
    tables = [table(0, 5000), table(5000, 1234), table(6234, 1)]
    data = written(tables, page_rows=700, page_version=version)
    groups = row_groups(footer(data))
    assert len(groups) == 3
    for group, rows in zip(groups, tables, strict=True):
        for _, chunk in column_chunks(group):
            pages = locations(data, chunk)
            assert [first for _, _, first in pages] == list(range(0, rows.num_rows, 700))
            for offset, size, _ in pages:
                header = thrift.loads(data[offset : offset + size])
                kind = header[1][1]
                assert kind in DATA_PAGES
                assert 0 < size - header[3][1] < 100  # what is not the page is its header


def test_what_pages_hold_is_said() -> None:
    """One least and one greatest value a page, and which pages are all null."""
    data = written([table(0, 2000), table(2000, 2000)], page_rows=500)
    what = []
    for group in row_groups(footer(data)):
        for path, chunk in column_chunks(group):
            index = thrift.loads(data[chunk[6][1] : chunk[6][1] + chunk[7][1]])
            if path == ("id",):
                lows, highs = ([struct.unpack("<q", value)[0] for value in index[field][1][1]] for field in (2, 3))
                what += list(zip(lows, highs, strict=True))
            assert index[1][1][1] == [path == ("none",)] * 4
    assert what == [(first, first + 499) for first in range(0, 4000, 500)]


def test_a_column_without_statistics_still_says_where_its_pages_are() -> None:
    """As in other writers: nobody knows what its pages hold."""
    data = written([table(0, 100)], columns_without_statistics=frozenset(["id"]))
    metadata = pq.ParquetFile(io.BytesIO(data)).metadata
    known = {
        c.path_in_schema: (c.has_offset_index, c.has_column_index) for c in map(metadata.row_group(0).column, range(5))
    }
    assert known == dict.fromkeys(("city", "none", "at.x", "at.y"), (True, True)) | {"id": (True, False)}


def test_indexes_lie_between_the_last_page_and_the_footer() -> None:
    """First what pages hold, of all row groups, then where they are, without a gap."""
    data = written([table(0, 1000), table(1000, 1000)], page_rows=300)
    end = len(data) - 8 - struct.unpack("<I", data[-8:-4])[0]
    chunks = [chunk for group in row_groups(footer(data)) for _, chunk in column_chunks(group)]
    places = [(c[at][1], c[size][1]) for at, size in reversed(SIZES) for c in chunks]
    for (start, size), (following, _) in zip(places, [*places[1:], (end, 0)], strict=True):
        assert start + size == following
    last = max(offset + size for chunk in chunks for offset, size, _ in locations(data, chunk))
    assert last == places[0][0]


def test_rows_are_those_that_were_written() -> None:
    """A reader of the whole file gets them all."""
    tables = [table(0, 3000), table(3000, 10)]
    assert pq.read_table(io.BytesIO(written(tables, page_rows=100))).equals(pa.concat_tables(tables))

"""The layout rule, by the footer: what this package writes keeps it, and what parquet-java would lose is found."""

from __future__ import annotations

import io
import random
import struct
from contextlib import suppress
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.parquet_damage import reordered

from lakemeta.errors import CorruptMetadataError
from lakemeta.parquet import thrift
from lakemeta.parquet.footer import WriteOptions, row_groups
from lakemeta.parquet.layout import LostRowGroup, check_layout, lost_row_groups, read_footer
from lakemeta.parquet.writer import ParquetWriter

TABLE = pa.table(
    {
        "id": pa.array(range(300), pa.int64()),
        "text": [f"{n}" * 40 for n in range(300)],
        "s": [{"x": n % 4, "l": [n, n]} for n in range(300)],  # few values, so that x has a dictionary
    }
)


def written(groups: int = 2, **options: Any) -> bytes:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, TABLE.schema, WriteOptions(codec="none", **options))
    for _ in range(groups):
        writer.write(TABLE)
    writer.close()
    return sink.getvalue()


def footer_of(data: bytes) -> bytes:
    return read_footer(lambda start, length: data[start : start + length], len(data), "f")


def with_footer(data: bytes, footer: thrift.Struct) -> bytes:
    new = thrift.dumps(footer)
    return data[: -8 - len(footer_of(data))] + new + struct.pack("<I", len(new)) + b"PAR1"


def checked(data: bytes) -> tuple[int, ...]:
    return check_layout(footer_of(data), len(data), "f")


@pytest.mark.parametrize("page_rows", [None, 7])
def test_what_is_written_keeps_the_rule(page_rows: int | None) -> None:
    """Rows of each row group; nothing is lost."""
    data = written(page_rows=page_rows)
    assert checked(data) == (300, 300)
    assert lost_row_groups(footer_of(data), len(data), "f", [4]) == []


def test_a_file_of_no_row_group_keeps_the_rule() -> None:
    """No row group, no rows, nothing to lose."""
    assert checked(written(groups=0)) == ()


def test_chunks_in_another_order_are_refused_and_what_is_lost_is_named() -> None:
    """The middle of the last row group lies past the end of the file: parquet-java reads none of its rows."""
    data = reordered(written())
    with pytest.raises(CorruptMetadataError, match=r"^f is not laid out .* the chunk of id in row group 0 starts at"):
        checked(data)
    assert pq.read_table(io.BytesIO(data)).num_rows == 600
    assert lost_row_groups(footer_of(data), len(data), "f", [4]) == [LostRowGroup(1, 300)]


def test_a_first_column_in_its_place_is_not_enough() -> None:
    """parquet-java would find these row groups; they break the rule all the same."""
    data = reordered(written(), lambda number, size: -size if number else -(1 << 40))
    assert lost_row_groups(footer_of(data), len(data), "f", [4]) == []
    with pytest.raises(CorruptMetadataError, match="starts at"):
        checked(data)


def test_row_groups_before_the_first_split_are_lost() -> None:
    """A part of a file starts at a split offset, so nobody reads what lies before the first."""
    data = written()
    second = row_groups(thrift.loads(footer_of(data)))[1][5][1]
    assert lost_row_groups(footer_of(data), len(data), "f", [second]) == [LostRowGroup(0, 300)]


@pytest.mark.parametrize("field", [2, 3, 5, 6])
@pytest.mark.parametrize("change", [-1, 1])
def test_sizes_rows_and_offsets_must_agree(field: int, change: int) -> None:
    """Any of them off by one is a contradiction."""
    data = written()
    footer = thrift.loads(footer_of(data))
    group = row_groups(footer)[1]
    group[field] = (group[field][0], group[field][1] + change)
    with pytest.raises(CorruptMetadataError, match=r"^f is not laid out"):
        checked(with_footer(data, footer))


@pytest.mark.parametrize("field", [5, 6, 7, 9, 11])
@pytest.mark.parametrize("change", [-(1 << 20), 1 << 20])
def test_chunks_must_lie_where_they_say(field: int, change: int) -> None:
    """Values, sizes and page offsets of a column chunk."""
    data = written()
    footer = thrift.loads(footer_of(data))
    meta = row_groups(footer)[0][1][1][1][2][3][1]
    meta[field] = (meta[field][0], meta[field][1] + change)
    if (field, change) != (5, 1 << 20):  # a list may have any number of values
        with pytest.raises(CorruptMetadataError, match=r"^f is not laid out"):
            checked(with_footer(data, footer))


def test_bytes_behind_the_file_are_noticed() -> None:
    """A file that is shorter or longer than it was said to be."""
    data = written()
    for size in (len(data) - 1, len(data) + 1, 0, 7):
        with pytest.raises(CorruptMetadataError, match="does not end in a Parquet footer"):
            read_footer(lambda start, length: data[start : start + length], size, "f")


def test_a_long_footer_takes_a_second_read() -> None:
    """Not more than two."""
    reads = []

    def read(start: int, length: int) -> bytes:
        reads.append(length)
        return data[start : start + length]

    data = written(key_values={"k": "v" * 100_000})
    assert check_layout(read_footer(read, len(data), "f"), len(data), "f") == (300, 300)
    assert reads == [64 * 1024, len(footer_of(data)) + 8]


def test_damaged_footers_are_damage_and_nothing_else() -> None:
    """Flipped bytes end in our own error, or in a footer that is still right."""
    data, picks = written(), random.Random(7)
    footer = footer_of(data)
    for _ in range(500):
        damaged = bytearray(footer)
        for _ in range(picks.randint(1, 3)):
            damaged[picks.randrange(len(damaged))] = picks.randrange(256)
        for look in (check_layout, lost_row_groups):
            with suppress(CorruptMetadataError):
                look(bytes(damaged), len(data), "f")

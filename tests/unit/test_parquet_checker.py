"""The independent layout checker finds what it is there for."""

from __future__ import annotations

import io
import struct
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.parquet_checker import check
from support.parquet_damage import reordered

from lakemeta.parquet import thrift
from lakemeta.parquet.footer import WriteOptions, row_groups
from lakemeta.parquet.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Callable

TABLE = pa.table({"id": range(100), "l": [[n, n] for n in range(100)], "t": [f"{n % 3}" * 50 for n in range(100)]})


def written(**options: Any) -> bytes:
    sink = io.BytesIO()
    writer = ParquetWriter(sink, TABLE.schema, WriteOptions(page_rows=30, **options))
    for _ in range(3):
        writer.write(TABLE)
    writer.close()
    return sink.getvalue()


def test_a_file_of_pyarrow_keeps_the_rules_too() -> None:
    """The rules are the format's, not this package's."""
    sink = io.BytesIO()
    pq.write_table(TABLE, sink, row_group_size=40, write_page_index=True)
    assert check(sink.getvalue()) == 100


@pytest.mark.parametrize("key", [lambda n, size: -size, lambda n, size: (n > 0) * -size, lambda n, size: -n])
def test_chunks_in_another_order_are_found(key: Callable[[int, int], int]) -> None:
    """Largest first, first column first, backwards."""
    with pytest.raises(AssertionError, match="starts elsewhere"):
        check(reordered(written(), key))


def test_split_offsets_are_those_of_the_row_groups() -> None:
    """One missing, or one moved."""
    data = written()
    offsets = [group[5][1] for group in row_groups(footer(data))]
    assert check(data, offsets) == 300
    for wrong in (offsets[1:], [offsets[0] + 1, *offsets[1:]], [*offsets, len(data) - 1]):
        with pytest.raises(AssertionError, match="split offsets"):
            check(data, wrong)


def footer(data: bytes) -> thrift.Struct:
    return thrift.loads(data[-8 - struct.unpack("<I", data[-8:-4])[0] : -8])


def with_footer(data: bytes, new: thrift.Struct) -> bytes:
    tail = thrift.dumps(new)
    return data[: -8 - struct.unpack("<I", data[-8:-4])[0]] + tail + struct.pack("<I", len(tail)) + b"PAR1"


@pytest.mark.parametrize("version", ["1.0", "2.0"])
def test_every_number_of_the_footer_is_looked_at(version: str) -> None:
    """Offsets, sizes and counts of row groups, column chunks and indexes: each off by one is found."""
    data = written(page_version=version)

    def places(of: thrift.Struct) -> list[tuple[thrift.Struct, int]]:
        group = row_groups(of)[1]
        chunk = group[1][1][1][1]
        found = [(of, 3)] + [(group, field) for field in (2, 3, 5, 6, 7)] + [(chunk, field) for field in (4, 5, 6, 7)]
        return found + [(chunk[3][1], field) for field in (5, 6, 7, 9, 11)]

    for number in range(len(places(footer(data)))):
        for change in (-1, 1):
            changed = footer(data)
            holder, field = places(changed)[number]
            holder[field] = (holder[field][0], holder[field][1] + change)
            with pytest.raises((AssertionError, IndexError, KeyError)):
                check(with_footer(data, changed))

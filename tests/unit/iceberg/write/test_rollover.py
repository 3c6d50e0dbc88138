"""When row groups and files end."""

from __future__ import annotations

from decimal import Decimal

import pyarrow as pa
import pytest

from lakemeta.iceberg.write.rollover import BufferLimits, Rollover, decimal_bytes, plain_bytes

MIB = 1024 * 1024
USUAL = BufferLimits(128 * MIB, MIB, 20_000, 100, 10_000)


def ends(rollover: Rollover, table: pa.Table) -> list[tuple[int, str]]:
    """The rows of everything that ends, as a writer is told; what is left at the end is not said."""
    found, rows = [], 0
    while table.num_rows:
        count, end = rollover.take(table)
        rows, table = rows + count, table.slice(count)
        if end:
            found.append((rows, end))
            rows = 0
            rollover.row_group_ended()
        if end == "file":
            rollover.file_ended()
    return found


def longs(count: int) -> pa.Table:
    return pa.table({"n": pa.array(range(count), pa.int64())})


def test_a_file_ends_every_thousand_rows_or_not_at_all() -> None:
    """The size is looked at every 1000 rows only, at that of plain values: 8000 bytes here."""
    assert ends(Rollover(USUAL, 8000, 1.0), longs(2500)) == [(1000, "file"), (1000, "file")]
    assert ends(Rollover(USUAL, 8001, 1.0), longs(4500)) == [(2000, "file"), (2000, "file")]
    assert ends(Rollover(USUAL, 1, 1.0), longs(999)) == []


def test_batches_do_not_matter() -> None:
    """Rows come in parts of any size."""
    for size in (1, 7, 999, 1000, 1001):
        rollover, table = Rollover(USUAL, 17_000, 1.0), longs(7000)
        parts = [table.slice(at, size) for at in range(0, 7000, size)]
        assert [end for part in parts for _, end in ends(rollover, part)] == ["file", "file"]


def test_full_pages_count_as_encoded() -> None:
    """The 20 000 rows of a page shrink to what they take encoded once it is full."""
    rollover = Rollover(USUAL, 100_000, 1.0)
    assert ends(rollover, longs(60_000)) == [(13_000, "file")] * 4
    assert ends(Rollover(USUAL, 161_000, 1.0), longs(60_000)) == [(38_000, "file")]


def test_a_row_group_ends_by_what_is_held() -> None:
    """Looked at after 100 rows, then half way to the end as it seems, but never sooner than 100 rows on."""
    limits = BufferLimits(16_000, MIB, 20_000, 100, 10_000)
    found = ends(Rollover(limits, 1 << 40, 1.0), longs(9000))
    assert {end for _, end in found} == {"row group"}
    # 2000 rows fill it. Looks at 100, 1050 (half of what is left on), 1525, 1762, 1881, then 100 rows on, and again.
    assert found[0][0] == 2081


@pytest.mark.parametrize(
    ("values", "kind", "expected"),
    [
        ([1, None, 3], pa.int32(), [8]),
        ([1, 2], pa.timestamp("us"), [16]),
        ([True] * 9, pa.bool_(), [2]),
        (["a", None, "bcd"], pa.string(), [12]),
        ([b"", b"xy"], pa.binary(), [10]),
        ([b"ab"], pa.binary(2), [2]),
        ([Decimal(1)], pa.decimal128(9, 0), [4]),
        ([Decimal(1)], pa.decimal128(18, 0), [8]),
        ([Decimal(1)], pa.decimal128(38, 0), [16]),
        ([{"a": 1, "b": "x"}, None], pa.struct([("a", pa.int64()), ("b", pa.string())]), [8, 5]),
        ([[1, 2], None, []], pa.list_(pa.int32()), [8]),
        ([[("k", 1)], [("l", None)]], pa.map_(pa.string(), pa.int32()), [10, 4]),
        ([None, None], pa.null(), [0]),
    ],
)
def test_plain_bytes_are_those_of_parquet(values: list[object], kind: pa.DataType, expected: list[int]) -> None:
    """Nulls take nothing, text four bytes more than itself; slices count what is in them."""
    column = pa.array(values, kind)
    assert plain_bytes(pa.table({"c": column})) == expected
    twice = pa.concat_arrays([column, column])
    assert plain_bytes(pa.table({"c": twice}).slice(len(values))) == expected
    assert plain_bytes(pa.table({"c": column}).slice(0, 0)) == [0] * len(expected)


def test_nulls_among_values_take_a_bit() -> None:
    """Which rows are null is written down once it is not the same for all."""
    assert plain_bytes(pa.table({"c": pa.array([1, None] * 400, pa.int32())})) == [400 * 4 + 100]


def test_decimals_take_as_few_bytes_as_hold_them() -> None:
    """Iceberg's table of precisions (TypeUtil.decimalRequiredBytes) from 19 digits on."""
    assert [decimal_bytes(p) for p in (9, 10, 18, 19, 21, 22, 38)] == [4, 8, 8, 9, 9, 10, 16]

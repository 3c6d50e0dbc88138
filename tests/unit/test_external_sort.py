"""Sorting rows in bounded memory."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.external_sort import sort_batches
from lakemeta.row_sort import SortKey

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = pa.schema([("a", pa.int64()), ("f", pa.float64()), ("b", pa.bool_()), ("n", pa.int64())])
ROWS = st.lists(
    st.tuples(
        st.none() | st.integers(-3, 3),
        st.none() | st.sampled_from([float("nan"), -1.5, 0.0, 2.5, math.inf]),
        st.none() | st.booleans(),
    ),
    max_size=200,
)
KEYS = st.lists(
    st.builds(SortKey, st.sampled_from("afb"), st.sampled_from(["ascending", "descending"]), st.booleans()),
    min_size=1,
    max_size=3,
)


def batches(rows: list[tuple[Any, ...]], size: int) -> list[pa.RecordBatch]:
    numbered = [dict(zip("afbn", (*row, n), strict=True)) for n, row in enumerate(rows)]
    return [pa.RecordBatch.from_pylist(numbered[i : i + size], schema=SCHEMA) for i in range(0, len(rows), size)]


def rank(row: dict[str, Any], keys: list[SortKey]) -> list[tuple[int, float]]:
    found = []
    for key in keys:
        value, sign = row[key.column], 1 if key.direction == "ascending" else -1
        if value is None:
            found.append((-1 if key.nulls_first else 1, 0.0, 0.0))
        else:
            found.append((0, sign * math.isnan(value), 0.0 if math.isnan(value) else sign * value))
    return found


@given(ROWS, KEYS, st.sampled_from([500, 3000, 10**9]))
def test_rows_come_in_order_and_all_of_them(rows: list[Any], keys: list[SortKey], budget: int) -> None:
    """Nulls where the key says, NaN above all numbers, whatever fits in memory."""
    out = [row for t in sort_batches(batches(rows, 7), keys, budget=budget) for row in t.to_pylist()]
    ranks = [rank(row, keys) for row in out]
    assert ranks == sorted(ranks)
    assert sorted(row["n"] for row in out) == list(range(len(rows)))


def test_temporary_files_are_removed(tmp_path: Path) -> None:
    """When the last row is out, and when nobody wants the rest."""
    rows = [(n % 10, None, None) for n in range(1000)]
    tables = sort_batches(batches(rows, 50), [SortKey("a")], budget=5000, directory=str(tmp_path))
    assert next(tables).num_rows
    assert len(list(tmp_path.rglob("run-*"))) > 2
    tables.close()
    assert not list(tmp_path.iterdir())
    assert sum(t.num_rows for t in sort_batches(batches(rows, 50), [SortKey("a")], budget=5000)) == 1000
    assert not list(tmp_path.iterdir())


@pytest.mark.slow
def test_large_rows_are_merged_a_few_at_a_time() -> None:
    """Rows of 64 KiB and a budget of 2 MiB: no table is much above what is held, of forty runs as of one."""
    texts = [f"{n * 37 % 400:08}" * 8192 for n in range(400)]
    parts = [pa.RecordBatch.from_pydict({"a": range(n, n + 8), "t": texts[n : n + 8]}) for n in range(0, 400, 8)]
    before = pa.total_allocated_bytes()
    rows, most = [], 0
    for table in sort_batches(parts, [SortKey("t")], budget=2 * 1024 * 1024):
        rows += table.column("a").to_pylist()
        most = max(most, pa.total_allocated_bytes() - before)
    assert rows == sorted(range(400), key=lambda n: n * 37 % 400)
    assert most < 16 * 1024 * 1024

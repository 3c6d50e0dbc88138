"""Cutting sorted rows into ranges."""

from __future__ import annotations

import random
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.iceberg.rewrite.range_cut import RangeCut


def cut(values: list[Any], ranges: int, *, together: int = 1, seed: int = 0, batch: int = 1000) -> list[list[Any]]:
    """Mark the values in the order given, sort them, and cut them."""
    cutter = RangeCut(ranges, together, len(values), seed)
    batches = [pa.record_batch({"k": values[at : at + batch]}) for at in range(0, len(values), batch)]
    marked = pa.Table.from_batches(list(cutter.mark(batches)))
    tables = [
        table
        for at in range(0, marked.num_rows, batch)
        if (table := marked.sort_by([("k", "ascending")]).slice(at, batch)).num_rows
    ]
    return [[v for t in part for v in t.column("k").to_pylist()] for part in cutter.cut(tables, ["k"])]


def reference(values: list[Any], ranges: int) -> list[list[Any]]:
    """RangePartitioner.determineBounds over all rows, each of weight one, in so many words."""
    ordered, bounds = sorted(values), []
    ranges = min(ranges, len(ordered))
    step = target = len(ordered) / max(1, ranges)
    for seen, value in enumerate(ordered, 1):
        if len(bounds) < ranges - 1 and seen >= target and (not bounds or value > bounds[-1]):
            bounds.append(value)
            target += step
    parts: list[list[Any]] = [[] for _ in range(len(bounds) + 1)]
    for value in ordered:
        parts[sum(value > bound for bound in bounds)].append(value)
    return [part for part in parts if part]


@given(st.lists(st.integers(0, 30), min_size=1, max_size=200), st.integers(1, 12), st.integers(1, 50))
def test_few_rows_are_cut_as_spark_cuts_them(values: list[int], ranges: int, batch: int) -> None:
    """Equal keys stay together, in batches of any size, so there may be fewer ranges than asked for."""
    assert cut(values, ranges, batch=batch) == reference(values, ranges)


def test_nulls_and_other_values_of_a_key_are_one_key() -> None:
    """Two null keys are equal."""
    assert cut([None] * 4 + [1, 2], 5) == [[1, 2], [None] * 4]


def test_no_rows_are_no_task() -> None:
    """There is nothing to cut."""
    assert list(RangeCut(3, 1, 0, 0).cut([], ["k"])) == []


def test_ranges_can_be_put_together() -> None:
    """So many neighbouring ranges make one task."""
    assert cut(list(range(12)), 6, together=3) == [list(range(6)), list(range(6, 12))]


@pytest.mark.slow
@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in (1, 7))])
def test_many_rows_are_cut_by_a_sample(seed: int) -> None:
    """Ranges are about equal, not quite, and always the same for a seed."""
    values = list(range(20_000))
    random.Random(5).shuffle(values)
    parts = cut(values, 4, seed=seed)
    assert [v for part in parts for v in part] == list(range(20_000))
    sizes = [len(part) for part in parts]
    assert len(sizes) == 4
    assert sizes != [5000] * 4
    assert all(4000 < size < 6000 for size in sizes)
    assert cut(values, 4, seed=seed, batch=77) == parts
    assert cut(values, 4, seed=seed + 1) != parts

"""What is said to match entirely does: partitions and metrics of files against rows themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.iceberg_filters import FILTERS, MISSING, ROWS, SPECS, matches, measured, partition_of
from support.iceberg_values import SCHEMA, data_file, spec

from lakemeta.iceberg.filters.expressions import TRUE, Expression, Predicate
from lakemeta.iceberg.filters.inclusive import file_may_match, partition_filter
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.filters.strict import all_rows_match, file_must_match, project_strict
from lakemeta.iceberg.spec import types as t

NAN = float("nan")


@given(FILTERS, SPECS, ROWS)
def test_rows_of_partitions_that_match_entirely_all_match(where: Expression, fields: list[Any], rows: Any) -> None:
    """Where the strict projection holds for a row's partition, the row matches."""
    by = spec(*fields)
    holds = partition_filter(project_strict(where, by), by)
    for row in rows:
        assert matches(where, row) or not holds(partition_of(by, row))


@given(FILTERS, SPECS, ROWS, MISSING, st.sampled_from([1, 2, 16]))
def test_files_that_match_entirely_hold_no_other_row(
    where: Expression, fields: list[Any], rows: Any, missing: set[str], width: int
) -> None:
    """A yes means every row, a no of the inclusive test none: with cut bounds and whatever metrics are missing."""
    by = spec(*fields)
    same = [row for row in rows if repr(partition_of(by, row)) == repr(partition_of(by, rows[0]))]
    file = measured(same, missing, width=width, partition=partition_of(by, rows[0]))
    matching = [matches(where, row) for row in same]
    assert all(matching) or not all_rows_match(where, by, SCHEMA)(file)
    assert not any(matching) or file_may_match(where, file)


@given(FILTERS, ROWS)
def test_with_all_metrics_one_row_is_certain(where: Expression, rows: Any) -> None:
    """A file of one row, whole bounds and all counts leave no doubt."""
    file = measured(rows[:1], set())
    assert all_rows_match(where, spec(), SCHEMA)(file) == matches(where, rows[0])


FILE = measured([(5, "bb", 0, 1.0), (9, "bd", 0, 2.0)], set())


@pytest.mark.parametrize(
    ("text", "certain"),
    [
        ("id < 10", True),
        ("id < 9", False),
        ("id <= 9", True),
        ("id > 4", True),
        ("id > 5", False),
        ("id >= 5", True),
        ("id = 5", False),
        ("id <> 10", True),
        ("id <> 7", False),
        ("id not in (1, 2, 10)", True),
        ("id not in (1, 7)", False),
        ("id in (5, 9)", False),
        ("name like 'b%'", True),
        ("name like 'bb%'", False),
        ("name like 'bbb%'", False),
        ("name not like 'a%'", True),
        ("name not like 'c%'", True),
        ("name not like 'bc%'", False),
        ("name is not null", True),
        ("name is null", False),
        ("v is nan", False),
        ("v is not nan", True),
        ("v > 0.5", True),
        ("ts = '1970-01-01T00:00:00'", True),
        ("ts in ('1970-01-01T00:00:00', '1970-01-02T00:00:00')", True),
        ("s.x > 0", False),
        ("id > 4 and id > 5", False),
        ("id > 5 or id < 10", True),
        ("id < 6 or id > 5", False),
        ("true", True),
        ("false", False),
    ],
)
def test_what_metrics_settle(text: str, certain: bool) -> None:
    """Bounds 5 to 9 and 'bb' to 'bd', no nulls; ``or`` is certain only if one side is."""
    assert all_rows_match(parse_where(text, SCHEMA), spec(), SCHEMA)(FILE) == certain


@pytest.mark.parametrize(
    ("transform", "text", "certain"),
    [
        ("identity", "name = 'bcd'", ["bcd"]),
        ("identity", "name like 'bc%'", ["bcd", "bce"]),
        ("truncate[2]", "name like 'b%'", ["bc"]),
        ("truncate[2]", "name like 'bc%'", ["bc"]),
        ("truncate[2]", "name like 'bcd%'", []),
        ("truncate[2]", "name not like 'bcd%'", ["aa"]),
        ("truncate[2]", "name <> 'bcd'", ["aa"]),
        ("truncate[2]", "name = 'bc'", []),
        ("truncate[2]", "name > 'b'", ["bc"]),
        ("truncate[2]", "name >= 'bcd'", []),
        ("void", "name is null", []),
        ("unheard-of", "name is null", []),
    ],
)
def test_what_partitions_settle(transform: str, text: str, certain: list[str]) -> None:
    """A truncated text settles comparisons with other texts, and prefixes that it is long enough for."""
    by = spec((2, transform))
    holds = all_rows_match(parse_where(text, SCHEMA), by, SCHEMA)
    counted = {"value_counts": {2: 10}, "null_value_counts": {2: 0}}
    found = ["bcd", "bce"] if transform == "identity" else ["aa", "bc"]
    assert [p for p in found if holds(data_file(partition=(p,), **counted))] == certain


def test_partition_and_metrics_settle_a_filter_together() -> None:
    """One test is settled by the partition, the other one by bounds."""
    by = spec((2, "identity"))
    holds = all_rows_match(parse_where("name = 'x' and id >= 5", SCHEMA), by, SCHEMA)
    bounds = {"null_value_counts": {1: 0}, "lower_bounds": {1: (5).to_bytes(8, "little")}}
    assert holds(data_file(partition=("x",), **bounds))
    assert not holds(data_file(partition=("y",), **bounds))
    assert not holds(data_file(partition=("x",)))


def test_fields_of_structs_are_settled_by_partitions_alone() -> None:
    """Where the struct is null its fields are too, and not every writer counts that."""
    by = spec((7, "identity"))
    holds = all_rows_match(parse_where("s.x = 5", SCHEMA), by, SCHEMA)
    assert holds(data_file(partition=(5,)))
    assert not holds(data_file(partition=(4,)))


def test_times_before_1970_allow_for_an_old_mistake() -> None:
    """Old writers rounded times before 1970 up, so the partition value after the boundary is not certain."""
    by = spec((3, "day"))
    after = partition_filter(project_strict(parse_where("ts >= '1969-12-31T00:00:00'", SCHEMA), by), by)
    assert [day for day in range(-3, 3) if after((day,))] == [0, 1, 2]
    other = partition_filter(project_strict(Predicate(3, t.TIMESTAMPTZ, "not-eq", -1), by), by)
    assert [day for day in range(-3, 3) if other((day,))] == [-3, -2, 1, 2]
    of_date = spec((5, "day"))
    exact = partition_filter(project_strict(parse_where("d >= '1969-12-31'", SCHEMA), of_date), of_date)
    assert [day for day in range(-3, 3) if exact((day,))] == [-1, 0, 1, 2]


def test_unknown_nan_counts_leave_doubt() -> None:
    """Bounds leave NaN out, so without a count of them no comparison is certain."""
    rows = [(1, "x", 0, 1.0), (1, "x", 0, NAN)]
    where = parse_where("v < 5", SCHEMA)
    assert not all_rows_match(where, spec(), SCHEMA)(measured(rows, set()))
    assert not all_rows_match(where, spec(), SCHEMA)(measured(rows[:1], {"nan_value_counts"}))
    assert all_rows_match(where, spec(), SCHEMA)(measured(rows[:1], set()))


def test_the_order_of_uuids_is_not_relied_on() -> None:
    """Writers have ordered them by signed and by unsigned halves; only equal bounds say something."""
    low, high = bytes([1] * 16), bytes([2] * 16)
    file = data_file(null_value_counts={9: 0}, lower_bounds={9: low}, upper_bounds={9: high})
    assert not file_must_match(Predicate(9, t.UUID, "lt", bytes([3] * 16)), file)
    assert not file_must_match(Predicate(9, t.UUID, "not-eq", bytes([3] * 16)), file)
    same = data_file(null_value_counts={9: 0}, lower_bounds={9: low}, upper_bounds={9: low})
    assert file_must_match(Predicate(9, t.UUID, "eq", low), same)


def test_files_without_rows_match() -> None:
    """There is no row that does not."""
    assert all_rows_match(parse_where("id = 4", SCHEMA), spec(), SCHEMA)(data_file(records=0))
    assert all_rows_match(TRUE, spec(), SCHEMA)(data_file())

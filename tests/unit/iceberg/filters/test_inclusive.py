"""Pruning never loses a row: whole manifests, partitions and files against rows themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from support.iceberg_filters import FILTERS, MISSING, ROWS, SPECS, matches, measured, partition_of
from support.iceberg_values import SCHEMA, data_file, spec, table

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.filters.expressions import TRUE, Expression
from lakemeta.iceberg.filters.inclusive import file_may_match, manifest_may_match, partition_filter, project
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.codec import summarise
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import DOUBLE, Type


@given(FILTERS, SPECS, ROWS)
def test_no_matching_row_is_lost_by_partitions(where: Expression, fields: list[Any], rows: Any) -> None:
    """A row that matches lies in a partition, and in a manifest, that the projected filter keeps."""
    by = spec(*fields)
    projected = project(where, by, SCHEMA)
    for row in rows:
        if matches(where, row):
            partition = partition_of(by, row)
            assert partition_filter(projected, by)(partition)
            summaries = summarise(table(by).partition_types(0), [partition])
            assert manifest_may_match(projected, by, summaries)


@given(FILTERS, ROWS, MISSING)
def test_no_matching_row_is_lost_by_metrics(where: Expression, rows: Any, missing: set[str]) -> None:
    """A file with a matching row is kept, however much of its metrics is missing."""
    if any(matches(where, row) for row in rows):
        assert file_may_match(where, measured(rows, missing))


FILE = measured([(5, "bb", 0, 1.0), (9, "bd", 0, 2.0)], set())


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("id < 5", False),
        ("id <= 5", True),
        ("id > 9", False),
        ("id >= 9", True),
        ("id = 4", False),
        ("id = 7", True),
        ("id in (1, 10)", False),
        ("id in (1, 6)", True),
        ("id <> 5", True),
        ("name is null", False),
        ("name like 'b%'", True),
        ("name like 'be%'", False),
        ("name like 'ba%'", False),
        ("name not like 'b%'", False),
        ("name not like 'bb%'", True),
        ("v is nan", False),
        ("v is not nan", True),
        ("s.x = 1", True),
        ("id < 5 or id = 9", True),
        ("id < 5 or id = 10", False),
    ],
)
def test_files_are_left_out_by_their_metrics(text: str, kept: bool) -> None:
    """Bounds 5 to 9 and 'bb' to 'bd', no nulls: what may match and what cannot."""
    assert file_may_match(parse_where(text, SCHEMA), FILE) == kept


def test_a_file_of_one_value_without_nulls_is_left_out_by_not_equal() -> None:
    """Equal bounds and no null or NaN: every row has that value."""
    file = measured([(5, "x", 0, 1.0)], set())
    assert not file_may_match(parse_where("id <> 5", SCHEMA), file)
    assert not file_may_match(parse_where("id not in (4, 5)", SCHEMA), file)
    assert file_may_match(parse_where("id not in (4)", SCHEMA), file)


def test_files_of_nothing_but_nulls() -> None:
    """No comparison holds, only IS NULL."""
    file = measured([(None, None, None, None)], set())
    assert not file_may_match(parse_where("name = 'x'", SCHEMA), file)
    assert not file_may_match(parse_where("name is not null", SCHEMA), file)
    assert file_may_match(parse_where("name is null", SCHEMA), file)


def test_empty_files_match_nothing_and_unknown_counts_everything() -> None:
    """A file without rows is left out; a negative count means that the writer did not know."""
    assert not file_may_match(TRUE, data_file(records=0))
    assert file_may_match(parse_where("id = 4", SCHEMA), data_file(records=-1))


def test_long_lists_are_not_tested() -> None:
    """More than 200 values: the file is kept."""
    wanted = ", ".join(str(i) for i in range(100, 301))
    assert file_may_match(parse_where(f"id in ({wanted})", SCHEMA), FILE)


def test_times_before_1970_allow_for_an_old_mistake() -> None:
    """Old writers rounded times before 1970 up, so the next partition value is kept as well."""
    by = spec((3, "day"))
    keep = partition_filter(project(parse_where("ts = '1969-12-31T10:00:00'", SCHEMA), by, SCHEMA), by)
    assert [day for day in range(-3, 3) if keep((day,))] == [-1, 0]
    of_date = spec((5, "day"))
    exact = partition_filter(project(parse_where("d = '1969-12-31'", SCHEMA), of_date, SCHEMA), of_date)
    assert [day for day in range(-3, 3) if exact((day,))] == [-1]


def test_manifests_without_summaries_are_kept() -> None:
    """Nothing is known of them, unless no row can match at all."""
    by = spec((1, "identity"))
    assert manifest_may_match(parse_where("id = 1", SCHEMA), by, None)
    assert not manifest_may_match(parse_where("false", SCHEMA), by, None)


def summary(kind: Type, *rows: Any) -> Any:
    """A file whose column 4, as a column of this type, has these values."""
    return data_file(
        records=len(rows),
        value_counts={4: len(rows)},
        null_value_counts={4: 0},
        nan_value_counts={4: 0},
        lower_bounds={4: values.to_bytes(kind, rows[0])},
        upper_bounds={4: values.to_bytes(kind, rows[-1])},
    )


@pytest.mark.parametrize(
    ("rows", "text", "kept"),
    [
        ((-0.0, -0.0), "v = 0.0", False),
        ((-0.0, 0.0), "v = 0.0", True),
        ((0.0, 0.0), "v <= -0.0", False),
        ((-0.0, -0.0), "v < 0.0", True),
        ((-0.0, -0.0), "v <> 0.0", True),
        ((0.0, 0.0), "v <> 0.0", False),
        ((-0.0, 0.0), "v <> 0.0", True),
        ((-0.0, -0.0), "v not in (1, 0.0)", True),
        ((0.0, 0.0), "v not in (1, 0.0)", False),
        ((-5.0, -2.0), "v > -3", True),
        ((-5.0, -4.0), "v > -3", False),
        ((float("nan"), 1.0), "v < 0", True),
        ((1.0, float("nan")), "v > 2", True),
        ((1.0, float("nan")), "v = 2", True),
        ((1.0, float("nan")), "v in (2, 3)", True),
    ],
)
def test_floats_are_in_javas_order(rows: Any, text: str, kept: bool) -> None:
    """-0.0 is less than 0.0, and NaN as an upper bound is greater than all; as a lower one it says nothing."""
    assert file_may_match(parse_where(text, SCHEMA), summary(DOUBLE, *rows)) == kept


@pytest.mark.parametrize(
    ("text", "kept"),
    [
        ("id = 1 or v < 5", True),
        ("id = 1 or v <= 5", True),
        ("id = 1 or v > 5", False),
        ("v < 5", False),
        ("id = 1 or v <> 5", True),
        ("id = 1 or v not in (5, 6)", False),
        ("id = 1 or not v <=> 5", True),
    ],
)
def test_null_partitions_within_an_or_are_the_engines(text: str, kept: bool) -> None:
    """Null is the least of all in the engine's Evaluator; only where Spark adds IS NOT NULL it matches nothing."""
    by = spec((1, "identity"), (4, "identity"))
    projected = project(parse_where(text, SCHEMA), by, SCHEMA)
    assert partition_filter(projected, by, null_is_least=True)((2, None)) == kept


def test_null_buckets_are_left_out_by_comparisons() -> None:
    """What a bucket can't be compared with still rejects null, where the filter as a whole does."""
    by = spec((2, "bucket[4]"))
    for text, kept in (("name > 'a'", False), ("name like 'a%'", False), ("name > 'a' or id = 1", True)):
        projected = project(parse_where(text, SCHEMA), by, SCHEMA)
        assert partition_filter(projected, by, null_is_least=True)((None,)) == kept


def test_the_least_number_has_none_below() -> None:
    """Whole numbers wrap as Java's do, also where a predicate is projected: nothing is pruned below the least."""
    by = spec((1, "truncate[10]"))
    projected = project(parse_where("id < -9223372036854775808", SCHEMA), by, SCHEMA)
    assert partition_filter(projected, by)((0,))


def test_summaries_of_other_fields_are_damage() -> None:
    """A manifest that sums up other fields than its spec has is not pruned by them."""
    one, two = spec((1, "identity")), spec((1, "identity"), (4, "identity"))
    summaries = summarise(two.types(SCHEMA), [(1, 2)])
    with pytest.raises(CorruptMetadataError, match="sums up 2 fields, and the spec has 1"):
        manifest_may_match(project(parse_where("id = 1", SCHEMA), one, SCHEMA), one, summaries)

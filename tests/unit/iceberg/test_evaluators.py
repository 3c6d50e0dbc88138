"""Pruning never loses a row: whole manifests, partitions and files against rows themselves."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from iceberg_values import SCHEMA, data_file, spec, table

from lakemeta.iceberg import types as t
from lakemeta.iceberg import values
from lakemeta.iceberg.evaluators import file_may_match, manifest_may_match, partition_filter, project
from lakemeta.iceberg.expressions import TRUE, Always, And, Expression, Or, Predicate, negate, reject_nulls
from lakemeta.iceberg.manifest_codec import summarise
from lakemeta.iceberg.where import parse_where

OPS = ["lt", "lt-eq", "gt", "gt-eq", "eq", "not-eq"]
NUMBERS = st.integers(-40, 40)
WORDS = st.text("ab\U0001f9ca", max_size=4)
TIMES = st.integers(-5, 5).map(lambda n: n * 20 * 86_400_000_000 + n)
FLOATS = st.sampled_from([float("nan"), -0.0, 0.0, 1.5, -2.5])
COLUMNS: dict[int, tuple[t.Type, st.SearchStrategy[Any]]] = {
    1: (t.LONG, NUMBERS),
    2: (t.STRING, WORDS),
    3: (t.TIMESTAMPTZ, TIMES),
    4: (t.DOUBLE, FLOATS),
}


def predicates(field_id: int) -> st.SearchStrategy[Expression]:
    """Tests of one column."""
    kind, found = COLUMNS[field_id]
    literals = found.filter(lambda v: v == v)
    tests = [st.builds(Predicate, st.just(field_id), st.just(kind), st.sampled_from(OPS), literals)]
    sets = st.lists(literals, min_size=1, max_size=3).map(tuple)
    tests.append(st.builds(Predicate, st.just(field_id), st.just(kind), st.sampled_from(["in", "not-in"]), sets))
    unary = ["is-null", "not-null", *(["is-nan", "not-nan"] if kind == t.DOUBLE else [])]
    tests.append(st.builds(Predicate, st.just(field_id), st.just(kind), st.sampled_from(unary)))
    if kind == t.STRING:
        starts = st.sampled_from(["starts-with", "not-starts-with"])
        tests.append(st.builds(Predicate, st.just(field_id), st.just(kind), starts, WORDS))
    return st.one_of(tests)


FILTERS = st.recursive(
    st.one_of([predicates(i) for i in COLUMNS]),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | inner.map(negate),
    max_leaves=4,
).map(reject_nulls)
ROWS = st.lists(st.tuples(*[st.none() | found for _, found in COLUMNS.values()]), min_size=1, max_size=4)
TRANSFORMS = ["identity", "void", "unheard-of"]
SPECS = st.lists(
    st.one_of(
        st.tuples(st.just(1), st.sampled_from([*TRANSFORMS, "bucket[3]", "truncate[10]"])),
        st.tuples(st.just(2), st.sampled_from([*TRANSFORMS, "bucket[3]", "truncate[2]"])),
        st.tuples(st.just(3), st.sampled_from([*TRANSFORMS, "year", "month", "day", "hour", "bucket[3]"])),
        st.tuples(st.just(4), st.sampled_from(TRANSFORMS)),
    ),
    max_size=3,
)


def matches(node: Expression, row: tuple[Any, ...]) -> bool:
    """Whether a row matches, by the plain meaning of a filter."""
    if isinstance(node, And):
        return matches(node.left, row) and matches(node.right, row)
    if isinstance(node, Or):
        return matches(node.left, row) or matches(node.right, row)
    if isinstance(node, Always):
        return node.result
    value, literal = row[node.field_id - 1], node.value
    if node.op in ("is-null", "not-null"):
        return (value is None) == (node.op == "is-null")
    if value is None:
        return False
    nan = value != value
    return {
        "is-nan": lambda: nan,
        "not-nan": lambda: not nan,
        "lt": lambda: value < literal,
        "lt-eq": lambda: value <= literal,
        "gt": lambda: value > literal and not nan,
        "gt-eq": lambda: value >= literal and not nan,
        "eq": lambda: value == literal,
        "not-eq": lambda: value != literal,
        "in": lambda: value in literal,
        "not-in": lambda: value not in literal,
        "starts-with": lambda: value.startswith(literal),
        "not-starts-with": lambda: not value.startswith(literal),
    }[node.op]()


@given(FILTERS, SPECS, ROWS)
def test_no_matching_row_is_lost_by_partitions(where: Expression, fields: list[Any], rows: Any) -> None:
    """A row that matches lies in a partition, and in a manifest, that the projected filter keeps."""
    by = spec(*fields)
    projected = project(where, by, SCHEMA)
    for row in rows:
        if matches(where, row):
            partition = tuple(
                f.transform.apply(COLUMNS[f.source_id][0], row[f.source_id - 1]) if f.transform.is_known else "?"
                for f in by.fields
            )
            assert partition_filter(projected, by)(partition)
            summaries = summarise(table(by).partition_types(0), [partition])
            assert manifest_may_match(projected, by, summaries)


@given(FILTERS, ROWS, st.sets(st.sampled_from(["value_counts", "null_value_counts", "nan_value_counts", "bounds"])))
def test_no_matching_row_is_lost_by_metrics(where: Expression, rows: Any, missing: set[str]) -> None:
    """A file with a matching row is kept, however much of its metrics is missing."""
    if any(matches(where, row) for row in rows):
        assert file_may_match(where, measured(rows, missing))


def measured(rows: Any, missing: set[str]) -> Any:
    """A file with the metrics of these rows."""
    metrics: dict[str, Any] = {n: {} for n in ("value_counts", "null_value_counts", "nan_value_counts")}
    lower, upper = {}, {}
    for field_id, (kind, _) in COLUMNS.items():
        found = [row[field_id - 1] for row in rows]
        plain = [v for v in found if v is not None and v == v]
        metrics["value_counts"][field_id] = len(found)
        metrics["null_value_counts"][field_id] = found.count(None)
        if kind == t.DOUBLE:
            metrics["nan_value_counts"][field_id] = len(found) - len(plain) - found.count(None)
        if plain:
            lower[field_id], upper[field_id] = (values.to_bytes(kind, f(plain)) for f in (min, max))
    metrics |= {"lower_bounds": lower, "upper_bounds": upper}
    gone = {"lower_bounds", "upper_bounds"} if "bounds" in missing else set()
    return data_file(records=len(rows), **{k: v for k, v in metrics.items() if k not in missing | gone})


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

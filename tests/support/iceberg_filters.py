"""Filters, rows and partition specs for tests, and files with the metrics of given rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from hypothesis import strategies as st

from lakemeta.iceberg.filters.expressions import Always, And, Expression, Or, Predicate, negate
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec import values
from support.iceberg_values import data_file

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec

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


def reject_nulls(expression: Expression) -> Expression:
    """Add the not-null test that SQL means with every negative comparison."""
    if isinstance(expression, Predicate) and expression.op in ("not-eq", "not-in", "not-starts-with"):
        return And(Predicate(expression.field_id, expression.type, "not-null"), expression)
    if isinstance(expression, And):
        return And(reject_nulls(expression.left), reject_nulls(expression.right))
    if isinstance(expression, Or):
        return Or(reject_nulls(expression.left), reject_nulls(expression.right))
    return expression


FILTERS = st.recursive(
    st.one_of([predicates(i) for i in COLUMNS]),
    lambda inner: st.builds(And, inner, inner) | st.builds(Or, inner, inner) | inner.map(negate),
    max_leaves=4,
)
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
MISSING = st.sets(st.sampled_from(["value_counts", "null_value_counts", "nan_value_counts", "bounds"]))


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
        return node.op == "not-nan"
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


def partition_of(by: PartitionSpec, row: tuple[Any, ...]) -> tuple[Any, ...]:
    """The partition of a row; an unknown transform gives a question mark."""
    return tuple(
        f.transform.apply(COLUMNS[f.source_id][0], row[f.source_id - 1]) if f.transform.is_known else "?"
        for f in by.fields
    )


def measured(rows: Any, missing: set[str], *, width: int = 16, **more: Any) -> DataFile:
    """A file with the metrics of these rows, its bounds cut to ``width`` characters."""
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
            least, most = values.truncate_bounds(kind, min(plain), max(plain), width)
            lower[field_id] = values.to_bytes(kind, least)
            if most is not None:
                upper[field_id] = values.to_bytes(kind, most)
    metrics |= {"lower_bounds": lower, "upper_bounds": upper}
    gone = {"lower_bounds", "upper_bounds"} if "bounds" in missing else set()
    known = {k: v for k, v in metrics.items() if k not in missing | gone}
    return data_file(records=len(rows), **known, **more)

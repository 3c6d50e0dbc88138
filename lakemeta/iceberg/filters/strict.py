"""What a filter says about whole files: do all rows in there match?

The answer is strict: it is yes only if no row can fail to match, and no wherever that is not known. The rules are
those of the engine's StrictMetricsEvaluator and Transform.projectStrict, put together as its ResidualEvaluator does:
each test of the filter may be settled by the partition or by the metrics. Null passes no comparison, as in SQL, also
no negative one, which the engine leaves to tests for null beside it. An unknown number of nulls or NaN counts as some,
also where the engine overlooks it.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.filters.expressions import FALSE, Always, And, Expression, Op, Or, Predicate, and_, or_
from lakemeta.iceberg.filters.inclusive import UNARY, Column, metrics_column, partition_filter
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import UUID, DecimalType, Type, Value

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
    from lakemeta.iceberg.spec.schema import Schema

_OPEN: Final[dict[Op, tuple[Op, int]]] = {"lt": ("lt", 0), "lt-eq": ("lt", 1), "gt": ("gt", 0), "gt-eq": ("gt", -1)}
_NEGATIVE: Final = ("not-eq", "not-in", "not-starts-with")
_TIMES: Final = ("year", "month", "day", "hour")


def project_strict(expression: Expression, spec: PartitionSpec) -> Expression:
    """A filter on partition values (field ids of ``spec``) that holds only where every row of the partition matches."""
    if isinstance(expression, Always):
        return expression
    if isinstance(expression, And):
        return and_(project_strict(expression.left, spec), project_strict(expression.right, spec))
    if isinstance(expression, Or):
        return or_(project_strict(expression.left, spec), project_strict(expression.right, spec))
    result: Expression = FALSE
    for field in spec.fields:
        if field.source_id == expression.field_id:
            result = or_(result, _without_null(_project(expression, field)))
    return result


def all_rows_match(expression: Expression, spec: PartitionSpec, schema: Schema) -> Callable[[DataFile], bool]:
    """A test of the data files of one spec: True if every row of a file matches for certain."""
    top_level = frozenset(field.field_id for field in schema.fields)
    holds = _compiled(expression, spec, top_level)
    return lambda file: file.record_count == 0 or holds(file)


def _compiled(expression: Expression, spec: PartitionSpec, top_level: frozenset[int]) -> Callable[[DataFile], bool]:
    if isinstance(expression, Always):
        return lambda _: expression.result
    if isinstance(expression, Predicate):
        return _compiled_predicate(expression, spec, top_level)
    left, right = (_compiled(side, spec, top_level) for side in (expression.left, expression.right))
    if isinstance(expression, And):
        return lambda file: left(file) and right(file)
    return lambda file: left(file) or right(file)


def _compiled_predicate(
    predicate: Predicate, spec: PartitionSpec, top_level: frozenset[int]
) -> Callable[[DataFile], bool]:
    projected = project_strict(predicate, spec)
    in_partition = cache(partition_filter(projected, spec))  # many files share a partition
    if predicate.field_id not in top_level:  # nulls of a struct are not counted as nulls of its fields everywhere
        return lambda file: in_partition(file.partition)
    if projected == FALSE:
        return lambda file: file_must_match(predicate, file)
    return lambda file: in_partition(file.partition) or file_must_match(predicate, file)


def file_must_match(predicate: Predicate, file: DataFile) -> bool:
    """True if the metrics of a file say that every value of a column (not one inside a struct) passes a test."""
    known = metrics_column(predicate, file)
    op, may_be_nan = predicate.op, known.may_be_nan and str(predicate.type) in ("float", "double")
    if op in UNARY:
        return _unary_must_match(op, known, may_be_nan=may_be_nan)
    if op in _NEGATIVE:
        return not known.may_be_null and (known.only_nan or _negative_must_match(predicate, known))
    if known.may_be_null or may_be_nan:
        return False
    return _value_must_match(predicate, known)


def _unary_must_match(op: Op, column: Column, *, may_be_nan: bool) -> bool:
    if op == "is-null":
        return column.only_null
    if op == "not-null":
        return not column.may_be_null
    if op == "is-nan":
        return column.only_nan
    return not may_be_nan or column.only_null


def _value_must_match(predicate: Predicate, column: Column) -> bool:
    op, value, lower, upper = predicate.op, predicate.value, column.lower, column.upper
    if op in ("eq", "in"):
        return lower is not None and lower == upper and lower in (value if op == "in" else (value,))
    if op == "starts-with":
        return lower is not None and upper is not None and lower.startswith(value) and upper.startswith(value)
    if predicate.type == UUID:  # writers do not agree on how they are ordered
        return False
    if op in ("lt", "lt-eq"):
        return upper is not None and bool(upper <= value if op == "lt-eq" else upper < value)
    return lower is not None and bool(lower >= value if op == "gt-eq" else lower > value)


def _negative_must_match(predicate: Predicate, column: Column) -> bool:
    """True if no value that is excluded lies within the bounds; NaN is none of them."""
    value, lower, upper = predicate.value, column.lower, column.upper
    if predicate.type == UUID:
        return False
    if predicate.op == "not-starts-with":
        return (lower is not None and lower[: len(value)] > value) or (
            upper is not None and upper[: len(value)] < value
        )
    excluded = value if predicate.op == "not-in" else (value,)
    return all((lower is not None and v < lower) or (upper is not None and upper < v) for v in excluded)


def _project(predicate: Predicate, field: PartitionField) -> Expression:
    transform, op, value = field.transform, predicate.op, predicate.value
    if not transform.is_known or transform.name == "void":
        return FALSE
    result = transform.result_type(predicate.type)
    if transform.name == "identity" or op in UNARY:
        return Predicate(field.field_id, result, op, value)
    if op.endswith("starts-with"):
        return _project_prefix(predicate, field)
    if op in ("not-eq", "not-in"):
        excluded = {transform.apply(predicate.type, v) for v in (value if op == "not-in" else (value,))}
        projected = Predicate(field.field_id, result, "not-in", tuple(sorted(excluded)))
        return _with_old_times(projected, field, predicate.type)
    if op not in _OPEN or not transform.preserves_order:
        return FALSE
    open_op, step = _OPEN[op]
    bound = _stepped(predicate, step)
    boundary = transform.apply(predicate.type, bound)
    if transform.name == "truncate" and boundary > bound:  # Java's arithmetic ran over the least number there is
        return FALSE
    return _with_old_times(Predicate(field.field_id, result, open_op, boundary), field, predicate.type)


def _without_null(projected: Expression) -> Expression:
    """Transforms of null give null and of nothing else, which is no match of a negative test."""
    if isinstance(projected, Predicate) and projected.op in _NEGATIVE:
        return And(attrs.evolve(projected, op="not-null", value=None), projected)
    return projected


def _stepped(predicate: Predicate, step: int) -> Value:
    """The next value up or down, where values have neighbours; other bounds are as strict as they are."""
    kind, value = predicate.type, predicate.value
    if isinstance(kind, DecimalType):
        return values.scaled(values.unscaled(value, kind) + step, kind.scale)
    return value + step if isinstance(value, int) else value


def _project_prefix(predicate: Predicate, field: PartitionField) -> Expression:
    prefix, width = predicate.value, field.transform.width
    if field.transform.name != "truncate":
        return FALSE
    if len(prefix) <= width:
        return Predicate(field.field_id, predicate.type, predicate.op, prefix)
    if predicate.op == "starts-with":
        return FALSE
    return Predicate(field.field_id, predicate.type, "not-eq", prefix[:width])


def _with_old_times(predicate: Predicate, field: PartitionField, source: Type) -> Predicate:
    """Allow for writers before Iceberg 0.11, which rounded times before 1970 up (ProjectionUtil)."""
    if field.transform.name not in _TIMES or (field.transform.name == "day" and str(source) == "date"):
        return predicate
    op, value = predicate.op, predicate.value
    if op == "not-in":
        return attrs.evolve(predicate, value=tuple(sorted({*value, *(v + 1 for v in value if v < 0)})))
    return attrs.evolve(predicate, value=value + 1) if op == "gt" and value < 0 else predicate

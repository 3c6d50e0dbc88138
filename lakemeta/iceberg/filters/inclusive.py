"""What a filter says about whole manifests, partitions and files: may rows in there match?

Pruning is inclusive: a manifest or file is left out only if no row in it can match. The rules are those of the
engine's InclusiveMetricsEvaluator, ManifestEvaluator and Transform.project. Whether all rows match is said by
``strict``.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.filters.expressions import TRUE, Always, And, Expression, Op, Or, Predicate, and_, or_
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import DecimalType, Type, Value

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile, PartitionFieldSummary
    from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
    from lakemeta.iceberg.spec.schema import Schema

_IN_LIMIT: Final = 200  # beyond so many values, in is not worth testing
UNARY: Final = frozenset(("is-null", "not-null", "is-nan", "not-nan"))
_FLOATS: Final = ("float", "double")
_MAGNITUDE: Final = (1 << 63) - 1
_NAN_PLACE: Final = 1 << 63
_CLOSED: Final[dict[Op, Op]] = {"lt": "lt-eq", "gt": "gt-eq"}


def project(expression: Expression, spec: PartitionSpec, schema: Schema) -> Expression:
    """A filter on partition values (field ids of ``spec``) that holds for every partition with matching rows."""
    if isinstance(expression, Always):
        return expression
    if isinstance(expression, And):
        return and_(project(expression.left, spec, schema), project(expression.right, spec, schema))
    if isinstance(expression, Or):
        return or_(project(expression.left, spec, schema), project(expression.right, spec, schema))
    result: Expression = TRUE
    for field in spec.fields:
        if field.source_id == expression.field_id:
            result = and_(result, _project(expression, field))
    return result


def partition_filter(
    expression: Expression, spec: PartitionSpec, *, null_is_least: bool = False
) -> Callable[[tuple[Value, ...]], bool]:
    """A test of partition tuples of ``spec`` for a projected filter.

    With ``null_is_least``, null passes ``<`` and ``<=``, as it does in the engine's Evaluator where no other test
    rejects it.
    """
    position = {f.field_id: i for i, f in enumerate(spec.fields)}

    def holds(node: Expression, partition: tuple[Value, ...]) -> bool:
        if isinstance(node, And):
            return holds(node.left, partition) and holds(node.right, partition)
        if isinstance(node, Or):
            return holds(node.left, partition) or holds(node.right, partition)
        if isinstance(node, Always):
            return node.result
        value = partition[position[node.field_id]]
        if value is None and null_is_least and node.op in ("lt", "lt-eq"):
            return True
        return _holds(node, value)

    return lambda partition: holds(expression, partition)


def manifest_may_match(
    expression: Expression, spec: PartitionSpec, summaries: Sequence[PartitionFieldSummary] | None
) -> bool:
    """False if the partition summaries of a manifest rule out every file, for a projected filter.

    Raises CorruptMetadataError if they are not of the spec's fields.
    """
    if not summaries:
        return not isinstance(expression, Always) or expression.result
    if len(summaries) != len(spec.fields):
        raise CorruptMetadataError(
            f"a manifest of partition spec {spec.spec_id} sums up {len(summaries)} fields, and the spec has "
            f"{len(spec.fields)}; restore the metadata file or the manifest list"
        )
    position = {f.field_id: i for i, f in enumerate(spec.fields)}
    return _may_match(expression, lambda p: _summary_column(p, summaries[position[p.field_id]]))


def file_may_match(expression: Expression, file: DataFile) -> bool:
    """False if the metrics of a file rule out that any of its rows matches."""
    if file.record_count == 0:
        return False
    return file.record_count < 0 or _may_match(expression, lambda p: metrics_column(p, file))


@attrs.frozen(slots=True)
class Column:
    """What is known of a column's values somewhere; bounds are None where nothing is known."""

    lower: Value
    upper: Value
    may_be_null: bool
    only_null: bool
    may_be_nan: bool
    only_nan: bool
    incomparable: bool  # every value is null or NaN


def _summary_column(predicate: Predicate, summary: PartitionFieldSummary) -> Column:
    kind, none = predicate.type, summary.lower_bound is None
    is_float = str(kind) in ("float", "double")
    return Column(
        lower=None if summary.lower_bound is None else values.from_bytes(kind, summary.lower_bound),
        upper=None if summary.upper_bound is None else values.from_bytes(kind, summary.upper_bound),
        may_be_null=summary.contains_null,
        only_null=none and summary.contains_null and (not is_float or summary.contains_nan is False),
        may_be_nan=summary.contains_nan is not False,
        only_nan=none and summary.contains_nan is True and not summary.contains_null,
        incomparable=none,
    )


def metrics_column(predicate: Predicate, file: DataFile) -> Column:
    """What the metrics of a file say about the column that a predicate tests."""
    field_id, kind = predicate.field_id, predicate.type
    count = (file.value_counts or {}).get(field_id)
    nulls = (file.null_value_counts or {}).get(field_id)
    nans = (file.nan_value_counts or {}).get(field_id)
    lower = (file.lower_bounds or {}).get(field_id)
    upper = (file.upper_bounds or {}).get(field_id)
    only_null = count is not None and count == nulls
    only_nan = nans is not None and nans == count
    low = None if lower is None else values.from_bytes(kind, lower)
    return Column(
        lower=low if low == low else None,  # a NaN bound means that the writer did not know
        upper=None if upper is None else values.from_bytes(kind, upper),
        may_be_null=nulls != 0,
        only_null=only_null,
        may_be_nan=nans != 0,
        only_nan=only_nan,
        incomparable=only_null or only_nan,
    )


def _may_match(expression: Expression, column: Callable[[Predicate], Column]) -> bool:
    if isinstance(expression, And):
        return _may_match(expression.left, column) and _may_match(expression.right, column)
    if isinstance(expression, Or):
        return _may_match(expression.left, column) or _may_match(expression.right, column)
    if isinstance(expression, Always):
        return expression.result
    known = column(expression)
    if expression.op in UNARY:
        return _unary_may_match(expression.op, known)
    if expression.op in ("not-eq", "not-in", "not-starts-with"):
        return _negative_may_match(expression, known)
    return not known.incomparable and _value_may_match(expression, known)


def _unary_may_match(op: Op, column: Column) -> bool:
    if op == "is-null":
        return column.may_be_null
    if op == "not-null":
        return not column.only_null
    if op == "is-nan":
        return column.may_be_nan and not column.only_null
    return not column.only_nan


def _value_may_match(predicate: Predicate, column: Column) -> bool:
    op, value, lower, upper = predicate.op, *_comparable(predicate, predicate.value, column.lower, column.upper)
    if op == "in":
        if len(value) > _IN_LIMIT or lower is None:
            return True
        return any(lower <= v and (upper is None or v <= upper) for v in value)
    if op == "starts-with":
        if lower is None or lower[: len(value)] > value:
            return lower is None
        return upper is None or upper[: len(value)] >= value
    if op in ("lt", "lt-eq", "eq") and lower is not None and (lower > value or (op == "lt" and lower == value)):
        return False
    if op in ("gt", "gt-eq", "eq") and upper is not None:
        return bool(upper >= value if op != "gt" else upper > value)
    return True


def _negative_may_match(predicate: Predicate, column: Column) -> bool:
    value, lower, upper = _comparable(predicate, predicate.value, column.lower, column.upper)
    if column.may_be_null or lower is None or upper is None:
        return True
    if predicate.op == "not-starts-with":
        return not (lower.startswith(value) and upper.startswith(value))
    if lower != upper or (str(predicate.type) in _FLOATS and column.may_be_nan):
        return True
    return lower not in (value if predicate.op == "not-in" else (value,))


def _comparable(predicate: Predicate, *known: Value) -> tuple[Value, ...]:
    """Values in the order of Java's comparators: among floats, -0.0 is less than 0.0 and NaN is the greatest."""
    return tuple(map(_java_order, known)) if str(predicate.type) in _FLOATS else known


def _java_order(value: Value) -> Value:
    if value is None or isinstance(value, tuple):
        return value and tuple(map(_java_order, value))
    if value != value:
        return _NAN_PLACE
    (bits,) = struct.unpack("<q", struct.pack("<d", value))
    return bits if bits >= 0 else -(bits & _MAGNITUDE) - 1


def _holds(predicate: Predicate, value: Value) -> bool:
    op, literal = predicate.op, predicate.value
    if op in UNARY:
        wanted = value is None if op.endswith("null") else value is not None and value != value
        return wanted == op.startswith("is")
    if value is None:
        return op.startswith("not")
    value, literal = _comparable(predicate, value, literal)
    tests: dict[str, Callable[[], bool]] = {
        "lt": lambda: value < literal,
        "lt-eq": lambda: value <= literal,
        "gt": lambda: value > literal,
        "gt-eq": lambda: value >= literal,
        "eq": lambda: value == literal,
        "not-eq": lambda: value != literal,
        "in": lambda: value in literal,
        "not-in": lambda: value not in literal,
        "starts-with": lambda: value.startswith(literal),
        "not-starts-with": lambda: not value.startswith(literal),
    }
    return tests[op]()


def _project(predicate: Predicate, field: PartitionField) -> Expression:
    transform, op, value = field.transform, predicate.op, predicate.value
    if not transform.is_known or transform.name == "void":
        return TRUE
    result = transform.result_type(predicate.type)
    if transform.name == "identity" or op in UNARY:
        return Predicate(field.field_id, result, op, value)
    if op == "in":
        chosen = {transform.apply(predicate.type, v) for v in value}
        return _with_old_times(Predicate(field.field_id, result, "in", tuple(sorted(chosen))), field, predicate.type)
    if op.endswith("starts-with"):
        return _project_prefix(predicate, field)
    if op == "not-eq" or op == "not-in" or (transform.name == "bucket" and op != "eq"):
        return TRUE
    boundary = transform.apply(predicate.type, _closed(predicate))
    projected = Predicate(field.field_id, result, _CLOSED.get(op, op), boundary)
    return _with_old_times(projected, field, predicate.type)


def _closed(predicate: Predicate) -> Value:
    """The greatest value below an open upper bound, the least above an open lower one, where there is one."""
    kind, value = predicate.type, predicate.value
    step = {"lt": -1, "gt": 1}.get(predicate.op, 0)
    if isinstance(kind, DecimalType):
        return values.scaled(values.unscaled(value, kind) + step, kind.scale)
    return values.wrapped(kind, value + step) if isinstance(value, int) else value


def _project_prefix(predicate: Predicate, field: PartitionField) -> Expression:
    prefix, width = predicate.value, field.transform.width
    if field.transform.name != "truncate":
        return TRUE
    if len(prefix) < width:
        return Predicate(field.field_id, predicate.type, predicate.op, prefix)
    if predicate.op == "starts-with":
        return Predicate(field.field_id, predicate.type, "eq", prefix[:width])
    return Predicate(field.field_id, predicate.type, "not-eq", prefix) if len(prefix) == width else TRUE


def _with_old_times(predicate: Predicate, field: PartitionField, source: Type) -> Predicate:
    """Allow for writers before Iceberg 0.11, which rounded times before 1970 up (ProjectionUtil)."""
    time = field.transform.name in ("year", "month", "day", "hour")
    if not time or (field.transform.name == "day" and str(source) == "date"):
        return predicate
    op, value = predicate.op, predicate.value
    if op == "in":
        return attrs.evolve(predicate, value=tuple(sorted({*value, *(v + 1 for v in value if v < 0)})))
    if op == "eq" and value < 0:
        return attrs.evolve(predicate, op="in", value=(value, value + 1))
    return attrs.evolve(predicate, value=value + 1) if op == "lt-eq" and value < 0 else predicate

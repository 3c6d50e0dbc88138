"""Row filters as values, bound to columns of one schema. They hold no NOT: it is pushed down while they are made.

A comparison with null is never true in SQL, so ``a <> 1`` leaves out null; ``infer_not_null`` says where.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, Final, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from lakemeta.iceberg.spec.types import Type, Value

Op = Literal[
    "is-null",
    "not-null",
    "is-nan",
    "not-nan",
    "lt",
    "lt-eq",
    "gt",
    "gt-eq",
    "eq",
    "not-eq",
    "in",
    "not-in",
    "starts-with",
    "not-starts-with",
]
NEGATED: Final[dict[Op, Op]] = {
    "is-null": "not-null",
    "is-nan": "not-nan",
    "lt": "gt-eq",
    "gt": "lt-eq",
    "eq": "not-eq",
    "in": "not-in",
    "starts-with": "not-starts-with",
}
NEGATED.update({negated: op for op, negated in NEGATED.items()})
# Unknown of null, and true of it in some projection on partition values.
_UNKNOWN: Final[tuple[Op, ...]] = (
    *("lt", "lt-eq", "gt", "gt-eq", "starts-with", "is-nan", "not-nan"),
    *("not-eq", "not-in", "not-starts-with"),
)


@attrs.frozen(slots=True)
class Predicate:
    """A test of one column. ``value`` is a value of ``type``, a tuple of them for in and not-in, else None."""

    field_id: int
    type: Type
    op: Op
    value: Value = None


@attrs.frozen(slots=True)
class And:
    """Both hold."""

    left: Expression
    right: Expression


@attrs.frozen(slots=True)
class Or:
    """One holds."""

    left: Expression
    right: Expression


@attrs.frozen(slots=True)
class Always:
    """Holds for every row, or for none."""

    result: bool


Expression = Predicate | And | Or | Always

TRUE: Final = Always(True)
FALSE: Final = Always(False)


def and_(left: Expression, right: Expression) -> Expression:
    """Both, simplified."""
    if isinstance(left, Always):
        return right if left.result else FALSE
    if isinstance(right, Always):
        return left if right.result else FALSE
    return And(left, right)


def or_(left: Expression, right: Expression) -> Expression:
    """Either, simplified."""
    if isinstance(left, Always):
        return TRUE if left.result else right
    if isinstance(right, Always):
        return TRUE if right.result else left
    return Or(left, right)


def joined(join: Callable[[Expression, Expression], Expression], terms: Sequence[Expression]) -> Expression:
    """Some terms joined by ``and_`` or ``or_`` in a tree as low as can be: long chains are walked recursively."""
    while len(terms) > 1:
        terms = [reduce(join, terms[at : at + 2]) for at in range(0, len(terms), 2)]
    return terms[0]


def negate(expression: Expression) -> Expression:
    """The rows for which the filter is false; rows for which it is unknown (null) match neither."""
    if isinstance(expression, Always):
        return Always(not expression.result)
    if isinstance(expression, And):
        return or_(negate(expression.left), negate(expression.right))
    if isinstance(expression, Or):
        return and_(negate(expression.left), negate(expression.right))
    return attrs.evolve(expression, op=NEGATED[expression.op])


def infer_not_null(expression: Expression, nullable: Collection[int], ops: tuple[Op, ...] = _UNKNOWN) -> Expression:
    """Add the tests for null that Spark finds in a filter before Iceberg sees it, to columns that may hold null.

    Every test that has to hold rejects null (Spark's InferFiltersFromConstraints), NOT IN also within an OR
    (SparkV2Filters). There, Iceberg takes null for a match of any other negative test.
    """
    if isinstance(expression, And):
        return And(infer_not_null(expression.left, nullable, ops), infer_not_null(expression.right, nullable, ops))
    if isinstance(expression, Or):
        sides = (infer_not_null(side, nullable, ("not-in",)) for side in (expression.left, expression.right))
        return Or(*sides)
    if isinstance(expression, Predicate) and expression.op in ops and expression.field_id in nullable:
        return And(attrs.evolve(expression, op="not-null", value=None), expression)
    return expression


def field_ids(expression: Expression) -> frozenset[int]:
    """The ids of the columns a filter tests."""
    if isinstance(expression, Predicate):
        return frozenset({expression.field_id})
    if isinstance(expression, Always):
        return frozenset()
    return field_ids(expression.left) | field_ids(expression.right)

"""Row filters as values, bound to columns of one schema. They hold no NOT: it is pushed down while they are made.

A filter means what it means in SQL: a comparison with null is never true, so ``a <> 1`` leaves out null.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs

if TYPE_CHECKING:
    from lakemeta.iceberg.types import Type, Value

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


def negate(expression: Expression) -> Expression:
    """The rows for which the filter is false; rows for which it is unknown (null) match neither."""
    if isinstance(expression, Always):
        return Always(not expression.result)
    if isinstance(expression, And):
        return or_(negate(expression.left), negate(expression.right))
    if isinstance(expression, Or):
        return and_(negate(expression.left), negate(expression.right))
    return attrs.evolve(expression, op=NEGATED[expression.op])


def reject_nulls(expression: Expression) -> Expression:
    """Add the not-null test that SQL means with every negative comparison."""
    if isinstance(expression, Predicate) and expression.op in ("not-eq", "not-in", "not-starts-with"):
        return And(attrs.evolve(expression, op="not-null", value=None), expression)
    if isinstance(expression, And):
        return And(reject_nulls(expression.left), reject_nulls(expression.right))
    if isinstance(expression, Or):
        return Or(reject_nulls(expression.left), reject_nulls(expression.right))
    return expression


def field_ids(expression: Expression) -> frozenset[int]:
    """The ids of the columns a filter tests."""
    if isinstance(expression, Predicate):
        return frozenset({expression.field_id})
    if isinstance(expression, Always):
        return frozenset()
    return field_ids(expression.left) | field_ids(expression.right)

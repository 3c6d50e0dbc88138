"""Decimals of up to 38 digits: Python rounds to 28 unless told not to."""

from __future__ import annotations

from decimal import Decimal

from hypothesis import given
from hypothesis import strategies as st

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import DecimalType

WIDE = DecimalType(38, 4)
NUMBERS = st.integers(-(10**38) + 10, 10**38 - 1)


@given(NUMBERS)
def test_every_digit_survives(number: int) -> None:
    """Binary forms, unscaled values and truncation are exact."""
    value = values.scaled(number, WIDE.scale)
    assert value.as_tuple().exponent == -4
    assert values.unscaled(value, WIDE) == number
    assert values.from_bytes(WIDE, values.to_bytes(WIDE, value)) == value
    truncated = Transform("truncate", 10).apply(WIDE, value)
    assert values.unscaled(truncated, WIDE) == number - number % 10


def test_a_known_one() -> None:
    """The last of 38 digits is not rounded away."""
    assert values.scaled(10**37 + 1, 4) == Decimal("1000000000000000000000000000000000.0001")

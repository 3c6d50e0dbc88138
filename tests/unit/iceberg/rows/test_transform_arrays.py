"""Partition transforms of arrays against transforms of single values."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from lakemeta.iceberg.rows.arrow import arrow_type
from lakemeta.iceberg.rows.transform_arrays import python_values, transform_array
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.transforms import Transform, fits

VALUES: dict[Any, st.SearchStrategy[Any]] = {
    t.INT: st.integers(-(2**31), 2**31 - 1),
    t.LONG: st.integers(-(2**63), 2**63 - 1),
    t.DATE: st.integers(-700_000, 2_900_000),
    t.TIME: st.integers(0, 86_400_000_000 - 1),
    t.TIMESTAMP: st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000),
    t.TIMESTAMPTZ: st.integers(-60_000_000_000_000_000, 250_000_000_000_000_000),
    t.TIMESTAMP_NS: st.integers(-(2**62), 2**62),
    t.STRING: st.text(max_size=6),
    t.BINARY: st.binary(max_size=6),
    t.UUID: st.binary(min_size=16, max_size=16),
    t.FixedType(3): st.binary(min_size=3, max_size=3),
    t.DecimalType(9, 2): st.integers(-(10**9) + 10, 10**9 - 1).map(lambda n: Decimal(n).scaleb(-2)),
    t.BOOLEAN: st.booleans(),
    t.DOUBLE: st.floats(allow_nan=False),
}
NAMES = ("identity", "void", "bucket[16]", "truncate[10]", "year", "month", "day", "hour")
FITTING = [(name, kind) for name in NAMES for kind in VALUES if fits(Transform.parse(name), kind)]


def test_the_least_numbers_wrap() -> None:
    """As they do in Java: their truncation is a great number."""
    for kind, least in ((t.INT, -(2**31)), (t.LONG, -(2**63))):
        out = transform_array(Transform.parse("truncate[10]"), kind, pa.array([least, -1], arrow_type(kind)))
        assert out.to_pylist() == [-least - 2, -10]


@pytest.mark.parametrize(("name", "kind"), FITTING, ids=str)
@settings(max_examples=examples(10))
@given(data=st.data())
def test_an_array_is_transformed_as_its_values_are(name: str, kind: Any, data: st.DataObject) -> None:
    """Also before 1970, below zero, and where the value is null."""
    transform = Transform.parse(name)
    values = data.draw(st.lists(st.none() | VALUES[kind], max_size=8))
    out = transform_array(transform, kind, pa.array(values, arrow_type(kind)))
    result = transform.result_type(kind)
    assert out.type == arrow_type(result)
    assert python_values(out, result) == [transform.apply(kind, value) for value in values]

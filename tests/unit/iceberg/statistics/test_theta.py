"""Hashes and sketches, held against DataSketches' own."""

from __future__ import annotations

import struct
from decimal import Decimal
from itertools import pairwise

import datasketches
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import primitive_from_name
from lakemeta.iceberg.statistics.hashing import hashes
from lakemeta.iceberg.statistics.theta import ThetaSketch


def hashed(column: pa.Array, kind: str) -> list[int]:
    return sorted(one for part in hashes(column, primitive_from_name(kind)) for one in part.to_pylist())


def of_theirs(items) -> list[int]:
    sketch = datasketches.update_theta_sketch()
    for item in items:
        sketch.update(item)
    return sorted(sketch)


@given(st.lists(st.integers(-(2**63), 2**63 - 1), max_size=20))
def test_longs_are_hashed_as_datasketches_does(items):
    """By their eight bytes, each value once."""
    assert hashed(pa.array([*items, None], pa.int64()), "long") == of_theirs(items)


@given(st.lists(st.text(max_size=40), max_size=20))
def test_texts_are_hashed_as_datasketches_does(items):
    """By their UTF-8, whatever its length; the empty text counts for nothing."""
    assert hashed(pa.array(items, pa.string()), "string") == of_theirs(items)


def test_long_texts_are_hashed_as_datasketches_does():
    """Also those that are hashed one by one, and where a block begins or ends."""
    items = ["x" * n for n in (15, 16, 17, 31, 32, 33, 1008, 1023, 1024, 1025, 1039, 1040, 5000)]
    assert hashed(pa.array(items), "string") == of_theirs(items)


CASES = {
    "boolean": (pa.bool_(), [True, False]),
    "int": (pa.int32(), [-5, 0, 7]),
    "date": (pa.date32(), [-1, 20_000]),
    "float": (pa.float32(), [0.5, -1.0, float("inf")]),
    "double": (pa.float64(), [0.1, -2.5]),
    "time": (pa.time64("us"), [0, 86_399_999_999]),
    "timestamp": (pa.timestamp("us"), [-1, 2**50]),
    "timestamptz_ns": (pa.timestamp("ns", "UTC"), [5]),
    "binary": (pa.binary(), [b"\0", b"\xff" * 33, b"12345678", b"123456789"]),
    "fixed[5]": (pa.binary(5), [b"abcde", b"\0\0\0\0\0"]),
    "decimal(38, 2)": (pa.decimal128(38, 2), [Decimal("-1.00"), Decimal("1" * 30 + ".25"), Decimal("0.00")]),
}


@pytest.mark.parametrize("kind", CASES)
def test_values_are_hashed_by_their_binary_form(kind):
    """A text of the very bytes of a value's single-value form, where those are one, has the same hash."""
    arrow, items = CASES[kind]
    forms = [values.to_bytes(primitive_from_name(kind), item) for item in items]
    assert hashed(pa.array([*items, items[0], None], arrow), kind) == hashed(pa.array(forms, pa.binary()), "binary")


def test_a_uuid_is_hashed_as_its_text():
    """As Spark has it, for which a uuid is a text."""
    column = pa.array([bytes(range(16))], pa.binary(16))
    assert hashed(column, "uuid") == of_theirs(["00010203-0405-0607-0809-0a0b0c0d0e0f"])


@pytest.mark.parametrize("count", [0, 1, 2, 4096, 4097, 60_000])
def test_sketches_are_read_by_datasketches(count):
    """With the same hashes and estimate; exact up to 4096 values."""
    sketch = sketch_of(range(count))
    theirs = datasketches.compact_theta_sketch.deserialize(sketch.to_bytes())
    assert list(theirs) == sketch.hashes.to_pylist()
    assert (theirs.is_empty(), theirs.theta64) == (count == 0, sketch.theta)
    assert theirs.get_estimate() == pytest.approx(sketch.estimate)
    assert sketch.estimate == (count if count <= 4096 else pytest.approx(count, rel=0.05))


@given(st.lists(st.integers(0, 9), min_size=1, max_size=9))
def test_parts_are_united_to_the_same_bytes(places):
    """However values are shared out, and however often they come."""
    whole = sketch_of(range(9000))
    cuts = sorted({0, 9000, *(place * 1000 for place in places)})
    parts = [sketch_of(range(max(0, start - 500), end)) for start, end in pairwise(cuts)]
    assert ThetaSketch().united(*reversed(parts)).to_bytes() == whole.to_bytes()


def sketch_of(numbers: range) -> ThetaSketch:
    return ThetaSketch.of(hashes(pa.array(numbers, pa.int64()), primitive_from_name("long")))


def test_the_form_of_small_sketches():
    """Empty and single ones are shorter, and say so in their flags, as Java's do."""
    assert sketch_of(range(0)).to_bytes().hex() == "010303" + "0000" + "1e" + "cc93"
    single = sketch_of(range(5, 6)).to_bytes()
    assert single.hex().startswith("010303" + "0000" + "3a" + "cc93")
    assert struct.unpack("<Q", single[8:]) == (of_theirs([5])[0],)

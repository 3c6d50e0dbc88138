"""Single values: binary and JSON forms, and how bounds are cut."""

from __future__ import annotations

import math
import struct
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.values import (
    civil_from_day,
    from_bytes,
    from_json,
    to_bytes,
    to_json,
    truncate_bounds,
    truncate_upper_bytes,
    truncate_upper_string,
)

LONGS = st.integers(-(2**63), 2**63 - 1)
INTS = st.integers(-(2**31), 2**31 - 1)
TEXT = st.text(st.characters(exclude_categories=["Cs"]))
DECIMAL = t.DecimalType(9, 2)
VALUES: list[tuple[t.Type, st.SearchStrategy[Any]]] = [
    (t.BOOLEAN, st.booleans()),
    (t.INT, INTS),
    (t.LONG, LONGS),
    (t.DATE, INTS),
    (t.TIME, st.integers(0, 86_400_000_000 - 1)),
    (t.TIMESTAMP, LONGS),
    (t.TIMESTAMPTZ_NS, LONGS),
    (t.FLOAT, st.floats(width=32, allow_nan=False)),
    (t.DOUBLE, st.floats(allow_nan=False)),
    (t.STRING, TEXT),
    (t.BINARY, st.binary()),
    (t.FixedType(4), st.binary(min_size=4, max_size=4)),
    (t.UUID, st.binary(min_size=16, max_size=16)),
    (DECIMAL, st.decimals(-9999999, 9999999, places=2)),
]
ANY = st.one_of([st.tuples(st.just(kind), values) for kind, values in VALUES])
MOMENTS = st.integers(-62_135_596_800 * 10**6, 253_402_300_799 * 10**6)  # years 1 to 9999


@given(ANY)
def test_binary_form_round_trips(typed: tuple[t.Type, Any]) -> None:
    """Every value comes back from its binary form."""
    kind, value = typed
    assert from_bytes(kind, to_bytes(kind, value)) == value


@given(ANY.filter(lambda typed: typed[0] not in (t.DATE, t.TIMESTAMP, t.TIMESTAMPTZ_NS)))
def test_json_form_round_trips(typed: tuple[t.Type, Any]) -> None:
    """Every value comes back from its JSON form."""
    kind, value = typed
    if not (isinstance(value, float) and value in (float("inf"), float("-inf"))):
        assert from_json(kind, to_json(kind, value)) == value


@given(MOMENTS)
def test_times_round_trip_as_text(micros: int) -> None:
    """Dates and timestamps come back from their ISO text."""
    for kind, value in (
        (t.DATE, micros // 86_400_000_000),
        (t.TIMESTAMP, micros),
        (t.TIMESTAMPTZ_NS, micros * 1000 + 7),
    ):
        assert from_json(kind, to_json(kind, value)) == value


@pytest.mark.parametrize(
    ("kind", "value", "data"),
    [
        (t.BOOLEAN, True, "01"),
        (t.INT, -2, "feffffff"),
        (t.LONG, 34, "2200000000000000"),
        (t.FLOAT, 1.0, "0000803f"),
        (t.STRING, "iceberg", "69636562657267"),
        (t.DecimalType(9, 2), Decimal("14.20"), "058c"),
        (t.DecimalType(9, 2), Decimal("-0.01"), "ff"),
        (t.DecimalType(9, 2), Decimal("1.28"), "0080"),
    ],
)
def test_binary_forms_are_the_specifications(kind: t.Type, value: Any, data: str) -> None:
    """Numbers are little-endian; decimals are big-endian in the least number of bytes."""
    assert to_bytes(kind, value).hex() == data


@pytest.mark.parametrize(
    ("kind", "value", "text"),
    [
        (t.DATE, 17486, "2017-11-16"),
        (t.TIME, 81068123456, "22:31:08.123456"),
        (t.TIME, 60_000_000, "00:01:00"),
        (t.TIMESTAMP, 1510871468123456, "2017-11-16T22:31:08.123456"),
        (t.TIMESTAMPTZ, 1510871468120000, "2017-11-16T22:31:08.12+00:00"),
        (t.TIMESTAMP_NS, 1510871468123456789, "2017-11-16T22:31:08.123456789"),
        (t.TIMESTAMP, -1, "1969-12-31T23:59:59.999999"),
        (t.UUID, bytes.fromhex("f79c3e092a644db6a5b04b95bd4e4ab4"), "f79c3e09-2a64-4db6-a5b0-4b95bd4e4ab4"),
        (t.BINARY, b"\x00\x01\xff", "0001FF"),
        (t.DecimalType(9, 2), Decimal("14.20"), "14.20"),
        (t.FLOAT, struct.unpack("<f", struct.pack("<f", 1e30))[0], 1e30),
        (t.FLOAT, struct.unpack("<f", struct.pack("<f", 0.1))[0], 0.1),
        (t.FLOAT, float("-inf"), "-Infinity"),
        (t.DOUBLE, float("inf"), "Infinity"),
        (t.DATE, -719163, "0000-12-31"),
        (t.DATE, 3789391, "12345-01-01"),
        (t.TIMESTAMP, -62135596800000001, "0000-12-31T23:59:59.999999"),
    ],
)
def test_json_forms_are_the_specifications(kind: t.Type, value: Any, text: Any) -> None:
    """Texts are ISO, floats have their least digits: the spelling of Iceberg's own writer."""
    assert to_json(kind, value) == text
    assert from_json(kind, text) == value


def test_nan_is_text_in_json() -> None:
    """JSON has no number for it."""
    assert to_json(t.FLOAT, float("nan")) == "NaN"
    assert math.isnan(from_json(t.DOUBLE, "NaN"))


def test_nested_values_have_json_forms() -> None:
    """Structs are objects by field id, lists are lists, maps are lists of keys and of values."""
    struct_type = t.StructType((t.NestedField(1, "a", t.INT), t.NestedField(2, "b", t.ListType(3, t.STRING))))
    assert to_json(struct_type, (5, ("x",))) == {"1": 5, "2": ["x"]}
    assert from_json(struct_type, {"1": 5}) == (5, None)
    mapping = t.MapType(1, t.STRING, 2, t.DATE)
    assert from_json(mapping, {"keys": ["a"], "values": ["1970-01-02"]}) == (("a", 1),)
    assert to_json(mapping, (("a", 1),)) == {"keys": ["a"], "values": ["1970-01-02"]}


def test_bounds_of_promoted_columns_are_widened() -> None:
    """A four-byte bound of a column that is long, double or timestamp by now was an int, float or date."""
    assert from_bytes(t.TIMESTAMP, struct.pack("<i", 2)) == 2 * 86_400_000_000
    assert from_bytes(t.TIMESTAMP_NS, struct.pack("<i", -1)) == -86_400_000_000_000
    assert from_bytes(t.LONG, struct.pack("<i", -7)) == -7
    assert from_bytes(t.DOUBLE, struct.pack("<f", 0.5)) == 0.5


@pytest.mark.parametrize(
    ("kind", "value"),
    [(t.INT, "5"), (t.INT, True), (t.BOOLEAN, 1), (t.DATE, "soon"), (t.UUID, "12"), (t.BINARY, "0"), (DECIMAL, "x")],
)
def test_json_of_another_type_is_corrupt(kind: t.Type, value: Any) -> None:
    """A default that is no value of its field's type is corrupt metadata."""
    with pytest.raises(CorruptMetadataError):
        from_json(kind, value)


def test_bytes_of_another_length_are_corrupt() -> None:
    """A bound must have the bytes of its type."""
    with pytest.raises(CorruptMetadataError):
        from_bytes(t.LONG, b"\x01")
    with pytest.raises(CorruptMetadataError, match="more than 38 digits"):  # whose digits would take a minute to find
        from_bytes(DECIMAL, b"\x01" * 400_000)


@pytest.mark.parametrize("name", ["variant", "geometry", "geography", "unknown"])
def test_types_without_comparable_bounds_are_named(name: str) -> None:
    """Bounds of types that lakemeta cannot compare are refused by the name of the type."""
    for act in (from_bytes, to_bytes):
        with pytest.raises(UnsupportedFeatureError, match=name):
            act(t.PrimitiveType(name), b"\x01")


@given(TEXT, st.integers(1, 8))
def test_a_cut_upper_text_bound_is_above_the_text(text: str, length: int) -> None:
    """A cut upper bound is not shorter in meaning than the text, and at most as long as asked."""
    upper = truncate_upper_string(text, length)
    if upper is None:
        assert set(text[:length]) == {"\U0010ffff"}
    else:
        assert upper >= text
        assert len(upper) <= length


@given(st.binary(), st.integers(1, 8))
def test_a_cut_upper_bytes_bound_is_above_the_bytes(data: bytes, length: int) -> None:
    """The same for bytes."""
    upper = truncate_upper_bytes(data, length)
    if upper is None:
        assert set(data[:length]) == {0xFF}
    else:
        assert upper >= data
        assert len(upper) <= length


def test_upper_bounds_step_over_surrogates() -> None:
    """The code point after the last one before the surrogates is the first one behind them."""
    assert truncate_upper_string("\ud7ffx", 1) == "\ue000"


def test_only_texts_and_bytes_are_cut() -> None:
    """truncate(n) leaves numbers whole."""
    assert truncate_bounds(t.LONG, 123456, 234567, 2) == (123456, 234567)
    assert truncate_bounds(t.STRING, "abc", "abc", 2) == ("ab", "ac")
    assert truncate_bounds(t.BINARY, b"abc", b"\xff\xffa", 2) == (b"ab", None)
    assert truncate_bounds(t.FixedType(3), b"abc", b"\xff\xffa", 2) == (b"abc", b"\xff\xffa")


@given(st.integers(-719_162, 2_932_896))
def test_civil_dates(day: int) -> None:
    """Days become the dates of the Gregorian calendar."""
    from datetime import date

    found = date.fromordinal(day + 719_163)
    assert civil_from_day(day) == (found.year, found.month, found.day)

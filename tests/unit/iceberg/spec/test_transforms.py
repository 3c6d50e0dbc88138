"""Partition transforms: hashes, results, texts, and where they may be used."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.transforms import Transform, bucket_hash, fits, java_float
from lakemeta.iceberg.spec.values import day_from_text, timestamp_from_text

TS = timestamp_from_text("2017-11-16T22:31:08", 6)


@pytest.mark.parametrize(
    ("kind", "value", "expected"),
    [
        (t.INT, 34, 2017239379),
        (t.LONG, 34, 2017239379),
        (t.DecimalType(9, 2), Decimal("14.20"), -500754589),
        (t.DATE, day_from_text("2017-11-16"), -653330422),
        (t.TIME, 81068000000, -662762989),
        (t.TIMESTAMP, TS, -2047944441),
        (t.TIMESTAMPTZ, timestamp_from_text("2017-11-16T14:31:08-08:00", 6), -2047944441),
        (t.TIMESTAMP_NS, TS * 1000, -2047944441),
        (t.STRING, "iceberg", 1210000089),
        (t.UUID, bytes.fromhex("f79c3e09677c4bbda4793f349cb785e7"), 1488055340),
        (t.BINARY, b"\x00\x01\x02\x03", -188683207),
        (t.FixedType(4), b"\x00\x01\x02\x03", -188683207),
    ],
)
def test_hashes_are_the_specifications(kind: t.Type, value: Any, expected: int) -> None:
    """Appendix B of the specification gives these hashes."""
    assert bucket_hash(kind, value) == expected % 2**32


def test_floats_have_no_bucket() -> None:
    """Floating-point and boolean values are not bucketed."""
    for kind, value in ((t.DOUBLE, 1.0), (t.BOOLEAN, True)):
        with pytest.raises(UnsupportedFeatureError):
            Transform.parse("bucket[4]").apply(kind, value)
        assert not fits(Transform.parse("bucket[4]"), kind)


@pytest.mark.parametrize(
    ("transform", "kind", "value", "result"),
    [
        ("identity", t.STRING, "x", "x"),
        ("void", t.STRING, "x", None),
        ("truncate[10]", t.INT, 17, 10),
        ("truncate[10]", t.LONG, -1, -10),
        ("truncate[10]", t.INT, -(2**31), 2**31 - 2),
        ("truncate[10]", t.LONG, -(2**63), 2**63 - 2),
        ("truncate[50]", t.DecimalType(9, 2), Decimal("10.65"), Decimal("10.50")),
        ("truncate[3]", t.STRING, "ice\U0001f9cab", "ice"),
        ("truncate[4]", t.STRING, "ice\U0001f9cab", "ice\U0001f9ca"),
        ("truncate[2]", t.BINARY, b"\x01\x02\x03", b"\x01\x02"),
        ("year", t.DATE, 17486, 47),
        ("month", t.TIMESTAMPTZ, TS, 574),
        ("day", t.TIMESTAMP, TS, 17486),
        ("hour", t.TIMESTAMP_NS, TS * 1000, 419686),
        ("year", t.TIMESTAMP, -1, -1),
        ("month", t.DATE, -1, -1),
        ("day", t.TIMESTAMP, -1, -1),
        ("hour", t.TIMESTAMP, -1, -1),
        ("bucket[16]", t.STRING, None, None),
    ],
)
def test_results(transform: str, kind: t.Type, value: Any, result: Any) -> None:
    """Each transform's partition values; rounding is always down, and wraps where Java's arithmetic does."""
    assert Transform.parse(transform).apply(kind, value) == result


@given(st.integers(-(2**63), 2**63 - 1), st.integers(1, 1000))
def test_buckets_are_in_range(value: int, width: int) -> None:
    """A bucket number is from 0 to N - 1."""
    assert 0 <= Transform("bucket", width).apply(t.LONG, value) < width


@given(
    st.lists(st.integers(-(2**40), 2**40), min_size=2, max_size=2),
    st.sampled_from(["year", "month", "day", "hour", "truncate[7]"]),
)
def test_order_is_preserved(pair: list[int], name: str) -> None:
    """What is not greater is not greater after an order-preserving transform."""
    transform, kind = Transform.parse(name), t.LONG if name.startswith("t") else t.TIMESTAMP
    low, high = sorted(pair)
    assert transform.preserves_order
    assert transform.apply(kind, low) <= transform.apply(kind, high)


@pytest.mark.parametrize(
    ("transform", "kind", "value", "text"),
    [
        ("year", t.INT, 47, "2017"),
        ("month", t.INT, -1, "1969-12"),
        ("day", t.DATE, 17486, "2017-11-16"),
        ("hour", t.INT, 419686, "2017-11-16-22"),
        ("identity", t.BOOLEAN, True, "true"),
        ("identity", t.DOUBLE, 1e10, "1.0E10"),
        ("identity", t.FLOAT, 0.10000000149011612, "0.1"),
        ("identity", t.DOUBLE, 0.5, "0.5"),
        ("identity", t.DOUBLE, -0.0, "-0.0"),
        ("identity", t.DOUBLE, 1.5e-5, "1.5E-5"),
        ("identity", t.DOUBLE, float("nan"), "NaN"),
        ("identity", t.DOUBLE, float("-inf"), "-Infinity"),
        ("identity", t.BINARY, b"\x01\x02", "AQI="),
        ("identity", t.UUID, bytes(16), "00000000-0000-0000-0000-000000000000"),
        ("identity", t.TIME, 3_600_000_000, "01:00"),
        ("identity", t.TIME, 3_600_120_000, "01:00:00.120"),
        ("identity", t.TIMESTAMPTZ, TS, "2017-11-16T22:31:08+00:00"),
        ("identity", t.STRING, None, "null"),
        ("bucket[4]", t.INT, 3, "3"),
    ],
)
def test_texts_in_paths(transform: str, kind: t.Type, value: Any, text: str) -> None:
    """Partition values read in paths as the engine writes them."""
    assert Transform.parse(transform).human(kind, value) == text


@given(st.floats(allow_nan=False, allow_infinity=False))
def test_java_doubles_read_back(value: float) -> None:
    """The text of a double is that double."""
    assert float(java_float(value, single=False)) == value


def test_spellings() -> None:
    """Spellings come back; case does not matter for known names; unknown ones are kept and can't be applied."""
    for text in ("identity", "bucket[16]", "truncate[4]", "year", "void"):
        assert str(Transform.parse(text)) == text
    assert Transform.parse("DAY") == Transform("day")
    unknown = Transform.parse("zorder[2]x")
    assert (str(unknown), unknown.is_known, unknown.result_type(t.LONG)) == ("zorder[2]x", False, t.STRING)
    with pytest.raises(UnsupportedFeatureError, match="zorder"):
        unknown.apply(t.LONG, 1)
    with pytest.raises(CorruptMetadataError):
        Transform.parse("bucket[0]")


def test_times_need_times() -> None:
    """A time transform of a text is corrupt metadata."""
    with pytest.raises(CorruptMetadataError):
        Transform("day").apply(t.STRING, 1)
    assert not fits(Transform("hour"), t.DATE)
    assert fits(Transform("month"), t.DATE)
    assert fits(Transform("truncate", 2), t.BINARY)
    assert fits(Transform("identity"), t.DOUBLE)


@pytest.mark.parametrize("width", ["0", "9" * 5000, "\u0662"])
def test_widths_that_no_column_has(width: str) -> None:
    """Zero and what no int holds are damage; other digits than ours make a transform that nobody knows."""
    try:
        assert not Transform.parse(f"bucket[{width}]").is_known
    except CorruptMetadataError as error:
        assert len(str(error)) < 200  # noqa: PT017

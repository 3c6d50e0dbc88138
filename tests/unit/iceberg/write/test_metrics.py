"""Which metrics new files have, and what they say."""

from __future__ import annotations

import struct

import pytest

from lakemeta.errors import OptionError
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.partitioning import SortField, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import NestedField as Field
from lakemeta.iceberg.write.metrics import COUNTS, FULL, NONE, MetricsModes, file_metrics, metrics_modes
from lakemeta.parquet.footer import ColumnStats, FileStats

SCHEMA = Schema(
    (
        Field(1, "a", t.LONG),
        Field(2, "s", t.StructType((Field(3, "x", t.DOUBLE), Field(4, "y", t.StructType((Field(5, "z", t.INT),)))))),
        Field(6, "l", t.ListType(7, t.STRING)),
        Field(8, "b", t.STRING),
    )
)
UNSORTED = SortOrder(0)


def modes(**properties: str) -> MetricsModes:
    return metrics_modes({f"write.metadata.metrics.{k}": v for k, v in properties.items()}, SCHEMA, UNSORTED)


def test_columns_have_bounds_of_16_characters_by_default() -> None:
    """The engine's default mode is truncate(16)."""
    assert modes() == MetricsModes(16, {})


def test_properties_set_modes() -> None:
    """By default and by column; text that is no mode is ignored."""
    found = metrics_modes(
        {
            "write.metadata.metrics.default": "counts",
            "write.metadata.metrics.column.s.x": "FULL",
            "write.metadata.metrics.column.b": "truncate(3)",
            "write.metadata.metrics.column.a": "truncate(0)",
        },
        SCHEMA,
        UNSORTED,
    )
    assert found == MetricsModes(COUNTS, {"s.x": FULL, "b": 3, "a": COUNTS})
    assert modes(default="everything").default == 16


def test_wide_tables_measure_their_first_columns() -> None:
    """Above the limit, columns of a struct come before the columns of structs in it (MetricsConfig.limitFieldIds)."""
    properties = {"write.metadata.metrics.max-inferred-column-defaults": "3"}
    assert metrics_modes(properties, SCHEMA, UNSORTED) == MetricsModes(NONE, {"a": 16, "b": 16, "s.x": 16})
    with_default = {**properties, "write.metadata.metrics.default": "full"}
    assert metrics_modes(with_default, SCHEMA, UNSORTED) == MetricsModes(FULL, {})
    with pytest.raises(OptionError, match="max-inferred-column-defaults"):
        metrics_modes({"write.metadata.metrics.max-inferred-column-defaults": "few"}, SCHEMA, UNSORTED)


def test_sort_columns_have_bounds() -> None:
    """A column that the table is sorted by is promoted from none and counts; a bucket says nothing about order."""
    order = SortOrder(
        1,
        (
            SortField(1, Transform("identity")),
            SortField(3, Transform("bucket", 4)),
            SortField(8, Transform("truncate", 2)),
        ),
    )
    properties = {"write.metadata.metrics.default": "none", "write.metadata.metrics.column.b": "counts"}
    assert metrics_modes(properties, SCHEMA, order) == MetricsModes(NONE, {"a": 16, "b": COUNTS})


def stats(*columns: ColumnStats) -> FileStats:
    return FileStats(10, 100, (4,), columns)


def test_columns_in_lists_have_sizes_alone() -> None:
    """Engine: ParquetMetrics.MetricsVisitor."""
    found = file_metrics(stats(ColumnStats(7, ("l", "list", "element"), 9, 10, 1, None, b"a", b"z")), SCHEMA, modes())
    assert found["column_sizes"] == {7: 9}
    assert not any(found[name] for name in found if name != "column_sizes")


def test_modes_say_how_much_is_recorded() -> None:
    """None nothing, counts no bounds, truncate cuts text, an upper bound upwards."""
    columns = (
        ColumnStats(1, ("a",), 8, 10, 2, None, struct.pack("<q", -1), struct.pack("<q", 7)),
        ColumnStats(3, ("s", "x"), 8, 10, 0, 1, struct.pack("<d", 0.5), struct.pack("<d", 1.5)),
        ColumnStats(8, ("b",), 8, 10, 0, None, b"abcdef", "zzé\U0010ffff\U0010ffff".encode()),
    )
    all_modes = MetricsModes(COUNTS, {"a": NONE, "b": 4})
    found = file_metrics(stats(*columns), SCHEMA, all_modes)
    assert found["column_sizes"] == {3: 8, 8: 8}
    assert found["value_counts"] == {3: 10, 8: 10}
    assert found["null_value_counts"] == {3: 0, 8: 0}
    assert found["nan_value_counts"] == {3: 1}
    assert found["lower_bounds"] == {8: b"abcd"}
    assert found["upper_bounds"] == {8: "zzê".encode()}


def test_decimals_are_big_endian_whatever_parquet_holds() -> None:
    """Parquet holds short decimals as little-endian ints and long ones as fixed bytes."""
    schema = Schema((Field(1, "d", t.DecimalType(9, 2)), Field(2, "e", t.DecimalType(38, 2))))
    columns = (
        ColumnStats(1, ("d",), 1, 1, 0, None, struct.pack("<i", -129), struct.pack("<i", 300)),
        ColumnStats(2, ("e",), 1, 1, 0, None, (-(10**37)).to_bytes(16, "big", signed=True), (5).to_bytes(16, "big")),
    )
    found = file_metrics(stats(*columns), schema, MetricsModes())
    assert found["lower_bounds"][1] == b"\xff\x7f"
    assert int.from_bytes(found["lower_bounds"][2], "big", signed=True) == -(10**37)
    assert found["upper_bounds"] == {1: b"\x01\x2c", 2: b"\x05"}


def test_an_upper_bound_that_cannot_be_cut_is_left_out() -> None:
    """There is no short text above one of nothing but the last code point."""
    schema = Schema((Field(1, "t", t.STRING),))
    last = "\U0010ffff" * 5
    column = ColumnStats(1, ("t",), 1, 1, 0, None, last.encode(), last.encode())
    found = file_metrics(stats(column), schema, MetricsModes(2))
    assert found["lower_bounds"] == {1: last[:2].encode()}
    assert found["upper_bounds"] == {}

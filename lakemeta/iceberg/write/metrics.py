"""Column metrics of new data files, as much of them as the table's properties want.

Engine classes: MetricsConfig, MetricsModes, ParquetMetrics. Columns inside lists and maps have a size alone.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.iceberg.rows.arrow import element_field, entry_fields
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.properties import int_property
from lakemeta.iceberg.spec.types import VARIANT, DecimalType, ListType, MapType, StructType, is_primitive

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.iceberg.spec.partitioning import SortOrder
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.types import NestedField, Type, Value
    from lakemeta.parquet.footer import ColumnStats, FileStats

PREFIX: Final = "write.metadata.metrics."
NONE: Final = -1
COUNTS: Final = 0
FULL: Final = 2**31 - 1
_DEFAULT: Final = 16
_TRUNCATE: Final = re.compile(r"truncate\(([0-9]{1,9})\)")


@attrs.frozen
class MetricsModes:
    """How much is recorded of a column: NONE, COUNTS, or bounds of at most so many characters or bytes."""

    default: int = _DEFAULT
    columns: Mapping[str, int] = attrs.field(factory=dict)

    def of(self, column: str) -> int:
        """The mode of a column by its full name."""
        return self.columns.get(column, self.default)


def metrics_modes(properties: Mapping[str, str], schema: Schema, order: SortOrder) -> MetricsModes:
    """The modes that table properties ask for; malformed ones are ignored, as the engine ignores them.

    Without a default mode only the first ``max-inferred-column-defaults`` columns (100) have metrics. Columns
    that the table is sorted by have bounds even if the default mode has none.
    """
    columns: dict[str, int] = {}
    default = _mode(properties.get(PREFIX + "default", ""))
    if PREFIX + "default" not in properties:
        limit = int_property(properties, PREFIX + "max-inferred-column-defaults", 100)
        if len(schema.by_id) > (limit if limit >= 0 else 100):
            columns = {schema.names[i]: _DEFAULT for i in _first_columns(schema.fields, limit)}
            default = NONE
    default = _DEFAULT if default is None else default
    for field in order.fields:
        if field.transform.preserves_order and field.source_id in schema.names:
            columns[schema.names[field.source_id]] = _DEFAULT if default in (NONE, COUNTS) else default
    for key, text in properties.items():
        if key.startswith(PREFIX + "column."):
            mode = _mode(text)
            columns[key.removeprefix(PREFIX + "column.")] = default if mode is None else mode
    return MetricsModes(default, columns)


def _mode(text: str) -> int | None:
    text = text.lower()
    if match := _TRUNCATE.fullmatch(text):
        return int(match[1]) or None
    return {"none": NONE, "counts": COUNTS, "full": FULL}.get(text)


def _first_columns(fields: tuple[NestedField, ...], limit: int) -> list[int]:
    """Primitive columns breadth first within each struct (engine: MetricsConfig.limitFieldIds)."""
    found: list[int] = []

    def visit(inner: tuple[NestedField, ...]) -> None:
        found.extend(f.field_id for f in inner if is_primitive(f.type) or f.type == VARIANT)
        for field in inner:
            if len(found) < limit:
                visit(_parts(field.type))

    visit(fields)
    return found[:limit]


def _parts(kind: Type) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (element_field(kind),)
    return entry_fields(kind) if isinstance(kind, MapType) else ()


def file_metrics(stats: FileStats, schema: Schema, modes: MetricsModes) -> dict[str, Any]:
    """The metrics of a written file by the names of DataFile's attributes; ``schema`` is the file's."""
    columns = {c.field_id: c for c in stats.columns if c.field_id is not None}
    mode = {i: modes.of(schema.names[i]) for i in columns}
    sizes = {i: c.compressed_bytes for i, c in columns.items() if mode[i] != NONE}
    plain = {f.field_id: f.type for f in _outside_lists(schema.fields)}
    counted = {i: c for i, c in columns.items() if i in sizes and i in plain and c.nulls is not None}
    bounds = {i: _bounds(plain[i], c, mode[i]) for i, c in counted.items() if mode[i] != COUNTS}
    return {
        "column_sizes": sizes,
        "value_counts": {i: c.values for i, c in counted.items()},
        "null_value_counts": {i: c.nulls for i, c in counted.items()},
        "nan_value_counts": {i: c.nans for i, c in columns.items() if i in sizes and c.nans is not None},
        "lower_bounds": {i: lower for i, (lower, _) in bounds.items() if lower is not None},
        "upper_bounds": {i: upper for i, (_, upper) in bounds.items() if upper is not None},
    }


def _outside_lists(fields: tuple[NestedField, ...]) -> Iterator[NestedField]:
    for field in fields:
        if isinstance(field.type, StructType):
            yield from _outside_lists(field.type.fields)
        elif not isinstance(field.type, ListType | MapType):
            yield field


def _bounds(kind: Type, column: ColumnStats, length: int) -> tuple[bytes | None, bytes | None]:
    """Bounds in Iceberg's binary form, cut to ``length``."""
    if column.lower is None or column.upper is None:
        return None, None
    lower, upper = _value(kind, column.lower), _value(kind, column.upper)
    lower, upper = values.truncate_bounds(kind, lower, upper, length)
    return values.to_bytes(kind, lower), None if upper is None else values.to_bytes(kind, upper)


def _value(kind: Type, data: bytes) -> Value:
    """A value from Parquet's plain form, which is Iceberg's but for decimals: those may be little-endian ints."""
    if isinstance(kind, DecimalType) and kind.precision <= 18:
        data = data[::-1]
    return values.from_bytes(kind, data)

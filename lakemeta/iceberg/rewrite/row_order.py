"""What rows of rewritten files are sorted by: a sort order, or a z-order.

Engine classes: SparkShufflingDataRewritePlanner, ZOrderByteUtils, SparkZOrderUDF; the text form is that of the
``sort_order`` argument of Spark's rewrite_data_files procedure.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.spec.partitioning import SortField, SortOrder
from lakemeta.iceberg.spec.transforms import IDENTITY, Transform, fits
from lakemeta.iceberg.spec.types import Type, is_primitive

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.rewrite.options import JobOptions
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_NAME: Final = r"(`[^`]+`|[\w.]+)"
_TERM: Final = re.compile(
    rf"\s*(?:(?P<transform>\w+)\s*\(\s*(?P<arguments>[^)]*)\)|{_NAME})"
    r"(?:\s+(?P<direction>asc|desc))?(?:\s+nulls\s+(?P<nulls>first|last))?\s*(?:,|$)",
    re.IGNORECASE,
)
_ZORDER: Final = re.compile(r"\s*zorder\s*\(([^)]*)\)\s*", re.IGNORECASE)
_WIDTH: Final = re.compile("[0-9]{1,9}")
_UNITS: Final = {"date": "day", "date_hour": "hour", "years": "year", "months": "month", "days": "day", "hours": "hour"}
STRING_BYTES: Final = 8  # what a string or binary column gives to a z-value: var-length-contribution
_ORDERABLE: Final = (
    "boolean",
    "int",
    "long",
    "float",
    "double",
    "date",
    "timestamp",
    "timestamptz",
    "string",
    "binary",
)


@attrs.frozen
class ZOrder:
    """Columns, by id, whose bits are interleaved; ``string_bytes`` is what a string or binary column gives."""

    field_ids: tuple[int, ...]
    string_bytes: int = STRING_BYTES


RowOrder = SortOrder | ZOrder


def row_order(metadata: TableMetadata, job: JobOptions) -> tuple[RowOrder | None, int]:
    """The order of rows in each new file, None for none, and the sort order id that files carry for it.

    Bin-packing sorts a table that has a sort order. An order of the options has id 0. Raises OptionError if the
    strategy is to sort and neither the options nor the table say by what.
    """
    if job.sort_order is not None:
        order = parse_row_order(job.sort_order, metadata.schema)
        return (attrs.evolve(order, string_bytes=job.string_bytes) if isinstance(order, ZOrder) else order), 0
    own = metadata.sort_order
    if own.is_sorted:
        return own, own.order_id
    if job.strategy == "sort":
        raise OptionError(
            f"Cannot sort data without a valid sort order, table {metadata.location} is unsorted and no sort order is "
            f"provided"
        )
    return None, 0


def parse_row_order(text: str, schema: Schema) -> RowOrder:
    """Read ``id DESC NULLS LAST, bucket(4, x)`` or ``zorder(a, b)``; the order has id 0, as no table has it.

    Nulls come first in ascending order and last in descending order unless said otherwise. Raises OptionError
    naming the part that is wrong.
    """
    if match := _ZORDER.fullmatch(text):
        return _zorder([name.strip().strip("`") for name in match[1].split(",")], schema)
    fields, at = [], 0
    while at < len(text):
        term = _TERM.match(text, at)
        if term is None or term.end() == at:
            raise OptionError(f"sort_order {text!r} cannot be read from {text[at:].strip()!r} on")
        fields.append(_sort_field(term, schema))
        at = term.end()
    if not fields:
        raise OptionError("sort_order is empty; name the columns to sort by")
    return SortOrder(0, tuple(fields))


def _zorder(names: Sequence[str], schema: Schema) -> ZOrder:
    ids = []
    for name in names:
        field_id, kind = _column(name, schema)
        if str(kind) not in _ORDERABLE:
            raise OptionError(f"column {name} of type {kind} cannot be z-ordered; name columns of simple types")
        ids.append(field_id)
    return ZOrder(tuple(ids))


def _sort_field(term: re.Match[str], schema: Schema) -> SortField:
    transform, name = IDENTITY, (term[3] or "").strip("`")
    if term["transform"]:
        transform, name = _transform(term["transform"].lower(), term["arguments"])
    field_id, kind = _column(name, schema)
    if not fits(transform, kind) or not is_primitive(kind):
        raise OptionError(f"sort_order: {transform} cannot be applied to column {name} of type {kind}")
    direction: Literal["asc", "desc"] = "desc" if (term["direction"] or "").lower() == "desc" else "asc"
    nulls = (term["nulls"] or ("first" if direction == "asc" else "last")).lower()
    return SortField(field_id, transform, direction, "nulls-first" if nulls == "first" else "nulls-last")


def _transform(name: str, arguments: str) -> tuple[Transform, str]:
    parts = [part.strip().strip("`") for part in arguments.split(",")]
    name = _UNITS.get(name, name)
    if name in ("bucket", "truncate") and len(parts) == 2:
        width, column = parts if _WIDTH.fullmatch(parts[0]) else parts[::-1]
        if _WIDTH.fullmatch(width) and int(width) > 0:
            return Transform(name, int(width)), column
    if name in ("year", "month", "day", "hour", "identity") and len(parts) == 1:
        return Transform(name), parts[0]
    raise OptionError(
        f"sort_order: {name}({arguments}) is not a transform of a column; there are bucket(n, c), truncate(w, c), "
        "years(c), months(c), days(c), hours(c), and zorder(c, d)"
    )


def _column(name: str, schema: Schema) -> tuple[int, Type]:
    field = schema.find(name)
    if field is None:
        raise OptionError.unknown(f"column {name} in sort_order", schema.ids)
    return field.field_id, field.type

"""The order of the rows of an Arrow table, with nulls and NaNs where table formats want them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence

BATCH_ROWS: Final = 131_072  # rows handed from step to step
BATCH_BYTES: Final = 32 * 1024 * 1024  # and about their size in memory, unless one row is larger


@attrs.frozen
class SortKey:
    """A column to sort by. NaN is greater than any number, as in Java; nulls go where ``nulls_first`` says."""

    column: str
    direction: Literal["ascending", "descending"] = "ascending"
    nulls_first: bool = True


def rows_of(rows: int, size: int, most_rows: int = BATCH_ROWS, most_bytes: int = BATCH_BYTES) -> int:
    """How many rows make a batch, where ``rows`` rows take ``size`` bytes."""
    return max(1, min(most_rows, rows * most_bytes // max(1, size)))


def count_up(start: int, length: int) -> pa.Array:
    """``start``, ``start`` + 1, ... as int64."""
    return pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), length), start=start - 1)


def row_order(table: pa.Table, keys: Sequence[SortKey]) -> pa.Array:
    """The order of the rows. Arrow places nulls and NaNs alike for all keys, so they become keys of their own."""
    columns, order = {}, []
    for n, key in enumerate(keys):
        column = table.column(key.column)
        if column.null_count:
            columns[f"{n} null"] = pc.is_null(column)
            order.append((f"{n} null", "descending" if key.nulls_first else "ascending"))
        if pa.types.is_floating(column.type):
            columns[f"{n} nan"] = pc.is_nan(column).fill_null(False)
            order.append((f"{n} nan", key.direction))
        columns[str(n)] = _comparable(column)
        order.append((str(n), key.direction))
    return pc.sort_indices(pa.table(columns), sort_keys=order)


def _comparable(column: pa.ChunkedArray) -> pa.ChunkedArray:
    """Arrow sorts everything but booleans and nulls that Iceberg can sort by."""
    if pa.types.is_boolean(column.type) or pa.types.is_null(column.type):
        return column.cast(pa.int8())
    return column

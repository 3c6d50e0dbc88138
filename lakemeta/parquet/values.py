"""What a Parquet footer does not say of columns, found by looking at their values: NaNs, signs of zeros, long bounds.

Paths are those of leaf columns outside lists and maps; inside, no bounds are asked for.
"""

from __future__ import annotations

import struct
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.parquet.footer import Seen, column_chunks, lacks_bounds

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.parquet import thrift

Path = tuple[str, ...]


def look_at(table: pa.Table, row_group: thrift.Struct) -> dict[Path, Seen]:
    """What was seen in the columns of a table that are floating-point, or byte arrays without bounds in ``row_group``.

    Writers keep no bounds of values that are too long (over 4096 bytes in pyarrow).
    """
    chunks = dict(column_chunks(row_group))
    seen: dict[Path, Seen] = {}
    for name, column in zip(table.column_names, table.columns, strict=True):
        for path, leaf in _leaves((name,), column):
            if pa.types.is_floating(leaf.type):
                seen[path] = _floats(leaf)
            elif _is_text(leaf.type) and lacks_bounds(chunks[path]) and leaf.null_count < len(leaf):
                bounds = pc.min_max(leaf.cast(pa.binary())).as_py()
                seen[path] = Seen(lower=bounds["min"], upper=bounds["max"])
    return seen


def _leaves(path: Path, column: pa.ChunkedArray) -> Iterator[tuple[Path, pa.ChunkedArray]]:
    if pa.types.is_struct(column.type):
        for i, field in enumerate(column.type):
            yield from _leaves((*path, field.name), pc.struct_field(column, [i]))
    else:
        yield path, column


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _floats(column: pa.ChunkedArray) -> Seen:
    """Bounds in Java's order, in which -0.0 is below 0.0; a Parquet footer widens zeros to both."""
    is_nan = pc.is_nan(column)
    nans = pc.sum(is_nan).as_py() or 0
    bounds = pc.min_max(column.filter(pc.invert(is_nan)) if nans else column).as_py()
    lower, upper = bounds["min"], bounds["max"]
    if lower is None:
        return Seen(nulls=column.null_count, nans=nans)
    if lower == 0:
        lower = -0.0 if _has_zero(column, -1.0) else 0.0
    if upper == 0:
        upper = 0.0 if _has_zero(column, 1.0) else -0.0
    form = "<f" if pa.types.is_float32(column.type) else "<d"
    return Seen(column.null_count, nans, struct.pack(form, lower), struct.pack(form, upper))


def _has_zero(column: pa.ChunkedArray, sign: float) -> bool:
    """True if there is a zero of this sign, by its bits."""
    kind, bits = (pa.int32(), 32) if pa.types.is_float32(column.type) else (pa.int64(), 64)
    zero = pa.scalar(0 if sign > 0 else -(1 << (bits - 1)), kind)
    found = [pc.any(pc.equal(chunk.view(kind), zero)).as_py() for chunk in column.chunks]
    return True in found

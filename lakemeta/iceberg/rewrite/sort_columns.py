"""The columns that rows of rewritten files are sorted by, computed from their batches: sort orders and z-orders.

Engine classes: ZOrderByteUtils, SparkZOrderUDF.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.rewrite.row_order import STRING_BYTES
from lakemeta.iceberg.rows.delete_filter import value_columns
from lakemeta.iceberg.rows.transform_arrays import transform_array
from lakemeta.iceberg.spec.partitioning import SortField, SortOrder
from lakemeta.iceberg.spec.types import UNKNOWN
from lakemeta.row_sort import SortKey

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.rewrite.row_order import RowOrder
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.transforms import Transform

_WORD: Final = 64


def sort_columns(
    batch: pa.RecordBatch, schema: Schema, order: RowOrder | None, spec: PartitionSpec | None
) -> tuple[pa.RecordBatch, list[SortKey]]:
    """Append to a batch the columns to sort it by, and say how: by partition if ``spec``, then by ``order``."""
    columns = [
        (_transformed(batch, schema, part.source_id, part.transform), SortKey(""))
        for part in (spec.fields if spec else ())
    ]
    if isinstance(order, SortOrder):
        columns += [
            (_transformed(batch, schema, field.source_id, field.transform), _how(field)) for field in order.fields
        ]
    elif order is not None:
        words = z_values(value_columns(batch, schema, order.field_ids), order.string_bytes)
        columns += [(word, SortKey("")) for word in words]
    keys = [attrs.evolve(key, column=f"\0sort {n}") for n, (_, key) in enumerate(columns)]
    for (array, _), key in zip(columns, keys, strict=True):
        batch = batch.append_column(key.column, array)
    return batch, keys


def _how(field: SortField) -> SortKey:
    direction: Any = "descending" if field.direction == "desc" else "ascending"
    return SortKey("", direction, field.null_order == "nulls-first")


def _transformed(batch: pa.RecordBatch, schema: Schema, source_id: int, transform: Transform) -> pa.Array:
    field = schema.field(source_id)
    if transform.name == "void" or field is None or field.type == UNKNOWN:
        return pa.nulls(batch.num_rows, pa.int32())
    return transform_array(transform, field.type, value_columns(batch, schema, [source_id])[0])


def z_values(columns: Sequence[pa.Array], string_bytes: int = STRING_BYTES) -> list[pa.Array]:
    """The interleaved bits of columns, highest first, as uint64 words to sort by one after the other.

    Every column gives eight bytes that sort as its values do, null first; strings and binary give
    ``string_bytes``. A column that has given all its bits is skipped.
    """
    sources = [_ordered_words(column, string_bytes) for column in columns]
    bits = [8 * string_bytes if _is_text(column.type) else _WORD for column in columns]
    taken = [(n, bit) for bit in range(max(bits)) for n in range(len(sources)) if bit < bits[n]]
    out = []
    for start in range(0, len(taken), _WORD):
        word = None
        for place, (n, bit) in enumerate(taken[start : start + _WORD]):
            one = pc.bit_wise_and(_shift(sources[n][bit // _WORD], bit % _WORD - place), _u64(1 << 63 - place))
            word = one if word is None else pc.bit_wise_or(word, one)
        out.append(word)
    return out


def _shift(words: pa.Array, left: int) -> pa.Array:
    return pc.shift_left(words, _u64(left)) if left >= 0 else pc.shift_right(words, _u64(-left))


def _ordered_words(column: pa.Array, string_bytes: int) -> list[pa.Array]:
    kind = column.type
    if _is_text(kind):
        return _from_bytes(column.cast(pa.binary()), string_bytes)
    if pa.types.is_boolean(kind):
        word = pc.multiply(column.cast(pa.uint64()), _u64(0x81 << 56))
    elif pa.types.is_floating(kind):
        word = _from_floats(column.cast(pa.float64()))
    else:
        numbers = column.view(pa.int32() if kind.bit_width == 32 else pa.int64()).cast(pa.int64())
        word = pc.bit_wise_xor(numbers.view(pa.uint64()), _u64(1 << 63))
    return [word.fill_null(0)]


def _is_text(kind: pa.DataType) -> bool:
    return bool(pa.types.is_string(kind) or pa.types.is_binary(kind))


def _from_floats(column: pa.Array) -> pa.Array:
    """The bits of a double, flipped so that they sort as the numbers do, all NaNs alike and last."""
    column = pc.if_else(pc.is_nan(column), float("nan"), column)
    bits = column.view(pa.int64())
    flip = pc.if_else(pc.less(bits, 0), -1, -(1 << 63))
    return pc.bit_wise_xor(bits, flip).view(pa.uint64())


def _from_bytes(column: pa.Array, size: int) -> list[pa.Array]:
    """The first ``size`` bytes, zeros after the end, as big-endian words."""
    padded = pc.binary_join_element_wise(column.fill_null(b""), b"\0" * size, b"")
    words = []
    for start in range(0, size, 8):
        part = pc.binary_slice(padded, start, min(start + 8, size))
        if start + 8 > size:
            part = pc.binary_join_element_wise(part, b"\0" * (start + 8 - size), b"")
        words.append(_swapped(part.cast(pa.binary(8)).view(pa.uint64())))
    return words


def _swapped(words: pa.Array) -> pa.Array:
    for bits, mask in ((8, 0x00FF00FF00FF00FF), (16, 0x0000FFFF0000FFFF), (32, 0x00000000FFFFFFFF)):
        low = pc.shift_left(pc.bit_wise_and(words, _u64(mask)), _u64(bits))
        words = pc.bit_wise_or(low, pc.bit_wise_and(pc.shift_right(words, _u64(bits)), _u64(mask)))
    return words


def _u64(value: int) -> Any:
    return pa.scalar(value, pa.uint64())

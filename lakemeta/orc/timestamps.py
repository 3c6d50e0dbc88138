"""Timestamps of ORC files that Arrow cannot hold: it makes nanoseconds of them, which begin in 1677 and end in 2262.

Arrow reads the column as the whole seconds that it is stored as (under a footer that calls it a column of longs), and
so finds out where values are; the parts of seconds are decoded here. What is read is what Iceberg's readers read.
Source: the ORC specification, version 1, Timestamp Columns.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc
from pyarrow import orc

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.orc.file import SECONDARY, OrcFile, Stripe
from lakemeta.orc.integers import unsigned_integers

if TYPE_CHECKING:
    from collections.abc import Sequence

OUT_OF_RANGE: Final = "out of range for nanosecond resolution"  # in Arrow's message
_LONG, _TIMESTAMP, _INSTANT = 4, 9, 18  # kinds of ORC types
_START: Final = 1_420_070_400  # seconds are counted from 2015-01-01
_BORROWS: Final = 999_999  # nanoseconds above which a second before 1970 is one less, by an old mistake of writers
_UNIT: Final = b"iceberg.timestamp-unit"
_DIRECT_V2: Final = 2


@attrs.frozen
class WideTimestamps:
    """Reads stripes of one file, timestamps as microseconds, or as nanoseconds where Iceberg has them so."""

    file: OrcFile
    seconds: orc.ORCFile
    schema: pa.Schema

    @classmethod
    def open(cls, source: BinaryIO, schema: pa.Schema, where: str) -> WideTimestamps:
        """``schema`` is what Arrow makes of the file; raises CorruptMetadataError."""
        file = OrcFile.open(source, where)
        longs = {number: _LONG for number, kind in enumerate(file.kinds) if kind in (_TIMESTAMP, _INSTANT)}
        return cls(file, orc.ORCFile(file.with_kinds(longs)), schema)

    def read_stripe(self, number: int, columns: Sequence[str]) -> pa.RecordBatch:
        """The columns of a stripe; raises UnsupportedFeatureError if its writer was not in UTC."""
        stripe = self.file.stripe(number)
        batch = self.seconds.read_stripe(number, columns=list(columns))
        places = dict(zip(self.schema.names, self.file.children[0], strict=False))
        arrays, fields = [], []
        for name in columns:
            field = self.schema.field(name)
            try:
                array = self._column(batch.column(name), places[name], field, stripe)
            except LookupError as error:
                raise CorruptMetadataError(f"{self.file.where} has types that contradict each other") from error
            arrays.append(array)
            fields.append(field.with_type(array.type))
        return pa.RecordBatch.from_arrays(arrays, schema=pa.schema(fields))

    def _column(self, array: pa.Array, column: int, field: pa.Field, stripe: Stripe) -> pa.Array:
        kind, below = self.file.kinds[column], self.file.children[column]
        if kind in (_TIMESTAMP, _INSTANT):
            return self._timestamps(array, column, field, stripe)
        if isinstance(array, pa.StructArray):
            inner = [field.type.field(i) for i in range(field.type.num_fields)]
            children = [self._column(array.field(i), below[i], f, stripe) for i, f in enumerate(inner)]
            typed = [f.with_type(child.type) for f, child in zip(inner, children, strict=True)]
            return pa.StructArray.from_arrays(children, fields=typed, mask=array.is_null())
        if isinstance(array, pa.MapArray):
            parts = [(array.keys, field.type.key_field), (array.items, field.type.item_field)]
            keys, items = (self._column(part, below[i], f, stripe) for i, (part, f) in enumerate(parts))
            key, item = parts[0][1].with_type(keys.type), parts[1][1].with_type(items.type)
            entries = pa.StructArray.from_arrays([keys, items], fields=[key, item])
            return _lists(array, pa.map_(key, item), entries)
        if isinstance(array, pa.ListArray):
            values = self._column(array.values, below[0], field.type.value_field, stripe)
            return _lists(array, pa.list_(field.type.value_field.with_type(values.type)), values)
        return array

    def _timestamps(self, array: pa.Array, column: int, field: pa.Field, stripe: Stripe) -> pa.Array:
        if self.file.kinds[column] == _TIMESTAMP and stripe.zone not in ("", "UTC", "GMT", "Etc/UTC"):
            raise UnsupportedFeatureError(
                f"{self.file.where} has timestamps before 1677 or after 2262 that were written in time zone "
                f"{stripe.zone}, which lakemeta does not read from ORC files; rewrite them with another engine first"
            )
        count = len(array) - array.null_count
        version = 2 if stripe.encodings[column] == _DIRECT_V2 else 1
        coded = unsigned_integers(stripe.stream(SECONDARY, column), count, version, self.file.where)
        nanos = pa.array([_nanos(code) for code in coded], pa.int64()).take(_places(array))
        seconds = pc.add(array, _START)
        borrows = pc.and_(pc.less(seconds, 0), pc.greater(nanos, _BORROWS))
        seconds = pc.subtract(seconds, borrows.cast(pa.int64()))
        wide = (field.metadata or {}).get(_UNIT) == b"NANOS"
        ticks, per_tick, unit = (10**9, 1, "ns") if wide else (10**6, 1000, "us")
        most = (1 << 63) // ticks
        if pc.any(pc.or_(pc.less(seconds, -most - 1), pc.greater(seconds, most))).as_py():
            raise CorruptMetadataError(f"{self.file.where} has timestamps that no timestamp column can hold")
        # Wraps and comes back: times next to the least are a little above whole seconds that are below it.
        found = pc.add(pc.multiply(seconds, ticks), pc.divide(nanos, per_tick))
        return found.view(pa.timestamp(unit, tz=field.type.tz))


def _nanos(code: int) -> int:
    """Nanoseconds are stored without their last zeros, if they are two or more, and their number in three bits.

    Writers in C++ have negative ones, too, in the 64 bits of a number that should have no sign.
    """
    code -= (code & 1 << 63) << 1
    zeros = code & 7
    return (code >> 3) * 10 ** (zeros + 1) if zeros else code >> 3


def _places(array: pa.Array) -> pa.Array:
    """Of each value its number among those that are not null."""
    there = array.is_valid()
    numbers = pc.subtract(pc.cumulative_sum(there.cast(pa.int64())), 1)
    return pc.if_else(there, numbers, None)


def _lists(array: pa.Array, kind: pa.DataType, values: pa.Array) -> pa.Array:
    return pa.Array.from_buffers(kind, len(array), array.buffers()[:2], array.null_count, array.offset, [values])

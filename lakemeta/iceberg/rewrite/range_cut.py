"""Cuts sorted rows into ranges of about equal size, as a shuffle of Spark does (engine: RangePartitioner).

Every range becomes a task that writes files of its own. Rows with equal keys stay in one range, so there may be fewer
ranges than asked for. Spark takes its bounds from a sample of the rows if there are many; so do these.
"""

from __future__ import annotations

import math
from itertools import groupby
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.row_sort import count_up

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

_SAMPLED: Final = 300  # rows a range: three times spark.sql.execution.rangeExchange.sampleSizePerPartition
_MOST_SAMPLED: Final = 3_000_000
_FLAG: Final = "\0sampled"
_WORD: Final = 1 << 32
_GOLDEN: Final = 0x9E3779B9


class RangeCut:
    """Marks rows on their way to be sorted, and cuts them afterwards."""

    def __init__(self, ranges: int, together: int, rows: int, seed: int) -> None:
        """``together`` neighbouring ranges make one task; about ``rows`` rows are to come.

        Samples of other seeds are others; that of one is always the same.
        """
        self._ranges, self._together = ranges, together
        share = min(_SAMPLED * ranges, _MOST_SAMPLED) / max(1, rows)
        self._share = None if ranges == 1 or share >= 1 else int(share * _WORD)
        self._row, self._sampled = seed * _GOLDEN, 0

    def mark(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count the rows, and mark which of them are in the sample if not all are."""
        for batch in batches:
            count = batch.num_rows
            if self._share is not None:
                flags = pc.less(_mixed(self._row, count), pa.scalar(self._share, pa.uint64()))
                self._sampled += pc.sum(flags).as_py() or 0
                batch = batch.append_column(_FLAG, flags)
            else:
                self._sampled += count
            self._row += count
            yield batch

    def cut(self, tables: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[Iterator[pa.Table]]:
        """The rows of each task; ``tables`` are sorted by the columns ``keys``, and all were marked."""
        for _, parts in groupby(self._numbered(tables, keys), key=lambda pair: pair[0] // self._together):
            yield (table for _, table in parts)

    def _numbered(self, tables: Iterable[pa.Table], keys: Sequence[str]) -> Iterator[tuple[int, pa.Table]]:
        """Parts of tables with the number of their range."""
        bounds = None
        for table in tables:  # sorted, so all rows have been counted when the first comes
            bounds = bounds or _Bounds(min(self._ranges, self._sampled), self._sampled)
            at = 0
            for end in bounds.ends(table.select(keys), self._sample(table)):
                yield bounds.range, table.slice(at, end - at)
                bounds.range += 1
                at = end
            if at < table.num_rows:
                yield bounds.range, table.slice(at)

    def _sample(self, table: pa.Table) -> range | pa.Array:
        """The positions of sampled rows."""
        return range(table.num_rows) if self._share is None else pc.indices_nonzero(table.column(_FLAG))


class _Bounds:
    """Finds the last row of each range: at an equal share of the sample, then on to the end of the row's key."""

    def __init__(self, ranges: int, total: int) -> None:
        self._left = ranges - 1  # bounds to come
        self._step = self._target = total / max(1, ranges)
        self._seen = 0  # sampled rows in earlier tables
        self._open: pa.Table | None = None  # the key of a bound whose rows may go on in the next table
        self.range = 0

    def ends(self, keys: pa.Table, sample: range | pa.Array) -> Iterator[int]:
        """Where in a table ranges end; the caller counts ``range`` up after each."""
        at = 0
        if self._open is not None:
            at = _first_run([self._open, keys]) - 1
            if at == keys.num_rows:
                self._seen += len(sample)
                return
            self._open = None
            yield at
        while self._left > 0:
            place = max(math.ceil(self._target) - 1 - self._seen, _count_before(sample, at))
            if place >= len(sample):
                break
            row = sample[place] if isinstance(sample, range) else sample[place].as_py()
            self._left -= 1
            self._target += self._step
            at = row + _first_run([keys.slice(row)])
            if at == keys.num_rows:
                self._open = keys.slice(row, 1)
                break
            yield at
        self._seen += len(sample)


def _first_run(tables: Sequence[pa.Table]) -> int:
    """How many rows at the start have the same values in all columns."""
    table = pa.concat_tables(tables)
    runs = [pc.run_end_encode(column.combine_chunks()) for column in table.columns]
    ends: list[int] = [run.run_ends[0].as_py() for run in runs]
    return min(ends, default=table.num_rows)


def _count_before(sample: range | pa.Array, row: int) -> int:
    if isinstance(sample, range):
        return min(row, len(sample))
    count: int | None = pc.sum(pc.less(sample, row)).as_py()
    return count or 0


def _mixed(start: int, count: int) -> pa.Array:
    """A number below 2^32 for each row, without a pattern (the last steps of MurmurHash3)."""
    low = pa.scalar(_WORD - 1, pa.uint64())
    word = pc.bit_wise_and(count_up(start % _WORD, count).cast(pa.uint64()), low)
    for shift, factor in ((16, 0x85EBCA6B), (13, 0xC2B2AE35), (16, 1)):
        word = pc.bit_wise_xor(word, pc.shift_right(word, pa.scalar(shift, pa.uint64())))
        word = pc.bit_wise_and(pc.multiply(word, pa.scalar(factor, pa.uint64())), low)
    return word

"""Sorting more rows than fit in memory: sorted runs in temporary Arrow files, merged batch by batch (I/O).

No table format's rules live here: what to sort by are columns of the tables, put there by the caller.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.row_sort import count_up, row_order, rows_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

    from lakemeta.row_sort import SortKey

_SPILL_ROWS: Final = 16_384  # in one batch of a run: what is read of every run at a time
_SPILL_BYTES: Final = 1024 * 1024  # and the most bytes, unless one row is larger
_RUN: Final = "\0run"


def sort_batches(
    batches: Iterable[pa.RecordBatch], keys: Sequence[SortKey], *, budget: int, directory: str | None = None
) -> Iterator[pa.Table]:
    """The rows of all batches in order, as tables of at most ``BATCH_ROWS`` rows and about ``BATCH_BYTES`` bytes.

    Rows with equal keys come in an order that depends on the input and the budget alone.

    About ``budget`` bytes of rows are held at a time; more go to temporary files in ``directory`` (the system's
    place for them by default), which are removed when the last row is out, or the iterator is closed.
    """
    runs = _gather(batches, budget // 2)
    first, is_all = next(runs, (None, True))
    if first is None:
        return
    if is_all:
        yield from _sorted(first, keys)
        return
    with ExitStack() as stack:
        folder = Path(stack.enter_context(tempfile.TemporaryDirectory(prefix="lakemeta-sort-", dir=directory)))
        size = min(_SPILL_BYTES, budget // 64)
        readers = [_spill(first, keys, size, folder / "run-0.arrow", stack)]
        del first
        for table, _ in runs:
            readers.append(_spill(table, keys, size, folder / f"run-{len(readers)}.arrow", stack))
        yield from _merge(readers, keys, max(1, budget // 4))


def _gather(batches: Iterable[pa.RecordBatch], size: int) -> Iterator[tuple[pa.Table, bool]]:
    """Tables of about ``size`` bytes, and whether there is nothing after them."""
    held: list[pa.RecordBatch] = []
    count = 0
    for batch in batches:
        if count >= size:
            whole, held, count = pa.Table.from_batches(held), [], 0
            yield whole, False
            del whole
        held.append(batch)
        count += batch.nbytes
    if held:
        yield pa.Table.from_batches(held), True


def _sorted(table: pa.Table, keys: Sequence[SortKey]) -> Iterator[pa.Table]:
    table = table.combine_chunks()  # taking rows from many chunks would copy all of them for each batch
    order, rows = row_order(table, keys), rows_of(table.num_rows, table.nbytes)
    for start in range(0, len(order), rows):
        yield table.take(order.slice(start, rows))


def _spill(table: pa.Table, keys: Sequence[SortKey], size: int, path: Path, stack: ExitStack) -> Iterator[pa.Table]:
    """Sort a run into a file, and give back a way to stream it, about ``size`` bytes at a time."""
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for part in _sorted(table, keys):
            writer.write_table(part, max_chunksize=rows_of(part.num_rows, part.nbytes, _SPILL_ROWS, size))
    source = stack.enter_context(pa.OSFile(str(path)))
    reader = stack.enter_context(pa.ipc.open_file(source))
    return (pa.Table.from_batches([reader.get_batch(i)]) for i in range(reader.num_record_batches))


def _merge(runs: Sequence[Iterator[pa.Table]], keys: Sequence[SortKey], budget: int) -> Iterator[pa.Table]:
    """Merge sorted runs.

    The next rows of every run are in a pool, one chunk at least. The pool is sorted; up to the first row that is
    the last of its run there, order is final, because every run goes on no earlier. Those rows go out, and the
    runs are topped up: as each has a chunk ahead, nearly a chunk of each goes out in every round.
    """
    open_runs = {n: _Run(_chunks(run, n, budget // (2 * len(runs)))) for n, run in enumerate(runs)}
    pool = _top_up(None, open_runs)
    while pool is not None and pool.num_rows:
        order = row_order(pool, keys)
        end = _final(pool.column(_RUN).take(order), open_runs)
        # Taken apart, so that what goes out does not hold on to what stays.
        ready, pool = pool.take(order.slice(0, end)), pool.take(order.slice(end))
        yield from _batches(ready.drop_columns([_RUN]))
        pool = _top_up(pool, open_runs)


@attrs.define
class _Run:
    """A run that is being merged: the chunks to come, and the rows of the last one that came."""

    chunks: Iterator[pa.Table]
    rows: int = 1


def _top_up(pool: pa.Table | None, open_runs: dict[int, _Run]) -> pa.Table | None:
    """Give every run a chunk more if it has less than a chunk's rows left; forget those that are at their end."""
    counts = [] if pool is None else pc.value_counts(pool.column(_RUN)).to_pylist()
    left = {pair["values"]: pair["counts"] for pair in counts}
    parts = [] if pool is None else [pool]
    for number, run in list(open_runs.items()):
        if left.get(number, 0) >= run.rows:
            continue
        chunk = next(run.chunks, None)
        if chunk is None:
            del open_runs[number]
        else:
            run.rows = chunk.num_rows
            parts.append(chunk)
    return pa.concat_tables(parts).combine_chunks() if parts else None


def _final(runs: pa.ChunkedArray, open_runs: Collection[int]) -> int:
    """How many rows of a sorted pool are in their final place, given the run of each."""
    rows = pa.table({"run": runs, "row": count_up(0, len(runs))})
    last = rows.group_by("run").aggregate([("row", "max")]).to_pylist()
    return min((row["row_max"] + 1 for row in last if row["run"] in open_runs), default=len(runs))


def _chunks(run: Iterator[pa.Table], number: int, size: int) -> Iterator[pa.Table]:
    """A run in parts of about ``size`` bytes at most, each row marked with the number of its run."""
    for table in run:
        rows = max(1, min(_SPILL_ROWS, table.num_rows * size // max(1, table.nbytes)))
        for part in (table.slice(at, rows) for at in range(0, table.num_rows, rows)):
            yield part.append_column(_RUN, pa.repeat(pa.scalar(number, pa.int32()), part.num_rows))


def _batches(table: pa.Table) -> Iterator[pa.Table]:
    rows = rows_of(table.num_rows, table.nbytes)
    return (table.slice(at, rows) for at in range(0, table.num_rows, rows))

"""Sorting more rows than fit in memory: sorted runs in temporary Arrow files, merged batch by batch.

No table format's rules live here: what to sort by are columns of the tables, put there by the caller.
"""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Final

import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.row_sort import BATCH_ROWS, row_order, sort_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.row_sort import SortKey

_LAST: Final = "\0last of its run's chunk"  # 1 + the run's number on that row, else 0


def sort_batches(
    batches: Iterable[pa.RecordBatch], keys: Sequence[SortKey], *, budget: int, directory: str | None = None
) -> Iterator[pa.Table]:
    """The rows of all batches in order, as tables of at most ``BATCH_ROWS`` rows.

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
        readers = [_spill(first, keys, folder, 0, stack)]
        del first
        for table, _ in runs:
            readers.append(_spill(table, keys, folder, len(readers), stack))
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
    order = row_order(table, keys)
    for start in range(0, len(order), BATCH_ROWS):
        yield table.take(order.slice(start, BATCH_ROWS))


def _spill(table: pa.Table, keys: Sequence[SortKey], folder: Path, number: int, stack: ExitStack) -> Iterator[pa.Table]:
    """Sort a run into a file, and give back a way to stream it."""
    path = folder / f"run-{number}.arrow"
    with pa.OSFile(str(path), "wb") as sink, pa.ipc.new_file(sink, table.schema) as writer:
        for part in _sorted(table, keys):
            writer.write_table(part, max_chunksize=BATCH_ROWS)
    source = stack.enter_context(pa.OSFile(str(path)))
    reader = stack.enter_context(pa.ipc.open_file(source))
    return (pa.Table.from_batches([reader.get_batch(i)]) for i in range(reader.num_record_batches))


def _merge(runs: Sequence[Iterator[pa.Table]], keys: Sequence[SortKey], budget: int) -> Iterator[pa.Table]:
    """Merge sorted runs.

    One chunk of each run is in a pool. The pool is sorted; up to the first row that is the last of its run's
    chunk, order is final, because every run's next row comes no earlier. Those rows go out, and that run's next
    chunk comes in.
    """
    chunks = [_rechunk(run, len(runs), budget) for run in runs]
    pool = pa.concat_tables([_marked(next(chunk), n) for n, chunk in enumerate(chunks)])
    open_runs = set(range(len(runs)))
    while pool.num_rows:
        pool = sort_table(pool, keys)
        marks = pool.column(_LAST)
        end = pc.index(pc.not_equal(marks, 0), True).as_py() if open_runs else -1
        if end < 0:
            yield from _batches(pool)
            return
        run = marks[end].as_py() - 1
        yield from _batches(pool.slice(0, end + 1))
        following = next(chunks[run], None)
        if following is None:
            open_runs.discard(run)
        rest = [pool.slice(end + 1)] + ([] if following is None else [_marked(following, run)])
        pool = pa.concat_tables(rest)


def _rechunk(run: Iterator[pa.Table], runs: int, budget: int) -> Iterator[pa.Table]:
    """Cut a run's batches so that one chunk of every run fits the budget."""
    for table in run:
        rows = max(1, min(BATCH_ROWS, table.num_rows * budget // max(1, table.nbytes * runs)))
        yield from (table.slice(at, rows) for at in range(0, table.num_rows, rows))


def _marked(table: pa.Table, run: int) -> pa.Table:
    marks = pa.concat_arrays([pa.repeat(pa.scalar(0, pa.int32()), table.num_rows - 1), pa.array([run + 1], pa.int32())])
    return table.append_column(_LAST, marks)


def _batches(table: pa.Table) -> Iterator[pa.Table]:
    table = table.drop_columns([_LAST])
    return (table.slice(at, BATCH_ROWS) for at in range(0, table.num_rows, BATCH_ROWS))

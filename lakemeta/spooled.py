"""Many files as values on disk, not in memory: deletions of a plan, and names in a report (I/O: temporary files).

Few are held in memory as objects. More are written to a temporary Arrow file, of which a batch at a time is read back;
the file has no name any more while it is in use, so nothing is left behind, whatever happens.
"""

from __future__ import annotations

import tempfile
from bisect import bisect_right
from collections.abc import Sequence
from itertools import chain, islice
from typing import TYPE_CHECKING, Any, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.executor import batched
from lakemeta.external_sort import sort_batches
from lakemeta.plan_operations import Delete, ManyOperations
from lakemeta.row_sort import SortKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.plan_operations import Counted, Operation

    Row = tuple[str, int]

IN_MEMORY: Final = 50_000  # files that are held as objects
_ROWS: Final = 16_384  # of one batch
_BUDGET: Final = 128 * 2**20  # bytes of rows that are sorted in memory
_SCHEMA: Final = pa.schema([("path", pa.string()), ("size", pa.int64())])
_BY_PATH: Final = (SortKey("path"),)


@attrs.frozen(eq=False)
class Rows:
    """Paths and sizes (bytes) in a file; ``ends`` says of each batch how many rows there are up to its end."""

    reader: Any
    ends: tuple[int, ...]
    size: int

    @classmethod
    def of(cls, batches: Iterable[pa.RecordBatch]) -> Rows:
        """Write rows, in their order."""
        ends, total = [0], 0
        with tempfile.TemporaryDirectory(prefix="lakemeta-spool-") as folder:
            name, options = f"{folder}/rows.arrow", pa.ipc.IpcWriteOptions(compression="lz4")
            with pa.OSFile(name, "wb") as sink, pa.ipc.new_file(sink, _SCHEMA, options=options) as writer:
                for batch in batches:
                    writer.write_batch(batch)
                    ends.append(ends[-1] + batch.num_rows)
                    total += pc.sum(batch.column(1)).as_py() or 0
            return cls(pa.ipc.open_file(pa.OSFile(name)), tuple(ends[1:]), total)

    def __len__(self) -> int:
        return self.ends[-1] if self.ends else 0

    def __iter__(self) -> Iterator[Row]:
        return chain.from_iterable(map(self._batch, range(len(self.ends))))

    def __getitem__(self, at: int) -> Row:
        number = bisect_right(self.ends, at)
        return self._batch(number)[at - (self.ends[number - 1] if number else 0)]

    def _batch(self, number: int) -> list[Row]:
        paths, sizes = self.reader.get_batch(number).columns
        return list(zip(paths.to_pylist(), sizes.to_pylist(), strict=True))


@attrs.frozen(eq=False)
class Deletes(ManyOperations):
    """Deletions for one reason in one partition, by path, on disk."""

    rows: Rows
    partition: str
    reason: str
    by: str | None = None

    @property
    def kind(self) -> type[Delete]:
        """Deletions."""
        return Delete

    @property
    def counted(self) -> Counted:
        """What they add to the summary of a plan."""
        return (self.partition, Delete.op, self.reason), len(self.rows), self.rows.size

    @property
    def changed(self) -> tuple[int, int]:
        """How many files, and their bytes."""
        return len(self.rows), self.rows.size

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[Delete]:
        return (Delete(self.partition, path, size, self.reason, self.by) for path, size in self.rows)

    def at(self, place: int) -> Delete:
        """The deletion at a place."""
        path, size = self.rows[place]
        return Delete(self.partition, path, size, self.reason, self.by)


@attrs.frozen(eq=False)
class Texts(Sequence[str]):
    """Texts on disk."""

    rows: Rows

    def __len__(self) -> int:
        return len(self.rows)

    def __iter__(self) -> Iterator[str]:
        return (text for text, _ in self.rows)

    def __getitem__(self, at: Any) -> Any:
        if isinstance(at, slice):
            return list(islice(self, *at.indices(len(self))))
        return self.rows[range(len(self))[at]][0]


def deletes(rows: Iterable[Row], reason: str) -> Sequence[Delete]:
    """Deletions of files, given by path and size, for one reason, by path; not in memory if they are many."""
    rows = iter(rows)
    held = list(islice(rows, IN_MEMORY + 1))
    if len(held) <= IN_MEMORY:
        return [Delete("", path, size, reason) for path, size in sorted(held)]
    return Deletes(_sorted(chain(_drained(held), rows)), "", reason)


def texts(found: Iterable[str]) -> Sequence[str]:
    """Texts in their order; not in memory if they are many."""
    found = iter(found)
    held = list(islice(found, IN_MEMORY + 1))
    if len(held) <= IN_MEMORY:
        return held
    return Texts(Rows.of(_batches((text, 0) for text in chain(_drained(held), found))))


def gathered(operations: Iterable[Operation]) -> Sequence[Operation]:
    """The operations of a plan; not in memory if they are many and all delete for one reason in one partition."""
    operations = iter(operations)
    held = list(islice(operations, IN_MEMORY + 1))
    if len(held) <= IN_MEMORY or not isinstance(held[0], Delete):
        return [*held, *operations]
    first, others = held[0], list[Any]()
    alike = (first.partition, first.reason, first.by)

    def rows() -> Iterator[Row]:
        for op in chain(_drained(held), operations):
            if isinstance(op, Delete) and (op.partition, op.reason, op.by) == alike:
                yield op.path, op.size
            else:
                others.append(op)

    found = Deletes(_sorted(rows()), *alike)
    return [*found, *others] if others else found


def _sorted(rows: Iterable[Row]) -> Rows:
    tables = sort_batches(_batches(rows), _BY_PATH, budget=_BUDGET)
    return Rows.of(batch for table in tables for batch in table.to_batches(_ROWS))


def _drained(held: list[Any]) -> Iterator[Any]:
    """The items of a list, which are let go as they are given."""
    held.reverse()
    while held:
        yield held.pop()


def _batches(rows: Iterable[Row]) -> Iterator[pa.RecordBatch]:
    for part in batched(rows, _ROWS):
        paths, sizes = zip(*part, strict=True)
        yield pa.record_batch([pa.array(paths, pa.string()), pa.array(sizes, pa.int64())], schema=_SCHEMA)

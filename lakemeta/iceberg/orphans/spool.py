"""Rows of a join, spread over partitions by a hash of their keys, in temporary files once they are many (I/O).

Two spools of one join are spread alike, so that the rows of a key meet in one partition, and one partition at a time
has to fit into memory.
"""

from __future__ import annotations

import zlib
from contextlib import ExitStack
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from lakemeta.iceberg.orphans.uris import Prefix

PARTITIONS: Final = 64
BUDGET: Final = 64 * 2**20  # bytes of rows that are held in memory
_ROWS: Final = 65_536  # are spread at a time


@attrs.define(eq=False)
class Spool:
    """Rows of one side of a join. ``folder`` is for its files; ``close`` ends it, the folder is removed by its owner.

    Added are columns of rows that share a prefix, after the key; the number of the prefix is put between.
    """

    schema: pa.Schema
    folder: Path
    prefixes: list[Prefix] = attrs.field(factory=list)
    _waiting: list[pa.RecordBatch] = attrs.field(factory=list)
    _waiting_rows: int = 0
    _held: list[list[pa.RecordBatch]] = attrs.field(factory=lambda: [[] for _ in range(PARTITIONS)])
    _size: int = 0
    _writers: dict[int, pa.ipc.RecordBatchStreamWriter] = attrs.field(factory=dict)
    _files: ExitStack = attrs.field(factory=ExitStack)

    def add(self, prefix: Prefix, keys: pa.Array, *others: pa.Array) -> None:
        """Add rows of one prefix."""
        if not len(keys):
            return
        if prefix not in self.prefixes:
            self.prefixes.append(prefix)
        number = pa.repeat(pa.scalar(self.prefixes.index(prefix), pa.int16()), len(keys))
        self._waiting.append(pa.RecordBatch.from_arrays([keys, number, *others], schema=self.schema))
        self._waiting_rows += len(keys)
        if self._waiting_rows >= _ROWS:
            self._spread()

    def partition(self, number: int) -> pa.Table:
        """The rows of one partition; nothing may be added after the first is asked for."""
        self._spread()
        batches = list(self._held[number])
        if number in self._writers:
            self._writers[number].close()
            with pa.OSFile(str(self._path(number))) as source, pa.ipc.open_stream(source) as reader:
                batches = [*reader, *batches]
        return pa.Table.from_batches(batches, self.schema)

    def close(self) -> None:
        """Close what is open."""
        self._files.close()

    def _spread(self) -> None:
        """Put waiting rows into their partitions, and those into files if they have grown beyond the budget."""
        if not self._waiting:
            return
        table = pa.Table.from_batches(self._waiting).combine_chunks()
        self._waiting, self._waiting_rows = [], 0
        numbers = pa.array(_hashes(table.column("key").cast(pa.binary()).to_pylist()), pa.int16())
        table = table.take(pc.sort_indices(numbers))
        start = 0
        for counted in sorted(pc.value_counts(numbers).to_pylist(), key=lambda pair: pair["values"]):
            part = table.slice(start, counted["counts"]).combine_chunks()
            start += counted["counts"]
            self._held[counted["values"]] += part.to_batches()
        self._size += table.nbytes
        if self._size > BUDGET:
            self._spill()

    def _spill(self) -> None:
        for number, batches in enumerate(self._held):
            if not batches:
                continue
            if number not in self._writers:
                sink = self._files.enter_context(pa.OSFile(str(self._path(number)), "wb"))
                self._writers[number] = self._files.enter_context(pa.ipc.new_stream(sink, self.schema))
            self._writers[number].write_table(pa.Table.from_batches(batches).combine_chunks())
        self._held = [[] for _ in range(PARTITIONS)]
        self._size = 0

    def _path(self, number: int) -> Path:
        return self.folder / f"{number}.arrow"


def _hashes(keys: Sequence[bytes]) -> list[int]:
    crc = zlib.crc32
    return [crc(key) % PARTITIONS for key in keys]

"""Rewrites one group of data files: the unit of work of rewrite_data_files, here or on a worker (I/O).

Rows of the inputs, without the deleted ones, become rows of new files of the current schema and the wanted
partition spec (engine: SparkBinPackFileRewriteRunner and its siblings). Nothing is committed here.
"""

from __future__ import annotations

import os
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from itertools import chain, islice
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.external_sort import sort_batches
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.manifests.delete_entries import partition_key
from lakemeta.iceberg.rewrite.range_cut import RangeCut
from lakemeta.iceberg.rewrite.sort_columns import sort_columns
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.rows.data_files import WHOLE
from lakemeta.iceberg.rows.delete_filter import key_columns
from lakemeta.iceberg.rows.deleted_rows import DeleteStore, EqualityDeleteCache, deleted_rows
from lakemeta.iceberg.rows.projected_files import ProjectedFiles, with_dropped
from lakemeta.iceberg.rows.projection import LINEAGE, Lineage
from lakemeta.iceberg.rows.row_account import InputRows, check_group
from lakemeta.iceberg.rows.transform_arrays import python_values
from lakemeta.iceberg.scan.splits import FileSplit, Packing, scan_tasks
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.write.data_file_writer import FileFactory, FileLimits, GroupWriter
from lakemeta.iceberg.write.metrics import metrics_modes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from typing import BinaryIO

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.groups import RewriteGroup
    from lakemeta.iceberg.rewrite.row_order import RowOrder
    from lakemeta.iceberg.rows.data_files import FilePart
    from lakemeta.iceberg.rows.projection import Projection
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value
    from lakemeta.row_sort import SortKey
    from lakemeta.storage.contract import Storage

MEMORY: Final = 512 * 1024 * 1024
_READ_WHOLE: Final = 16 * 1024 * 1024  # a file up to this size is fetched in one request, ahead of its turn
_DECODE_AHEAD: Final = 4 * 1024 * 1024  # and up to this size its first batch is decoded, too
_FETCHERS: Final = 2
_MOST_THREADS: Final = 8  # two row groups of four bundles are encoded at a time
_PACKING: Final = Packing()
_SHUFFLE_PARTITIONS: Final = 200  # what spark.sql.shuffle.partitions is by default

_Part = tuple["tuple[Value, ...]", pa.Table]  # rows of one partition


@attrs.frozen(hash=False)
class RewriteJob:
    """What all groups of a rewrite have in common; picklable. Snapshots and logs of ``metadata`` are not needed.

    ``uuid`` names the rewrite's files. ``order`` sorts the rows of each group (None leaves them as they come),
    and ``sort_order_id`` is what the new files say about it. ``memory`` is about the bytes of rows held at a
    time. ``threads`` encode: by default one a core, up to 8; 1 does it on the calling thread.

    If the job ``sorts``, the rows of a whole group are sorted and cut into ``ranges_per_file`` ranges for each
    expected output; otherwise ``packing`` says how its files are shared out among tasks.
    """

    storage: Storage
    metadata: TableMetadata
    uuid: str
    order: RowOrder | None = None
    sort_order_id: int = 0
    memory: int = MEMORY
    threads: int | None = None
    spill_directory: str | None = None
    packing: Packing = _PACKING
    sorts: bool = False
    ranges_per_file: int = 1


@attrs.frozen(hash=False)
class RewrittenGroup:
    """The new files of a group, and what became of the rows of each of its inputs."""

    group: int
    files: tuple[DataFile, ...]
    inputs: tuple[InputRows, ...]


@attrs.frozen
class _Input:
    """A part of an input, open, and the way from its batches to those of the output schema."""

    plan: Projection
    part: FilePart
    batches: Iterable[pa.RecordBatch]


def rewrite_group(
    job: RewriteJob, group: RewriteGroup, attempt: int = 0, read: Callable[[int], None] | None = None
) -> RewrittenGroup:
    """Write the new files of one group; ``read`` is called with the size of each part of the input, in bytes of files.

    File names are unique for (uuid, group, attempt), so attempts that run at the same time never meet. If
    anything goes wrong the files of this attempt are deleted before the error is raised. Raises
    CorruptMetadataError if an input is not what the metadata says, UnsupportedFeatureError for what cannot be
    written; a lost file is StorageError.
    """
    return _Rewrite(job, group, attempt, read).run()


class _Rewrite:
    """One attempt at one group."""

    def __init__(self, job: RewriteJob, group: RewriteGroup, attempt: int, read: Callable[[int], None] | None) -> None:
        self.job, self.group, self.read = job, group, read
        self.metadata = job.metadata
        self.spec = job.metadata.specs_by_id[group.spec_id]
        self.has_lineage = job.metadata.format_version >= 3
        lineage = LINEAGE if self.has_lineage else ()
        self.schema = attrs.evolve(job.metadata.schema, fields=(*job.metadata.schema.fields, *lineage))
        self.store = store = DeleteStore.of(job.storage)
        self.positions = deleted_rows(group.tasks, store)
        self.equality = EqualityDeleteCache(group.tasks, job.metadata, store, job.memory // 2)
        self.columns = len(arrow_schema(self.schema.fields))
        self.read_schema = with_dropped(self.schema, self.equality.fields)
        self.files = ProjectedFiles.of_table(job.metadata, self.read_schema)
        self.factory = FileFactory.make(
            job.metadata.location,
            job.metadata.properties,
            self.schema,
            self.spec,
            metrics_modes(job.metadata.properties, job.metadata.schema, job.metadata.sort_order),
            job.sort_order_id,
            job.uuid,
            group.group,
            attempt,
        )
        self.counts = {task.data_file.file_path: self._nothing_read(task.data_file) for task in group.tasks}

    def run(self) -> RewrittenGroup:
        with ExitStack() as stack:
            threads = self.job.threads or min(_MOST_THREADS, os.cpu_count() or 1)
            pool = stack.enter_context(ThreadPoolExecutor(threads, "lakemeta-encode")) if threads > 1 else None
            writer = GroupWriter(self.factory, self._limits(), self._open_output, self._read_range, pool)
            try:
                for task in self._tasks():
                    for partition, table in task:
                        self._go_on()
                        writer.write(partition, table)
                    writer.end_file()
                files = writer.close()
                inputs = tuple(self.counts.values())
                check_group(self.group.tasks, inputs, files)
            except BaseException:
                writer.abandon()
                door = data_door(self.job.storage, self.metadata, self.job.uuid)
                with suppress(LakemetaError):  # what went wrong first counts, and strays are looked for once more
                    door.delete_files([self._path(path) for path in writer.paths])
                raise
        return RewrittenGroup(self.group.group, tuple(files), inputs)

    def _go_on(self) -> None:
        """Raise LakemetaError if the result is not wanted any more: sorted rows are written long after reading."""
        if self.read is not None:
            self.read(0)

    def _nothing_read(self, file: DataFile) -> InputRows:
        named = self.positions.get(file.file_path)
        return InputRows(file.file_path, 0, positions=named.count if named else 0)

    def _limits(self) -> FileLimits:
        rows = sum(task.data_file.record_count for task in self.group.tasks)
        return FileLimits(
            bytes=self.group.max_output_size,
            bytes_per_row=max(0.01, self.group.bytes / max(1, rows)),
            row_group_memory=self.job.memory // 4,
        )

    def _tasks(self) -> Iterator[Iterator[_Part]]:
        """The rows of the group in parts that are written into files of their own, each as :data:`_Part`s.

        As in the engine, a job that sorts, or moves files to another spec, shuffles the rows of the group by ranges
        of keys, and any other packs parts of files.
        """
        moves = self.group.tasks[0].data_file.spec_id != self.spec.spec_id
        if self.job.sorts:
            ranges = self.group.expected_outputs * self.job.ranges_per_file
            yield from self._shuffled(ranges, self.spec if moves else None)
        elif moves and (self.metadata.spec.fields or self.job.order):
            yield from self._shuffled(_SHUFFLE_PARTITIONS, self.metadata.spec)
        else:
            for splits in scan_tasks(self.group.tasks, self.group.split_size, self.job.packing):
                yield self._clustered(self._rows(splits), self.job.order)

    def _shuffled(self, ranges: int, spec: PartitionSpec | None) -> Iterator[Iterator[_Part]]:
        """The rows of the whole group, sorted by partition of a spec and the job's order, in ranges."""
        files = [task.data_file for task in self.group.tasks]
        rows = sum(f.record_count for f in files) - sum(d.count for d in self.positions.values())
        cut = RangeCut(ranges, self.job.ranges_per_file if self.job.sorts else 1, rows, self.group.group)
        whole = (FileSplit(task, 0, task.length, task.length) for task in self.group.tasks)
        keyed, keys = _keyed(self._rows(list(whole)), self.schema, self.job.order, spec)
        tables = sort_batches(cut.mark(keyed), keys, budget=self.job.memory // 2, directory=self.job.spill_directory)
        partition = self._only_partition()
        for part in cut.cut(tables, [key.column for key in keys]):
            if partition is not None:
                yield ((partition, table.select(range(self.columns))) for table in part)
            elif spec is self.spec:
                yield self._by_partition(part, keys)
            else:
                batches = (batch for table in part for batch in table.select(range(self.columns)).to_batches())
                yield self._clustered(batches, self.job.order)

    def _rows(self, splits: Sequence[FileSplit]) -> Iterator[pa.RecordBatch]:
        """The live rows of parts of inputs, in terms of the output schema."""
        for split, opened in LocalExecutor(_FETCHERS).map_batches(self._fetch, splits, batch_size=1):
            with ExitStack() as stack:
                if opened is None:
                    stream = stack.enter_context(self.store.open(split.task.data_file.file_path))
                yield from self._rows_of(split, self._open(split, stream) if opened is None else opened)

    def _fetch(self, splits: Sequence[FileSplit]) -> Iterable[tuple[FileSplit, _Input | None]]:
        """Small files whole, so that they come while earlier ones are worked on; large ones are streamed later."""
        for split in splits:
            if split.task.length > _READ_WHOLE:
                yield split, None
                continue
            file = split.task.data_file
            opened = self._open(split, self.job.storage.read(self._path(file.file_path)))
            if split.task.length <= _DECODE_AHEAD:
                batches = iter(opened.batches)
                opened = attrs.evolve(opened, batches=chain(list(islice(batches, 1)), batches))
            yield split, opened

    def _open(self, split: FileSplit, source: BinaryIO | bytes) -> _Input:
        file = split.task.data_file
        opened, plan = self.files.open(file, source)
        part = WHOLE if split.is_whole else opened.part(split.start, split.end, split.task.length, file.record_count)
        return _Input(plan, part, opened.read(plan.columns, part))

    def _rows_of(self, split: FileSplit, opened: _Input) -> Iterator[pa.RecordBatch]:
        task, file, part = split.task, split.task.data_file, opened.part
        lineage = Lineage(file.first_row_id, task.sequence_number) if self.has_lineage else None
        position = part.first_row
        for raw in opened.batches:
            batch = self._without_deleted(opened.plan.apply(raw, position, lineage), position, task)
            position += raw.num_rows
            if batch.num_rows:
                yield batch
            if self.read is not None:
                self.read(task.length * raw.num_rows // max(1, file.record_count))
        expected = file.record_count if part.rows is None else part.first_row + part.rows
        if position != expected:
            raise CorruptMetadataError(
                f"{file.file_path} has {position} rows and its manifest entry says {file.record_count}"
            )

    def _without_deleted(self, batch: pa.RecordBatch, position: int, task: FileScanTask) -> pa.RecordBatch:
        path, rows = task.data_file.file_path, batch.num_rows
        named = self.positions.get(path)
        keep = named.keep(position, rows) if named else None
        by_position = _left_out(keep)
        for deletes in self.equality.of(task):
            kept = deletes.keep(key_columns(batch, self.read_schema, deletes.field_ids))
            keep = kept if keep is None else pc.and_(keep, kept)
        if keep is not None:
            batch = batch.filter(keep)
        so_far = self.counts[path]
        self.counts[path] = attrs.evolve(
            so_far,
            read=so_far.read + rows,
            by_position=so_far.by_position + by_position,
            by_equality=so_far.by_equality + _left_out(keep) - by_position,
        )
        return batch.select(range(self.columns))

    def _clustered(self, batches: Iterator[pa.RecordBatch], order: RowOrder | None) -> Iterator[_Part]:
        """Rows by partition, if they may be of several, and in an order."""
        partition = self._only_partition()
        spec = self.spec if partition is None else None
        if spec is None and order is None:
            assert partition is not None
            yield from ((partition, pa.Table.from_batches([batch])) for batch in batches)
            return
        keyed, keys = _keyed(batches, self.schema, order, spec)
        tables = sort_batches(keyed, keys, budget=self.job.memory // 2, directory=self.job.spill_directory)
        if partition is None:
            yield from self._by_partition(tables, keys)
        else:
            yield from ((partition, table.select(range(self.columns))) for table in tables)

    def _by_partition(self, tables: Iterator[pa.Table], keys: Sequence[SortKey]) -> Iterator[_Part]:
        """Cut tables that are sorted by partition, then by other keys, where the partition changes."""
        kinds = self.spec.types(self.schema)
        for table in tables:
            columns = [table.column(key.column).combine_chunks() for key in keys[: len(kinds)]]
            rows, start = table.select(range(self.columns)), 0
            for end in sorted({int(end) for column in columns for end in _run_ends(column)}):
                first = [column.slice(start, 1) for column in columns]
                partition = tuple(python_values(c, kind)[0] for c, kind in zip(first, kinds, strict=True))
                yield partition, rows.slice(start, end - start)
                start = end

    def _only_partition(self) -> tuple[Value, ...] | None:
        """The partition of all rows if it is known without looking at them."""
        if not self.spec.fields:
            return ()
        files = [task.data_file for task in self.group.tasks]
        partitions = {partition_key(file.partition) for file in files}
        same_spec = all(file.spec_id == self.spec.spec_id for file in files)
        return files[0].partition if same_spec and len(partitions) == 1 else None

    def _path(self, location: str) -> str:
        return store_path(self.job.storage.scheme, location)

    def _open_output(self, location: str) -> BinaryIO:
        return self.job.storage.open_output(self._path(location))

    def _read_range(self, location: str, start: int, length: int) -> bytes:
        return self.job.storage.read_range(self._path(location), start, length)


def _left_out(keep: pa.BooleanArray | None) -> int:
    """How many rows a mask of rows to keep leaves out."""
    return 0 if keep is None else keep.false_count


def _keyed(
    batches: Iterator[pa.RecordBatch], schema: Schema, order: RowOrder | None, spec: PartitionSpec | None
) -> tuple[Iterator[pa.RecordBatch], list[SortKey]]:
    empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema.fields))
    _, keys = sort_columns(empty, schema, order, spec)
    return (sort_columns(batch, schema, order, spec)[0] for batch in batches), keys


def _run_ends(column: pa.Array) -> list[int]:
    ends: list[int] = pc.run_end_encode(column).run_ends.to_pylist()
    return ends

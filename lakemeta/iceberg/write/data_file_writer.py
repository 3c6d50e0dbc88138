"""Writes the new data files of one group of a rewrite: rolls over, names, places and measures them (I/O)."""

from __future__ import annotations

import json
from concurrent.futures import wait
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from lakemeta.errors import StorageError
from lakemeta.iceberg.manifests.delete_entries import partition_key
from lakemeta.iceberg.manifests.entries import FILE_PATH_ID, DataFile, FileContent
from lakemeta.iceberg.rows.arrow import parquet_schema
from lakemeta.iceberg.rows.delete_filter import POSITION_DELETE_FIELDS
from lakemeta.iceberg.rows.row_account import check_size, check_written
from lakemeta.iceberg.spec.schema import Schema, schema_to_json
from lakemeta.iceberg.write.metrics import FULL, MetricsModes, file_metrics
from lakemeta.iceberg.write.rollover import BufferLimits, Rollover
from lakemeta.iceberg.write.settings import (
    buffer_limits,
    data_location,
    delete_properties,
    file_name,
    parquet_options,
    with_bloom_paths,
)
from lakemeta.parquet.layout import read_footer
from lakemeta.parquet.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from concurrent.futures import Future, ThreadPoolExecutor
    from typing import BinaryIO

    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value
    from lakemeta.parquet.footer import FileStats, WriteOptions


@attrs.frozen
class FileLimits:
    """A file ends at about ``bytes`` bytes.

    ``bytes_per_row`` is a first guess at encoded bytes a row. ``row_group_memory`` is the greatest size, in
    memory, of a row group.
    """

    bytes: int
    bytes_per_row: float
    row_group_memory: int


@attrs.frozen
class FileFactory:
    """Everything that files of one group have in common."""

    location: str
    properties: Mapping[str, str]
    schema: Schema
    spec: PartitionSpec
    modes: MetricsModes
    sort_order_id: int | None
    name_of: Callable[[int], str]
    options: WriteOptions
    buffers: BufferLimits
    table_schema: Schema
    content: FileContent = FileContent.DATA

    @classmethod
    def for_deletes(cls, metadata: TableMetadata, spec: PartitionSpec, name_of: Callable[[int], str]) -> FileFactory:
        """For position deletes of one partition spec, as Iceberg writes them: with all of their bounds."""
        schema = Schema(POSITION_DELETE_FIELDS)
        properties = delete_properties(metadata.properties)
        footer = {"delete-type": "position", "iceberg.schema": _json(schema)}
        return cls(
            location=metadata.location,
            properties=metadata.properties,
            schema=schema,
            spec=spec,
            modes=MetricsModes(FULL),
            sort_order_id=None,
            name_of=name_of,
            options=parquet_options(properties, footer),
            buffers=buffer_limits(properties),
            table_schema=metadata.schema,
            content=FileContent.POSITION_DELETES,
        )

    @classmethod
    def make(
        cls,
        location: str,
        properties: Mapping[str, str],
        schema: Schema,
        spec: PartitionSpec,
        modes: MetricsModes,
        sort_order_id: int,
        uuid: str,
        group: int,
        attempt: int,
    ) -> FileFactory:
        """``schema`` is that of the files, with row lineage if they have it."""
        footer = {"iceberg.schema": _json(schema)}
        return cls(
            location=location,
            properties=properties,
            schema=schema,
            spec=spec,
            modes=modes,
            sort_order_id=sort_order_id,
            name_of=lambda count: file_name(group, attempt, uuid, count),
            options=with_bloom_paths(parquet_options(properties, footer), schema),
            buffers=buffer_limits(properties),
            table_schema=schema,
        )

    def entry(self, path: str, partition: tuple[Value, ...], stats: FileStats) -> DataFile:
        """What a manifest says of a written file.

        Of position deletes no values are counted; their bounds stand only if all are of one data file, which they name.
        """
        found = file_metrics(stats, self.schema, self.modes)
        if self.content == FileContent.POSITION_DELETES:
            low, high = (found[name].get(FILE_PATH_ID) for name in ("lower_bounds", "upper_bounds"))
            kept = ("column_sizes", "lower_bounds", "upper_bounds") if low == high else ("column_sizes",)
            found = {name: found[name] for name in kept}
        return DataFile(
            content=self.content,
            file_path=path,
            file_format="PARQUET",
            spec_id=self.spec.spec_id,
            partition=partition,
            record_count=stats.rows,
            file_size_in_bytes=stats.size,
            split_offsets=stats.split_offsets,
            sort_order_id=self.sort_order_id,
            **found,
        )

    def path(self, partition: tuple[Value, ...], count: int) -> str:
        """The location of the ``count``-th file, which has rows of ``partition``."""
        directory = self.spec.path(self.table_schema, partition) if self.spec.fields else ""
        return data_location(self.location, self.properties, directory, self.name_of(count))


def _json(schema: Schema) -> str:
    return json.dumps(schema_to_json(schema), separators=(",", ":"))


@attrs.frozen
class _OpenFile:
    path: str
    partition: tuple[Value, ...]
    sink: BinaryIO
    writer: ParquetWriter


class GroupWriter:
    """Writes tables of rows, partition after partition, into files."""

    def __init__(
        self,
        factory: FileFactory,
        limits: FileLimits,
        open_output: Callable[[str], BinaryIO],
        read_range: Callable[[str, int, int], bytes],
        pool: ThreadPoolExecutor | None,
    ) -> None:
        """``open_output`` opens a location for writing, ``read_range`` reads a part of one; ``pool`` encodes."""
        self._factory = factory
        self._limits = limits
        self._open_output = open_output
        self._read_range = read_range
        self._pool = pool
        self._schema = parquet_schema(factory.schema.fields)
        self._rollover = Rollover(factory.buffers, limits.bytes, limits.bytes_per_row)
        self._partition: tuple[Value, ...] = ()
        self._held: list[pa.Table] = []
        self._held_rows = self._held_bytes = 0
        self._open: _OpenFile | None = None
        self._ending: _OpenFile | None = None
        self._closing: list[Future[None]] = []
        self.paths: list[str] = []
        self.files: list[DataFile] = []

    def write(self, partition: tuple[Value, ...], table: pa.Table) -> None:
        """Append rows of one partition; rows of another partition end its files for good."""
        if partition_key(partition) != partition_key(self._partition):
            self.end_file()
            self._partition = partition
        while table.num_rows:
            count, end = self._rollover.take(table)
            part, table = table.slice(0, count), table.slice(count)
            self._held.append(part)
            self._held_rows += part.num_rows
            self._held_bytes += part.nbytes
            if end == "file":
                self.end_file()
            elif end == "row group" or self._held_bytes >= self._limits.row_group_memory:
                self._end_row_group()

    def end_file(self) -> None:
        """Rows to come go into a new file. The last row groups are encoded while they are read."""
        self._end_row_group(self._limits.row_group_memory * 5 // 4)
        self._rollover.file_ended()
        if self._open is not None:
            self._finish()
            self._ending, self._open = self._open, None

    def close(self) -> list[DataFile]:
        """End the last file; returns all of them."""
        self.end_file()
        self._finish()
        for closing in self._closing:
            closing.result()
        return self.files

    def abandon(self) -> None:
        """Stop after a failure; what is open is closed as it is, and ``paths`` says what to delete."""
        wait(self._closing)
        for file in (self._ending, self._open):
            if file is not None:
                file.writer.abandon()
                with suppress(OSError, StorageError):  # the failure that brought us here may go on
                    file.sink.close()

    def _end_row_group(self, encoding: int = 0) -> None:
        """``encoding`` bytes may be left to be encoded, even if that is more than one row group."""
        if not self._held_rows:
            return
        writer = (self._open or self._start_file()).writer
        writer.write(pa.concat_tables(self._held))
        self._held, self._held_rows, self._held_bytes = [], 0, 0
        self._finish()
        writer.settle(encoding)
        self._rollover.row_group_ended()
        self._learn_from(writer)

    def _learn_from(self, writer: ParquetWriter) -> None:
        if writer.rows_encoded:
            self._rollover.bytes_per_row = max(0.01, writer.bytes_written / writer.rows_encoded)

    def _start_file(self) -> _OpenFile:
        path = self._factory.path(self._partition, len(self.paths) + 1)
        self.paths.append(path)
        sink = self._open_output(path)
        writer = ParquetWriter(sink, self._schema, self._factory.options, self._pool)
        self._open = _OpenFile(path, self._partition, sink, writer)
        return self._open

    def _finish(self) -> None:
        """Write what is left of the file that ended before the open one."""
        if self._ending is None:
            return
        file = self._ending
        stats = file.writer.close()
        self._learn_from(file.writer)
        self._ending = None
        written = self._factory.entry(file.path, file.partition, stats)
        self.files.append(written)
        # Closing waits for the disk or the store, so it is done beside the work on the next file.
        if self._pool is None:
            self._close(file.sink, written)
        else:
            self._closing.append(self._pool.submit(self._close, file.sink, written))

    def _close(self, sink: BinaryIO, file: DataFile) -> None:
        """Close a file and hold what the store has of it against its entry."""
        sink.close()
        size = file.file_size_in_bytes

        def read(start: int, length: int) -> bytes:
            found = self._read_range(file.file_path, start, length + 1)
            check_size(file, size + len(found) - length if start + length == size else size)
            return found[:length]

        check_written(file, read_footer(read, size, file.file_path))

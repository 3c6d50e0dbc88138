"""Writes deletes of rows: Parquet files for tables of version 2, deletion vectors for version 3 (I/O).

Both take tables of (data file, row), sorted by both, of one partition, and give the entries of what they have written.
"""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import StorageError
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.rows.arrow import runs_of
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.write.data_file_writer import FileFactory, FileLimits, GroupWriter
from lakemeta.iceberg.write.puffin import Blob, PuffinWriter
from lakemeta.iceberg.write.settings import data_location, file_name
from lakemeta.iceberg.write.vectors import encode_vector

if TYPE_CHECKING:
    from typing import BinaryIO

    from lakemeta.iceberg.delete_rewrite.units import DeleteJob, DeleteUnit
    from lakemeta.iceberg.scan.file_tasks import FileScanTask

VECTOR_TYPE: Final = "deletion-vector-v1"
_ROW_POSITION: Final = 2147483645  # field id of the metadata column _pos
_BYTES_PER_ROW: Final = 4.0  # a first guess at what a row takes in a file
_CLOSERS: Final = 4  # threads that encode files, and wait for the disk or the store to have them
_FREE_ROWS: Final = 1 << 32  # rows behind a file's end up to here cost a vector nothing


class DeleteWriter(Protocol):
    """Takes sorted rows; ``paths`` are the locations of all files that were begun."""

    paths: list[str]

    def write(self, rows: pa.Table) -> None:
        """Append rows, none of which comes before the last one in path and row."""
        ...

    def close(self) -> list[DataFile]:
        """End the last file; returns the entries of all of them."""
        ...

    def abandon(self) -> None:
        """Stop after a failure."""
        ...


def delete_writer(job: DeleteJob, unit: DeleteUnit, attempt: int) -> DeleteWriter:
    """The writer of what the table's version takes."""
    return VectorWriter(job, unit, attempt) if job.writes_vectors else PositionDeleteWriter(job, unit, attempt)


class PositionDeleteWriter:
    """Position delete files in Parquet: of one data file each, or of the whole partition, up to their size."""

    def __init__(self, job: DeleteJob, unit: DeleteUnit, attempt: int) -> None:
        first = unit.tasks[0].data_file
        name_of = partial(_name, unit.number, attempt, job.uuid, ".parquet")
        factory = FileFactory.for_deletes(job.metadata, job.metadata.specs_by_id[first.spec_id], name_of)
        limits = FileLimits(unit.max_output_size, _BYTES_PER_ROW, job.memory // 4)
        scheme, storage = job.storage.scheme, job.storage
        self._partition = first.partition
        self._pool = ThreadPoolExecutor(_CLOSERS, "lakemeta-deletes")
        self._writer = GroupWriter(
            factory,
            limits,
            lambda location: storage.open_output(store_path(scheme, location)),
            lambda location, start, size: storage.read_range(store_path(scheme, location), start, size),
            self._pool,
        )
        self._splits = job.granularity == "file"
        self._path: str | None = None
        self.paths = self._writer.paths

    def write(self, rows: pa.Table) -> None:
        """Append rows; with granularity ``file`` a new file begins where the data file changes."""
        if not self._splits:
            self._writer.write(self._partition, rows)
            return
        for path, start, end in runs_of(rows.column(0)):
            if path != self._path:
                self._writer.end_file()
                self._path = path
            self._writer.write(self._partition, rows.slice(start, end - start))

    def close(self) -> list[DataFile]:
        """End the last file; the files were opened again and are as their entries say."""
        files = self._writer.close()
        self._pool.shutdown()
        return files

    def abandon(self) -> None:
        """Stop after a failure."""
        self._writer.abandon()
        self._pool.shutdown()


class VectorWriter:
    """Deletion vectors, one for each data file, in Puffin files up to their size."""

    def __init__(self, job: DeleteJob, unit: DeleteUnit, attempt: int) -> None:
        self._job, self._limit = job, unit.max_output_size
        self._name_of = partial(_name, unit.number, attempt, job.uuid, ".puffin")
        self._tasks = {task.data_file.file_path: task for task in unit.tasks}
        self._path: str | None = None
        self._rows: list[pa.Array] = []
        self._sink: BinaryIO | None = None
        self._puffin: PuffinWriter | None = None
        self._open: list[DataFile] = []
        self._files: list[DataFile] = []
        self.paths: list[str] = []

    def write(self, rows: pa.Table) -> None:
        """Gather the rows of a data file until the next one begins."""
        for path, start, end in runs_of(rows.column(0)):
            if path != self._path:
                self._end_vector()
                self._path = path
            self._rows += rows.column(1).slice(start, end - start).chunks

    def close(self) -> list[DataFile]:
        """End the last file."""
        self._end_vector()
        self._end_file()
        return self._files

    def abandon(self) -> None:
        """Stop after a failure; what is open is closed as it is."""
        if self._sink is not None:
            with suppress(OSError, StorageError):  # the failure that brought us here may go on
                self._sink.close()

    def _end_vector(self) -> None:
        if self._path is None or not self._rows:
            return
        task = self._tasks[self._path]
        rows, self._rows = pc.unique(pa.chunked_array(self._rows)), []
        rows = rows.filter(pc.less(rows, max(task.data_file.record_count, _FREE_ROWS)))
        if len(rows):
            self._put(task, rows)

    def _put(self, task: FileScanTask, rows: pa.Array) -> None:
        if self._puffin is None:
            location, properties = self._job.metadata.location, self._job.metadata.properties
            path = data_location(location, properties, "", self._name_of(len(self.paths) + 1))
            self.paths.append(path)
            self._sink = self._job.storage.open_output(store_path(self._job.storage.scheme, path))
            self._puffin = PuffinWriter(self._sink)
        data, file = encode_vector(rows), task.data_file
        properties = {"referenced-data-file": file.file_path, "cardinality": str(len(rows))}
        vector = DataFile(
            content=FileContent.POSITION_DELETES,
            file_path=self.paths[-1],
            file_format="PUFFIN",
            spec_id=file.spec_id,
            partition=file.partition,
            record_count=len(rows),
            file_size_in_bytes=0,  # known at the end
            referenced_data_file=file.file_path,
            content_offset=self._puffin.add(Blob(VECTOR_TYPE, (_ROW_POSITION,), properties=properties), data),
            content_size_in_bytes=len(data),
        )
        self._open.append(vector)
        if self._puffin.size >= self._limit:
            self._end_file()

    def _end_file(self) -> None:
        if self._puffin is None or self._sink is None:
            return
        size = self._puffin.finish()
        self._sink.close()
        self._files += [attrs.evolve(vector, file_size_in_bytes=size) for vector in self._open]
        self._puffin, self._sink, self._open = None, None, []


def _name(unit: int, attempt: int, uuid: str, ending: str, count: int) -> str:
    return file_name(unit, attempt, uuid, count, f"-deletes{ending}")

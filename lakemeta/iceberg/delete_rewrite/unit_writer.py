"""Writes the new delete files of one unit, and proves that they delete the same rows (I/O).

Rules of this module:

1. What counts is what a reader applies: of a data file that has a deletion vector the vector alone, of any other those
   position deletes that are not older than it. Rows of data files that are gone are left out.
2. A unit may have equality deletes: the rows that they delete are named by position then. Null equals null, and they
   apply to strictly older data files (``scan.delete_index``).
3. A table of version 3 gets one deletion vector for each data file that a replaced delete file deletes from: of all
   that a reader deletes of it by position, and by those equality deletes. Its earlier vector and delete files that are
   about it alone leave the table, others stay: they may be about more files, and mean nothing to one with a vector.
4. New files are read back before they are handed on. Of every data file the rows that its deletes name, before and
   after, are the same, or nothing is committed. Files of an attempt that failed are deleted.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.external_sort import sort_batches
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.delete_rewrite.equality import EqualityScan
from lakemeta.iceberg.delete_rewrite.units import DeleteJob, DeleteUnit, WrittenDeletes, names_rows
from lakemeta.iceberg.delete_rewrite.writers import delete_writer
from lakemeta.iceberg.manifests.delete_entries import referenced_data_file
from lakemeta.iceberg.manifests.entries import FileKey, file_key
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.rows.delete_filter import POSITION_DELETE_FIELDS, DeletedRows
from lakemeta.iceberg.rows.deleted_rows import DeleteStore, deleted_rows, read_ahead
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.row_sort import SortKey

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask

SCHEMA: Final = arrow_schema(POSITION_DELETE_FIELDS)
_KEYS: Final = (SortKey(SCHEMA.names[0]), SortKey(SCHEMA.names[1]))
_ROWS_AT_ONCE: Final = 1 << 28  # of data files whose deleted rows are compared together, a bit each


def write_unit(job: DeleteJob, unit: DeleteUnit, attempt: int = 0) -> WrittenDeletes:
    """Write the new delete files of a unit; names are unique for (uuid, unit, attempt).

    Raises CorruptMetadataError if a file is not what the metadata says, or the new files would delete other rows.
    """
    return _UnitWrite(job, unit).run(attempt)


class _UnitWrite:
    """One attempt at one unit."""

    def __init__(self, job: DeleteJob, unit: DeleteUnit) -> None:
        self.job, self.unit, self.keys = job, unit, unit.keys
        self.store = DeleteStore.of(job.storage)
        self.touched: set[str] = set()
        self.by_equality: dict[str, DeletedRows] = {}

    def run(self, attempt: int) -> WrittenDeletes:
        if not self.unit.tasks:
            return WrittenDeletes(self.unit.number, (), self.unit.deletes, frozenset())
        writer = delete_writer(self.job, self.unit, attempt)
        try:
            budget, folder = self.job.memory // 2, self.job.spill_directory
            for table in sort_batches(self._rows(), _KEYS, budget=budget, directory=folder):
                writer.write(table)
            files, removed = tuple(writer.close()), self._removed()
            check_same_rows(self.unit.tasks, self._after(files, removed), self.by_equality, self.store)
        except BaseException:
            writer.abandon()
            door = data_door(self.job.storage, self.job.metadata, self.job.uuid)
            with suppress(LakemetaError):  # what went wrong first counts, and strays are looked for once more
                door.delete_files([store_path(self.job.storage.scheme, path) for path in writer.paths])
            raise
        return WrittenDeletes(self.unit.number, files, removed, frozenset(self.touched))

    def _rows(self) -> Iterator[pa.RecordBatch]:
        """The rows that the new files are to name; what is touched is known once the replaced files are read."""
        users = _users(self.unit.tasks)
        mine = [delete for delete in self.unit.deletes if names_rows(delete) and file_key(delete) in users]
        for batch in self._named(mine, users):
            self.touched.update(pc.unique(batch.column(0)).to_pylist())
            yield batch
        yield from self._equal()
        if self.job.writes_vectors:
            others = {file_key(d): d for task in self.unit.tasks for d in task.deletes if names_rows(d)}
            near = {key: users[key] & self.touched for key in others.keys() - self.keys}
            yield from self._named([delete for key, delete in others.items() if near.get(key)], near)

    def _equal(self) -> Iterator[pa.RecordBatch]:
        """The rows that the equality deletes of the unit delete, and no position delete does."""
        if all(map(names_rows, self.unit.deletes)):
            return
        for task, rows in EqualityScan(self.job, self.unit, self.store).rows():
            path = task.data_file.file_path
            found = self.by_equality.setdefault(path, DeletedRows(task.data_file.record_count))
            found.add_positions(rows.to_pylist())
            self.touched.add(path)
            paths = pa.repeat(pa.scalar(path, pa.string()), len(rows))
            yield pa.RecordBatch.from_arrays([paths, rows], schema=SCHEMA)

    def _named(
        self, deletes: Sequence[DataFile], users: Mapping[FileKey, AbstractSet[str]]
    ) -> Iterator[pa.RecordBatch]:
        """The rows that delete files name of those data files that are given for each of them."""
        for delete, batches in read_ahead(deletes, self.store):
            wanted = pa.array(sorted(users[file_key(delete)]), pa.string())
            for batch in batches:
                kept = batch.filter(pc.is_in(batch.column(0), value_set=wanted))
                if kept.num_rows:
                    yield pa.RecordBatch.from_arrays(kept.columns, schema=SCHEMA)

    def _removed(self) -> tuple[DataFile, ...]:
        """What leaves the table: the unit's files and, where vectors take their place, those of the touched files.

        Equality deletes are not among them: they may apply to data files of other units, too.
        """
        found = {file_key(delete): delete for delete in filter(names_rows, self.unit.deletes)}
        if self.job.writes_vectors:
            mine = (task for task in self.unit.tasks if task.data_file.file_path in self.touched)
            scoped = (delete for task in mine for delete in task.deletes if referenced_data_file(delete) is not None)
            found |= {file_key(delete): delete for delete in scoped}
        return tuple(found.values())

    def _after(self, files: Sequence[DataFile], removed: Sequence[DataFile]) -> list[FileScanTask]:
        """The data files with the deletes that a reader applies to them after the commit."""
        gone = frozenset(map(file_key, removed))
        scoped: dict[str, list[DataFile]] = {}
        for file in files:
            scoped.setdefault(referenced_data_file(file) or "", []).append(file)
        return [self._task_after(task, gone, scoped) for task in self.unit.tasks]

    def _task_after(
        self, task: FileScanTask, gone: AbstractSet[FileKey], new: dict[str, list[DataFile]]
    ) -> FileScanTask:
        mine = new.get(task.data_file.file_path, [])
        if any(file.is_deletion_vector for file in mine):
            return attrs.evolve(task, deletes=tuple(mine))
        kept = (delete for delete in task.deletes if file_key(delete) not in gone)
        newest = self.unit.sequence_number
        applied = mine + new.get("", []) if newest is None or newest >= task.sequence_number else []
        return attrs.evolve(task, deletes=(*kept, *applied))


def check_same_rows(
    before: Sequence[FileScanTask],
    after: Sequence[FileScanTask],
    by_equality: Mapping[str, DeletedRows],
    store: DeleteStore,
) -> None:
    """Raise CorruptMetadataError unless the new delete files delete the rows that are deleted now, and no other.

    That is by position, and by those equality deletes whose rows are given.
    """
    for start, end in _portions(before):
        pairs = [_without_common(*pair) for pair in zip(before[start:end], after[start:end], strict=True)]
        old, new = (deleted_rows(side, store) for side in zip(*pairs, strict=True))
        for task in before[start:end]:
            path, rows = task.data_file.file_path, task.data_file.record_count
            had, has = old.get(path) or DeletedRows(rows), new.get(path) or DeletedRows(rows)
            if path in by_equality:
                had.add(by_equality[path])
            if not had.equals(has):
                raise CorruptMetadataError(
                    f"{had.count} rows of {path} are deleted, and {has.count} or others would be by the new delete "
                    f"files; nothing was committed"
                )


def _without_common(one: FileScanTask, other: FileScanTask) -> tuple[FileScanTask, FileScanTask]:
    """A data file before and after, without the delete files that apply to it both times."""
    common = {file_key(d) for d in one.deletes} & {file_key(d) for d in other.deletes}
    sides = (tuple(d for d in task.deletes if file_key(d) not in common) for task in (one, other))
    before, after = (attrs.evolve(one, deletes=deletes) for deletes in sides)
    return before, after


def _portions(tasks: Sequence[FileScanTask]) -> Iterator[tuple[int, int]]:
    """Cut data files into portions of so many rows."""
    start = rows = 0
    for end, task in enumerate(tasks):
        if rows and rows + task.data_file.record_count > _ROWS_AT_ONCE:
            yield start, end
            start, rows = end, 0
        rows += task.data_file.record_count
    if start < len(tasks):
        yield start, len(tasks)


def _users(tasks: Iterable[FileScanTask]) -> dict[FileKey, set[str]]:
    """Which data files each delete file applies to."""
    found: dict[FileKey, set[str]] = {}
    for task in tasks:
        for delete in task.deletes:
            found.setdefault(file_key(delete), set()).add(task.data_file.file_path)
    return found

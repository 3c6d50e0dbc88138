"""Loads the delete files of a group of data files, each file once."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pyarrow as pa

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.arrow import arrow_schema
from lakemeta.iceberg.datafile_reader import WHOLE, open_data_file
from lakemeta.iceberg.delete_filter import (
    POSITION_DELETE_FIELDS,
    DeletedRows,
    EqualityDeletes,
    add_position_deletes,
    equality_deletes,
)
from lakemeta.iceberg.manifest import FileContent
from lakemeta.iceberg.projection import projection
from lakemeta.iceberg.puffin import deletion_vector

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from lakemeta.iceberg.manifest import DataFile
    from lakemeta.iceberg.metadata import TableMetadata
    from lakemeta.iceberg.scan import FileScanTask
    from lakemeta.iceberg.types import NestedField


@attrs.frozen
class DeleteStore:
    """How delete files are read: whole or by range, by the location that metadata gives."""

    open: Callable[[str], BinaryIO]
    read_range: Callable[[str, int, int], bytes]


def deleted_rows(tasks: Sequence[FileScanTask], store: DeleteStore) -> dict[str, DeletedRows]:
    """The rows deleted by position in each data file that has any such deletes, by the file's location."""
    found: dict[str, DeletedRows] = {}
    users: dict[str, tuple[DataFile, list[FileScanTask]]] = {}
    for task in tasks:
        for delete in task.deletes:
            if delete.content == FileContent.POSITION_DELETES:
                found.setdefault(task.data_file.file_path, DeletedRows(task.data_file.record_count))
                # Several deletion vectors lie in one Puffin file, so the offset is part of the name.
                users.setdefault(f"{delete.file_path} {delete.content_offset}", (delete, []))[1].append(task)
    for delete, applied_to in users.values():
        targets = {task.data_file.file_path: found[task.data_file.file_path] for task in applied_to}
        if delete.is_deletion_vector:
            _apply_vector(delete, targets, store)
        else:
            for batch in _read(delete, POSITION_DELETE_FIELDS, store):
                add_position_deletes(batch, targets)
    return found


def _apply_vector(delete: DataFile, targets: Mapping[str, DeletedRows], store: DeleteStore) -> None:
    offset, size = delete.content_offset, delete.content_size_in_bytes
    target = targets.get(delete.referenced_data_file or "")
    if offset is None or size is None or target is None:
        raise CorruptMetadataError(f"the manifest entry of deletion vector {delete.file_path} is not whole")
    blob = store.read_range(delete.file_path, offset, size)
    for start, bits in deletion_vector(blob, delete.file_path):
        target.add_bits(start, bits)


class EqualityDeleteCache:
    """The equality deletes of a group's delete files; sets that apply to several data files are made once."""

    def __init__(self, tasks: Sequence[FileScanTask], metadata: TableMetadata, store: DeleteStore, budget: int) -> None:
        """Load the keys of every equality delete file of the tasks; ``budget`` is in bytes."""
        self._budget = budget
        self._sets: dict[tuple[str, ...], list[EqualityDeletes]] = {}
        self._keys: dict[str, tuple[tuple[int, ...], pa.Table]] = {}
        self.fields: dict[int, NestedField] = {}
        self._left = budget
        for delete in (d for task in tasks for d in _equality(task)):
            if delete.file_path not in self._keys:
                self._keys[delete.file_path] = self._load(delete, metadata, store)

    def of(self, task: FileScanTask) -> list[EqualityDeletes]:
        """What deletes rows of one data file."""
        paths = tuple(delete.file_path for delete in _equality(task))
        if paths not in self._sets:
            parts = [self._keys[path] for path in paths]
            self._sets[paths] = equality_deletes(parts, budget=self._budget, where=task.data_file.file_path)
        return self._sets[paths]

    def _load(self, delete: DataFile, metadata: TableMetadata, store: DeleteStore) -> tuple[tuple[int, ...], pa.Table]:
        ids = tuple(sorted(delete.equality_ids or ()))
        if not ids:
            raise CorruptMetadataError(f"equality delete file {delete.file_path} names no columns")
        fields = [historic_field(metadata, i, delete.file_path) for i in ids]
        self.fields.update(zip(ids, fields, strict=True))
        batches = []
        for batch in _read(delete, fields, store):
            self._left -= batch.nbytes
            if self._left < 0:
                raise UnsupportedFeatureError(
                    f"the equality deletes up to {delete.file_path} take more than the {self._budget} bytes set "
                    f"aside for them; give the rewrite more memory"
                )
            batches.append(batch)
        return ids, pa.Table.from_batches(batches, schema=arrow_schema(fields))


def historic_field(metadata: TableMetadata, field_id: int, where: str) -> NestedField:
    """A column by id, from the current schema or the newest that had it."""
    others = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    for schema in (metadata.schema, *others):
        if (field := schema.field(field_id)) is not None:
            return attrs.evolve(field, required=False)
    raise CorruptMetadataError(f"{where} deletes by column id {field_id}, which no schema of the table has")


def _equality(task: FileScanTask) -> Iterator[DataFile]:
    return (delete for delete in task.deletes if delete.content == FileContent.EQUALITY_DELETES)


def _read(delete: DataFile, fields: Sequence[NestedField], store: DeleteStore) -> Iterator[pa.RecordBatch]:
    """The given columns of a delete file; they may lie in structs."""
    with store.open(delete.file_path) as source:
        file = open_data_file(delete.file_format, source, delete.file_path)
        plan = projection(file.schema, fields, where=delete.file_path)
        for batch in file.read(plan.columns, WHOLE):
            yield plan.apply(batch, 0, None)

"""Loads the delete files of a group of data files, each file once (I/O)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.manifests.delete_entries import referenced_data_file
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file, size_of
from lakemeta.iceberg.rows.delete_filter import (
    POSITION_DELETE_FIELDS,
    DeletedRows,
    EqualityDeletes,
    add_position_deletes,
    check_positions,
    equality_deletes,
    key_columns,
    key_fields,
)
from lakemeta.iceberg.rows.deletion_vectors import deletion_vector
from lakemeta.iceberg.rows.projection import lacking, projection
from lakemeta.iceberg.rows.row_account import check_size
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
    from typing import BinaryIO

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import NestedField
    from lakemeta.storage.contract import Storage

_MANY_ROWS: Final = 64 * 1024 * 1024  # 8 MiB of bits
_SMALL: Final = 16_384  # rows of a delete file that is read whole, ahead of its turn
_READERS: Final = 4
_AT_ONCE: Final = 8
_VECTOR_BYTES: Final = 2**31 - 1  # Iceberg reads no larger one (BaseDeleteLoader)


@attrs.frozen
class DeleteStore:
    """How delete files are read: whole or by range, by the location that metadata gives."""

    open: Callable[[str], BinaryIO]
    read_range: Callable[[str, int, int], bytes]

    @classmethod
    def of(cls, storage: Storage) -> DeleteStore:
        """Files of a table that lies in ``storage``."""
        scheme = storage.scheme
        return cls(
            lambda location: storage.open_input(store_path(scheme, location)),
            lambda location, start, size: storage.read_range(store_path(scheme, location), start, size),
        )


def deleted_rows(tasks: Sequence[FileScanTask], store: DeleteStore) -> dict[str, DeletedRows]:
    """The rows deleted by position in each data file that has any such deletes, by the file's location."""
    found: dict[str, DeletedRows] = {}
    users: dict[str, tuple[DataFile, list[FileScanTask]]] = {}
    for task in tasks:
        for delete in task.deletes:
            if delete.content == FileContent.POSITION_DELETES:
                if task.data_file.file_path not in found:
                    found[task.data_file.file_path] = _nothing_deleted(task.data_file, store)
                users.setdefault(_name(delete), (delete, []))[1].append(task)
    applied = {key: applied_to for key, (_, applied_to) in users.items()}
    vectors = [delete for delete, _ in users.values() if delete.is_deletion_vector]
    for delete in vectors:
        _apply_vector(delete, _targets(delete, applied, found), store)
    others = [delete for delete, _ in users.values() if not delete.is_deletion_vector]
    for delete, batches in read_ahead(others, store):
        targets = _targets(delete, applied, found)
        for batch in batches:
            add_position_deletes(batch, targets, delete.file_path)
    return found


def _targets(
    delete: DataFile, applied: Mapping[str, Sequence[FileScanTask]], found: Mapping[str, DeletedRows]
) -> dict[str, DeletedRows]:
    paths = [task.data_file.file_path for task in applied[_name(delete)]]
    return {path: found[path] for path in paths}


def _name(delete: DataFile) -> str:
    """What a delete file is known by. Several deletion vectors lie in one Puffin file, so the offset is part of it."""
    return f"{delete.file_path} {delete.content_offset}"


def read_ahead(deletes: Sequence[DataFile], store: DeleteStore) -> Iterator[tuple[DataFile, Iterable[pa.RecordBatch]]]:
    """Delete files with what :func:`position_rows` gives; small ones are read while earlier ones are worked on."""
    small = [delete for delete in deletes if delete.record_count <= _SMALL]
    for delete in deletes:
        if delete.record_count > _SMALL:
            yield delete, position_rows(delete, store)
    yield from LocalExecutor(_READERS).map_batches(partial(_read_whole, store), small, batch_size=_AT_ONCE)


def _read_whole(store: DeleteStore, deletes: Sequence[DataFile]) -> Iterator[tuple[DataFile, list[pa.RecordBatch]]]:
    for delete in deletes:
        yield delete, list(position_rows(delete, store))


def position_rows(delete: DataFile, store: DeleteStore) -> Iterator[pa.RecordBatch]:
    """What a position delete file or a deletion vector names: data file and row, as :data:`POSITION_DELETE_FIELDS`.

    Raises CorruptMetadataError if the file is not what its manifest entry says.
    """
    if delete.is_deletion_vector:
        schema = arrow_schema(POSITION_DELETE_FIELDS)
        for start, bits in _vector(delete, store):
            marks = pa.Array.from_buffers(pa.bool_(), 8 * len(bits), [None, pa.py_buffer(bits)])
            rows = pc.add(pc.indices_nonzero(marks).cast(pa.int64()), start)
            path = pa.repeat(pa.scalar(delete.referenced_data_file, pa.string()), len(rows))
            yield pa.RecordBatch.from_arrays([path, rows], schema=schema)
        return
    only = referenced_data_file(delete)
    for batch in _read(delete, POSITION_DELETE_FIELDS, store):
        check_positions(batch, delete.file_path)
        _check_scope(batch.column(0), only, delete.file_path)
        yield batch


def _check_scope(paths: pa.Array, only: str | None, where: str) -> None:
    """Raise CorruptMetadataError if a delete file that says it is about one data file names another one."""
    others = [] if only is None else pc.unique(paths.filter(pc.not_equal(paths, only))).to_pylist()
    if others:
        raise CorruptMetadataError(
            f"the position delete file {where} names rows of {others[0]}, and its manifest entry says that all are of "
            f"{only}; nothing was rewritten"
        )


def _nothing_deleted(file: DataFile, store: DeleteStore) -> DeletedRows:
    """Room for the deleted rows of a data file. Before it takes much memory, the file is asked how many it has."""
    if file.record_count > _MANY_ROWS:
        with store.open(file.file_path) as source:
            rows = open_data_file(file.file_format, source, file.file_path).rows
            size = size_of(source)
        # A file that does not say (Avro) has at least a byte for each row.
        if rows != file.record_count and (rows is not None or size < file.record_count):
            found = f"{size} bytes" if rows is None else f"{rows} rows"
            raise CorruptMetadataError(
                f"{file.file_path} has {found} and its manifest entry says that it has {file.record_count} rows"
            )
    return DeletedRows(file.record_count)


def _apply_vector(delete: DataFile, targets: Mapping[str, DeletedRows], store: DeleteStore) -> None:
    target = targets.get(delete.referenced_data_file or "")
    for start, bits in _vector(delete, store):
        if target is not None:
            target.add_bits(start, bits)


def _vector(delete: DataFile, store: DeleteStore) -> Iterator[tuple[int, bytes]]:
    """The bitmap of a deletion vector, as ``deletion_vector`` gives it; it names as many rows as its entry says."""
    offset, size = delete.content_offset, delete.content_size_in_bytes
    if offset is None or size is None or delete.referenced_data_file is None:
        raise CorruptMetadataError(f"the manifest entry of deletion vector {delete.file_path} is not whole")
    if offset < 0 or not 0 < size <= _VECTOR_BYTES:
        raise CorruptMetadataError(f"the deletion vector in {delete.file_path} cannot have {size} bytes at {offset}")
    blob = store.read_range(delete.file_path, offset, size)
    rows = 0
    for start, bits in deletion_vector(blob, delete.file_path):
        rows += int.from_bytes(bits, "little").bit_count()
        if rows > delete.record_count:
            break
        yield start, bits
    if rows != delete.record_count:
        raise CorruptMetadataError(
            f"the deletion vector of {delete.referenced_data_file} in {delete.file_path} names {rows} rows"
            f"{' or more' if rows > delete.record_count else ''}, and its manifest entry says {delete.record_count}"
        )


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
        ids = tuple(sorted(set(delete.equality_ids or ())))
        if not ids:
            raise CorruptMetadataError(f"equality delete file {delete.file_path} names no columns")
        self.fields |= {i: _dropped(metadata, i, delete.file_path) for i in ids if metadata.schema.field(i) is None}
        schema = Schema((*key_fields(metadata.schema.fields, ids), *(self.fields[i] for i in ids if i in self.fields)))
        empty = pa.RecordBatch.from_pylist([], schema=arrow_schema(schema.fields))
        keys = [_table(key_columns(empty, schema, ids))]
        for batch in _read(delete, schema.fields, store):
            keys.append(_table(key_columns(batch, schema, ids)))
            self._left -= keys[-1].nbytes
            if self._left < 0:
                raise UnsupportedFeatureError(
                    f"the equality deletes up to {delete.file_path} take more than the {self._budget} bytes set "
                    f"aside for them; give the rewrite more memory"
                )
        return ids, pa.concat_tables(keys)


def _table(columns: Sequence[pa.Array]) -> pa.Table:
    return pa.Table.from_arrays(columns, names=[str(n) for n in range(len(columns))])


def _dropped(metadata: TableMetadata, field_id: int, where: str) -> NestedField:
    """A column by id that the current schema lacks, from the newest schema that had it."""
    schemas = sorted(metadata.schemas, key=lambda schema: schema.schema_id, reverse=True)
    found = next((schema for schema in schemas if schema.field(field_id) is not None), None)
    if found is None:
        raise CorruptMetadataError(f"{where} deletes by column id {field_id}, which no schema of the table has")
    column = next((field for field in found.fields if field.field_id == field_id), None)
    if column is None:
        raise UnsupportedFeatureError(
            f"{where} deletes by {found.names[field_id]}, a field of a struct that was dropped, so Iceberg reads no "
            f"values of it; nothing was rewritten"
        )
    return attrs.evolve(column, required=False)


def _equality(task: FileScanTask) -> Iterator[DataFile]:
    return (delete for delete in task.deletes if delete.content == FileContent.EQUALITY_DELETES)


def _read(delete: DataFile, fields: Sequence[NestedField], store: DeleteStore) -> Iterator[pa.RecordBatch]:
    """The given columns of a delete file, which must have all of them, also those in structs.

    Raises CorruptMetadataError unless it has the bytes and rows that its manifest entry says.
    """
    rows = 0
    with store.open(delete.file_path) as source:
        check_size(delete, size_of(source))
        file = open_data_file(delete.file_format, source, delete.file_path)
        plan = projection(file.schema, fields, where=delete.file_path)
        if missing := lacking(file.schema, fields):
            raise CorruptMetadataError(f"the delete file {delete.file_path} lacks the column {missing}")
        for batch in file.read(plan.columns, WHOLE):
            rows += batch.num_rows
            if rows > delete.record_count:
                break
            yield plan.apply(batch, 0, None)
    if rows != delete.record_count:
        raise CorruptMetadataError(
            f"the delete file {delete.file_path} has {rows} rows{' or more' if rows > delete.record_count else ''} and "
            f"its manifest entry says {delete.record_count}; "
            f"nothing was rewritten"
        )

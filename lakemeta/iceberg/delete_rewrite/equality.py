"""Which rows equality deletes delete, by their positions in data files (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.manifests.entries import file_key
from lakemeta.iceberg.rows.delete_filter import key_columns, key_fields
from lakemeta.iceberg.rows.deleted_rows import EqualityDeleteCache, deleted_rows
from lakemeta.iceberg.rows.projected_files import ProjectedFiles, with_dropped

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.iceberg.delete_rewrite.units import DeleteJob, DeleteUnit
    from lakemeta.iceberg.rows.deleted_rows import DeleteStore
    from lakemeta.iceberg.scan.file_tasks import FileScanTask


class EqualityScan:
    """Reads the compared columns of a unit's data files, and finds the rows that its equality deletes delete."""

    def __init__(self, job: DeleteJob, unit: DeleteUnit, store: DeleteStore) -> None:
        """Load the keys of the equality deletes, and what is deleted by position already."""
        self._store, metadata = store, job.metadata
        self._positions = deleted_rows(unit.tasks, store)
        keys = unit.keys
        self._tasks = [
            attrs.evolve(task, deletes=tuple(d for d in task.deletes if file_key(d) in keys)) for task in unit.tasks
        ]
        self._deletes = EqualityDeleteCache(self._tasks, metadata, store, job.memory // 2)
        ids = {i for task in self._tasks for delete in task.deletes for i in delete.equality_ids or ()}
        compared = attrs.evolve(metadata.schema, fields=key_fields(metadata.schema.fields, sorted(ids)))
        self._schema = with_dropped(compared, self._deletes.fields)
        self._files = ProjectedFiles.of_table(metadata, self._schema)

    def rows(self) -> Iterator[tuple[FileScanTask, pa.Array]]:
        """Data files with positions, ascending, of rows that the equality deletes delete, and no position delete."""
        for task in self._tasks:
            for rows in self._of(task):
                if len(rows):
                    yield task, rows

    def _of(self, task: FileScanTask) -> Iterator[pa.Array]:
        file, position = task.data_file, 0
        named = self._positions.get(file.file_path)
        with self._store.open(file.file_path) as source:
            for batch in self._files.batches(file, source):
                gone = self._deleted(batch, task)
                alive = named.keep(position, batch.num_rows) if named else None
                if alive is not None:
                    gone = pc.and_(gone, alive)
                yield pc.add(pc.indices_nonzero(gone).cast(pa.int64()), position)
                position += batch.num_rows

    def _deleted(self, batch: pa.RecordBatch, task: FileScanTask) -> pa.BooleanArray:
        gone = pa.repeat(pa.scalar(False), batch.num_rows)
        for deletes in self._deletes.of(task):
            gone = pc.or_(gone, pc.invert(deletes.keep(key_columns(batch, self._schema, deletes.field_ids))))
        return gone

"""Which rows equality deletes delete, by their positions in data files (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.entries import file_key
from lakemeta.iceberg.rewrite.group_rewriter import with_dropped
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file, size_of
from lakemeta.iceberg.rows.delete_filter import key_columns, key_fields
from lakemeta.iceberg.rows.deleted_rows import EqualityDeleteCache, deleted_rows
from lakemeta.iceberg.rows.live_rows import identity_values
from lakemeta.iceberg.rows.projection import projection
from lakemeta.iceberg.rows.row_account import check_size
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.schema import Schema, name_mapping_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.iceberg.delete_rewrite.units import DeleteJob, DeleteUnit
    from lakemeta.iceberg.rows.deleted_rows import DeleteStore
    from lakemeta.iceberg.scan.file_tasks import FileScanTask


class EqualityScan:
    """Reads the compared columns of a unit's data files, and finds the rows that its equality deletes delete."""

    def __init__(self, job: DeleteJob, unit: DeleteUnit, store: DeleteStore) -> None:
        """Load the keys of the equality deletes, and what is deleted by position already."""
        self._job, metadata = job, job.metadata
        self._positions = deleted_rows(unit.tasks, store)
        keys = unit.keys
        self._tasks = [
            attrs.evolve(task, deletes=tuple(d for d in task.deletes if file_key(d) in keys)) for task in unit.tasks
        ]
        self._deletes = EqualityDeleteCache(self._tasks, metadata, store, job.memory // 2)
        ids = {i for task in self._tasks for delete in task.deletes for i in delete.equality_ids or ()}
        compared = attrs.evolve(metadata.schema, fields=key_fields(metadata.schema.fields, sorted(ids)))
        self._schema = with_dropped(compared, self._deletes.fields)
        mapping = metadata.properties.get("schema.name-mapping.default")
        self._name_mapping = None if mapping is None else name_mapping_from_json(mapping)

    def rows(self) -> Iterator[tuple[FileScanTask, pa.Array]]:
        """Data files with positions, ascending, of rows that the equality deletes delete, and no position delete."""
        for task in self._tasks:
            for rows in self._of(task):
                if len(rows):
                    yield task, rows

    def _of(self, task: FileScanTask) -> Iterator[pa.Array]:
        file, position = task.data_file, 0
        named = self._positions.get(file.file_path)
        with self._job.storage.open_input(store_path(self._job.storage.scheme, file.file_path)) as source:
            check_size(file, size_of(source))
            opened = open_data_file(file.file_format, source, file.file_path)
            plan = projection(
                opened.schema,
                self._schema.fields,
                where=file.file_path,
                constants=identity_values(self._job.metadata.specs_by_id.get(file.spec_id), file.partition),
                name_mapping=self._name_mapping,
            )
            for raw in opened.read(plan.columns, WHOLE):
                gone = self._deleted(plan.apply(raw, position, None), task, self._schema)
                alive = named.keep(position, raw.num_rows) if named else None
                if alive is not None:
                    gone = pc.and_(gone, alive)
                yield pc.add(pc.indices_nonzero(gone).cast(pa.int64()), position)
                position += raw.num_rows
        if position != file.record_count:
            raise CorruptMetadataError(
                f"{file.file_path} has {position} rows and its manifest entry says {file.record_count}; nothing was "
                f"committed"
            )

    def _deleted(self, batch: pa.RecordBatch, task: FileScanTask, schema: Schema) -> pa.BooleanArray:
        gone = pa.repeat(pa.scalar(False), batch.num_rows)
        for deletes in self._deletes.of(task):
            gone = pc.or_(gone, pc.invert(deletes.keep(key_columns(batch, schema, deletes.field_ids))))
        return gone

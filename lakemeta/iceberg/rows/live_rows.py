"""The live rows of data files, some columns of them: what deletes take is left out (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.iceberg.rows.delete_filter import key_columns, value_columns
from lakemeta.iceberg.rows.deleted_rows import DeleteStore, EqualityDeleteCache, deleted_rows
from lakemeta.iceberg.rows.projected_files import ProjectedFiles, with_dropped
from lakemeta.iceberg.spec.schema import Schema

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import NestedField
    from lakemeta.storage.contract import Storage

_DELETES: Final = 256 * 1024 * 1024  # bytes of equality deletes held at a time


@attrs.frozen
class LiveRows:
    """Reads columns of primitive types, by the ids that they or the fields in structs have in the current schema."""

    storage: Storage
    metadata: TableMetadata
    field_ids: tuple[int, ...]

    def of(self, tasks: Sequence[FileScanTask]) -> Iterator[list[pa.Array]]:
        """The columns, batch by batch.

        Raises CorruptMetadataError for a file that is not what its manifest entry says.
        """
        store = DeleteStore.of(self.storage)
        positions = deleted_rows(tasks, store)
        equality = EqualityDeleteCache(tasks, self.metadata, store, _DELETES)
        for task in tasks:
            file = task.data_file
            deletes, named = equality.of(task), positions.get(file.file_path)
            keys = {field_id for sets in deletes for field_id in sets.field_ids}
            schema = self._schema(keys, equality.fields)
            files, position = ProjectedFiles.of_table(self.metadata, schema), 0
            with store.open(file.file_path) as source:
                for batch in files.batches(file, source):
                    rows = batch.num_rows
                    keep = named.keep(position, rows) if named else None
                    for sets in deletes:
                        kept = sets.keep(key_columns(batch, schema, sets.field_ids))
                        keep = kept if keep is None else pc.and_(keep, kept)
                    position += rows
                    yield value_columns(batch if keep is None else batch.filter(keep), schema, self.field_ids)

    def _schema(self, keys: Collection[int], dropped: Mapping[int, NestedField]) -> Schema:
        """The columns to read: those asked for, those that deletes compare, and dropped ones that only deletes need."""
        wanted = {*self.field_ids, *keys}
        fields = [f for f in self.metadata.schema.fields if wanted & Schema((f,)).by_id.keys()]
        return with_dropped(Schema(tuple(fields)), {i: f for i, f in dropped.items() if i in keys})

"""The live rows of data files, some columns of them: what deletes take is left out (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO, Final

import attrs
import pyarrow as pa
import pyarrow.compute as pc

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file, size_of
from lakemeta.iceberg.rows.delete_filter import key_columns, value_columns
from lakemeta.iceberg.rows.deleted_rows import DeleteStore, EqualityDeleteCache, deleted_rows
from lakemeta.iceberg.rows.projection import projection
from lakemeta.iceberg.rows.row_account import check_size
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.schema import Schema, name_mapping_from_json

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import NestedField, Value
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
        store = DeleteStore(self._open, self._read_range)
        positions = deleted_rows(tasks, store)
        equality = EqualityDeleteCache(tasks, self.metadata, store, _DELETES)
        for task in tasks:
            file = task.data_file
            deletes, named = equality.of(task), positions.get(file.file_path)
            keys = {field_id for sets in deletes for field_id in sets.field_ids}
            schema = self._schema(keys, equality.fields.values())
            position = 0
            for batch in self._batches(task, schema):
                rows = batch.num_rows
                keep = named.keep(position, rows) if named else None
                for sets in deletes:
                    kept = sets.keep(key_columns(batch, schema, sets.field_ids))
                    keep = kept if keep is None else pc.and_(keep, kept)
                position += rows
                yield value_columns(batch if keep is None else batch.filter(keep), schema, self.field_ids)
            if position != file.record_count:
                raise CorruptMetadataError(
                    f"{file.file_path} has {position} rows and its manifest entry says {file.record_count}"
                )

    def _schema(self, keys: Collection[int], dropped: Collection[NestedField]) -> Schema:
        """The columns to read: those asked for, those that deletes compare, and dropped ones that only deletes need."""
        wanted = {*self.field_ids, *keys}
        fields = [f for f in self.metadata.schema.fields if wanted & Schema((f,)).by_id.keys()]
        lost = [attrs.evolve(f, name=f"\0dropped {f.field_id}") for f in dropped if f.field_id in keys]
        return Schema((*fields, *lost))

    def _batches(self, task: FileScanTask, schema: Schema) -> Iterator[pa.RecordBatch]:
        file = task.data_file
        mapping = self.metadata.properties.get("schema.name-mapping.default")
        with self._open(file.file_path) as source:
            check_size(file, size_of(source))
            opened = open_data_file(file.file_format, source, file.file_path)
            plan = projection(
                opened.schema,
                schema.fields,
                where=file.file_path,
                constants=identity_values(self.metadata.specs_by_id.get(file.spec_id), file.partition),
                name_mapping=None if mapping is None else name_mapping_from_json(mapping),
            )
            for batch in opened.read(plan.columns, WHOLE):
                yield plan.apply(batch, 0, None)

    def _open(self, location: str) -> BinaryIO:
        return self.storage.open_input(store_path(self.storage.scheme, location))

    def _read_range(self, location: str, start: int, length: int) -> bytes:
        return self.storage.read_range(store_path(self.storage.scheme, location), start, length)


def identity_values(spec: PartitionSpec | None, partition: tuple[Value, ...]) -> dict[int, Value]:
    """The values of columns that a file's partition gives for all of its rows, by column id."""
    if spec is None:
        return {}
    pairs = zip(spec.fields, partition, strict=True)
    return {field.source_id: value for field, value in pairs if field.transform.name == "identity"}

"""Data files of a table, opened as columns of one schema (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, BinaryIO

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.rows.data_files import WHOLE, open_data_file, size_of
from lakemeta.iceberg.rows.projection import projection
from lakemeta.iceberg.rows.row_account import check_size
from lakemeta.iceberg.spec.schema import Schema, name_mapping_from_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    import pyarrow as pa

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rows.data_files import OpenFile
    from lakemeta.iceberg.rows.projection import Projection
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.schema import MappedField
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import NestedField


@attrs.frozen
class ProjectedFiles:
    """Opens data files written with any schema and spec of a table as columns of ``schema``."""

    schema: Schema
    specs: Mapping[int, PartitionSpec]
    name_mapping: tuple[MappedField, ...] | None

    @classmethod
    def of_table(cls, metadata: TableMetadata, schema: Schema) -> ProjectedFiles:
        """Files of a table, whose name mapping finds the columns of those without field ids."""
        text = metadata.properties.get("schema.name-mapping.default")
        return cls(schema, metadata.specs_by_id, None if text is None else name_mapping_from_json(text))

    def open(self, file: DataFile, source: BinaryIO | bytes) -> tuple[OpenFile, Projection]:
        """A file, and the way from its batches to those of the schema.

        Raises CorruptMetadataError if it is not as large as its manifest entry says or does not parse,
        UnsupportedFeatureError for a format or columns that cannot be read.
        """
        check_size(file, size_of(source))
        opened = open_data_file(file.file_format, source, file.file_path)
        spec = self.specs.get(file.spec_id)
        constants = {} if spec is None else spec.identity_values(file.partition)
        where, fields = file.file_path, self.schema.fields
        return opened, projection(
            opened.schema, fields, where=where, constants=constants, name_mapping=self.name_mapping
        )

    def batches(self, file: DataFile, source: BinaryIO) -> Iterator[pa.RecordBatch]:
        """All rows of a file; raises as :meth:`open`, and at the end if they are not as many as its entry says."""
        opened, plan = self.open(file, source)
        rows = 0
        for batch in opened.read(plan.columns, WHOLE):
            yield plan.apply(batch, rows, None)
            rows += batch.num_rows
        if rows != file.record_count:
            raise CorruptMetadataError(
                f"{file.file_path} has {rows} rows and its manifest entry says {file.record_count}; nothing was "
                f"committed"
            )


def with_dropped(schema: Schema, keys: Mapping[int, NestedField]) -> Schema:
    """The schema and, behind its columns, columns that only equality deletes still need."""
    dropped = [attrs.evolve(field, name=f"\0dropped {i}") for i, field in keys.items() if schema.field(i) is None]
    return attrs.evolve(schema, fields=(*schema.fields, *dropped))

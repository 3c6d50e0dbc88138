"""One-line Iceberg values for tests: tables, files, tasks."""

from __future__ import annotations

from typing import Any

from lakemeta.iceberg.manifests.entries import DataFile, EntryStatus, FileContent, ManifestEntry
from lakemeta.iceberg.scan.file_tasks import FileScanTask
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import DATE, DOUBLE, LONG, STRING, TIMESTAMPTZ, NestedField, StructType

SCHEMA = Schema(
    (
        NestedField(1, "id", LONG, required=True),
        NestedField(2, "name", STRING),
        NestedField(3, "ts", TIMESTAMPTZ),
        NestedField(4, "v", DOUBLE),
        NestedField(5, "d", DATE),
        NestedField(6, "s", StructType((NestedField(7, "x", LONG), NestedField(8, "y.z", STRING)))),
    )
)


def spec(*fields: tuple[int, str], spec_id: int = 0) -> PartitionSpec:
    """A partition spec of (source id, transform) pairs."""
    made = (PartitionField(source, 1000 + i, f"p{i}", Transform.parse(text)) for i, (source, text) in enumerate(fields))
    return PartitionSpec(spec_id, tuple(made))


def table(*specs: PartitionSpec, format_version: int = 2, schema: Schema = SCHEMA, **more: Any) -> TableMetadata:
    """Metadata of an empty table; the last spec is the default one."""
    known = specs or (PartitionSpec(0),)
    return TableMetadata(
        format_version=format_version,
        table_uuid="b6c8e1fe-4191-4710-b5df-8658d1ee6c82",
        location="/warehouse/t",
        last_updated_ms=1_700_000_000_000,
        last_column_id=max(schema.by_id),
        schemas=(schema,),
        current_schema_id=schema.schema_id,
        partition_specs=known,
        default_spec_id=known[-1].spec_id,
        last_partition_id=1000 + max(len(s.fields) for s in known) - 1,
        sort_orders=(SortOrder(0),),
        default_sort_order_id=0,
        next_row_id=0 if format_version >= 3 else None,
        **more,
    )


def data_file(name: str = "f", size: int = 100, records: int = 10, **more: Any) -> DataFile:
    """A Parquet data file of an unpartitioned table, unless said otherwise."""
    known = {"content": FileContent.DATA, "file_format": "PARQUET", "spec_id": 0, "partition": ()} | more
    return DataFile(file_path=f"/warehouse/t/data/{name}", file_size_in_bytes=size, record_count=records, **known)


def delete_file(name: str, content: FileContent = FileContent.POSITION_DELETES, **more: Any) -> DataFile:
    """A delete file."""
    return data_file(name, content=content, **more)


def task(file: DataFile, sequence: int = 1, *deletes: DataFile) -> FileScanTask:
    """A scan task."""
    return FileScanTask(file, sequence, deletes)


def added(file: DataFile, sequence: int | None = 1) -> ManifestEntry:
    """A live entry with this data sequence number."""
    return ManifestEntry(EntryStatus.ADDED, 1, sequence, sequence, file)

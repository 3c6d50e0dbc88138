"""Files of partition statistics: rows in Parquet, and back (spec: "Partition Statistics File").

Columns are known by their field ids. Files of tables before version 3 have no ``dv_count``.
"""

from __future__ import annotations

import io
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.parquet as pq

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.rows.arrow import arrow_type, field_id, parquet_schema
from lakemeta.iceberg.spec.types import INT, LONG, NestedField, StructType
from lakemeta.iceberg.statistics.partition_counts import PartitionRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.spec.types import Type, Value

_ALWAYS: Final = ("spec_id", "data_record_count", "data_file_count", "total_data_file_size_in_bytes")
_SINCE_3: Final = (
    "position_delete_record_count",
    "position_delete_file_count",
    "equality_delete_record_count",
    "equality_delete_file_count",
)
_NULLABLE: Final = ("total_record_count", "last_updated_at", "last_updated_snapshot_id")
_NAMES: Final = ("partition", *_ALWAYS, *_SINCE_3, *_NULLABLE, "dv_count")  # their field ids count up from 1
_INTS: Final = frozenset(
    ("spec_id", "data_file_count", "position_delete_file_count", "equality_delete_file_count", "dv_count")
)


def fields_of(partition: StructType, format_version: int) -> tuple[NestedField, ...]:
    """The columns of a file for a table of this version (Iceberg's PartitionStatistics.schema)."""
    required = {*_ALWAYS, *((*_SINCE_3, "dv_count") if format_version > 2 else ())}
    counts = _NAMES[1:] if format_version > 2 else _NAMES[1:-1]
    return (
        NestedField(1, "partition", partition, required=True),
        *(NestedField(i, n, INT if n in _INTS else LONG, required=n in required) for i, n in enumerate(counts, 2)),
    )


def write_rows(rows: Sequence[PartitionRow], partition: StructType, format_version: int) -> bytes:
    """The bytes of a statistics file, with the rows in their order.

    Raises CorruptMetadataError for a partition whose values are not of the struct's types, as damaged specs give it.
    """
    schema = parquet_schema(fields_of(partition, format_version))
    columns: list[pa.Array] = [_partitions([row.partition for row in rows], partition, schema.field(0).type)]
    columns += [pa.array([getattr(row, f.name) for row in rows], f.type) for f in list(schema)[1:]]
    out = io.BytesIO()
    pq.write_table(pa.Table.from_arrays(columns, schema=schema), out, compression="zstd", store_schema=False)
    return out.getvalue()


def read_rows(data: bytes, partition: StructType, path: str) -> list[PartitionRow]:
    """The rows of a statistics file, with partitions of the struct ``partition``; fields the file lacks are null.

    Raises CorruptMetadataError if it is no statistics file.
    """
    try:
        table = pq.ParquetFile(pa.BufferReader(data)).read()
        columns = {field_id(field): table.column(i).combine_chunks() for i, field in enumerate(table.schema)}
        found = {name: columns[i].to_pylist() for i, name in enumerate(_NAMES, 1) if i > 1 and i in columns}
        rows = zip(*found.values(), strict=True)
        parts = _parts(columns[1], partition)
        return [
            PartitionRow(part, **dict(zip(found, values, strict=True)))
            for part, values in zip(parts, rows, strict=True)
        ]
    except (pa.ArrowException, KeyError, TypeError, ValueError, AttributeError, OSError) as error:
        raise CorruptMetadataError(f"{path} is no file of partition statistics: {error}") from error


def _partitions(partitions: Sequence[tuple[Value, ...]], struct: StructType, kind: Any) -> pa.Array:
    arrays = []
    for at, field in enumerate(struct.fields):
        plain = _array([partition[at] for partition in partitions], field)
        marked = kind.field(at).type
        arrays.append(plain if plain.type == marked else pa.ExtensionArray.from_storage(marked, plain))
    return pa.StructArray.from_arrays(arrays, fields=list(kind))


def _array(values: Sequence[Value], field: NestedField) -> pa.Array:
    try:
        return pa.array(values, arrow_type(field.type))
    except (pa.ArrowException, TypeError, ValueError, OverflowError) as error:
        raise CorruptMetadataError(
            f"a manifest has a value of the partition field {field.name} that is no {field.type} ({error}); no "
            f"statistics were written"
        ) from None


def _parts(column: pa.StructArray, struct: StructType) -> list[tuple[Value, ...]]:
    by_id = {field_id(column.type.field(i)): column.field(i) for i in range(column.type.num_fields)}
    rows = len(column)
    values = [_plain(by_id[f.field_id], f.type) if f.field_id in by_id else [None] * rows for f in struct.fields]
    return list(zip(*values, strict=True))


def _plain(array: pa.Array, kind: Type) -> list[Value]:
    """The values of a column as they stand in partition tuples: times as numbers, uuids as bytes."""
    if isinstance(array, pa.ExtensionArray):
        array = array.storage
    array = array.cast(arrow_type(kind))
    if pa.types.is_date(array.type):
        array = array.view(pa.int32())
    elif pa.types.is_temporal(array.type):
        array = array.view(pa.int64())
    values: list[Value] = array.to_pylist()
    return values

"""Writing the entries of manifests: values, or records copied from other manifests, into Avro."""

from __future__ import annotations

from functools import lru_cache
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.avro_schemas import as_encoded, avro_name, avro_record, manifest_entry_type
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.types import DecimalType, NestedField, StructType, Type, Value, decimal_bytes

if TYPE_CHECKING:
    from lakemeta.iceberg.manifests.entries import Head, ManifestEntry
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

MAPS: Final = (
    "column_sizes",
    "value_counts",
    "null_value_counts",
    "nan_value_counts",
    "lower_bounds",
    "upper_bounds",
)
LISTS: Final = ("split_offsets", "equality_ids")
OTHERS: Final = (
    "key_metadata",
    "sort_order_id",
    "first_row_id",
    "referenced_data_file",
    "content_offset",
    "content_size_in_bytes",
)
_BLOCK_SIZE: Final = 64 * 1024 * 1024  # what version 1 manifests say of every file


@attrs.frozen
class EntryLayout:
    """How the entries of a partition spec are written.

    ``struct`` is their Iceberg type, ``schema`` the Avro schema; manifests whose schemas have the same ``canonical``
    form hold the same bytes for the same files. ``encoding`` is the schema that encodes them, which differs for
    partition values of type fixed (``as_encoded``). ``names`` are the partition fields' in Avro.
    """

    format_version: int
    partition: StructType
    names: tuple[str, ...]
    struct: StructType
    schema: str
    canonical: str
    encoding: str

    @classmethod
    def of(cls, metadata: TableMetadata, spec_id: int) -> EntryLayout:
        """The layout of new manifests of a table."""
        pairs = zip(metadata.specs_by_id[spec_id].fields, metadata.partition_types(spec_id), strict=True)
        partition = StructType(tuple(NestedField(f.field_id, f.name, kind) for f, kind in pairs))
        return _layout(metadata.format_version, partition)

    def encode(self, entry: ManifestEntry) -> bytes:
        """An entry in Avro, its file as it was stored in another manifest, if it comes from one.

        Raises CorruptMetadataError if that had another layout, or has values that are none of the table's types.
        """
        stored = entry.stored
        if stored is None:
            try:
                return avro.write_datum(self.encoding, _entry_record(entry, self))
            except (ValueError, TypeError, ArithmeticError) as error:
                path = entry.data_file.file_path
                raise CorruptMetadataError(f"the manifest entry of {path} does not fit the table: {error}") from error
        if stored.layout != self.canonical:
            raise CorruptMetadataError(f"{entry.data_file.file_path} was stored in another layout than it is moved to")
        numbers = (entry.snapshot_id, entry.sequence_number, entry.file_sequence_number)
        return self.encode_head((entry.status, *numbers)) + stored.data

    def encode_head(self, head: Head) -> bytes:
        """What comes before an entry's file."""
        status, snapshot_id, *sequences = head
        numbers = (snapshot_id, *(sequences if self.format_version > 1 else ()))
        return b"".join([avro.encode_long(status), *map(_optional, numbers)])


@lru_cache(maxsize=64)
def _layout(format_version: int, partition: StructType) -> EntryLayout:
    struct = manifest_entry_type(format_version, partition)
    names = tuple(avro_name(field.name) for field in partition.fields)
    record = avro_record("manifest_entry", struct)
    schema, encoding = avro.schema_text(record), avro.schema_text(as_encoded(record))
    return EntryLayout(format_version, partition, names, struct, schema, avro.canonical(schema), encoding)


def _optional(number: int | None) -> bytes:
    return b"\x00" if number is None else b"\x02" + avro.encode_long(number)


def _entry_record(entry: ManifestEntry, layout: EntryLayout) -> dict[str, Any]:
    file = entry.data_file
    record: dict[str, Any] = {name: getattr(file, name) for name in OTHERS}
    for name in MAPS:
        metrics = getattr(file, name)
        record[name] = None if metrics is None else [{"key": k, "value": v} for k, v in metrics.items()]
    for name in LISTS:
        numbers = getattr(file, name)
        record[name] = None if numbers is None else list(numbers)
    encoded = [_partition_value(f.type, v) for f, v in zip(layout.partition.fields, file.partition, strict=True)]
    record |= {
        "content": int(file.content),
        "file_path": file.file_path,
        "file_format": file.file_format,
        "partition": dict(zip(layout.names, encoded, strict=True)),
        "record_count": file.record_count,
        "file_size_in_bytes": file.file_size_in_bytes,
        "block_size_in_bytes": _BLOCK_SIZE,
    }
    return {
        "status": int(entry.status),
        "snapshot_id": entry.snapshot_id,
        "sequence_number": entry.sequence_number,
        "file_sequence_number": entry.file_sequence_number,
        "data_file": record,
    }


def _partition_value(kind: Type, value: Value) -> Value:
    if value is None or not isinstance(kind, DecimalType):
        return value
    return values.unscaled_to_bytes(values.unscaled(value, kind), decimal_bytes(kind.precision))

"""The schemas of manifests and manifest lists, per format version, and Avro schemas of Iceberg types.

Field order, optionality, documentation and record names are those that Iceberg 1.12 writes (V1Metadata,
V2Metadata, V3Metadata, avro.TypeToSchema), so that files of ours are like the engine's.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.spec.types import (
    BINARY,
    BOOLEAN,
    INT,
    LONG,
    STRING,
    DecimalType,
    FixedType,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    decimal_bytes,
)

if TYPE_CHECKING:
    from collections.abc import Iterable

AvroSchema = Any  # what json.dumps of an Avro schema takes


def _need(field_id: int, name: str, kind: Type, doc: str | None = None) -> NestedField:
    return NestedField(field_id, name, kind, required=True, doc=doc)


def _may(field_id: int, name: str, kind: Type, doc: str | None = None) -> NestedField:
    return NestedField(field_id, name, kind, doc=doc)


def _map(key_id: int, value_id: int, value: Type) -> MapType:
    return MapType(key_id, INT, value_id, value, value_required=True)


_SUMMARY: Final = StructType(
    (
        _need(509, "contains_null", BOOLEAN, "True if any file has a null partition value"),
        _may(518, "contains_nan", BOOLEAN, "True if any file has a nan partition value"),
        _may(510, "lower_bound", BINARY, "Partition lower bound for all files"),
        _may(511, "upper_bound", BINARY, "Partition upper bound for all files"),
    )
)
_PARTITIONS: Final = _may(507, "partitions", ListType(508, _SUMMARY, True), "Summary for each partition")
_KEY_METADATA: Final = _may(519, "key_metadata", BINARY, "Encryption key metadata blob")
_LIST_HEAD: Final = (
    _need(500, "manifest_path", STRING, "Location URI with FS scheme"),
    _need(501, "manifest_length", LONG, "Total file size in bytes"),
    _need(502, "partition_spec_id", INT, "Spec ID used to write"),
)
_LIST_SEQUENCE: Final = (
    _need(517, "content", INT, "Contents of the manifest: 0=data, 1=deletes"),
    _need(515, "sequence_number", LONG, "Sequence number when the manifest was added"),
    _need(516, "min_sequence_number", LONG, "Lowest sequence number in the manifest"),
)
_SNAPSHOT: Final = _need(503, "added_snapshot_id", LONG, "Snapshot ID that added the manifest")
_FILE_COUNTS: Final = (
    (504, "added_files_count", INT, "Added entry count"),
    (505, "existing_files_count", INT, "Existing entry count"),
    (506, "deleted_files_count", INT, "Deleted entry count"),
)
_ROW_COUNTS: Final = (
    (512, "added_rows_count", LONG, "Added rows count"),
    (513, "existing_rows_count", LONG, "Existing rows count"),
    (514, "deleted_rows_count", LONG, "Deleted rows count"),
)
_MANIFEST_ROW_ID: Final = _may(520, "first_row_id", LONG, "Starting row ID to assign to new rows in ADDED data files")


def manifest_list_type(format_version: int) -> StructType:
    """The struct of a manifest list line."""
    if format_version == 1:
        counts = tuple(_may(*c) for c in _FILE_COUNTS)
        rows = tuple(_may(*c) for c in _ROW_COUNTS)
        return StructType((*_LIST_HEAD, _SNAPSHOT, *counts, _PARTITIONS, *rows, _KEY_METADATA))
    counts = tuple(_need(*c) for c in _FILE_COUNTS + _ROW_COUNTS)
    head = (*_LIST_HEAD, *_LIST_SEQUENCE, _SNAPSHOT, *counts, _PARTITIONS, _KEY_METADATA)
    return StructType(head if format_version == 2 else (*head, _MANIFEST_ROW_ID))


_METRICS: Final = (
    _may(108, "column_sizes", _map(117, 118, LONG), "Map of column id to total size on disk"),
    _may(109, "value_counts", _map(119, 120, LONG), "Map of column id to total count, including null and NaN"),
    _may(110, "null_value_counts", _map(121, 122, LONG), "Map of column id to null value count"),
    _may(
        137,
        "nan_value_counts",
        _map(138, 139, LONG),
        "Map of column id to number of NaN values in the column",
    ),
    _may(125, "lower_bounds", _map(126, 127, BINARY), "Map of column id to lower bound"),
    _may(128, "upper_bounds", _map(129, 130, BINARY), "Map of column id to upper bound"),
    _may(131, "key_metadata", BINARY, "Encryption key metadata blob"),
    _may(132, "split_offsets", ListType(133, LONG, True), "Splittable offsets"),
)
_CONTENT: Final = _need(134, "content", INT, "Contents of the file: 0=data, 1=position deletes, 2=equality deletes")
_EQUALITY: Final = _may(135, "equality_ids", ListType(136, INT, True), "Equality comparison field IDs")
_SORT_ORDER: Final = _may(140, "sort_order_id", INT, "Sort order ID")
_ROW_ID: Final = _may(142, "first_row_id", LONG, "The first row ID assigned to the first row in the data file")
_REFERENCED: Final = _may(
    143,
    "referenced_data_file",
    STRING,
    "Fully qualified location (URI with FS scheme) of a data file that all deletes reference",
)
_BLOB: Final = (
    _may(144, "content_offset", LONG, "The offset in the file where the content starts"),
    _may(145, "content_size_in_bytes", LONG, "The length of referenced content stored in the file"),
)
_PARTITION_DOC: Final = "Partition data tuple, schema based on the partition spec"


def manifest_entry_type(format_version: int, partition: StructType) -> StructType:
    """The struct of a manifest entry for files whose partition values have the type ``partition``."""
    head: tuple[NestedField, ...] = (_need(0, "status", INT), _may(1, "snapshot_id", LONG))
    if format_version > 1:
        head += (_may(3, "sequence_number", LONG), _may(4, "file_sequence_number", LONG))
    return StructType((*head, _need(2, "data_file", _data_file_type(format_version, partition))))


def _data_file_type(version: int, partition: StructType) -> StructType:
    path = (
        _need(100, "file_path", STRING, "Location URI with FS scheme"),
        _need(101, "file_format", STRING, "File format name: avro, orc, or parquet"),
        _need(102, "partition", partition, _PARTITION_DOC if version > 1 else None),
        _need(103, "record_count", LONG, "Number of records in the file"),
        _need(104, "file_size_in_bytes", LONG, "Total file size in bytes"),
    )
    if version == 1:
        return StructType((*path, _need(105, "block_size_in_bytes", LONG), *_METRICS, _SORT_ORDER))
    tail = (_REFERENCED,) if version == 2 else (_ROW_ID, _REFERENCED, *_BLOB)
    return StructType((_CONTENT, *path, *_METRICS, _EQUALITY, _SORT_ORDER, *tail))


def avro_record(name: str, struct: StructType) -> AvroSchema:
    """The Avro record schema of a struct, with Iceberg's field ids (spec: "Appendix A: Avro")."""
    return _Writer().record(name, struct.fields)


def is_fixed(schema: AvroSchema) -> bool:
    """True for the Avro schema of byte strings of one length that are no decimals or uuids."""
    return isinstance(schema, dict) and schema.get("type") == "fixed" and "logicalType" not in schema


def as_encoded(schema: AvroSchema) -> AvroSchema:
    """The schema by which Java writes and reads the values of a schema: the same if it has no ``is_fixed`` ones.

    Iceberg's internal writer puts the length before byte strings of one length, as if they were of any, against the
    schema in the file's header (engine: ValueWriters.FixedByteBufferWriter), and its reader expects it there.
    """
    return _as_encoded(schema, set())


def _as_encoded(schema: AvroSchema, names: set[str]) -> AvroSchema:
    """``names`` are those of the types that were replaced so far."""
    if isinstance(schema, list):
        return [_as_encoded(branch, names) for branch in schema]
    if isinstance(schema, str):
        return "bytes" if schema in names else schema
    if not isinstance(schema, dict):
        return schema
    if is_fixed(schema):
        names.add(schema["name"])
        return "bytes"
    out = {key: _as_encoded(part, names) if key in ("type", "items") else part for key, part in schema.items()}
    if "fields" in out:
        out["fields"] = [_as_encoded(field, names) for field in out["fields"]]
    return out


class _Writer:
    """Makes one Avro schema; a named type is spelled out where it first comes up, and named after that."""

    def __init__(self) -> None:
        self.names: set[str] = set()

    def record(self, name: str, fields: Iterable[NestedField]) -> AvroSchema:
        return self._named({"type": "record", "name": name, "fields": [self._field(f) for f in fields]})

    def _named(self, schema: dict[str, Any]) -> AvroSchema:
        known = schema["name"] in self.names
        self.names.add(schema["name"])
        return schema["name"] if known else schema

    def _field(self, field: NestedField) -> AvroSchema:
        name, out = avro_name(field.name), {}
        out = {"name": name, "type": self._option(field.type, field.required, field.field_id)}
        if field.doc is not None:
            out["doc"] = field.doc
        if not field.required:
            out["default"] = None
        if name != field.name:
            out["iceberg-field-name"] = field.name
        return {**out, "field-id": field.field_id}

    def _option(self, kind: Type, required: bool, field_id: int) -> AvroSchema:
        schema = self._type(kind, field_id)
        return schema if required or schema == "null" else ["null", schema]

    def _type(self, kind: Type, field_id: int) -> AvroSchema:
        if isinstance(kind, StructType):
            return self.record(f"r{field_id}", kind.fields)
        if isinstance(kind, ListType):
            items = self._option(kind.element, kind.element_required, kind.element_id)
            return {"type": "array", "items": items, "element-id": kind.element_id}
        if isinstance(kind, MapType):
            return self._map(kind)
        return self._primitive(kind)

    def _map(self, kind: MapType) -> AvroSchema:
        value = self._option(kind.value, kind.value_required, kind.value_id)
        if kind.key == STRING:
            return {"type": "map", "values": value, "key-id": kind.key_id, "value-id": kind.value_id}
        pair = self._named(
            {
                "type": "record",
                "name": f"k{kind.key_id}_v{kind.value_id}",
                "fields": [
                    {"name": "key", "type": self._type(kind.key, kind.key_id), "field-id": kind.key_id},
                    {"name": "value", "type": value, "field-id": kind.value_id},
                ],
            }
        )
        return {"type": "array", "items": pair, "logicalType": "map"}

    def _primitive(self, kind: Type) -> AvroSchema:
        if isinstance(kind, FixedType):
            return self._named({"type": "fixed", "name": f"fixed_{kind.length}", "size": kind.length})
        if isinstance(kind, DecimalType):
            return self._decimal(kind)
        name = str(kind)
        if name == "uuid":
            fixed = {"type": "fixed", "name": "uuid_fixed", "size": 16, "logicalType": "uuid"}
            return self._named(fixed)
        if name not in _AVRO_TYPES:
            raise UnsupportedFeatureError(f"values of type {name} cannot be written to Avro by lakemeta")
        return _AVRO_TYPES[name]

    def _decimal(self, kind: DecimalType) -> AvroSchema:
        name, size = f"decimal_{kind.precision}_{kind.scale}", decimal_bytes(kind.precision)
        logical = {"logicalType": "decimal", "precision": kind.precision, "scale": kind.scale}
        return self._named({"type": "fixed", "name": name, "size": size, **logical})


def _long(logical: str, **more: bool) -> AvroSchema:
    return {"type": "long", "logicalType": logical, **{k.replace("_", "-"): v for k, v in more.items()}}


_AVRO_TYPES: Final[dict[str, AvroSchema]] = {
    "boolean": "boolean",
    "int": "int",
    "long": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "binary": "bytes",
    "unknown": "null",
    "date": {"type": "int", "logicalType": "date"},
    "time": _long("time-micros"),
    "timestamp": _long("timestamp-micros", adjust_to_utc=False),
    "timestamptz": _long("timestamp-micros", adjust_to_utc=True),
    "timestamp_ns": _long("timestamp-nanos", adjust_to_utc=False),
    "timestamptz_ns": _long("timestamp-nanos", adjust_to_utc=True),
}


def avro_name(name: str) -> str:
    """A field name that Avro takes: other characters as ``_x2D``, a leading digit as ``_1``."""
    return "".join(_avro_character(c, first=i == 0) for i, c in enumerate(name))


def _avro_character(character: str, *, first: bool) -> str:
    if character == "_" or character.isalpha() or (character.isdigit() and not first):
        return character
    return f"_{character}" if character.isdigit() else f"_x{ord(character):X}"

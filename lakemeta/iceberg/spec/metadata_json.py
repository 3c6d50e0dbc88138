"""Table metadata files: JSON, plain or gzipped (spec: "Appendix C: JSON serialization")."""

from __future__ import annotations

import gzip
import json
import zlib
from collections import Counter
from typing import TYPE_CHECKING, Any, Final, Literal, cast

from lakemeta import unpack
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.json_object import JsonObject, present
from lakemeta.iceberg.spec.partitioning import (
    PARTITION_DATA_ID_START,
    PartitionSpec,
    SortOrder,
    sort_order_from_json,
    sort_order_to_json,
    spec_fields_from_json,
    spec_fields_to_json,
    spec_from_json,
    spec_to_json,
)
from lakemeta.iceberg.spec.schema import Schema, schema_from_json, schema_to_json
from lakemeta.iceberg.spec.table_metadata import (
    MAIN_BRANCH,
    MetadataLogEntry,
    Snapshot,
    SnapshotLogEntry,
    SnapshotRef,
    StatisticsFile,
    TableMetadata,
)
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.iceberg.spec.types import Json

_NO_SNAPSHOT: Final = -1


def load_metadata(data: bytes, path: str) -> TableMetadata:
    """Read a metadata file; ``path`` is for messages.

    Raises CorruptMetadataError if it is no table metadata or contradicts itself, and UnsupportedFeatureError
    for a format version or feature that lakemeta does not handle.
    """
    try:
        zipped = data[:2] == unpack.GZIP_MAGIC
        value = parse_json(unpack.gunzip(data, unpack.allowance(len(data))), len(data)) if zipped else parse_json(data)
    except (ValueError, EOFError, zlib.error) as error:
        found = f"{path} is not the JSON of table metadata ({error})"
        raise CorruptMetadataError(f"{found}; restore it from a copy") from error
    try:
        return metadata_from_json(value)
    except (CorruptMetadataError, UnsupportedFeatureError) as error:
        raise type(error)(f"{path}: {error}") from error


def dump_metadata(metadata: TableMetadata, *, compress: bool = False) -> bytes:
    """The bytes of a metadata file, gzipped if ``compress``; one value gives one sequence of bytes."""
    data = json.dumps(metadata_to_json(metadata), ensure_ascii=False, separators=(",", ":")).encode()
    return gzip.compress(data, mtime=0) if compress else data


def metadata_from_json(value: Json) -> TableMetadata:
    """Read the JSON object of a metadata file."""
    parts = JsonObject(value, "table metadata")
    version = parts.need("format-version", int)
    if version not in (1, 2, 3):
        raise UnsupportedFeatureError(f"the table has format version {version}; lakemeta handles 1, 2 and 3")
    _refuse_encryption(parts)
    schemas, schema_id = _schemas(parts)
    specs, spec_id = _specs(parts)
    orders, order_id = _sort_orders(parts)
    current = parts.take("current-snapshot-id", int)
    current = None if current == _NO_SNAPSHOT else current
    metadata = TableMetadata(
        format_version=version,
        table_uuid=parts.take("table-uuid", str) if version == 1 else parts.need("table-uuid", str),
        location=parts.need("location", str),
        last_updated_ms=parts.need("last-updated-ms", int),
        last_column_id=parts.need("last-column-id", int),
        schemas=schemas,
        current_schema_id=schema_id,
        partition_specs=specs,
        default_spec_id=spec_id,
        last_partition_id=_last_partition_id(parts, specs),
        sort_orders=orders,
        default_sort_order_id=order_id,
        last_sequence_number=0 if version == 1 else parts.need("last-sequence-number", int),
        properties=parts.strings("properties"),
        current_snapshot_id=current,
        snapshots=parts.items("snapshots", _snapshot_from_json),
        refs=_refs(parts, current),
        snapshot_log=parts.items("snapshot-log", _snapshot_log_from_json),
        metadata_log=parts.items("metadata-log", _metadata_log_from_json),
        statistics=parts.items("statistics", _statistics_from_json),
        partition_statistics=parts.items("partition-statistics", _statistics_from_json),
        next_row_id=parts.need("next-row-id", int) if version >= 3 else None,
        extras=parts.rest,
    )
    _check(metadata)
    return metadata


def metadata_to_json(metadata: TableMetadata) -> dict[str, Json]:
    """The JSON object of a metadata file, keys in the order in which Iceberg writes them."""
    version = metadata.format_version
    out: dict[str, Json] = {"format-version": version}
    if metadata.table_uuid is not None:
        out["table-uuid"] = metadata.table_uuid
    out["location"] = metadata.location
    if version > 1:
        out["last-sequence-number"] = metadata.last_sequence_number
    out |= {"last-updated-ms": metadata.last_updated_ms, "last-column-id": metadata.last_column_id}
    out |= _schemas_to_json(metadata)
    current = metadata.current_snapshot_id
    # Readers of version 1 and 2 know "none" as -1 only; version 3 leaves it null.
    out |= {
        "default-sort-order-id": metadata.default_sort_order_id,
        "sort-orders": [sort_order_to_json(o) for o in metadata.sort_orders],
        "properties": dict(metadata.properties),
        "current-snapshot-id": _NO_SNAPSHOT if current is None and version < 3 else current,
    }
    if version >= 3:
        out["next-row-id"] = metadata.next_row_id
    out |= {
        "refs": {name: _ref_to_json(ref) for name, ref in metadata.refs.items()},
        "snapshots": [_snapshot_to_json(s, version) for s in metadata.snapshots],
        "statistics": [_statistics_to_json(s) for s in metadata.statistics],
        "partition-statistics": [_statistics_to_json(s) for s in metadata.partition_statistics],
        "snapshot-log": [{"timestamp-ms": e.timestamp_ms, "snapshot-id": e.snapshot_id} for e in metadata.snapshot_log],
        "metadata-log": [
            {"timestamp-ms": e.timestamp_ms, "metadata-file": e.metadata_file} for e in metadata.metadata_log
        ],
    }
    return {**out, **metadata.extras}


def _schemas_to_json(metadata: TableMetadata) -> dict[str, Json]:
    out: dict[str, Json] = {}
    if metadata.format_version == 1:
        out["schema"] = schema_to_json(metadata.schema)
    out["current-schema-id"] = metadata.current_schema_id
    out["schemas"] = [schema_to_json(s) for s in metadata.schemas]
    if metadata.format_version == 1:
        out["partition-spec"] = spec_fields_to_json(metadata.spec)
    out["default-spec-id"] = metadata.default_spec_id
    out["partition-specs"] = [spec_to_json(s) for s in metadata.partition_specs]
    return {**out, "last-partition-id": metadata.last_partition_id}


def _refuse_encryption(parts: JsonObject) -> None:
    properties = parts.rest.get("properties") or {}
    if parts.rest.get("encryption-keys") or (isinstance(properties, dict) and "encryption.key-id" in properties):
        raise UnsupportedFeatureError("the table is encrypted, which lakemeta does not handle")


def _schemas(parts: JsonObject) -> tuple[tuple[Schema, ...], int]:
    legacy = parts.rest.pop("schema", None)
    schemas = parts.items("schemas", _listed_schema)
    if not schemas and legacy is not None:
        schemas = (schema_from_json(legacy),)
        return schemas, schemas[0].schema_id
    return schemas, parts.need("current-schema-id", int)


def _listed_schema(value: Json) -> Schema:
    """A schema of several, which has an id in every format version."""
    JsonObject(value, "a schema").need("schema-id", int)
    return schema_from_json(value)


def _specs(parts: JsonObject) -> tuple[tuple[PartitionSpec, ...], int]:
    legacy = parts.take("partition-spec", list)
    specs = parts.items("partition-specs", spec_from_json)
    if not specs and legacy is not None:
        return (PartitionSpec(0, spec_fields_from_json(legacy)),), 0
    return specs, parts.need("default-spec-id", int)


def _sort_orders(parts: JsonObject) -> tuple[tuple[SortOrder, ...], int]:
    orders = parts.items("sort-orders", sort_order_from_json)
    default = parts.take("default-sort-order-id", int)
    return (orders, default or 0) if orders else ((SortOrder(0),), 0)


def _last_partition_id(parts: JsonObject, specs: Iterable[PartitionSpec]) -> int:
    found = parts.take("last-partition-id", int)
    if found is not None:
        return found
    return max((f.field_id for s in specs for f in s.fields), default=PARTITION_DATA_ID_START - 1)


def _refs(parts: JsonObject, current: int | None) -> dict[str, SnapshotRef]:
    refs = {name: _ref_from_json(ref) for name, ref in (parts.take("refs", dict) or {}).items()}
    if current is not None and MAIN_BRANCH not in refs:
        refs[MAIN_BRANCH] = SnapshotRef(current, "branch")
    return refs


def _check(metadata: TableMetadata) -> None:
    known: list[tuple[str, int | None, Any]] = [
        ("schema", metadata.current_schema_id, metadata.schemas_by_id),
        ("partition spec", metadata.default_spec_id, metadata.specs_by_id),
        ("sort order", metadata.default_sort_order_id, metadata.sort_orders_by_id),
        ("snapshot", metadata.current_snapshot_id, metadata.snapshots_by_id),
    ]
    known += [(f"snapshot of ref {n}", r.snapshot_id, metadata.snapshots_by_id) for n, r in metadata.refs.items()]
    for what, found, ids in known:
        if found is not None and found not in ids:
            raise CorruptMetadataError(f"the current {what} {found} is not in the metadata")
    _check_unique(metadata)
    for snapshot in metadata.snapshots:
        if snapshot.sequence_number > metadata.last_sequence_number:
            raise CorruptMetadataError(
                f"snapshot {snapshot.snapshot_id} has the sequence number {snapshot.sequence_number}, which is greater "
                f"than the last one of the table, {metadata.last_sequence_number}"
            )
    _check_numbers(metadata)
    main = metadata.refs.get(MAIN_BRANCH)
    if main is not None and main.snapshot_id != metadata.current_snapshot_id:
        raise CorruptMetadataError("the main branch and the current snapshot differ")


def _check_numbers(metadata: TableMetadata) -> None:
    """A next snapshot gets numbers that are greater than all before, as they must be."""
    last, next_row = metadata.last_sequence_number, metadata.next_row_id
    if last < 0:
        raise CorruptMetadataError(f"last-sequence-number is {last}; restore the file")
    if next_row is None:
        return
    used = [(s.first_row_id + (s.added_rows or 0), s) for s in metadata.snapshots if s.first_row_id is not None]
    for end, snapshot in used:
        if end > next_row:
            raise CorruptMetadataError(
                f"snapshot {snapshot.snapshot_id} has row ids up to {end}, and next-row-id is {next_row}; restore the "
                f"file"
            )
    if next_row < 0:
        raise CorruptMetadataError(f"next-row-id is {next_row}; restore the file")


def _check_unique(metadata: TableMetadata) -> None:
    """Every id means one thing, or which schema or snapshot is read would be chance (as in Iceberg's TableMetadata)."""
    given: list[tuple[str, list[int]]] = [
        ("schema", [schema.schema_id for schema in metadata.schemas]),
        ("partition spec", [spec.spec_id for spec in metadata.partition_specs]),
        ("sort order", [order.order_id for order in metadata.sort_orders]),
        ("snapshot", [snapshot.snapshot_id for snapshot in metadata.snapshots]),
    ]
    specs = metadata.partition_specs
    given += [(f"field of partition spec {spec.spec_id}", [field.field_id for field in spec.fields]) for spec in specs]
    for what, ids in given:
        twice = [i for i, count in Counter(ids).items() if count > 1]
        if twice:
            raise CorruptMetadataError(f"the metadata has several {what}s with the id {twice[0]}")
    for schema in metadata.schemas:
        schema.check_unique()


def _snapshot_from_json(value: Json) -> Snapshot:
    parts = JsonObject(value, "a snapshot")
    snapshot_id = parts.need("snapshot-id", int)
    parts.what = f"snapshot {snapshot_id}"
    manifests = parts.texts("manifests") if "manifests" in parts.rest else None
    if parts.rest.get("key-id") is not None:
        raise UnsupportedFeatureError(f"{parts.what} is encrypted, which lakemeta does not handle")
    return Snapshot(
        snapshot_id=snapshot_id,
        timestamp_ms=parts.need("timestamp-ms", int),
        manifest_list=parts.take("manifest-list", str) if manifests else parts.need("manifest-list", str),
        parent_snapshot_id=parts.take("parent-snapshot-id", int),
        sequence_number=parts.take("sequence-number", int) or 0,
        summary=parts.strings("summary"),
        schema_id=parts.take("schema-id", int),
        first_row_id=parts.take("first-row-id", int),
        added_rows=parts.take("added-rows", int),
        manifests=manifests,
        extras=parts.rest,
    )


def _snapshot_to_json(snapshot: Snapshot, version: int) -> dict[str, Json]:
    return {
        **present(
            sequence_number=snapshot.sequence_number if version > 1 and snapshot.sequence_number else None,
            snapshot_id=snapshot.snapshot_id,
            parent_snapshot_id=snapshot.parent_snapshot_id,
            timestamp_ms=snapshot.timestamp_ms,
            summary=dict(snapshot.summary) or None,
            manifest_list=snapshot.manifest_list,
            manifests=None if snapshot.manifests is None else list(snapshot.manifests),
            schema_id=snapshot.schema_id,
            first_row_id=snapshot.first_row_id,
            added_rows=snapshot.added_rows,
        ),
        **snapshot.extras,
    }


def _ref_from_json(value: Json) -> SnapshotRef:
    parts = JsonObject(value, "a ref")
    kind = parts.need("type", str).lower()
    if kind not in ("branch", "tag"):
        raise CorruptMetadataError(f"a ref is of type {kind}, not branch or tag")
    return SnapshotRef(
        snapshot_id=parts.need("snapshot-id", int),
        type=cast("Literal['branch', 'tag']", kind),
        min_snapshots_to_keep=parts.take("min-snapshots-to-keep", int),
        max_snapshot_age_ms=parts.take("max-snapshot-age-ms", int),
        max_ref_age_ms=parts.take("max-ref-age-ms", int),
        extras=parts.rest,
    )


def _ref_to_json(ref: SnapshotRef) -> dict[str, Json]:
    return {
        **present(
            snapshot_id=ref.snapshot_id,
            type=ref.type,
            min_snapshots_to_keep=ref.min_snapshots_to_keep,
            max_snapshot_age_ms=ref.max_snapshot_age_ms,
            max_ref_age_ms=ref.max_ref_age_ms,
        ),
        **ref.extras,
    }


def _snapshot_log_from_json(value: Json) -> SnapshotLogEntry:
    parts = JsonObject(value, "an entry of snapshot-log")
    return SnapshotLogEntry(parts.need("timestamp-ms", int), parts.need("snapshot-id", int))


def _metadata_log_from_json(value: Json) -> MetadataLogEntry:
    parts = JsonObject(value, "an entry of metadata-log")
    return MetadataLogEntry(parts.need("timestamp-ms", int), parts.need("metadata-file", str))


def _statistics_from_json(value: Json) -> StatisticsFile:
    parts = JsonObject(value, "a statistics file")
    return StatisticsFile(
        parts.need("snapshot-id", int),
        parts.need("statistics-path", str),
        parts.need("file-size-in-bytes", int),
        parts.rest,
    )


def _statistics_to_json(file: StatisticsFile) -> dict[str, Json]:
    return {
        "snapshot-id": file.snapshot_id,
        "statistics-path": file.statistics_path,
        "file-size-in-bytes": file.file_size_in_bytes,
        **file.extras,
    }

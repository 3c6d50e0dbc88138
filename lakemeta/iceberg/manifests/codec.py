"""Reading and writing manifests and manifest lists: bytes in, values out, and back."""

from __future__ import annotations

import json
import math
from itertools import compress
from operator import add, itemgetter
from typing import TYPE_CHECKING, Any, Final

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.manifests.avro_schemas import as_encoded, avro_name, avro_record, is_fixed, manifest_list_type
from lakemeta.iceberg.manifests.checks import check_entry_schema, check_list_schema
from lakemeta.iceberg.manifests.entries import (
    UNASSIGNED_SEQUENCE,
    DataFile,
    EntryColumns,
    EntryStatus,
    FileContent,
    Inheritance,
    ManifestContent,
    ManifestEntry,
    ManifestFile,
    PartitionFieldSummary,
)
from lakemeta.iceberg.manifests.entry_writer import LISTS, MAPS, OTHERS, EntryLayout
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.partitioning import PartitionSpec, spec_fields_to_json
from lakemeta.iceberg.spec.schema import Schema, schema_to_json
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import StructType, Type, Value

_CODEC: Final = "deflate"
_LIST_NAMES: Final = {f.field_id: f.name for f in manifest_list_type(3).fields}


def read_manifest_list(data: bytes, path: str) -> list[ManifestFile]:
    """The manifests of a manifest list, in order; ``path`` is for messages.

    Raises CorruptMetadataError, and UnsupportedFeatureError for encrypted manifests.
    """
    schema, records = avro.read_container(data, path)
    return manifests_of(schema, records, avro.container_metadata(data, path), path)


def manifests_of(
    schema: avro.Schema, records: Iterable[Any], header: Mapping[str, bytes], path: str
) -> list[ManifestFile]:
    """The lines of a manifest list, given its records and its header; raises as :func:`read_manifest_list`."""
    ids = {f["name"]: i for f in schema["fields"] if isinstance(i := f.get("field-id"), int)}
    names = {name: _LIST_NAMES[i] for name, i in ids.items() if i in _LIST_NAMES}
    version = _format_version(header, path)
    check_list_schema(schema, names, version, path)
    try:
        manifests = [_manifest_file({ours: record[name] for name, ours in names.items()}) for record in records]
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptMetadataError(f"{path} is not a manifest list: {error}") from error
    for manifest in manifests:
        if manifest.key_metadata is not None:
            raise UnsupportedFeatureError(f"{path} lists encrypted manifests, which lakemeta does not handle")
        if version > 2 and not manifest.is_deletes and manifest.first_row_id is None:
            raise CorruptMetadataError(
                f"{path} gives no first row id to {manifest.manifest_path}, so its rows would lose their ids; restore "
                f"that file"
            )
    return manifests


def read_manifest(data: bytes, manifest: ManifestFile, spec: PartitionSpec) -> list[ManifestEntry]:
    """The entries of a manifest, in order, with what they inherit; deleted ones too.

    ``spec`` is the partition spec the manifest list names for it. Raises CorruptMetadataError.
    """
    path = manifest.manifest_path
    try:
        schema, records = _records(data, path)
        check_header(data, manifest)
        partition = partition_reader(schema, spec, path)
        inherited = Inheritance(manifest)
        return [_entry(record, spec.spec_id, partition, inherited) for record in records]
    except (TypeError, ValueError, KeyError) as error:
        raise CorruptMetadataError(f"{path} is not a manifest: {type(error).__name__} {error}") from error


def _records(data: bytes, path: str) -> tuple[avro.Schema, list[Any]]:
    """The schema of a manifest and its records, those of Java too, which have lengths before values of type fixed."""
    schema, blocks = avro.read_blocks(data, path)
    encoded = as_encoded(schema)
    if encoded == schema:
        return avro.read_container(data, path)
    of_java = avro.schema_text({"type": "array", "items": encoded})
    partition = _field(_field(avro.spelled_out(schema), "data_file")["type"], "partition")["type"]
    try:
        records: list[Any] = []
        for count, block in blocks:
            framed = b"".join((avro.encode_long(count) if count else b"", block, b"\0"))
            records += avro.read_datum(of_java, framed, path)
        if all(_fits(partition, r["data_file"]["partition"]) for r in records):
            return schema, records
    except CorruptMetadataError:  # as the schema says, then, as others write them
        pass
    return avro.read_container(data, path)


def _fits(partition: avro.Schema, values_by_name: Mapping[str, Any]) -> bool:
    """True if the values of type fixed in a partition record have their length."""
    for field in partition["fields"]:
        for branch in field["type"] if isinstance(field["type"], list) else [field["type"]]:
            value = values_by_name[field["name"]]
            if is_fixed(branch) and value is not None and len(value) != branch["size"]:
                return False
    return True


def check_header(data: bytes, manifest: ManifestFile) -> None:
    """Raise CorruptMetadataError if the schema of a manifest lacks a field, or has one of a strange type.

    Also if it says that it holds another content, or files of another spec, than the manifest list says. Raises
    UnsupportedFeatureError if it says it is of a format version after 3.
    """
    path = manifest.manifest_path
    header = avro.container_metadata(data, path)
    content = b"deletes" if manifest.is_deletes else b"data"
    listed = {"content": content, "partition-spec-id": b"%d" % manifest.partition_spec_id}
    for name, expected in listed.items():
        if header.get(name, expected) != expected:
            raise CorruptMetadataError(f"{path} has {name} {header[name][:20]!r}, its manifest list says {expected!r}")
    text = header["avro.schema"].decode()
    check_entry_schema(text, _format_version(header, path), path, deletes=manifest.is_deletes)


def _format_version(header: Mapping[str, bytes], path: str) -> int:
    version = header.get("format-version", b"1").decode("ascii", "replace")
    if version not in ("1", "2", "3"):
        found = " ".join(version[:20].split())
        raise UnsupportedFeatureError(f"{path} has format version {found}; lakemeta handles 1, 2 and 3")
    return int(version)


def write_manifest_list(
    manifests: Iterable[ManifestFile],
    *,
    format_version: int,
    snapshot_id: int,
    parent_snapshot_id: int | None,
    sequence_number: int,
    first_row_id: int | None = None,
) -> tuple[bytes, int | None]:
    """The bytes of a snapshot's manifest list, and the next row id after it (version 3; else None).

    Manifests with an unassigned sequence number get the snapshot's. In version 3, data manifests without a
    first row id get the next one, and room for their existing and added rows (engine: ManifestListWriter).
    """
    records, first = [], first_row_id
    for manifest in manifests:
        record = _manifest_record(manifest, format_version, snapshot_id, sequence_number)
        if first_row_id is not None and not manifest.is_deletes and manifest.first_row_id is None:
            record["first_row_id"] = first_row_id
            first_row_id += (manifest.existing_rows_count or 0) + (manifest.added_rows_count or 0)
        records.append(record)
    if first_row_id is not None and first_row_id > LONG_MAX:
        raise CorruptMetadataError(f"the rows of a new snapshot would have ids up to {first_row_id}, beyond 64 bits")
    struct = manifest_list_type(format_version)
    header: dict[str, Any] = {"snapshot-id": snapshot_id, "parent-snapshot-id": parent_snapshot_id or "null"}
    if format_version > 1:
        header["sequence-number"] = sequence_number
    if format_version > 2:
        header["first-row-id"] = first
    described = _described(struct, header, format_version)
    data = avro.write_container(avro_record("manifest_file", struct), records, codec=_CODEC, metadata=described)
    return data, first_row_id


def write_manifest(
    metadata: TableMetadata,
    spec_id: int,
    entries: Iterable[ManifestEntry],
    *,
    path: str,
    content: ManifestContent,
    snapshot_id: int,
    first_row_id: int | None = None,
) -> tuple[bytes, ManifestFile]:
    """The bytes of a manifest and its line for the manifest list, with sequence number still unassigned.

    Entries are written as they are: None sequence numbers stay None and are inherited by readers.
    """
    listed, layout = list(entries), EntryLayout.of(metadata, spec_id)
    columns, encoded = EntryColumns.of(listed), map(layout.encode, listed)
    rest: dict[str, Any] = {"path": path, "content": content, "snapshot_id": snapshot_id}
    return _joined(metadata, spec_id, columns, encoded, **rest, first_row_id=first_row_id)


def write_moved(
    metadata: TableMetadata,
    spec_id: int,
    entries: EntryColumns,
    *,
    path: str,
    content: ManifestContent,
    snapshot_id: int,
) -> tuple[bytes, ManifestFile]:
    """As :func:`write_manifest`, of entries whose files are in Avro, in the layout of the table's new manifests."""
    layout = EntryLayout.of(metadata, spec_id)
    known = {head: layout.encode_head(head) for head in set(entries.heads)}
    encoded = map(add, map(known.__getitem__, entries.heads), entries.files)
    return _joined(metadata, spec_id, entries, encoded, path=path, content=content, snapshot_id=snapshot_id)


def _joined(
    metadata: TableMetadata,
    spec_id: int,
    entries: EntryColumns,
    encoded: Iterable[bytes],
    *,
    path: str,
    content: ManifestContent,
    snapshot_id: int,
    first_row_id: int | None = None,
) -> tuple[bytes, ManifestFile]:
    spec, types = metadata.specs_by_id[spec_id], metadata.partition_types(spec_id)
    header = {
        "schema": _json(schema_to_json(metadata.schema)),
        "schema-id": metadata.current_schema_id,
        "partition-spec": _json(spec_fields_to_json(spec)),
        "partition-spec-id": spec_id,
    }
    if metadata.format_version > 1:
        header["content"] = "deletes" if content == ManifestContent.DELETES else "data"
    layout = EntryLayout.of(metadata, spec_id)
    described = _described(layout.struct, header, metadata.format_version)
    data = avro.join_container(layout.schema, encoded, codec=_CODEC, metadata=described)
    heads = set(entries.heads)
    live = [sequence for status, _, sequence, _ in heads if status != EntryStatus.DELETED and sequence is not None]
    return data, ManifestFile(
        manifest_path=path,
        manifest_length=len(data),
        partition_spec_id=spec_id,
        content=content,
        sequence_number=UNASSIGNED_SEQUENCE,
        min_sequence_number=min(live, default=UNASSIGNED_SEQUENCE),
        added_snapshot_id=snapshot_id,
        partitions=summarise(types, entries.partitions),
        first_row_id=first_row_id,
        **_counts(entries),
    )


def summarise(types: Sequence[Type], partitions: Sequence[tuple[Value, ...]]) -> tuple[PartitionFieldSummary, ...]:
    """The partition summaries of a manifest with files in these partitions (engine: PartitionSummary)."""
    different = {id(partition): partition for partition in partitions}.values()  # as a rule files share them
    return tuple(_summary(kind, [p[i] for p in different]) for i, kind in enumerate(types))


def partition_reader(
    schema: avro.Schema, spec: PartitionSpec, path: str
) -> Callable[[Mapping[str, Any]], tuple[Value, ...]]:
    """A function from a partition record of a manifest with this Avro schema to the spec's partition tuple.

    Fields are matched by field id, or by name where the manifest has no ids. Raises CorruptMetadataError, naming
    ``path``, if one is not there: its files would be of another partition, and deletes would not apply. Dropped (void)
    ones, which are always null, may be missing.
    """
    record = _field(_field(avro.spelled_out(schema), "data_file")["type"], "partition")["type"]
    by_id = {f.get("field-id"): f for f in record["fields"]}
    by_name = {f["name"]: f for f in record["fields"] if "field-id" not in f}
    found = [by_id.get(f.field_id) or by_name.get(avro_name(f.name)) for f in spec.fields]
    for field, there in zip(spec.fields, found, strict=True):
        if there is None and field.transform.name != "void":
            raise CorruptMetadataError(
                f"{path} has no field {field.name} in its partitions, as those of partition spec {spec.spec_id} have; "
                f"restore that file"
            )
    pairs = [(f["name"], _decimal_scale(f["type"])) if f else (None, None) for f in found]
    names = [name for name, scale in pairs if name is not None and scale is None]
    if len(names) == len(pairs):
        return _plain_reader(names)
    return lambda values_by_name: tuple(
        None if name is None else _decimal(values_by_name[name], scale) for name, scale in pairs
    )


def _plain_reader(names: Sequence[str]) -> Callable[[Mapping[str, Any]], tuple[Value, ...]]:
    if not names:
        return lambda _: ()
    if len(names) == 1:
        only = names[0]
        return lambda record: (record[only],)
    return itemgetter(*names)


def _decimal_scale(schema: avro.Schema) -> int | None:
    for branch in schema if isinstance(schema, list) else [schema]:
        if isinstance(branch, dict) and branch.get("logicalType") == "decimal":
            return int(branch.get("scale", 0))
    return None


def _decimal(value: Value, scale: int | None) -> Value:
    if value is None or scale is None:
        return value
    return values.scaled(int.from_bytes(value, "big", signed=True), scale)


def _field(schema: avro.Schema, name: str) -> Any:
    return {f["name"]: f for f in schema["fields"]}[name]


def _manifest_file(record: dict[str, Any]) -> ManifestFile:
    partitions = record.pop("partitions", None)
    return ManifestFile(
        content=ManifestContent(record.pop("content", 0)),
        sequence_number=record.pop("sequence_number", None) or 0,
        min_sequence_number=record.pop("min_sequence_number", None) or 0,
        partitions=None if partitions is None else tuple(map(_summary_from_record, partitions)),
        **record,
    )


def _summary_from_record(record: Mapping[str, Any]) -> PartitionFieldSummary:
    return PartitionFieldSummary(
        record["contains_null"],
        record.get("contains_nan"),
        record.get("lower_bound"),
        record.get("upper_bound"),
    )


def _manifest_record(manifest: ManifestFile, version: int, snapshot_id: int, sequence_number: int) -> dict[str, Any]:
    sequences = (manifest.sequence_number, manifest.min_sequence_number)
    if UNASSIGNED_SEQUENCE in sequences and manifest.added_snapshot_id != snapshot_id:
        raise CorruptMetadataError(f"{manifest.manifest_path} has no sequence number and is not of this snapshot")
    if version == 1 and manifest.is_deletes:
        raise CorruptMetadataError("a table of format version 1 cannot have delete manifests")
    record = {name: getattr(manifest, name) for name in _LIST_NAMES.values()}
    own, least = (sequence_number if s == UNASSIGNED_SEQUENCE else s for s in sequences)
    if manifest.partitions is not None:
        record["partitions"] = [
            {name: getattr(s, name) for name in ("contains_null", "contains_nan", "lower_bound", "upper_bound")}
            for s in manifest.partitions
        ]
    return {**record, "content": int(manifest.content), "sequence_number": own, "min_sequence_number": least}


def _entry(
    record: Mapping[str, Any],
    spec_id: int,
    partition: Callable[[Mapping[str, Any]], tuple[Value, ...]],
    inherited: Inheritance,
) -> ManifestEntry:
    file = record["data_file"]
    rest: dict[str, Any] = {name: file.get(name) for name in OTHERS}
    rest |= {name: _pairs(file.get(name)) for name in MAPS}
    rest |= {name: None if file.get(name) is None else tuple(file[name]) for name in LISTS}
    status, records = EntryStatus(record["status"]), file["record_count"]
    rest["first_row_id"] = inherited.row_id(status, rest["first_row_id"], records)
    own = (record.get(name) for name in ("snapshot_id", "sequence_number", "file_sequence_number"))
    return ManifestEntry(
        status,
        *inherited.of_entry(status, *own),
        DataFile(
            content=FileContent(file.get("content", 0)),
            file_path=file["file_path"],
            file_format=file["file_format"],
            spec_id=spec_id,
            partition=partition(file["partition"]),
            record_count=records,
            file_size_in_bytes=file["file_size_in_bytes"],
            **rest,
        ),
    )


def _pairs(items: Iterable[Mapping[str, Any]] | None) -> dict[int, Any] | None:
    return None if items is None else {item["key"]: item["value"] for item in items}


def _counts(entries: EntryColumns) -> dict[str, Any]:
    counts: dict[str, Any] = {}
    statuses = [head[0] for head in entries.heads]
    for name, status in (
        ("added", EntryStatus.ADDED),
        ("existing", EntryStatus.EXISTING),
        ("deleted", EntryStatus.DELETED),
    ):
        rows = list(compress(entries.record_counts, [found == status for found in statuses]))
        counts |= {f"{name}_files_count": len(rows), f"{name}_rows_count": sum(rows)}
    return counts


def _summary(kind: Type, found: Iterable[Value]) -> PartitionFieldSummary:
    listed = list(found)
    plain = [v for v in listed if v is not None and v == v]
    bounds = (min(plain, key=_order), max(plain, key=_order)) if plain else None
    return PartitionFieldSummary(
        contains_null=None in listed,
        contains_nan=len(plain) + listed.count(None) < len(listed),
        lower_bound=None if bounds is None else values.to_bytes(kind, bounds[0]),
        upper_bound=None if bounds is None else values.to_bytes(kind, bounds[1]),
    )


def _order(value: Value) -> Any:
    return (value, math.copysign(1, value)) if isinstance(value, float) else value  # -0.0 comes before 0.0


def _described(struct: StructType, header: Mapping[str, Any], format_version: int) -> dict[str, str]:
    """The metadata of an Avro file of Iceberg's."""
    metadata = {key: str(value) for key, value in header.items()}
    metadata["format-version"] = str(format_version)
    metadata["iceberg.schema"] = _json(schema_to_json(Schema(struct.fields)))
    return metadata


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":"))

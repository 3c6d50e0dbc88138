"""Records of a metadata table, and the HFiles and log files that hold them."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from lakemeta.avro import container as avro
from lakemeta.hudi.files.logs import BlockType, HeaderKey, encode_block
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.merge import Layer, RawRecord, merge_two
from lakemeta.hudi.metadata_table.records import RecordSchema, RecordType, encode_deleted_keys

if TYPE_CHECKING:
    from lakemeta.hudi.metadata_table.table import MetadataTable

T1 = "20260101000000001"
INT = {"type": "record", "name": "IntWrapper", "fields": [{"name": "value", "type": "int"}]}
STATS = {
    "type": "record",
    "name": "Stats",
    "fields": [
        {"name": "minValue", "type": ["null", INT]},
        {"name": "maxValue", "type": ["null", "IntWrapper"]},
        *({"name": n, "type": ["null", "long"]} for n in ("valueCount", "nullCount", "totalSize")),
        {"name": "totalUncompressedSize", "type": ["null", "long"]},
        {"name": "isDeleted", "type": "boolean"},
        {"name": "isTightBound", "type": "boolean", "default": False},
    ],
}
FILE = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}
SCHEMA = RecordSchema(
    avro.schema_text(
        {
            "type": "record",
            "name": "HoodieMetadataRecord",
            "fields": [
                {"name": "_hoodie_commit_time", "type": ["null", "string"], "default": None},
                {"name": "key", "type": "string"},
                {"name": "type", "type": "int"},
                {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": FILE}], "default": None},
                {"name": "ColumnStatsMetadata", "type": ["null", STATS], "default": None},
            ],
        }
    )
)


def hfile(*records: tuple[str, bytes]) -> bytes:
    return write_hfile(sorted((k.encode(), v) for k, v in records), SCHEMA.text, 0)


def files(entries: dict[str, tuple[int, bool]], kind: RecordType = RecordType.FILES) -> bytes:
    return SCHEMA.encode_files(kind, [(name, *entry) for name, entry in entries.items()])


def log(*contents: bytes | list[str], instant: str = T1) -> bytes:
    """A log file of HFile blocks (bytes) and DELETE blocks (keys)."""
    header = {HeaderKey.INSTANT_TIME: instant}
    return b"".join(
        encode_block(BlockType.HFILE_DATA, header, c)
        if isinstance(c, bytes)
        else encode_block(BlockType.DELETE, header, encode_deleted_keys("files", c))
        for c in contents
    )


def merged_records(layers: Iterable[Layer]) -> dict[str, Any]:
    """Key -> record after all layers: those of ``files`` united, of others the newest."""
    records: dict[str, Any] = {}
    for layer in layers:
        for key, value in layer.puts.entries() if layer.puts is not None else ():
            newer = RawRecord(layer.puts, value).decode()
            older = records.get(key.decode())
            united = older is not None and newer["type"] in (RecordType.ALL_PARTITIONS, RecordType.FILES)
            records[key.decode()] = merge_two(older, newer, layer.puts.where) if united else newer
        for gone in layer.deleted_keys:
            records.pop(gone, None)
    return records


def listing(table: MetadataTable, assume_completed: str | None = None) -> dict[str, dict[str, int]]:
    """Partition path -> file name -> size in bytes, of every file that a metadata table lists."""
    files = table.files(assume_completed=assume_completed)
    return dict(files.listed(files.partitions))


def records_of(table: MetadataTable, partition: str) -> dict[str, Any]:
    """Key -> record of one partition of a metadata table."""
    groups = table.slices(partition)
    parts = [merged_records(table._layers(partition, group, table._validity())) for group in groups]
    return {key: record for part in parts for key, record in part.items()}

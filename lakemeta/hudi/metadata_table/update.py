"""What a clean writes into the metadata table, as values and bytes.

Source: HoodieTableMetadataUtil.convertMetadataToRecords for cleans. Differences on purpose:

1. Records of single files (column stats, bloom filters, expression indexes) are found by the live keys that name a
   deleted file, not by a configured list of columns: the same set, and no configuration to get wrong. Hudi 0.15.0
   computes these keys from a cut file name, so its own tombstones miss.
2. With a dropped partition go all files that the metadata table lists in it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import BlockType, HeaderKey, encode_block
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.keys import (
    ALL_PARTITIONS,
    file_group_index,
    file_suffix,
    partition_key,
)
from lakemeta.hudi.metadata_table.partitions import FILES
from lakemeta.hudi.metadata_table.records import RecordType, encode_deleted_keys

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.hudi.metadata_table.files import FilesPartition
    from lakemeta.hudi.metadata_table.merge import RawRecord, Record
    from lakemeta.hudi.metadata_table.records import RecordSchema

    Left = tuple[tuple[str, ...], dict[str, int]]

FILES_GROUP: Final = "files-0000-0"


def _names(files: Iterable[str]) -> tuple[str, ...]:
    return tuple(files)


@attrs.frozen(slots=True)
class CleanedPartition:
    """What a clean took out of one partition: file names, and whether the partition itself is gone."""

    path: str
    files: tuple[str, ...] = attrs.field(converter=_names)
    dropped: bool = False


@attrs.frozen(slots=True)
class GroupUpdate:
    """What is written to one file group: (key, value) pairs to put, sorted by key, and keys to delete."""

    partition: str
    file_id: str
    puts: tuple[tuple[bytes, bytes], ...] = ()
    deleted_keys: tuple[str, ...] = ()

    def encode(self, schema: RecordSchema, instant: str, now_ms: int) -> bytes:
        """The content of its log file: an HFile block, then a DELETE block, each only if there is something in it.

        ``now_ms`` is the time in ms since the epoch that the HFile says it was made at.
        """
        header: dict[int, str] = {HeaderKey.INSTANT_TIME: instant, HeaderKey.SCHEMA: schema.text}
        blocks: list[bytes] = []
        if self.puts:
            blocks.append(encode_block(BlockType.HFILE_DATA, header, write_hfile(self.puts, schema.text, now_ms)))
        if self.deleted_keys:
            deletions = encode_deleted_keys(self.partition, self.deleted_keys)
            blocks.append(encode_block(BlockType.DELETE, header, deletions))
        return b"".join(blocks)


def with_dropped_files(
    cleaned: Iterable[CleanedPartition], listed: Mapping[str, Iterable[str]]
) -> tuple[CleanedPartition, ...]:
    """The cleaned partitions in order of path, the dropped ones with all files that ``listed`` has in them."""
    complete = (
        attrs.evolve(c, files=tuple(sorted({*c.files, *(listed.get(c.path, ()) if c.dropped else ())})))
        for c in cleaned
    )
    return tuple(sorted(complete, key=lambda c: c.path))


def left_after(files: FilesPartition, cleaned: Sequence[CleanedPartition]) -> Left:
    """What a clean that is still to be written here must leave: all partitions, and a hash of each one cleaned.

    A hash of this process, since the files that stay may be many more than those that go.
    """
    dropped = {partition.path for partition in cleaned if partition.dropped}
    taken = {partition.path: frozenset(partition.files) for partition in cleaned if not partition.dropped}
    return tuple(path for path in files.partitions if path not in dropped), _hashes(files, taken)


def left_now(files: FilesPartition, cleaned: Sequence[CleanedPartition]) -> Left:
    """The same of a clean that has been written."""
    kept = {partition.path: frozenset[str]() for partition in cleaned if not partition.dropped}
    return tuple(files.partitions), _hashes(files, kept)


def _hashes(files: FilesPartition, taken: Mapping[str, frozenset[str]]) -> dict[str, int]:
    return {
        path: hash(frozenset(item for item in listed.items() if item[0] not in taken[path]))
        for path, listed in files.listed(taken)
    }


def files_update(cleaned: Sequence[CleanedPartition], schema: RecordSchema) -> GroupUpdate | None:
    """The update of the ``files`` partition, or None if nothing was cleaned."""
    puts: dict[bytes, bytes] = {}
    deleted_keys: list[str] = []
    dropped = [partition_key(c.path) for c in cleaned if c.dropped]
    if dropped:
        entries = [(key, 0, True) for key in dropped]
        puts[ALL_PARTITIONS.encode()] = schema.encode_files(RecordType.ALL_PARTITIONS, entries)
    for partition in cleaned:
        key = partition_key(partition.path)
        if partition.dropped and schema.deletes_by_key:
            deleted_keys.append(key)
        elif partition.files:
            entries = [(name, 0, True) for name in partition.files]
            puts[key.encode()] = schema.encode_files(RecordType.FILES, entries)
    if not puts and not deleted_keys:
        return None
    return GroupUpdate(FILES, FILES_GROUP, tuple(sorted(puts.items())), tuple(deleted_keys))


def appended_update(appended: Mapping[str, Mapping[str, int]], schema: RecordSchema) -> GroupUpdate | None:
    """The update of the ``files`` partition for new log files: partition path -> name -> size in bytes."""
    values = {
        partition_key(partition).encode(): schema.encode_files(
            RecordType.FILES, [(name, size, False) for name, size in sorted(files.items())]
        )
        for partition, files in appended.items()
        if files
    }
    return GroupUpdate(FILES, FILES_GROUP, tuple(sorted(values.items()))) if values else None


def file_suffixes(cleaned: Iterable[CleanedPartition]) -> frozenset[str]:
    """How the keys of all records about the cleaned files end."""
    return frozenset(file_suffix(c.path, name) for c in cleaned for name in c.files)


def index_update(
    partition: str,
    group: tuple[str, int, int],
    records: Mapping[str, RawRecord],
    schema: RecordSchema,
    instant: str,
) -> GroupUpdate | None:
    """The update of one file group of an index of single files, or None if it has nothing to say of cleaned files.

    ``group`` is (file id, its place among the groups by file id, number of groups), ``records`` the newest
    records of the group that are about cleaned files. Raises CorruptMetadataError if a record lies in a group
    where Hudi would not look for it.
    """
    file_id, place, groups = group
    keys = sorted(records)
    if keys and file_group_index(keys[0], groups) != place:
        raise CorruptMetadataError(
            f"file group {file_id} of metadata partition {partition} has key {keys[0]}, which belongs to another of "
            f"its {groups} groups; rebuild the metadata table"
        )
    if schema.deletes_by_key:  # nothing has to be decoded, which is most of the work where many files go
        return GroupUpdate(partition, file_id, deleted_keys=tuple(keys)) if keys else None
    live = {key: record for key in keys if not _is_deleted(record := records[key].decode())}
    if not live:
        return None
    values = schema.encode([_tombstone(record, instant) for record in live.values()])
    return GroupUpdate(partition, file_id, puts=tuple(zip((k.encode() for k in live), values, strict=True)))


def _is_deleted(record: Record) -> bool:
    details = record.get("ColumnStatsMetadata") or record.get("BloomFilterMetadata")
    return bool(details and details["isDeleted"])


def _tombstone(record: Record, instant: str) -> Record:
    # As HoodieMetadataPayload.createColumnStatsRecords and createBloomFilterMetadataRecord make them for a
    # delete.
    if record["type"] == RecordType.BLOOM_FILTERS:
        gone = {"type": "", "timestamp": instant, "bloomFilter": b"", "isDeleted": True}
        return {"type": record["type"], "BloomFilterMetadata": gone}
    stats = record["ColumnStatsMetadata"]
    counts = dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), -1)
    gone = {"fileName": stats["fileName"], "columnName": stats["columnName"], **counts, "isDeleted": True}
    return {"type": record["type"], "ColumnStatsMetadata": gone}

"""What a clean writes into the metadata table."""

from __future__ import annotations

import json

import pytest

from lakemeta.avro import container as avro
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import BlockType, LogBlock, read_blocks
from lakemeta.hudi.metadata_table.deltacommit import encode_deltacommit, new_log_file, read_precedent
from lakemeta.hudi.metadata_table.hfile import open_hfile
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.keys import file_group_index, file_suffix, id64
from lakemeta.hudi.metadata_table.merge import RawRecord
from lakemeta.hudi.metadata_table.records import RecordSchema, decode_deleted_keys
from lakemeta.hudi.metadata_table.slices import Slice, Validity, newest_slices
from lakemeta.hudi.metadata_table.update import (
    CleanedPartition,
    GroupUpdate,
    file_suffixes,
    files_update,
    index_update,
    with_dropped_files,
)
from lakemeta.hudi.timeline.instants import Timeline

T = "20260101000000009"
LISTING = {"p": {"a": 1, "b": 2}, "q": {"c": 3}}
FILE_INFO = {
    "type": "record",
    "name": "HoodieMetadataFileInfo",
    "fields": [{"name": "size", "type": "long"}, {"name": "isDeleted", "type": "boolean"}],
}


def schema(*, tight: bool) -> RecordSchema:
    """The record schema of Hudi 1.x if ``tight``, else of 0.15, as far as a clean goes."""
    counts = ("valueCount", "nullCount", "totalSize", "totalUncompressedSize")
    stats = [
        {"name": "fileName", "type": ["null", "string"]},
        {"name": "columnName", "type": ["null", "string"]},
        {"name": "minValue", "type": ["null", "long"], "default": None},
        *({"name": name, "type": ["null", "long"], "default": None} for name in counts),
        {"name": "isDeleted", "type": "boolean"},
        *([{"name": "isTightBound", "type": "boolean", "default": False}] if tight else []),
    ]
    bloom = [
        {"name": "type", "type": "string"},
        {"name": "timestamp", "type": "string"},
        {"name": "bloomFilter", "type": "bytes"},
        {"name": "isDeleted", "type": "boolean"},
    ]
    details = {"BloomFilterMetadata": bloom, "ColumnStatsMetadata": stats}
    fields = [
        {"name": "key", "type": "string"},
        {"name": "type", "type": "int"},
        {"name": "filesystemMetadata", "type": ["null", {"type": "map", "values": FILE_INFO}]},
        *(
            {"name": name, "type": ["null", {"type": "record", "name": f"R{name}", "fields": f}], "default": None}
            for name, f in details.items()
        ),
    ]
    return RecordSchema(avro.schema_text({"type": "record", "name": "HoodieMetadataRecord", "fields": fields}))


OLD, NEW = schema(tight=False), schema(tight=True)


def decode(update: GroupUpdate, by: RecordSchema) -> dict[str, dict]:
    return {key.decode(): avro.read_datum(by.text, value, "x") for key, value in update.puts}


def column_stats(column: str, partition: str, name: str, by: RecordSchema, deleted: bool = False) -> tuple[str, dict]:
    record = {"fileName": name, "columnName": column, "minValue": 7, "isDeleted": deleted}
    return id64(column) + file_suffix(partition, name), {"type": 3, "ColumnStatsMetadata": record}


def raw(records: dict[str, dict], by: RecordSchema) -> dict[str, RawRecord]:
    values = zip(sorted(records), by.encode([records[key] for key in sorted(records)]), strict=True)
    source = open_hfile(write_hfile([(k.encode(), v) for k, v in values], by.text, 0), "x")
    return {key.decode(): RawRecord(source, value) for key, value in source.entries()}


@pytest.mark.parametrize("by", [OLD, NEW])
def test_files_get_tombstones(by: RecordSchema) -> None:
    """One record a partition, every cleaned file in it with size 0 and deleted; the root partition is a dot."""
    update = files_update([CleanedPartition("", ["x"]), CleanedPartition("p", ["b", ".a.log.1_0-0-0"])], by)
    assert update is not None
    records = decode(update, by)
    gone = {"size": 0, "isDeleted": True}
    assert list(records) == [".", "p"]
    assert records["."]["filesystemMetadata"] == {"x": gone}
    assert records["p"] == {
        "key": "",
        "type": 2,
        "filesystemMetadata": {"b": gone, ".a.log.1_0-0-0": gone},
        "BloomFilterMetadata": None,
        "ColumnStatsMetadata": None,
    }
    assert update.deleted_keys == ()


def test_a_dropped_partition_leaves_the_list_of_partitions() -> None:
    """And its own record goes by a DELETE block in Hudi 1.x, and gets tombstones before that."""
    cleaned = [CleanedPartition("p", ["a"], dropped=True)]
    old, new = files_update(cleaned, OLD), files_update(cleaned, NEW)
    assert old is not None
    assert new is not None
    gone = {"size": 0, "isDeleted": True}
    assert decode(old, OLD)["__all_partitions__"]["filesystemMetadata"] == {"p": gone}
    assert decode(old, OLD)["p"]["filesystemMetadata"] == {"a": gone}
    assert (list(decode(new, NEW)), new.deleted_keys) == (["__all_partitions__"], ("p",))


def test_nothing_cleaned_is_no_update() -> None:
    """A delta commit without files is still written, but no log file."""
    assert files_update([], NEW) is None
    assert files_update([CleanedPartition("p", [])], NEW) is None


def test_with_a_dropped_partition_go_its_files() -> None:
    """All that are listed in it, and in order."""
    cleaned = with_dropped_files([CleanedPartition("q", [], True), CleanedPartition("p", ["a", "absent"])], LISTING)
    assert [(c.path, c.files) for c in cleaned] == [("p", ("a", "absent")), ("q", ("c",))]


def test_index_records_are_deleted_by_key() -> None:
    """Nothing is decoded for it, so those that say they are deleted go too; nothing found is no update."""
    live = dict([column_stats(c, "p", "a", NEW) for c in ("id", "ts")])
    dead = dict([column_stats("val", "p", "a", NEW, deleted=True)])
    update = index_update("column_stats", ("g", 0, 1), raw(live | dead, NEW), NEW, T)
    assert update == GroupUpdate("column_stats", "g", deleted_keys=tuple(sorted(live | dead)))
    assert index_update("column_stats", ("g", 0, 1), {}, NEW, T) is None


def test_keys_about_cleaned_files_end_alike() -> None:
    """By partition and name, whatever the column."""
    suffixes = file_suffixes([CleanedPartition("p", ["a", "b"])])
    assert suffixes == {file_suffix("p", "a"), file_suffix("p", "b")}


def test_older_tables_get_tombstones_in_their_indexes() -> None:
    """Hudi 0.15 writes the record again: column stats with counts of -1, bloom filters empty, both deleted."""
    key, record = column_stats("id", "p", "a", OLD)
    bloom = {"type": "DYNAMIC_V0", "timestamp": "1", "bloomFilter": b"xyz", "isDeleted": False}
    records = {key: record, file_suffix("p", "a"): {"type": 4, "BloomFilterMetadata": bloom}}
    update = index_update("column_stats", ("g", 0, 1), raw(records, OLD), OLD, T)
    assert update is not None
    written = decode(update, OLD)
    assert written[key]["ColumnStatsMetadata"] == {
        "fileName": "a",
        "columnName": "id",
        "minValue": None,
        "valueCount": -1,
        "nullCount": -1,
        "totalSize": -1,
        "totalUncompressedSize": -1,
        "isDeleted": True,
    }
    assert written[file_suffix("p", "a")]["BloomFilterMetadata"] == {
        "type": "",
        "timestamp": T,
        "bloomFilter": b"",
        "isDeleted": True,
    }


def test_a_record_in_the_wrong_group_is_refused() -> None:
    """Hudi would look for the key in another group, so the layout is not what we think."""
    key, record = column_stats("id", "p", "a", NEW)
    wrong = 1 - file_group_index(key, 2)
    with pytest.raises(CorruptMetadataError, match="belongs to another of its 2 groups"):
        index_update("column_stats", ("g", wrong, 2), raw({key: record}, NEW), NEW, T)


def test_a_log_file_has_an_hfile_block_then_a_delete_block() -> None:
    """Both with the instant and the schema; what is empty is not written."""
    update = files_update([CleanedPartition("d", ["x"], dropped=True), CleanedPartition("p", ["a"])], NEW)
    assert update is not None
    puts, deletes = read_blocks(update.encode(NEW, T, 5), "x")
    assert isinstance(puts, LogBlock)
    assert isinstance(deletes, LogBlock)
    assert (puts.type, deletes.type) == (BlockType.HFILE_DATA, BlockType.DELETE)
    assert (puts.instant_time, puts.schema, deletes.instant_time) == (T, NEW.text, T)
    assert [key for key, _ in open_hfile(puts.content, "x").entries()] == [b"__all_partitions__", b"p"]
    assert decode_deleted_keys(deletes.content, "x") == ["d"]


def slice_of(version: int, *listed: str) -> Slice:
    (found,) = newest_slices("files", listed, Validity(version, {}, "9", frozenset()))
    return found


def test_names_of_log_files() -> None:
    """Version 6 counts on from the slice's last log file; version 8 names by its own instant."""
    update = GroupUpdate("files", "files-0000-0")
    old = slice_of(6, "files-0000-0_1-2-3_100.hfile", ".files-0000-0_100.log.9_1-2-3", ".files-0000-0_100.log.10_1-2-3")
    assert new_log_file(update, old, T, 6, b"").path == "files/.files-0000-0_100.log.11_0-0-0"
    new = slice_of(8, "files-0000-0_1-2-3_100.hfile", ".files-0000-0_101.log.1_1-2-3")
    assert new_log_file(update, new, T, 8, b"").path == f"files/.files-0000-0_{T}.log.1_0-0-0"


def test_commit_metadata_of_version_6_is_json() -> None:
    """With the whole slice's log files, its base file and its base instant."""
    onto = slice_of(6, "files-0000-0_1-2-3_100.hfile", ".files-0000-0_100.log.1_1-2-3")
    file = new_log_file(GroupUpdate("files", "files-0000-0", ((b"k", b""),)), onto, T, 6, b"12345")
    commit = json.loads(encode_deltacommit([file], T, read_precedent(precedent(), "x"), 6))
    (stat,) = commit["partitionToWriteStats"]["files"]
    assert stat["prevCommit"] == "100"
    assert stat["baseFile"] == "files-0000-0_1-2-3_100.hfile"
    assert stat["logFiles"] == [".files-0000-0_100.log.1_1-2-3", ".files-0000-0_100.log.2_0-0-0"]
    assert (stat["numWrites"], stat["numDeletes"], stat["fileSizeInBytes"]) == (1, 0, 5)
    assert commit["extraMetadata"] == {"schema": NEW.text}


def precedent() -> bytes:
    return json.dumps({"extraMetadata": {"schema": NEW.text}}).encode()


@pytest.mark.parametrize("bad", [b"", b"[]", b"{", b"{}", b'{"extraMetadata": {"schema": "{}"}}'])
def test_a_precedent_without_the_records_schema_is_refused(bad: bytes) -> None:
    """There is no schema to write with."""
    with pytest.raises(CorruptMetadataError, match="x"):
        read_precedent(bad, "x")


def test_empty_validity_has_no_slices() -> None:
    """Nothing listed, nothing found."""
    assert newest_slices("files", [], Validity.of(6, Timeline(()), Timeline(()))) == ()

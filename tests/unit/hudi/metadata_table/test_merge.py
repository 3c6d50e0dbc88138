"""Merging slices: which blocks count, and what comes out for each record type."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hudi_mdt_records import SCHEMA, T1, files, hfile, log, merged_records

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.files.logs import BlockType, HeaderKey, encode_block, read_blocks
from lakemeta.hudi.metadata_table.hfile import open_hfile
from lakemeta.hudi.metadata_table.hfile_writer import write_hfile
from lakemeta.hudi.metadata_table.merge import Layer, log_layers, records_about_files
from lakemeta.hudi.metadata_table.records import (
    RecordSchema,
    RecordType,
    decode_deleted_keys,
    encode_deleted_keys,
)
from lakemeta.hudi.metadata_table.slices import Validity, counted_blocks, newest_slices
from lakemeta.hudi.timeline.instants import Timeline, parse_instant

T2, T3, T4 = (f"2026010100000000{i}" for i in range(2, 5))


def merged(base: bytes | None, *contents: bytes | list[str]) -> dict:
    blocks = [("log", block) for block in read_blocks(log(*contents), "log")]
    return merged_records(all_layers(base, blocks))


def all_layers(base: bytes | None, blocks: list) -> list[Layer]:
    bottom = [Layer(open_hfile(base, "base"))] if base else []
    return [*bottom, *log_layers(blocks)]


def stats(low: int | None, high: int | None, count: int, **more: bool) -> bytes:
    wrapped = [None if value is None else {"value": value} for value in (low, high)]
    counts = dict.fromkeys(("valueCount", "nullCount", "totalSize", "totalUncompressedSize"), count)
    record = {"minValue": wrapped[0], "maxValue": wrapped[1], **counts, "isDeleted": False, **more}
    return SCHEMA.encode([{"type": RecordType.PARTITION_STATS, "ColumnStatsMetadata": record}])[0]


def test_a_delete_block_takes_keys_away() -> None:
    """And a later record starts afresh."""
    old, new = hfile(("p", files({"a": (1, False)}))), hfile(("p", files({"b": (1, False)})))
    assert merged(old, ["p", "absent"]) == {}
    assert list(merged(old, ["p"], new)["p"]["filesystemMetadata"]) == ["b"]


def test_records_of_different_types_do_not_merge() -> None:
    """One key is of one type."""
    with pytest.raises(CorruptMetadataError, match="type 2 on top of one of type 6"):
        merged(hfile(("p", stats(1, 2, 3))), hfile(("p", files({}))))


def test_records_about_files_are_found_by_the_end_of_their_keys() -> None:
    """The newest of each, not decoded; deleted ones and those about other files are left out."""
    mine, gone, other = (f"{'column'.ljust(12, c)}{c * 36}" for c in "abc")
    newer = hfile((mine, stats(1, 1, 1)), (gone, b"junk"))
    blocks = [("log", b) for b in read_blocks(log(newer, [gone, "absent"]), "log")]
    base = hfile((mine, b"junk"), (other, b"junk"))
    found = records_about_files(all_layers(base, blocks), frozenset({"a" * 36, "b" * 36}))
    assert list(found) == [mine]
    assert found[mine].decode()["type"] == 6


def test_keys_that_are_no_text_are_damage() -> None:
    """Keys are UTF-8."""
    base = write_hfile([(b"\xff" + b"a" * 36, stats(1, 1, 1))], SCHEMA.text, 0)
    with pytest.raises(CorruptMetadataError, match="not UTF-8"):
        records_about_files(all_layers(base, []), frozenset({"a" * 36}))


def test_blocks_of_other_kinds_are_refused() -> None:
    """A metadata table holds HFile and DELETE blocks."""
    (block,) = read_blocks(encode_block(BlockType.PARQUET_DATA, {}, b""), "log")
    with pytest.raises(CorruptMetadataError, match="PARQUET_DATA block"):
        list(log_layers([("log", block)]))


@given(st.lists(st.text()))
def test_deleted_keys_come_back(keys: list[str]) -> None:
    """DELETE blocks hold any keys."""
    assert decode_deleted_keys(encode_deleted_keys("column_stats", keys), "x") == keys


def test_delete_blocks_are_hudis() -> None:
    """Byte for byte as Hudi 1.2.0 wrote one for column_stats."""
    body = b"\x02\x02\x06abc\x02\x18column_stats\x04\x00\x00"
    assert encode_deleted_keys("column_stats", ["abc"]) == b"\0\0\0\3\0\0\0" + bytes([len(body)]) + body


@pytest.mark.parametrize("bad", [b"", b"\0\0\0\3", b"\0\0\0\3\0\0\0\2\0", b"\0\0\0\3\0\0\0\1\2"])
def test_damaged_delete_blocks_are_refused(bad: bytes) -> None:
    """Cut, or of a length that does not fit."""
    with pytest.raises(CorruptMetadataError, match="x"):
        decode_deleted_keys(bad, "x")


def test_a_deletion_without_key_is_refused() -> None:
    """The schema allows it, and it could mean any record."""
    body = b"\x02\0\0\0\0"
    with pytest.raises(CorruptMetadataError, match="x: a DELETE block deletes a record without key"):
        decode_deleted_keys(b"\0\0\0\3\0\0\0" + bytes([len(body)]) + body, "x")


def test_older_delete_blocks_are_refused() -> None:
    """Versions 1 and 2 are serialized Java objects."""
    with pytest.raises(UnsupportedFeatureError, match="version 2"):
        decode_deleted_keys(b"\0\0\0\2\0\0\0\0", "x")


def test_a_field_that_must_not_be_empty_is_refused() -> None:
    """A newer schema may need what we do not know."""
    newer = RecordSchema(SCHEMA.text.replace('["null","string"]', '"string"', 1))
    with pytest.raises(UnsupportedFeatureError, match="_hoodie_commit_time"):
        newer.encode_files(RecordType.FILES, [])


def timeline(*file_names: str) -> Timeline:
    return Timeline.of(i for i in map(parse_instant, file_names) if i is not None)


def validity(version: int, data: list[str], metadata: list[str], **more: object) -> Validity:
    return Validity.of(version, timeline(*data), timeline(*metadata), **more)


def test_which_instants_are_valid() -> None:
    """Completed on either side counts, pending on the data table does not, archived there does."""
    v = validity(
        6,
        [f"{T1}.commit", f"{T2}.commit.requested", f"{T4}.rollback"],
        [f"{T1}.deltacommit", f"{T2}.deltacommit", f"{T3}.deltacommit", f"{T4}.deltacommit.requested"],
        rolled_back=["20250101000000000"],
    )
    assert v.valid == {T1, T3, T4, "20250101000000000"}
    assumed = validity(6, [f"{T2}.clean.inflight"], [f"{T2}.deltacommit"], assume_completed=T2)
    assert assumed.valid == {T2}


def test_blocks_that_do_not_count_are_left_out() -> None:
    """By instant, and by rollback commands of version 6, which drop earlier blocks only."""
    v = validity(6, [f"{T}.commit" for T in (T1, T2, T3)], [])
    command = {
        HeaderKey.INSTANT_TIME: T3,
        HeaderKey.TARGET_INSTANT_TIME: T2,
        HeaderKey.COMMAND_BLOCK_TYPE: "0",
    }
    rollback = encode_block(BlockType.COMMAND, command, b"")
    data = log(["1"], instant=T1) + log(["2"], instant=T2) + log(["4"], instant=T4) + rollback
    kept = counted_blocks([("a", data), ("b", log(["5"], instant=T2))], v)
    assert [(path, block.instant_time) for path, block in kept] == [("a", T1), ("b", T2)]


def test_log_compacted_blocks_are_refused() -> None:
    """They stand for earlier blocks, which must not be counted again."""
    data = encode_block(BlockType.DELETE, {HeaderKey.COMPACTED_BLOCK_TIMES: T1}, b"")
    with pytest.raises(UnsupportedFeatureError, match="log-compacted"):
        counted_blocks([("a", data)], validity(8, [], []))


def test_torn_blocks_count_as_damage_unless_nobody_counts_them() -> None:
    """A torn block of an instant that never completed is a dead writer's."""
    v = validity(6, [f"{T1}.commit"], [])
    assert list(counted_blocks([("a", log(["1"], instant=T2)[:-3])], v)) == []
    with pytest.raises(CorruptMetadataError, match="a is damaged at byte 0"):
        list(counted_blocks([("a", log(["1"], instant=T1)[:-3])], v))


def test_slices_of_version_6() -> None:
    """Log files are named by the base of their slice; the newest completed base is the newest slice."""
    v = validity(6, [], [f"{T1}.deltacommit", f"{T2}.commit", f"{T3}.compaction.requested"])
    listed = [
        f"files-0000-0_0-1-2_{T1}.hfile",
        f"files-0000-0_0-1-2_{T2}.hfile",
        f"files-0000-0_0-1-2_{T3}.hfile",
        f".files-0000-0_{T1}.log.1_0-0-0",
        f".files-0000-0_{T2}.log.10_0-0-0",
        f".files-0000-0_{T2}.log.9_0-0-0",
        ".hoodie_partition_metadata",
    ]
    (found,) = newest_slices("files", listed, v)
    assert (found.base_file, found.base_instant) == (f"files-0000-0_0-1-2_{T2}.hfile", T2)
    assert [log.version for log in found.log_files] == [9, 10]


def test_slices_of_version_8() -> None:
    """Log files are named by their own delta commit, and belong to what was there when it completed."""
    v = validity(
        8,
        [],
        [f"{T1}_{T2}.deltacommit", f"{T2}_{T4}.deltacommit", f"{T3}_{T4}.commit", f"{T4}.deltacommit.inflight"],
    )
    listed = [
        f"col-stats-0000-0_0-1-2_{T3}.hfile",
        *(f".col-stats-0000-0_{T}.log.1_0-0-0" for T in (T1, T2, T4)),
        f".col-stats-0001-0_{T1}.log.1_0-0-0",
    ]
    first, second = newest_slices("column_stats", listed, v)
    assert [log.instant for log in first.log_files] == [T2]
    assert (second.base_file, [log.instant for log in second.log_files]) == (None, [T1])


def test_file_groups_of_another_partition_are_refused() -> None:
    """They would change the number of groups by which keys are found."""
    with pytest.raises(UnsupportedFeatureError, match="expr-index-i-0000-0 in partition column_stats"):
        newest_slices("column_stats", [f".expr-index-i-0000-0_{T1}.log.1_0-0-0"], validity(8, [], []))

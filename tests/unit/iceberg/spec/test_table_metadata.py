"""Table metadata: reading, refusing, writing back."""

from __future__ import annotations

import gzip
import json
from typing import Any

import attrs
import pytest
from support.iceberg_cases import PARAMS, Cases, read_json
from support.iceberg_values import table

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.metadata_json import dump_metadata, load_metadata, metadata_from_json, metadata_to_json
from lakemeta.iceberg.spec.table_metadata import Snapshot, SnapshotRef


@pytest.mark.parametrize("name", PARAMS)
def test_what_iceberg_writes_comes_back_equal(name: str, iceberg_cases: Cases) -> None:
    """Every recorded metadata file is equal as JSON after reading and writing, keys in the same order."""
    for path in iceberg_cases.shared(name).metadata_files():
        recorded = read_json(path)
        written = metadata_to_json(load_metadata(path.read_bytes(), str(path)))
        assert written == recorded
        if not name.startswith("plan_"):  # those were not written by the engine
            assert list(written) == list(recorded)


def column(number: int, name: str) -> dict[str, Any]:
    return {"id": number, "name": name, "required": False, "type": "long"}


SNAPSHOT = {"snapshot-id": 1, "timestamp-ms": 2, "manifest-list": "l"}
COLUMNS = {"type": "struct", "schema-id": 0, "fields": [column(1, "a")]}


def changed(**keys: Any) -> dict[str, Any]:
    """The JSON of an empty table with some keys set, or dropped if None."""
    value = metadata_to_json(table()) | {k.replace("_", "-"): v for k, v in keys.items()}
    return {k: v for k, v in value.items() if v is not None}


@pytest.mark.parametrize("version", [1, 2, 3])
def test_every_version_round_trips(version: int) -> None:
    """Also gzipped, which is recognised by its first bytes; one value gives one sequence of bytes."""
    metadata = table(format_version=version)
    for compress in (False, True):
        data = dump_metadata(metadata, compress=compress)
        assert (data[:2] == b"\x1f\x8b") == compress
        assert load_metadata(data, "v1.metadata.json") == metadata
        assert dump_metadata(metadata, compress=compress) == data


def test_unknown_keys_survive() -> None:
    """What this version does not know is kept at every level."""
    snapshot = {"snapshot-id": 1, "timestamp-ms": 2, "manifest-list": "l", "sequence-number": 1, "new": [1]}
    ref = {"snapshot-id": 1, "type": "branch", "hint": "x"}
    value = changed(
        future={"a": 1}, snapshots=[snapshot], refs={"main": ref}, current_snapshot_id=1, last_sequence_number=1
    )
    written = metadata_to_json(metadata_from_json(value))
    assert written["future"] == {"a": 1}
    assert written["snapshots"] == [snapshot]
    assert written["refs"] == {"main": ref}


def test_old_version_1_tables() -> None:
    """Tables from before schemas had ids have one schema and one spec, no uuid and no refs."""
    schema = {"type": "struct", "fields": [{"id": 1, "name": "id", "required": True, "type": "long"}]}
    value = {
        "format-version": 1,
        "location": "/t",
        "last-updated-ms": 1,
        "last-column-id": 1,
        "schema": schema,
        "partition-spec": [{"name": "b", "transform": "bucket[4]", "source-id": 1}],
        "current-snapshot-id": 5,
        "snapshots": [{"snapshot-id": 5, "timestamp-ms": 1, "manifests": ["/t/m.avro"]}],
    }
    metadata = metadata_from_json(value)
    assert (metadata.schema.schema_id, metadata.spec.fields[0].field_id, metadata.last_partition_id) == (0, 1000, 1000)
    assert metadata.table_uuid is None
    assert metadata.sort_order.order_id == 0
    assert metadata.refs == {"main": SnapshotRef(5, "branch")}
    assert metadata.current_snapshot == Snapshot(5, 1, None, manifests=("/t/m.avro",))
    written = metadata_to_json(metadata)
    assert "table-uuid" not in written
    assert written["partition-spec"][0]["field-id"] == 1000
    assert metadata_from_json(written) == metadata


def test_no_snapshot_is_minus_one_before_version_3() -> None:
    """Readers of version 1 and 2 expect -1, version 3 has null."""
    assert metadata_to_json(table())["current-snapshot-id"] == -1
    assert metadata_to_json(table(format_version=3))["current-snapshot-id"] is None
    assert metadata_from_json(changed(current_snapshot_id=-1)).current_snapshot is None


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"format_version": 4}, "format version 4; lakemeta handles 1, 2 and 3"),
        ({"encryption_keys": [{"key-id": "k"}]}, "encrypted"),
        ({"properties": {"encryption.key-id": "k"}}, "encrypted"),
        (
            {"snapshots": [{"snapshot-id": 1, "timestamp-ms": 1, "manifest-list": "m", "key-id": "k"}]},
            "snapshot 1 is encrypted",
        ),
    ],
)
def test_what_is_not_handled_is_refused_by_name(keys: dict[str, Any], message: str) -> None:
    """A newer format version, or encryption."""
    with pytest.raises(UnsupportedFeatureError, match=message):
        metadata_from_json(changed(**keys))


@pytest.mark.parametrize(
    ("keys", "message"),
    [
        ({"current_schema_id": 7}, "current schema 7"),
        ({"default_spec_id": 7}, "current partition spec 7"),
        ({"default_sort_order_id": 7}, "current sort order 7"),
        ({"current_snapshot_id": 7}, "current snapshot 7"),
        ({"refs": {"tag": {"snapshot-id": 7, "type": "tag"}}}, "snapshot of ref tag 7"),
        ({"refs": {"tag": {"snapshot-id": 7, "type": "twig"}}}, "type twig"),
        ({"table_uuid": None}, "has no table-uuid"),
        ({"location": None}, "has no location"),
        ({"last_sequence_number": "1"}, "last-sequence-number is not a whole number"),
        ({"properties": {"a": 1}}, "a is not a string"),
        ({"snapshots": [{"timestamp-ms": 1}]}, "has no snapshot-id"),
        ({"snapshots": [{**SNAPSHOT, "sequence-number": 3}], "last_sequence_number": 2}, "has the sequence number 3"),
        ({"last_sequence_number": -1}, "last-sequence-number is -1"),
        ({"format_version": 3, "next_row_id": -1}, "next-row-id is -1"),
        (
            {"format_version": 3, "next_row_id": 4, "snapshots": [{**SNAPSHOT, "first-row-id": 2, "added-rows": 3}]},
            "snapshot 1 has row ids up to 5, and next-row-id is 4",
        ),
        ({"snapshots": [SNAPSHOT, SNAPSHOT]}, "several snapshots with the id 1"),
        ({"schemas": [COLUMNS, COLUMNS]}, "several schemas with the id 0"),
        ({"schemas": [{**COLUMNS, "fields": [column(1, "a"), column(1, "b")]}]}, "several columns with the id 1"),
        ({"schemas": [{**COLUMNS, "fields": [column(1, "a"), column(2, "a")]}]}, "several columns with the name a"),
        ({"partition_specs": [{"spec-id": 0, "fields": []}] * 2}, "several partition specs with the id 0"),
        ({"sort_orders": [{"order-id": 0, "fields": []}] * 2}, "several sort orders with the id 0"),
    ],
)
def test_contradictions_are_corrupt(keys: dict[str, Any], message: str) -> None:
    """Ids must name what is there, and keys must be of their type."""
    with pytest.raises(CorruptMetadataError, match=message):
        metadata_from_json(changed(**keys))


def test_main_must_be_the_current_snapshot() -> None:
    """The main branch and current-snapshot-id say the same."""
    snapshots = [{"snapshot-id": i, "timestamp-ms": i, "manifest-list": "m"} for i in (1, 2)]
    refs = {"main": {"snapshot-id": 1, "type": "branch"}}
    with pytest.raises(CorruptMetadataError, match="main branch"):
        metadata_from_json(changed(snapshots=snapshots, refs=refs, current_snapshot_id=2))


@pytest.mark.parametrize("data", [b"", b"nonsense", b"[]", b"\x1f\x8bnonsense", gzip.compress(b"{}", mtime=0)])
def test_bytes_that_are_no_metadata_name_the_file(data: bytes) -> None:
    """The message starts with the path."""
    with pytest.raises(CorruptMetadataError, match=r"^/t/v3\.metadata\.json"):
        load_metadata(data, "/t/v3.metadata.json")


def test_ancestors_end_where_history_was_expired() -> None:
    """The chain of parents is followed as far as it is known, and a loop ends it."""
    snapshots = tuple(Snapshot(i, i, "m", parent_snapshot_id=i - 1) for i in (2, 3, 4))
    metadata = table(snapshots=snapshots, current_snapshot_id=4)
    assert [s.snapshot_id for s in metadata.ancestors(4)] == [4, 3, 2]
    looped = attrs.evolve(metadata, snapshots=(attrs.evolve(snapshots[0], parent_snapshot_id=4), *snapshots[1:]))
    assert [s.snapshot_id for s in looped.ancestors(4)] == [4, 3, 2]
    assert list(metadata.ancestors(None)) == []


def test_heads_of_branches() -> None:
    """A branch is found by name, a tag is no branch."""
    refs = {"main": SnapshotRef(2, "branch"), "b": SnapshotRef(1, "branch"), "t": SnapshotRef(1, "tag")}
    snapshots = (Snapshot(1, 1, "m"), Snapshot(2, 2, "m", summary={"operation": "append"}))
    metadata = table(snapshots=snapshots, current_snapshot_id=2, refs=refs)
    heads = [metadata.branch_head(name) for name in ("main", "b", "t", "none")]
    assert [h and h.snapshot_id for h in heads] == [2, 1, None, None]
    assert metadata.snapshot(2).operation == "append"
    with pytest.raises(CorruptMetadataError, match="no snapshot 9"):
        metadata.snapshot(9)


def test_json_keeps_every_digit() -> None:
    """Snapshot ids of 63 bits are whole numbers, not floats."""
    big = 2**63 - 1
    metadata = table(snapshots=(Snapshot(big, 1, "m"),), current_snapshot_id=big)
    assert json.loads(dump_metadata(metadata))["current-snapshot-id"] == big

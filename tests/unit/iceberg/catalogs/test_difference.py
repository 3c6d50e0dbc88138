"""What a catalog is sent: the updates give the new version, the requirements name every ref that could be lost."""

from __future__ import annotations

import json
import random
from typing import Any

import attrs
import pytest
from pydantic import TypeAdapter
from pyiceberg.exceptions import CommitFailedException
from pyiceberg.table.metadata import TableMetadataUtil
from pyiceberg.table.update import TableRequirement, TableUpdate, update_table_metadata

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.catalogs.difference import Difference, difference
from lakemeta.iceberg.spec.metadata_json import metadata_from_json, metadata_to_json
from lakemeta.iceberg.spec.table_metadata import Snapshot, SnapshotRef, StatisticsFile, TableMetadata

UUID = "9c12d441-03fe-4693-9a96-a0705ddf69c1"


def column(number: int) -> dict[str, Any]:
    return {"id": number, "name": f"c{number}", "required": False, "type": "long"}


def snapshot(number: int, parent: int | None = None) -> dict[str, Any]:
    return {
        "snapshot-id": number,
        **({"parent-snapshot-id": parent} if parent else {}),
        "sequence-number": number,
        "timestamp-ms": 1_000 * number,
        "manifest-list": f"/t/metadata/snap-{number}.avro",
        "summary": {"operation": "append"},
        "schema-id": 0,
    }


def statistics(number: int, version: int = 1) -> dict[str, Any]:
    common = {"snapshot-id": number, "statistics-path": f"/t/metadata/{number}-{version}.puffin"}
    return {**common, "file-size-in-bytes": 9, "file-footer-size-in-bytes": 3, "blob-metadata": []}


def partition_statistics(number: int) -> dict[str, Any]:
    return {"snapshot-id": number, "statistics-path": f"/t/metadata/{number}.parquet", "file-size-in-bytes": 7}


def table() -> TableMetadata:
    """Six snapshots: 1 to 4 on main, 5 on a branch, 6 under a tag; two schemas and two specs, statistics of 1, 3, 4."""
    document = {
        "format-version": 2,
        "table-uuid": UUID,
        "location": "/t",
        "last-sequence-number": 6,
        "last-updated-ms": 6_000,
        "last-column-id": 2,
        "current-schema-id": 1,
        "schemas": [
            {"type": "struct", "schema-id": 0, "fields": [column(1)]},
            {"type": "struct", "schema-id": 1, "fields": [column(1), column(2)]},
        ],
        "default-spec-id": 1,
        "partition-specs": [
            {"spec-id": 0, "fields": []},
            {"spec-id": 1, "fields": [{"name": "c1", "transform": "identity", "source-id": 1, "field-id": 1000}]},
        ],
        "last-partition-id": 1000,
        "default-sort-order-id": 0,
        "sort-orders": [{"order-id": 0, "fields": []}],
        "properties": {},
        "current-snapshot-id": 4,
        "refs": {
            "main": {"snapshot-id": 4, "type": "branch"},
            "side": {"snapshot-id": 5, "type": "branch", "max-snapshot-age-ms": 5},
            "kept": {"snapshot-id": 6, "type": "tag", "max-ref-age-ms": 7},
        },
        "snapshots": [snapshot(1), *(snapshot(n, n - 1) for n in (2, 3, 4)), snapshot(5, 3), snapshot(6)],
        "statistics": [statistics(1), statistics(4)],
        "partition-statistics": [partition_statistics(3), partition_statistics(4)],
        "snapshot-log": [{"timestamp-ms": 1_000 * n, "snapshot-id": n} for n in (1, 2, 3, 4)],
        "metadata-log": [],
    }
    return metadata_from_json(document)


def without(base: TableMetadata, *gone: int, refs: tuple[str, ...] = ()) -> TableMetadata:
    """The table after some snapshots went, their statistics with them."""
    return attrs.evolve(
        base,
        snapshots=tuple(s for s in base.snapshots if s.snapshot_id not in gone),
        refs={name: ref for name, ref in base.refs.items() if name not in refs},
        statistics=tuple(s for s in base.statistics if s.snapshot_id not in gone),
        partition_statistics=tuple(s for s in base.partition_statistics if s.snapshot_id not in gone),
    )


def appended(base: TableMetadata, branch: str = "main") -> TableMetadata:
    """The table after one more snapshot on a branch, which may be new."""
    new = Snapshot(7, 7_000, "/t/metadata/snap-7.avro", 4, 7, {"operation": "replace"}, 1)
    ref = base.refs.get(branch)
    head = attrs.evolve(ref, snapshot_id=7) if ref else SnapshotRef(7, "branch")
    return attrs.evolve(
        base,
        snapshots=(*base.snapshots, new),
        last_sequence_number=7,
        refs={**base.refs, branch: head},
        current_snapshot_id=7 if branch == "main" else base.current_snapshot_id,
    )


def interpreted(base: TableMetadata, found: Difference) -> dict[str, Any]:
    """What the REST specification says that the updates make of a table; it shares no code with what makes them."""
    state: dict[str, Any] = json.loads(json.dumps(metadata_to_json(base)))
    for update in found.updates:
        match update["action"]:
            case "add-snapshot":
                state["snapshots"].append(update["snapshot"])
            case "set-snapshot-ref":
                assert update["snapshot-id"] in [s["snapshot-id"] for s in state["snapshots"]]
                ref = {k: v for k, v in update.items() if k not in ("action", "ref-name")}
                state["refs"][update["ref-name"]] = ref
                if update["ref-name"] == "main":
                    state["current-snapshot-id"] = update["snapshot-id"]
            case "remove-snapshot-ref":
                del state["refs"][update["ref-name"]]
            case "remove-snapshots":
                dangling = {n for n, ref in state["refs"].items() if ref["snapshot-id"] in update["snapshot-ids"]}
                assert not dangling
                state["snapshots"] = [s for s in state["snapshots"] if s["snapshot-id"] not in update["snapshot-ids"]]
            case "set-statistics" | "set-partition-statistics" as action:
                kind = action.removeprefix("set-")
                others = [s for s in state[kind] if s["snapshot-id"] != update[kind]["snapshot-id"]]
                state[kind] = [*others, update[kind]]
            case "remove-statistics" | "remove-partition-statistics" as action:
                kind = action.removeprefix("remove-")
                state[kind] = [s for s in state[kind] if s["snapshot-id"] != update["snapshot-id"]]
            case "remove-schemas":
                state["schemas"] = [s for s in state["schemas"] if s["schema-id"] not in update["schema-ids"]]
            case "remove-partition-specs":
                kept = [s for s in state["partition-specs"] if s["spec-id"] not in update["spec-ids"]]
                state["partition-specs"] = kept
            case other:
                raise AssertionError(other)
    return comparable(state)


def comparable(state: dict[str, Any]) -> dict[str, Any]:
    """What the updates decide; catalogs derive logs, times and the highest numbers."""
    sets = ("snapshots", "statistics", "partition-statistics", "schemas", "partition-specs")
    listed = {name: sorted(json.dumps(item, sort_keys=True) for item in state[name]) for name in sets}
    return {**listed, "refs": state["refs"], "current-snapshot-id": state["current-snapshot-id"]}


def by_pyiceberg(base: TableMetadata, found: Difference) -> dict[str, Any]:
    """What pyiceberg's own catalogs make of the requirements and updates; they unset parents that went."""
    before = TableMetadataUtil.parse_obj(metadata_to_json(base))
    for requirement in TypeAdapter(tuple[TableRequirement, ...]).validate_python(found.requirements):
        requirement.validate(before)
    updates = TypeAdapter(tuple[TableUpdate, ...]).validate_python(found.updates)
    document = json.loads(update_table_metadata(before, updates).model_dump_json())
    return comparable(metadata_to_json(metadata_from_json(document)))


def new_statistics(base: TableMetadata) -> TableMetadata:
    """Statistics of both kinds for the current snapshot, one replaced and one new."""
    extras = {"file-footer-size-in-bytes": 3, "blob-metadata": []}
    newer = StatisticsFile(4, "/t/metadata/4-2.puffin", 10, extras)
    first = StatisticsFile(5, "/t/metadata/5.parquet", 8)
    kept = tuple(s for s in base.statistics if s.snapshot_id != 4)
    return attrs.evolve(base, statistics=(*kept, newer), partition_statistics=(*base.partition_statistics, first))


def cleaned(base: TableMetadata) -> TableMetadata:
    """The table after an expiration that also took a schema and a partition spec."""
    left = without(base, 1, 2)
    return attrs.evolve(left, schemas=left.schemas[1:], partition_specs=left.partition_specs[1:])


CHANGES: dict[str, Any] = {
    "a new snapshot": appended,
    "a new branch": lambda base: appended(base, "new"),
    "snapshots removed": lambda base: without(base, 1, 2),
    "a tag and its snapshot removed": lambda base: without(base, 6, refs=("kept",)),
    "a branch removed": lambda base: without(base, refs=("side",)),
    "schemas and specs removed": cleaned,
    "statistics": new_statistics,
    "statistics removed": lambda base: attrs.evolve(base, statistics=(), partition_statistics=()),
    "everything at once": lambda base: new_statistics(appended(without(base, 1, 2, 6, refs=("kept",)))),
}


@pytest.mark.parametrize("change", CHANGES)
def test_the_updates_give_the_new_version(change):
    """Read as the REST specification has it, and by pyiceberg; snapshots whose parent went lose it in pyiceberg."""
    base = table()
    new = CHANGES[change](base)
    found = difference(base, new)
    assert interpreted(base, found) == comparable(metadata_to_json(new))
    gone = {s.snapshot_id for s in base.snapshots} - {s.snapshot_id for s in new.snapshots}
    orphans = tuple(
        attrs.evolve(s, parent_snapshot_id=None) if s.parent_snapshot_id in gone else s for s in new.snapshots
    )
    assert by_pyiceberg(base, found) == comparable(metadata_to_json(attrs.evolve(new, snapshots=orphans)))


def test_any_snapshots_that_no_ref_needs_can_go():
    """Random removals: the updates give the new version whatever goes together."""
    dice = random.Random(13)
    base = table()
    for _ in range(40):
        refs = tuple(name for name in ("side", "kept") if dice.random() < 0.4)
        heads = {ref.snapshot_id for name, ref in base.refs.items() if name not in refs}
        gone = [s.snapshot_id for s in base.snapshots if s.snapshot_id not in heads and dice.random() < 0.6]
        new = without(base, *gone, refs=refs)
        assert interpreted(base, difference(base, new)) == comparable(metadata_to_json(new))


def asserted(found: Difference) -> dict[str, int | None]:
    return {r["ref"]: r["snapshot-id"] for r in found.requirements if r["type"] == "assert-ref-snapshot-id"}


@pytest.mark.parametrize("change", ["snapshots removed", "a branch removed", "schemas and specs removed"])
def test_every_ref_is_asserted_where_something_goes(change):
    """A catalog removes refs silently with their snapshots, so a ref that moved must make the commit fail."""
    base = table()
    found = difference(base, CHANGES[change](base))
    assert asserted(found) == {"main": 4, "side": 5, "kept": 6}
    moved = attrs.evolve(base, refs={**base.refs, "kept": SnapshotRef(1, "tag")})
    with pytest.raises(CommitFailedException, match="kept has changed"):
        by_pyiceberg(moved, found)


def test_refs_that_move_or_are_new_are_asserted():
    """A new branch must not be there yet; other branches may move while a snapshot is added."""
    base = table()
    assert asserted(difference(base, appended(base))) == {"main": 4}
    assert asserted(difference(base, appended(base, "new"))) == {"new": None}
    assert difference(base, appended(base)).requirements[0] == {"type": "assert-table-uuid", "uuid": UUID}


def test_ids_are_asserted_where_schemas_or_specs_go():
    """A schema or spec that a writer added or chose meanwhile makes the commit fail."""
    base = table()
    found = difference(base, cleaned(base))
    kinds = {key: value for r in found.requirements for key, value in r.items() if key.endswith("-id")}
    assert kinds["current-schema-id"] == kinds["default-spec-id"] == 1
    assert (kinds["last-assigned-field-id"], kinds["last-assigned-partition-id"]) == (2, 1000)
    assert not any("schema" in r["type"] for r in difference(base, without(base, 1)).requirements)


def test_nothing_is_sent_for_no_change():
    """The same version twice differs in nothing."""
    assert difference(table(), table()).updates == ()


@pytest.mark.parametrize(
    ("changes", "named"),
    [
        ({"properties": {"a": "b"}}, "properties"),
        ({"location": "/other"}, "location"),
        ({"current_schema_id": 0}, "current-schema-id"),
        ({"format_version": 3, "next_row_id": 0}, "format-version"),
        ({"extras": {"x": 1}}, "extras"),
        ({"last_sequence_number": 99}, "last-sequence-number 99"),
        ({"current_snapshot_id": 3}, "current-snapshot-id 3"),
        ({"schemas": (*table().schemas[1:], attrs.evolve(table().schemas[0], schema_id=9))}, "schema 9"),
        ({"partition_specs": (*table().partition_specs, attrs.evolve(table().spec, spec_id=9))}, "partition spec 9"),
        ({"snapshots": (attrs.evolve(table().snapshots[0], timestamp_ms=1), *table().snapshots[1:])}, "snapshot 1"),
        ({"statistics": (*table().statistics, attrs.evolve(table().statistics[0], file_size_in_bytes=1))}, "several"),
    ],
)
def test_any_other_change_is_refused_by_name(changes, named):
    """What no update can say is never left out in silence."""
    with pytest.raises(UnsupportedFeatureError, match=f"{named}.*nothing was changed"):
        difference(table(), attrs.evolve(table(), **changes))


def test_a_table_without_uuid_is_refused():
    """Old tables of version 1 may have none, and then no requirement can name the table."""
    with pytest.raises(UnsupportedFeatureError, match="no uuid"):
        difference(attrs.evolve(table(), table_uuid=None), table())

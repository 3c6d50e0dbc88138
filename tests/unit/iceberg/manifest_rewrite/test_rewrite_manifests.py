"""Rewriting manifests of small tables: options, what is refused, and commits beside others."""

from __future__ import annotations

import math
from collections import Counter

import attrs
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.errors import (
    CommitConflictError,
    CorruptMetadataError,
    OptionError,
    StalePlanError,
    UnsupportedFeatureError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.commit import new_manifests
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifest_rewrite.planner import refuse_uncounted
from lakemeta.iceberg.manifests.codec import write_moved
from lakemeta.iceberg.manifests.entries import ManifestFile
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

MANIFESTS = "rewrite-manifests"


@pytest.fixture
def small(tmp_path) -> SmallTable:
    return made(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> SmallTable:
    """For tests in which nothing may change."""
    return made(tmp_path_factory.mktemp("shared"))


def made(tmp_path) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for i in range(4):
        table.append([(i, "a", 0.5)], [(i + 10, "b", 0.5), (i + 20, "b", 1.5)])
    table.delete_positions(table.data_files()[1], [0])
    table.delete_ids(2, partition=("a",))
    table.remove(table.data_files()[0])
    return table


def opened(small: SmallTable, operations=None) -> IcebergTable:
    return IcebergTable(Place(small.root, operations or small.operations))


def unchanged(small: SmallTable):
    return sorted(path.name for path in (small.storage.list_dir(f"{small.root}/metadata")))


def live(small: SmallTable) -> Counter:
    """Every live entry of the current snapshot with its numbers."""
    keys = ("snapshot_id", "sequence_number", "file_sequence_number")
    entries = TableState.local(small.root).live(0, 1, 2)
    return Counter((e["data_file"]["file_path"], *(e[key] for key in keys), str(e["data_file"])) for e in entries)


def test_manifests_are_clustered(small):
    """One manifest of data and one of deletes are left, with every live entry; a second run finds nothing."""
    rows, before = TableState.local(small.root).rows(), live(small)
    table = opened(small)
    report = table.apply(table.plan(MANIFESTS), env=small.env)
    assert report.result == {"rewritten_manifests_count": 6, "added_manifests_count": 2}
    assert report.committed == str(small.head.snapshot_id)
    data, deletes = report.notes
    opens = "opens 1.0 of 1 on average and 1 at most"
    found = "of data manifests of partition spec 0 a query of one partition opened 4.0 of 4 on average and 4 at most"
    assert data == f"{found}, and {opens}"
    assert deletes.startswith("of delete manifests of partition spec 0 a query of one partition opened 1.0 of 2")
    state = TableState.local(small.root)
    assert (state.rows(), live(small), len(state.manifests)) == (rows, before, 2)
    assert {e["status"] for e in state.entries} == {0}
    again = table.plan(MANIFESTS)
    assert again.is_empty
    assert table.apply(again).committed is None


def test_plans_are_the_same_bytes(shared):
    """Whatever the number of threads."""
    plans = {opened(shared).plan(MANIFESTS, executor=LocalExecutor(n)).dumps() for n in (1, 2, 5)}
    assert len(plans) == 1
    assert Plan.loads(plans.pop()).operations == opened(shared).plan(MANIFESTS).operations


def test_an_empty_table_has_nothing_to_do(tmp_path):
    """Nor is anything committed."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    table = opened(small)
    report = table.apply(table.plan(MANIFESTS))
    assert report.result == {"rewritten_manifests_count": 0, "added_manifests_count": 0}
    assert small.metadata.current_snapshot is None


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ({"sort-by": "p"}, None, "unknown option sort-by; did you mean sort_by?"),
        ({"sort_by": " "}, None, "sort_by must not be empty when provided"),
        ({"sort_by": "p,"}, None, "'sort_by' is set to 'p,' but must be a list"),
        ({"spec_id": "x"}, None, "'spec_id' is set to x but must be a whole number"),
        ({"spec_id": "3"}, None, "Invalid spec id 3"),
        ({"use_caching": "1"}, None, "'use_caching' is set to 1 but must be true or false"),
        ({"lakemeta.all-specs": "true", "sort_by": "p"}, None, "lakemeta.all-specs and sort_by exclude each other"),
        ({}, "p = 'a'", "rewrite-manifests takes no filter; leave --where out"),
    ],
)
def test_options_are_refused(shared, options, where, message):
    """In one sentence each."""
    with pytest.raises(OptionError) as refusal:
        opened(shared).plan(MANIFESTS, options, where)
    assert str(refusal.value).startswith(message)


def test_targets_are_refused(tmp_path):
    """A target of no bytes."""
    properties = {"commit.manifest.target-size-bytes": "0"}
    small = create_table(LocalStorage(), str(tmp_path / "t"), properties=properties)
    with pytest.raises(OptionError, match="must be at least 1"):
        opened(small).plan(MANIFESTS)


def test_all_specs(small):
    """With ``lakemeta.all-specs`` the small manifests of older specs are merged as well, each spec by itself."""
    base = small.operations.refresh()
    specs = (*base.metadata.partition_specs, PartitionSpec(1))
    small.operations.commit(base, attrs.evolve(base.metadata, partition_specs=specs, default_spec_id=1))
    rows, table = TableState.local(small.root).rows(), opened(small)
    assert table.plan(MANIFESTS).is_empty
    report = table.apply(table.plan(MANIFESTS, {"lakemeta.all-specs": "true"}))
    assert report.result == {"rewritten_manifests_count": 6, "added_manifests_count": 2}
    assert TableState.local(small.root).rows() == rows


def test_only_if_gained(small):
    """Manifests that are clustered stay with ``lakemeta.only-if-gained``, where the engine writes them anew."""
    base = small.operations.refresh()
    size = sum(m["manifest_length"] for m in TableState.local(small.root).manifests if not m["content"])
    properties = {"commit.manifest.target-size-bytes": str(size // 3)}
    small.operations.commit(base, attrs.evolve(base.metadata, properties=properties))
    table, gained = opened(small), {"lakemeta.only-if-gained": "true"}
    table.apply(table.plan(MANIFESTS, gained))
    properties = {"commit.manifest.target-size-bytes": str(size // 6)}
    base = small.operations.refresh()
    small.operations.commit(base, attrs.evolve(base.metadata, properties=properties))
    assert not table.plan(MANIFESTS).is_empty
    assert table.plan(MANIFESTS, gained).is_empty


def edited(plan: Plan, **changes) -> Plan:
    data, deletes = plan.operations
    return attrs.evolve(plan, operations=[attrs.evolve(data, **changes), deletes])


@pytest.mark.parametrize(
    "changes",
    [
        {"content": "deletes"},
        {"content": "files"},
        {"spec_id": 7},
        {"inputs": []},
        {"inputs": ["metadata/../../other/m0.avro"]},
        {"inputs": ["/etc/passwd"]},
        {"inputs": ["metadata/v1.metadata.json"]},
    ],
    ids=str,
)
def test_edited_plans_are_refused(shared, changes):
    """Nothing is written for a plan of manifests that are not in the table as it says."""
    table, before = opened(shared), unchanged(shared)
    with pytest.raises(StalePlanError, match="make the plan again"):
        table.apply(edited(table.plan(MANIFESTS), **changes))
    assert unchanged(shared) == before


def test_plans_that_name_a_manifest_twice_are_refused(shared):
    """Its files would be doubled."""
    table, before = opened(shared), unchanged(shared)
    data, deletes = table.plan(MANIFESTS).operations
    plan = table.plan(MANIFESTS)
    twice = attrs.evolve(data, inputs=(*data.inputs, data.inputs[0]))
    for operations in ([twice, deletes], [data, data, deletes]):
        with pytest.raises(StalePlanError, match="twice"):
            table.apply(attrs.evolve(plan, operations=operations))
    assert unchanged(shared) == before


def test_a_plan_of_fewer_manifests_rewrites_those(small):
    """Never more than the plan says."""
    rows, table = TableState.local(small.root).rows(), opened(small)
    plan = table.plan(MANIFESTS)
    fewer = edited(plan, inputs=plan.operations[0].inputs[:2])
    assert table.apply(fewer).result == {"rewritten_manifests_count": 4, "added_manifests_count": 2}
    assert TableState.local(small.root).rows() == rows


def test_an_append_in_between_is_kept(small):
    """Between planning and applying, and between an attempt and the next: its manifest stays as it is."""
    rival = SmallTable(small.storage, small.root, seed=3)
    table = opened(small, Losing(small, lambda: rival.append([(78, "b", 0.5)])))
    plan = table.plan(MANIFESTS)
    rival.append([(77, "a", 0.5)])
    rows = [*TableState.local(small.root).rows()]
    report = table.apply(plan, env=still_env(5))
    assert report.result == {"rewritten_manifests_count": 6, "added_manifests_count": 2}
    state = TableState.local(small.root)
    assert len(state.rows()) == len(rows) + 1
    assert len(state.manifests) == 4
    assert [m["existing_files_count"] for m in state.manifests[:2]] == [7, 2]
    assert {path.rpartition("/")[2] for path in state.referenced()} >= avro(small)


def test_a_manifest_that_goes_in_between_is_a_conflict(small):
    """Another rewrite of manifests that comes first wins; nothing of this one is left."""
    other = opened(SmallTable(small.storage, small.root, seed=3))
    table = opened(small, Losing(small, lambda: other.apply(other.plan(MANIFESTS), env=still_env(3))))
    plan, rows = table.plan(MANIFESTS), TableState.local(small.root).rows()
    with pytest.raises(CommitConflictError, match="could not be found in the latest snapshot"):
        table.apply(plan, env=still_env(5))
    state = TableState.local(small.root)
    assert state.rows() == rows
    assert avro(small) <= {path.rpartition("/")[2] for path in state.referenced()}
    with pytest.raises(StalePlanError, match="in the current snapshot"):
        table.apply(plan)


def test_another_table_is_refused(shared, tmp_path):
    """A plan is of one table, by its uuid."""
    other = create_table(LocalStorage(), str(tmp_path / "other"), partitioned=True)
    base = other.operations.refresh()
    other.operations.commit(base, attrs.evolve(base.metadata, table_uuid="b4b1c5e0-0000-4000-8000-000000000000"))
    with pytest.raises(StalePlanError, match="is not the one that was planned"):
        opened(other).apply(opened(shared).plan(MANIFESTS))


def _lost(entries):
    return entries.take(range(1, len(entries.heads)))


def _doubled(entries):
    return entries.take([*range(len(entries.heads)), 0])


def _older(entries):
    status, snapshot_id, sequence, own = entries.heads[0]
    return attrs.evolve(entries, heads=[(status, snapshot_id, sequence + 1, own), *entries.heads[1:]])


def _changed(entries):
    return attrs.evolve(entries, files=[entries.files[1], *entries.files[1:]])


@pytest.mark.parametrize("damage", [_lost, _doubled, _older, _changed])
def test_entries_are_counted_before_anything_is_committed(shared, monkeypatch, damage):
    """A writer that loses, doubles or changes one entry commits nothing, and leaves nothing."""

    def write(metadata, spec_id, entries, **rest):
        return write_moved(metadata, spec_id, damage(entries) if len(entries.heads) > 1 else entries, **rest)

    table, before = opened(shared), unchanged(shared)
    plan = table.plan(MANIFESTS)
    monkeypatch.setattr(new_manifests, "write_moved", write)
    with pytest.raises(CorruptMetadataError, match="nothing was committed"):
        table.apply(plan)
    assert unchanged(shared) == before


class Losing:
    """Operations whose first commit comes after one of another writer."""

    def __init__(self, small: SmallTable, rival) -> None:
        self.inner, self.rival, self.storage = small.operations, rival, small.storage
        self.current, self.refresh = self.inner.current, self.inner.refresh
        self.metadata_location, self.check_writable = self.inner.metadata_location, self.inner.check_writable

    def commit(self, base, new) -> None:
        rival, self.rival = self.rival, None
        if rival:
            rival()
        self.inner.commit(base, new)


def avro(small: SmallTable) -> set[str]:
    return {name for name in unchanged(small) if name.endswith(".avro")}


def test_manifests_without_partitions_are_cut_by_number(tmp_path):
    """Each new one gets its share of the files, in their order."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    for i in range(7):
        small.append([(i, "a", 0.5)])
    base = small.operations.refresh()
    total = sum(m["manifest_length"] for m in TableState.local(small.root).manifests)
    properties = {"commit.manifest.target-size-bytes": str(total // 3 + 1)}
    small.operations.commit(base, attrs.evolve(base.metadata, properties=properties))
    before, table = live(small), opened(small)
    plan = table.plan(MANIFESTS)
    assert [op.expected_outputs for op in plan.operations] == [3]
    assert table.apply(plan).result == {"rewritten_manifests_count": 7, "added_manifests_count": 3}
    assert live(small) == before
    assert [m["existing_files_count"] for m in TableState.local(small.root).manifests] == [2, 2, 3]


def test_lists_that_do_not_count_files_are_refused():
    """As the engine refuses them: nobody could say that no file is lost."""
    with pytest.raises(UnsupportedFeatureError, match="No file counts in manifest: /t/m0"):
        refuse_uncounted([ManifestFile("/t/m0.avro", 1, 0, added_files_count=1, existing_files_count=0)])


@pytest.mark.parametrize("value", [None, math.nan, -0.0])
def test_partitions_of_any_value_are_moved(tmp_path, value):
    """Also one that does not equal itself."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    base = small.operations.refresh()
    by_v = PartitionSpec(0, (PartitionField(3, 1000, "v", Transform.parse("identity")),))
    small.operations.commit(base, attrs.evolve(base.metadata, partition_specs=(by_v,)))
    for i in range(2):
        file = attrs.evolve(small.write([(i, "a", 0.5)]), partition=(value,))
        small.update(SnapshotUpdate("append", (file,)))
    before, table = live(small), opened(small)
    report = table.apply(table.plan(MANIFESTS), env=small.env)
    assert report.result == {"rewritten_manifests_count": 2, "added_manifests_count": 1}
    assert live(small) == before


@pytest.mark.parametrize("version", [1, 2])
def test_manifests_of_an_older_version_are_moved(tmp_path, version):
    """After an upgrade records have another layout, and are decoded; in version 3 rows get their first ids."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), version=version, partitioned=True)
    for i in range(3):
        small.append([(i, "a", 0.5)], [(i, "b", 0.5), (i + 9, "b", 0.5)])
    small.remove(small.data_files()[0])
    old = TableState.local(small.root)
    numbers = sorted((e["snapshot_id"], e["sequence_number"] or 0) for e in old.live(0))
    base = small.operations.refresh()
    upgraded = attrs.evolve(base.metadata, format_version=version + 1, next_row_id=0 if version == 2 else None)
    small.operations.commit(base, upgraded)
    table = opened(small)
    report = table.apply(table.plan(MANIFESTS), env=small.env)
    assert report.result == {"rewritten_manifests_count": 3, "added_manifests_count": 1}
    state = TableState.local(small.root)
    assert (len(state.rows()), sorted(state.paths(0))) == (len(old.rows()), sorted(old.paths(0)))
    assert sorted((e["snapshot_id"], e["sequence_number"]) for e in state.live(0)) == numbers
    if version == 2:
        firsts = sorted((e["data_file"]["first_row_id"], e["data_file"]["record_count"]) for e in state.live(0))
        assert [first for first, _ in firsts] == [sum(count for _, count in firsts[:i]) for i in range(len(firsts))]
        assert state.metadata["next-row-id"] == sum(count for _, count in firsts)

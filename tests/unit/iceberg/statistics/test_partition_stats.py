"""Computing partition statistics of small tables: refusals, damage, and commits beside others."""

from __future__ import annotations

import attrs
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.errors import CommitConflictError, OptionError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.spec.types import StructType
from lakemeta.iceberg.statistics.partition_file import read_rows
from lakemeta.iceberg.statistics.partition_type import UnifiedPartition
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

STATS = "compute-partition-stats"


def made(folder) -> SmallTable:
    table = create_table(LocalStorage(), str(folder / "t"), partitioned=True)
    for i in range(3):
        table.append([(i, "a", 0.5)], [(i + 10, "b", 0.5), (i + 20, "b", 1.5)])
    table.delete_positions(table.data_files()[1], [0])
    return table


@pytest.fixture
def small(tmp_path) -> SmallTable:
    return made(tmp_path)


@pytest.fixture(scope="module")
def shared(tmp_path_factory) -> SmallTable:
    """For tests in which nothing may change."""
    return made(tmp_path_factory.mktemp("shared"))


def opened(small: SmallTable, operations=None) -> IcebergTable:
    return IcebergTable(Place(small.root, operations or small.operations))


def computed(small: SmallTable, **options: str) -> str:
    """The path of the file."""
    table = opened(small)
    path: str = table.apply(table.plan(STATS, options), env=small.env).result["partition_statistics_file"]
    return path


def rows(small: SmallTable, path: str) -> dict:
    struct: StructType = UnifiedPartition.of(small.metadata).struct
    found = read_rows(small.storage.read(path), struct, path)
    return {r.partition: (r.data_record_count, r.data_file_count, r.position_delete_record_count) for r in found}


def names(small: SmallTable) -> list[str]:
    return sorted(entry.name for entry in small.storage.list_dir(f"{small.root}/metadata"))


def test_counts_of_a_small_table(small):
    """Rows and files of each partition; a second call commits nothing, and names the same file."""
    assert rows(small, path := computed(small)) == {("a",): (3, 3, 0), ("b",): (6, 3, 1)}
    before = names(small)
    again = opened(small).plan(STATS)
    assert again.is_empty
    assert computed(small) == path
    assert names(small) == before
    assert len(TableState.local(small.root).rows()) == 8


def test_plans_say_how(small):
    """In full, or from which ancestor; threads do not matter."""
    (full,) = opened(small).plan(STATS).operations
    assert (full.kind, full.reason) == ("partition", "full")
    first = small.head.snapshot_id
    computed(small)
    small.append([(77, "c", 0.5)])
    plans = [opened(small).plan(STATS, executor=LocalExecutor(n)) for n in (1, 4)]
    assert plans[0].dumps() == plans[1].dumps()
    assert plans[0].operations[0].reason == f"incremental from snapshot {first}"


def test_an_empty_table_has_no_statistics(tmp_path):
    """Nor is anything committed."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    table = opened(small)
    assert table.apply(table.plan(STATS)).result == {"partition_statistics_file": None}
    assert names(small) == ["v1.metadata.json", "version-hint.text"]


@pytest.mark.parametrize(
    ("options", "where", "message"),
    [
        ({"snapshot": "1"}, None, "unknown option snapshot; did you mean snapshot_id?"),
        ({"snapshot_id": "1"}, None, "Snapshot not found: 1"),
        ({"snapshot_id": "one"}, None, "'snapshot_id' is set to one but must be a whole number"),
        ({}, "p = 'a'", "compute-partition-stats takes no filter; leave --where out"),
    ],
)
def test_options_are_refused(shared, options, where, message):
    """In one sentence each."""
    with pytest.raises(OptionError) as refusal:
        opened(shared).plan(STATS, options, where)
    assert str(refusal.value).startswith(message)


def test_a_table_without_partitions_is_refused(tmp_path):
    """In the engine's words; an unknown snapshot comes first."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    small.append([(1, "a", 0.5)])
    with pytest.raises(OptionError, match="Table must be partitioned"):
        opened(small).plan(STATS)


@pytest.mark.parametrize("changes", [{"snapshot_id": 5}, {"kind": "table"}, {"kind": "rows"}], ids=str)
def test_edited_plans_are_refused(shared, changes):
    """A plan of another snapshot or kind of statistics changes nothing."""
    table, before = opened(shared), names(shared)
    plan = table.plan(STATS)
    edited = attrs.evolve(plan, operations=[attrs.evolve(plan.operations[0], **changes)])
    with pytest.raises(StalePlanError, match="make the plan again"):
        table.apply(edited)
    assert names(shared) == before


DAMAGE = {
    "gone": lambda storage, path: storage.delete_many([path]),
    "cut off": lambda storage, path: storage.replace(path, storage.read(path)[:-9]),
    "of another table": lambda storage, path: storage.replace(path, b"PAR1"),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_damaged_statistics_of_an_ancestor_are_left_aside(small, damage):
    """All is counted anew then, as the engine does."""
    DAMAGE[damage](small.storage, computed(small))
    small.append([(77, "c", 0.5)])
    assert rows(small, computed(small)) == {("a",): (3, 3, 0), ("b",): (6, 3, 1), ("c",): (1, 1, 0)}


def test_statistics_of_an_ancestor_that_do_not_agree_are_left_aside(small):
    """They count more files than the manifest list: the engine would go on counting from there."""
    first = computed(small, snapshot_id=str(small.metadata.snapshots[0].snapshot_id))
    second = computed(small)
    small.storage.replace(first, small.storage.read(second))
    base = small.operations.refresh()
    kept = tuple(f for f in base.metadata.partition_statistics if f.statistics_path == first)
    small.operations.commit(base, attrs.evolve(base.metadata, partition_statistics=kept))
    assert rows(small, computed(small)) == {("a",): (3, 3, 0), ("b",): (6, 3, 1)}


def test_incremental_and_full_agree(small):
    """Over appends, deletes, overwrites and rewritten manifests; an emptied partition keeps a row of zeros."""
    computed(small)
    small.append([(77, "c", 0.5)])
    small.overwrite(small.data_files()[0], [(78, "c", 0.5), (79, "c", 0.5)])
    table = opened(small)
    table.apply(table.plan("rewrite-manifests"), env=small.env)
    small.remove(*[file for file in small.data_files() if file.partition == ("c",)])
    small.append([(80, "a", 0.5)])
    incremental = rows(small, computed(small))
    base = small.operations.refresh()
    small.operations.commit(base, attrs.evolve(base.metadata, partition_statistics=()))
    assert incremental == rows(small, computed(small)) == {("a",): (4, 4, 0), ("b",): (6, 3, 1), ("c",): (0, 0, 0)}


class Losing:
    """Operations whose first commit comes after something else."""

    def __init__(self, small: SmallTable, rival) -> None:
        self.inner, self.rival, self.storage = small.operations, rival, small.storage
        self.current, self.refresh = self.inner.current, self.inner.refresh
        self.metadata_location, self.check_writable = self.inner.metadata_location, self.inner.check_writable

    def commit(self, base, new) -> None:
        rival, self.rival = self.rival, None
        if rival:
            rival()
        self.inner.commit(base, new)


def test_an_append_in_between_is_kept(small):
    """The commit is tried again; the statistics are of the planned snapshot."""
    planned = small.head.snapshot_id
    rival = SmallTable(small.storage, small.root, seed=3)
    table = opened(small, Losing(small, lambda: rival.append([(78, "b", 0.5)])))
    report = table.apply(table.plan(STATS), env=still_env(5))
    assert report.committed == str(planned)
    assert [f.snapshot_id for f in small.metadata.partition_statistics] == [planned]
    assert len(TableState.local(small.root).rows()) == 9


def test_a_snapshot_that_expires_in_between_is_a_conflict(small):
    """Statistics of what is no longer there are not committed, and their file goes."""
    older = small.metadata.snapshots[0].snapshot_id

    def expire() -> None:
        base = small.operations.refresh()
        left = tuple(s for s in base.metadata.snapshots if s.snapshot_id != older)
        small.operations.commit(base, attrs.evolve(base.metadata, snapshots=left))

    table = opened(small, Losing(small, expire))
    plan = table.plan(STATS, {"snapshot_id": str(older)})
    with pytest.raises(CommitConflictError, match="has expired; plan again"):
        table.apply(plan, env=still_env(5))
    assert not [name for name in names(small) if name.endswith(".parquet")]
    with pytest.raises(StalePlanError, match="is no longer in the table"):
        table.apply(plan)

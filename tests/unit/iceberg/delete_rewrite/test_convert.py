"""Equality deletes converted: the same rows stay deleted, and rows keep their ids."""

from __future__ import annotations

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError, CorruptMetadataError, OptionError, StalePlanError
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

SERVICE = "convert-equality-deletes"


def make(tmp_path, version: int) -> SmallTable:
    """Two partitions; rows deleted by key, one of them by position as well, and one key written again later."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True, version=version)
    table.append([(i, "a", 0.5) for i in range(6)], [(i, "b", 0.5) for i in range(6)])
    table.append([(10 + i, "a", 0.5) for i in range(4)])
    if version == 2:
        table.delete_positions(table.data_files()[0], [2])
    table.delete_ids(2, 3, 11, 77, partition=("a",))
    table.delete_ids(3, partition=("a",))
    table.delete_ids(5, partition=("b",))
    table.append([(3, "a", 1.5)])
    return table


@pytest.fixture(params=[2, 3])
def small(request, tmp_path) -> SmallTable:
    return make(tmp_path, request.param)


def opened(small: SmallTable, storage=None) -> IcebergTable:
    operations = small.operations if storage is None else HadoopTableOperations(storage, small.root)
    return IcebergTable(Place(small.root, operations))


def state(small: SmallTable) -> TableState:
    return TableState.local(small.root)


def new_files(small: SmallTable) -> list[str]:
    return [entry.path for entry in small.storage.walk(small.root) if "-deletes." in entry.path]


@pytest.mark.slow
def test_the_same_rows_stay_deleted(small) -> None:
    """No equality delete is left, rows and their ids are the same, and the snapshot says that no row changed."""
    rows, before = state(small).rows(), state(small)
    plan = opened(small).plan(SERVICE)
    assert plan.header.facts["data_files"] == 3
    report = opened(small).apply(Plan.loads(plan.dumps()))
    after = state(small)
    assert after.rows() == rows
    assert after.live(2) == []
    assert sorted(after.paths(0)) == sorted(before.paths(0))
    assert report.result == {"converted_equality_delete_files_count": 3, "added_position_delete_files_count": 3}
    assert after.snapshot["summary"]["operation"] == "replace"
    formats = {entry["data_file"]["file_format"] for entry in after.live(1) if entry not in before.live(1)}
    assert formats == {"PARQUET" if small.metadata.format_version == 2 else "PUFFIN"}
    assert opened(small).plan(SERVICE).is_empty


def test_an_earlier_vector_is_taken_up(tmp_path) -> None:
    """Version 3: a data file that has a vector gets one of both, and the earlier one leaves."""
    small = make(tmp_path, 3)
    opened(small).apply(opened(small).plan(SERVICE))
    small.delete_ids(4, 12, partition=("a",))
    rows = state(small).rows()
    report = opened(small).apply(opened(small).plan(SERVICE))
    after = state(small)
    assert after.rows() == rows
    vectors = [entry["data_file"]["referenced_data_file"] for entry in after.live(1)]
    assert len(set(vectors)) == len(vectors) == 3
    assert report.result["added_position_delete_files_count"] == 2


def test_where_picks_partitions(small) -> None:
    """Whole delete files of a partition are converted, those of others stay."""
    rows = state(small).rows()
    report = opened(small).apply(opened(small).plan(SERVICE, where="p = 'b'"))
    assert report.result["converted_equality_delete_files_count"] == 1
    assert len(state(small).live(2)) == 2
    assert state(small).rows() == rows


def test_deletes_without_rows_leave(small) -> None:
    """A delete file that matches nothing leaves without a new file, one that applies to no data file, too."""
    small.delete_ids(1000, partition=("b",))
    small.delete_ids(1, partition=("nowhere",))
    rows = state(small).rows()
    plan = opened(small).plan(SERVICE)
    assert "applies to no data file" in {op.reason for op in plan.operations}
    assert opened(small).apply(plan).result["converted_equality_delete_files_count"] == 5
    assert state(small).rows() == rows


def test_only_deletes_that_apply_to_nothing(tmp_path) -> None:
    """Where no data file is left to look at, the delete files leave all the same."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    small.delete_ids(1)
    small.append([(1, "a", 0.5)])
    report = opened(small).apply(opened(small).plan(SERVICE))
    assert report.result == {"converted_equality_delete_files_count": 1, "added_position_delete_files_count": 0}
    assert len(state(small).rows()) == 1
    assert not state(small).live(2)


def test_edited_plans_do_nothing(small) -> None:
    """Names of data files, of nothing, twice: nothing is changed, and no file is written."""
    plan, before = opened(small).plan(SERVICE), small.metadata
    line, data = plan.operations[0], state(small).paths(0)[0].removeprefix(f"{small.root}/")
    for path in (data, "data/x.parquet", plan.operations[1].path, f"../{line.path}"):
        edited = Plan(plan.header, [attrs.evolve(line, path=path), *plan.operations[1:]])
        with pytest.raises((StalePlanError, CorruptMetadataError), match="make the plan again"):
            opened(small).apply(edited)
    assert small.metadata == before
    assert not new_files(small)


class Meanwhile(WrappedStorage):
    """Does something else just before the first manifest is written."""

    def __init__(self, inner, work) -> None:
        super().__init__(inner)
        self.once = iter([work])

    def create(self, path, data) -> None:
        if path.endswith(".avro"):
            next(self.once, lambda: None)()
        self.inner.create(path, data)


@pytest.mark.slow
def test_data_files_that_go_are_a_conflict(small) -> None:
    """A compaction that replaced a data file with new deletes meanwhile: nothing is committed, nothing stays."""
    plan = opened(small).plan(SERVICE)
    writer = SmallTable(small.storage, small.root, seed=9)
    first = small.data_files()[-1]
    target = next(f for f in small.data_files() if f.record_count == 6)
    assert first
    with pytest.raises(CommitConflictError, match="missing data files"):
        opened(small, Meanwhile(small.storage, lambda: writer.remove(target))).apply(plan)
    assert not new_files(small)


def test_appends_are_no_conflict(small) -> None:
    """Rows that came meanwhile stay, also with keys that are deleted in older files."""
    plan = opened(small).plan(SERVICE)
    writer = SmallTable(small.storage, small.root, seed=9)
    rows = len(state(small).rows())
    opened(small, Meanwhile(small.storage, lambda: writer.append([(2, "a", 7.5)]))).apply(plan)
    assert len(state(small).rows()) == rows + 1
    assert not state(small).live(2)


def test_a_rollback_is_a_conflict(small) -> None:
    """After a rollback other data files may be live that the deletes apply to: nothing is committed."""
    base = small.operations.refresh()
    parent = next(s for s in base.metadata.snapshots if s.snapshot_id == small.head.parent_snapshot_id)
    plan = opened(small).plan(SERVICE)
    writer = SmallTable(small.storage, small.root, seed=9)

    def roll_back() -> None:
        now = writer.operations.refresh()
        refs = {"main": attrs.evolve(now.metadata.refs["main"], snapshot_id=parent.snapshot_id)}
        back = attrs.evolve(now.metadata, refs=refs, current_snapshot_id=parent.snapshot_id)
        writer.operations.commit(now, back)

    with pytest.raises(CommitConflictError, match="Cannot determine history"):
        opened(small, Meanwhile(small.storage, roll_back)).apply(plan)
    assert state(small).live(2)
    assert not new_files(small)


def test_a_branch_and_options(small) -> None:
    """A branch has deletes of its own; unknown branches and options are refused."""
    table = opened(small)
    with pytest.raises(OptionError, match="branch away: branch does not exist"):
        table.plan(SERVICE, {"branch": "away"})
    with pytest.raises(OptionError, match="branch"):
        table.plan(SERVICE, {"branches": "main"})
    small.update(SnapshotUpdate("append", (small.write([(9, "a", 0.5)]),), branch="dev"))
    assert table.plan(SERVICE, {"branch": "dev"}).is_empty

"""Position deletes rewritten: the same rows stay deleted, whatever a plan, a writer or a clock says."""

from __future__ import annotations

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError, CorruptMetadataError, LakemetaError, OptionError, StalePlanError
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

SERVICE = "rewrite-position-deletes"
ALL = {"rewrite-all": "true"}


@pytest.fixture
def small(tmp_path) -> SmallTable:
    """Three data files; deletes of one, of all of them at once, and of one that is gone."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    table.append(*([(10 * n + i, "a", 0.5) for i in range(5)] for n in range(4)))
    first, second, third, lost = table.data_files()
    table.delete_positions(first, [1, 3])
    table.delete_positions(second, [0], scoped=False)
    table.delete_positions(second, [0, 4], scoped=False)
    table.delete_positions(third, [2])
    table.delete_positions(lost, [2])
    table.remove(lost)
    return table


def opened(small: SmallTable, storage=None) -> IcebergTable:
    operations = small.operations if storage is None else HadoopTableOperations(storage, small.root)
    return IcebergTable(Place(small.root, operations))


def state(small: SmallTable) -> TableState:
    return TableState.local(small.root)


def upgrade(small: SmallTable) -> None:
    base = small.operations.refresh()
    small.operations.commit(base, attrs.evolve(base.metadata, format_version=3, next_row_id=0))
    small.append([(99, "a", 0.5)])  # gives rows their ids


def everything(small: SmallTable) -> set[str]:
    return {entry.path for entry in small.storage.walk(small.root)}


def test_a_file_for_each_data_file(small) -> None:
    """New files are of one data file each, sorted, with the greatest data sequence number of the replaced ones."""
    rows, before = state(small).rows(), state(small)
    plan = opened(small).plan(SERVICE, ALL)
    report = opened(small).apply(Plan.loads(plan.dumps()))
    after = state(small)
    assert after.rows() == rows
    assert report.result["rewritten_delete_files_count"] == 5
    assert report.result["added_delete_files_count"] == len(after.live(1)) == 3
    newest = max(entry["sequence_number"] for entry in before.live(1))
    assert {entry["sequence_number"] for entry in after.live(1)} == {newest}
    assert sorted(after.paths(0)) == sorted(before.paths(0))


def test_a_file_for_the_partition(small) -> None:
    """With granularity partition there is one file; more are written where its size is reached."""
    base = small.operations.refresh()
    properties = {"write.delete.granularity": "partition"}
    small.operations.commit(base, attrs.evolve(base.metadata, properties=properties))
    rows = state(small).rows()
    opened(small).apply(opened(small).plan(SERVICE, ALL))
    assert len(state(small).live(1)) == 1
    assert state(small).rows() == rows
    assert opened(small).plan(SERVICE).is_empty


def test_one_vector_for_each_data_file(small) -> None:
    """Version 3: the vectors of two groups of one partition are one for each file, and a second run finds nothing."""
    upgrade(small)
    rows = state(small).rows()
    options = {**ALL, "max-file-group-input-files": "1"}
    plan = opened(small).plan(SERVICE, options)
    assert len(plan.operations) == 5
    report = opened(small).apply(plan)
    after = state(small)
    assert after.rows() == rows
    vectors = [entry["data_file"]["referenced_data_file"] for entry in after.live(1)]
    assert len(vectors) == len(set(vectors)) == 3 == report.result["added_delete_files_count"]
    assert opened(small).plan(SERVICE, ALL).is_empty


def test_deletes_older_than_their_data_file_stay_dead(small) -> None:
    """A file that was added again later is not touched by older deletes of it, also not with the new numbers."""
    third = small.data_files()[2]
    small.remove(third)
    small.append([(77, "a", 0.5)])
    small.update(SnapshotUpdate("append", (attrs.evolve(third, first_row_id=None),)))
    first = small.data_files()[-1]
    small.delete_positions(first, [1])
    rows = state(small).rows()
    assert sum('"id": 22' in row for row in rows) == 1
    opened(small).apply(opened(small).plan(SERVICE, ALL))
    assert state(small).rows() == rows


@pytest.mark.parametrize("version", [2, 3])
def test_edited_plans_do_nothing(small, version: int) -> None:
    """Names of data files, of nothing, twice, of two partitions: nothing is changed, and no file is written."""
    if version == 3:
        upgrade(small)
    plan = opened(small).plan(SERVICE, ALL)
    (line,) = plan.operations
    data = state(small).paths(0)[0].removeprefix(f"{small.root}/")
    small.delete_ids(1)
    equality = state(small).paths(2)[0].removeprefix(f"{small.root}/")
    there, before = everything(small), small.metadata
    for names in ((data,), ("data/x.parquet",), (*line.inputs, line.inputs[0]), (equality,), ("../" + line.inputs[0],)):
        with pytest.raises((StalePlanError, CorruptMetadataError), match="make the plan again"):
            opened(small).apply(Plan(plan.header, [attrs.evolve(line, inputs=names)]))
    assert small.metadata == before
    assert everything(small) == there


def test_a_plan_whose_files_are_gone_is_stale(small) -> None:
    """Applied twice, the second time nothing is done."""
    plan = opened(small).plan(SERVICE, ALL)
    opened(small).apply(plan)
    with pytest.raises(StalePlanError, match="5 of the 5 planned delete files are no longer in the table"):
        opened(small).apply(plan)


def test_what_another_writer_does_meanwhile(small) -> None:
    """Version 3: a data file that goes, between planning and committing, is a conflict, and no file stays."""
    upgrade(small)
    plan = opened(small).plan(SERVICE, ALL)
    first, once = small.data_files()[1], iter([True])

    def remove(path: str) -> None:
        if path.endswith(".avro") and next(once, False):
            SmallTable(small.storage, small.root, seed=9).remove(first)

    with pytest.raises(CommitConflictError, match="missing data files"):
        opened(small, _Hooked(small.storage, remove)).apply(plan)
    assert not [path for path in everything(small) if "-deletes." in path]
    assert not [path for path in everything(small) if ".lakemeta-rewrite-" in path]


@pytest.mark.parametrize("version", [2, 3])
def test_two_rewrites_at_once(small, version: int) -> None:
    """Of two that rewrite the same files one wins, and the other changes nothing and leaves nothing."""
    if version == 3:
        upgrade(small)
    rows, plan = state(small).rows(), opened(small).plan(SERVICE, ALL)
    once = iter([True])

    def win(path: str) -> None:
        if path.endswith(".avro") and next(once, False):
            opened(small).apply(plan)

    with pytest.raises(CommitConflictError, match=r"Missing required files|concurrently added DV"):
        opened(small, _Hooked(small.storage, win)).apply(plan)
    assert state(small).rows() == rows
    written = {path for path in everything(small) if "-deletes." in path}
    assert written == set(state(small).paths(1))


class _Hooked(WrappedStorage):
    def __init__(self, inner, before) -> None:
        super().__init__(inner)
        self.before = before

    def create(self, path, data) -> None:
        self.before(path)
        self.inner.create(path, data)


def test_a_file_that_is_not_as_written_is_not_committed(small) -> None:
    """A store that loses the end of a new file: the read-back finds out, and nothing is committed."""

    class Cutting(WrappedStorage):
        def read_range(self, path, start, length):
            data = self.inner.read_range(path, start, length)
            return data[:-1] if "-deletes." in path else data

    plan, before = opened(small).plan(SERVICE, ALL), small.metadata
    with pytest.raises(LakemetaError):
        opened(small, Cutting(small.storage)).apply(plan)
    assert small.metadata == before
    assert not [path for path in everything(small) if "-deletes." in path]


def test_options(small) -> None:
    """Unknown ones are named with the nearest, impossible ones refused in the engine's words."""
    table = opened(small)
    with pytest.raises(OptionError, match="rewrite-all"):
        table.plan(SERVICE, {"rewrite-al": "true"})
    with pytest.raises(OptionError, match="output-spec-id"):
        table.plan(SERVICE, {"output-spec-id": "0"})
    with pytest.raises(OptionError, match="'min-input-files' is set to 0 but must be > 0"):
        table.plan(SERVICE, {"min-input-files": "0"})
    with pytest.raises(OptionError, match="must be positive"):
        table.plan(SERVICE, {"max-concurrent-file-group-rewrites": "0"})
    assert len(table.plan(SERVICE).operations) == 1
    assert table.plan(SERVICE, {"min-input-files": "6"}).is_empty

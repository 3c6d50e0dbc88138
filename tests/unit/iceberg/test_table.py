"""Plan, look, apply: from the outside, on small tables on disk."""

from __future__ import annotations

import pickle

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    LakemetaError,
    OptionError,
    PathNotFoundError,
    StalePlanError,
    StorageError,
    TableNotFoundError,
)
from lakemeta.executor import batched
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}


@pytest.fixture
def small(tmp_path) -> SmallTable:
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    return small


def opened(small: SmallTable, storage=None) -> IcebergTable:
    if storage is None:
        return IcebergTable.open(small.root)
    return IcebergTable(Place(small.root, HadoopTableOperations(storage, small.root)))


def state(small: SmallTable) -> TableState:
    return TableState.local(small.root)


def files(small: SmallTable) -> set[str]:
    return {entry.path for entry in small.storage.walk(f"{small.root}/data")}


def test_a_plan_survives_the_plan_file(small):
    """What was saved is what is applied."""
    table = opened(small)
    plan = table.plan_rewrite_data_files({"min-input-files": "2"})
    again = Plan.loads(plan.dumps())
    assert again == plan
    rows = state(small).rows()
    report = table.apply(again)
    assert report.result == {
        "rewritten_data_files_count": 6,
        "added_data_files_count": 2,
        "rewritten_bytes_count": plan.bytes,
        "failed_data_files_count": 0,
        "removed_delete_files_count": 0,
    }
    assert report.committed == str(state(small).snapshot["snapshot-id"])
    assert state(small).rows() == rows


def test_planning_changes_nothing_and_is_the_same_every_time(small):
    """One input gives one plan, byte for byte."""
    before = {entry.path for entry in small.storage.walk(small.root)}
    plans = {opened(small).plan_rewrite_data_files(ALL).dumps() for _ in range(3)}
    assert len(plans) == 1
    assert {entry.path for entry in small.storage.walk(small.root)} == before


def test_commits_since_the_plan_do_not_make_it_stale(small):
    """An append, and a delete on a planned file, are taken along: only lost files make a plan stale."""
    table = opened(small)
    plan = table.plan_rewrite_data_files(ALL)
    small.append([(99, "a", 1.0)])
    small.delete_positions(small.data_files()[-1], [0])
    small.delete_ids(7, partition=("b",))
    rows = state(small).rows()
    assert table.apply(plan).result["rewritten_data_files_count"] == 6
    assert state(small).rows() == rows


def test_a_plan_whose_files_are_gone_is_stale(small):
    """A planned file that somebody removed is named, and nothing is changed."""
    table = opened(small)
    plan = table.plan_rewrite_data_files(ALL)
    gone = small.data_files()[0]
    small.remove(gone)
    before = {entry.path for entry in small.storage.walk(small.root)}
    with pytest.raises(StalePlanError, match="1 of the 6 planned files"):
        table.apply(plan)
    assert {entry.path for entry in small.storage.walk(small.root)} == before


def test_a_plan_of_another_table_is_refused(small, tmp_path):
    """A table that was dropped and made again under the same path is another one."""
    plan = opened(small).plan_rewrite_data_files(ALL)
    facts = {**plan.header.facts, "table_uuid": "another"}
    with pytest.raises(StalePlanError, match="not the one that was planned"):
        opened(small).apply(Plan(attrs.evolve(plan.header, facts=facts), plan.operations))


def test_a_plan_of_another_kind_is_refused(small):
    """Only plans of rewrite-data-files are applied here."""
    plan = opened(small).plan_rewrite_data_files(ALL)
    with pytest.raises(StalePlanError, match=r"no plan (of|for)"):
        opened(small).apply(Plan(attrs.evolve(plan.header, plan="hudi.clean"), ()))


def test_an_empty_plan_commits_nothing(small):
    """Nothing to do is a report, not a snapshot."""
    plan = opened(small).plan_rewrite_data_files({"min-input-files": "9"})
    assert plan.is_empty
    report = opened(small).apply(plan)
    assert report.committed is None
    assert set(report.result.values()) == {0}


def test_an_empty_table_has_an_empty_plan(tmp_path):
    """A table without a snapshot has nothing to rewrite."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    plan = opened(small).plan_rewrite_data_files(ALL)
    assert plan.is_empty
    assert plan.header.based_on is None
    assert opened(small).apply(plan).committed is None
    assert opened(small).inspect().data_files == 0


def test_a_filter_picks_files(small):
    """where plans only files that may hold matching rows."""
    plan = opened(small).plan_rewrite_data_files(ALL, "p = 'a'")
    assert plan.files == 3
    assert plan.header.facts["where"] == "p = 'a'"


def test_a_branch_is_rewritten_alone(small):
    """branch=NAME plans on that branch and commits to it; an unknown one is refused."""
    from lakemeta.iceberg.spec.table_metadata import SnapshotRef

    base = small.operations.refresh()
    refs = {**base.metadata.refs, "audit": SnapshotRef(small.head.snapshot_id, "branch")}
    small.operations.commit(base, attrs.evolve(base.metadata, refs=refs))
    small.append([(99, "a", 1.0)], branch="audit")
    main = small.head.snapshot_id
    table = opened(small)
    report = table.apply(table.plan_rewrite_data_files({**ALL, "branch": "audit"}))
    assert report.result["rewritten_data_files_count"] == 7
    assert small.metadata.refs["audit"].snapshot_id == int(report.committed)
    assert small.head.snapshot_id == main
    with pytest.raises(OptionError, match="branch nope: branch does not exist"):
        table.plan_rewrite_data_files({"branch": "nope"})


class Rival(WrappedStorage):
    """Lets somebody else commit at the moment when the first new data file is written."""

    def __init__(self, inner, commit) -> None:
        super().__init__(inner)
        self.todo = [commit]

    def open_output(self, path):
        if self.todo:
            self.todo.pop()()
        return super().open_output(path)


def test_a_conflict_removes_the_new_data_files(small):
    """A commit in between that touched a planned file fails the rewrite; its files are gone."""
    rival = SmallTable(small.storage, small.root, seed=8)
    storage = Rival(small.storage, lambda: rival.delete_positions(rival.data_files()[0], [1]))
    table = opened(small, storage)
    before = files(small)
    with pytest.raises(CommitConflictError, match="found new position delete"):
        table.apply(table.plan_rewrite_data_files({**ALL, "max-concurrent-file-group-rewrites": "1"}))
    assert len(files(small) - before) == 1
    assert files(small) - before <= set(state(small).paths(1))


def test_partial_progress_keeps_the_good_commits(small):
    """One commit fails, the other stays; the report says so."""
    rival = SmallTable(small.storage, small.root, seed=8)
    victim = next(f for f in rival.data_files() if f.partition == ("b",))
    storage = Rival(small.storage, lambda: rival.remove(victim))
    table = opened(small, storage)
    options = {**ALL, "partial-progress.enabled": "true", "max-concurrent-file-group-rewrites": "1"}
    before = files(small)
    report = table.apply(table.plan_rewrite_data_files(options))
    assert report.result["rewritten_data_files_count"] == 3
    assert len(report.notes) == 1
    assert "Missing required files" in report.notes[0]
    assert files(small) - before == {path for path in state(small).paths(0) if path not in before}


def test_too_many_failed_commits_are_an_error(small):
    """max-failed-commits=0 raises after the good commits were made."""
    rival = SmallTable(small.storage, small.root, seed=8)
    victim = next(f for f in rival.data_files() if f.partition == ("b",))
    table = opened(small, Rival(small.storage, lambda: rival.remove(victim)))
    options = {
        **ALL,
        "partial-progress.enabled": "true",
        "partial-progress.max-failed-commits": "0",
        "max-concurrent-file-group-rewrites": "1",
    }
    with pytest.raises(LakemetaError, match=r"partial-progress\.enabled is true but 1 rewrite commits failed"):
        table.apply(table.plan_rewrite_data_files(options))
    assert [s.operation for s in small.metadata.snapshots[-2:]] == ["delete", "replace"]


def test_an_unknown_state_leaves_every_file(small):
    """When nobody can say whether the commit happened, data files and manifests stay where they are."""

    class Lost(WrappedStorage):
        broken = False

        def create(self, path, data):
            if path.endswith("v5.metadata.json"):
                self.broken = True
                raise StorageError("the line broke")
            self.inner.create(path, data)

        def read(self, path):
            if self.broken and path.endswith(".metadata.json"):
                raise StorageError("the line is broken")
            return self.inner.read(path)

    table = opened(small, Lost(small.storage))
    before = files(small)
    with pytest.raises(CommitStateUnknownError):
        table.apply(table.plan_rewrite_data_files(ALL), env=still_env())
    assert len(files(small) - before) == 2


def test_dangling_deletes_go_in_a_commit_of_their_own(small):
    """remove-dangling-deletes looks at the table after the rewrite and removes what applies to nothing."""
    small.append([(99, "a", 1.0)])
    newest = next(f for f in small.data_files() if f.record_count == 1)
    small.delete_positions(newest, [0])
    rows = state(small).rows()
    table = opened(small)
    report = table.apply(table.plan_rewrite_data_files({**ALL, "remove-dangling-deletes": "true"}))
    assert report.result["removed_delete_files_count"] == 1
    assert [s.operation for s in small.metadata.snapshots[-2:]] == ["replace", "replace"]
    assert state(small).live(1, 2) == []
    assert state(small).rows() == rows


def test_no_table_is_not_found(tmp_path):
    """A directory without metadata, with none of its files, or no directory at all."""
    (tmp_path / "empty" / "metadata").mkdir(parents=True)
    (tmp_path / "file").touch()
    for place in (tmp_path, tmp_path / "empty", tmp_path / "nowhere", tmp_path / "x.metadata.json", tmp_path / "file"):
        with pytest.raises(TableNotFoundError):
            IcebergTable.open(str(place))


def test_a_lost_file_is_named_with_what_to_do(small):
    """A manifest list or a data file that the metadata names is gone: the sentence says which, and what to do."""
    sentence = "there is no such file or directory, but the metadata of the table at .* names it; restore it"
    plan = opened(small).plan_rewrite_data_files(ALL)
    small.storage.delete_many([small.data_files()[0].file_path])
    with pytest.raises(PathNotFoundError, match=sentence):
        opened(small).apply(plan)
    small.storage.delete_many([small.head.manifest_list])
    for work in (lambda t: t.plan_rewrite_data_files(ALL), lambda t: t.inspect(), lambda t: t.why("x")):
        with pytest.raises(PathNotFoundError, match=sentence):
            work(opened(small))


class Shipping:
    """Ships every function, batch and result as a distant executor does."""

    def map_batches(self, fn, items, *, batch_size):
        shipped = pickle.dumps(fn)
        for batch in batched(items, batch_size):
            results = list(pickle.loads(shipped)(pickle.loads(pickle.dumps(batch))))
            yield from pickle.loads(pickle.dumps(results))


@pytest.mark.parametrize("options", [{}, {"max-concurrent-file-group-rewrites": "1"}])
def test_work_can_be_shipped(small, options):
    """Planning, looking and rewriting work where nothing is shared; file names of such attempts are their own."""
    small.delete_positions(small.data_files()[0], [1])
    rows = state(small).rows()
    table = opened(small)
    plan = table.plan_rewrite_data_files({**ALL, **options}, executor=Shipping())
    assert plan == table.plan_rewrite_data_files({**ALL, **options})
    report = table.apply(plan, executor=Shipping())
    assert report.result["added_data_files_count"] == 2
    assert state(small).rows() == rows
    attempts = {path.rpartition("/")[2].split("-")[1] for path in state(small).paths(0)}
    assert attempts != {"0"}


def test_a_failure_elsewhere_is_a_value(small):
    """A group that fails on a worker fails alone, also where its error has to travel."""
    lost = small.data_files()[0]
    small.storage.delete_many([lost.file_path])
    table = opened(small)
    plan = table.plan_rewrite_data_files({**ALL, "partial-progress.enabled": "true"})
    report = table.apply(plan, executor=Shipping())
    assert (report.result["failed_data_files_count"], report.result["rewritten_data_files_count"]) == (3, 3)


def test_dangling_deletes_that_cannot_be_removed_do_not_undo_the_rewrite(small):
    """The rewrite is committed; that its second commit failed is told, and the exit code says partly done."""

    class Full(WrappedStorage):
        def create(self, path, data):
            if path.endswith("v8.metadata.json"):
                raise StorageError("no space left on device")
            self.inner.create(path, data)

    small.append([(99, "a", 1.0)])
    newest = next(f for f in small.data_files() if f.record_count == 1)
    small.delete_positions(newest, [0])
    table = opened(small, Full(small.storage))
    report = table.apply(table.plan_rewrite_data_files({**ALL, "remove-dangling-deletes": "true"}))
    assert report.committed == str(small.head.snapshot_id)
    assert report.result["rewritten_data_files_count"] == 7
    assert report.result["removed_delete_files_count"] == 0
    assert report.notes == ("dangling deletes were not removed: no space left on device",)


def test_a_plan_for_a_spec_that_is_gone_is_stale(small):
    """A plan names the partition spec of its outputs; the table must still have it."""
    plan = opened(small).plan_rewrite_data_files(ALL)
    other = Plan(plan.header, [attrs.evolve(op, spec_id=7) for op in plan.operations])
    with pytest.raises(StalePlanError, match="no longer has partition spec 7"):
        opened(small).apply(other)


def test_a_listener_hears_of_plans_and_applications(small):
    """Events tell what began, what was done and what failed, in order."""
    heard = []
    table = IcebergTable.open(small.root, on_event=heard.append)
    plan = table.plan_rewrite_data_files(ALL)
    table.apply(plan)
    with pytest.raises(StalePlanError):
        table.apply(plan)
    assert [e.name for e in heard] == [
        "plan_started",
        "plan_made",
        "apply_started",
        "applied",
        "apply_started",
        "failed",
    ]
    assert heard[1].fields["files"] == 6


def test_a_plan_that_names_a_file_twice_is_refused(small):
    """Two groups with one file in both would double its rows."""
    plan = opened(small).plan_rewrite_data_files(ALL)
    first, second = plan.operations
    twice = attrs.evolve(second, inputs=(*second.inputs, first.inputs[0]))
    with pytest.raises(CorruptMetadataError, match="names a file twice"):
        opened(small).apply(Plan(plan.header, [first, twice]))


@pytest.mark.parametrize("change", [{"group": 0}, {"inputs": ()}])
def test_plans_whose_groups_are_none_are_refused(small, change):
    """An edited plan with one number twice, or a group of no files, rewrites nothing."""
    plan = opened(small).plan_rewrite_data_files(ALL)
    first, second = plan.operations
    edited = attrs.evolve(plan, operations=(first, attrs.evolve(second, **change)))
    with pytest.raises(CorruptMetadataError, match="two groups of one number, or one of no files"):
        opened(small).apply(edited)


def test_the_older_planner_can_be_applied(small):
    """planner=split-combine plans whole partitions; the result is committed like any other."""
    table = opened(small)
    rows = state(small).rows()
    report = table.apply(table.plan_rewrite_data_files({"planner": "split-combine"}))
    assert (report.result["rewritten_data_files_count"], report.result["added_data_files_count"]) == (6, 2)
    assert state(small).rows() == rows
    path = state(small).paths(0)[0]
    assert f"{path} stays: it is the only file of its partition" == table.why(path, {"planner": "split-combine"})

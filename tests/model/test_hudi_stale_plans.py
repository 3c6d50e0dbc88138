"""What may happen to a table between plan and apply, and what becomes of the plan."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import attrs
import pytest
from support.builders import TableFiles, at, base, clean_plan, moment, tree

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, DeletePartition, Rewrite

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

pytestmark = pytest.mark.slow

COMMITS = {"hoodie.clean.commits.retained": "1"}
VERSIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Group a has three slices to delete, partition p2 was dropped, group m has log files."""
    table = TableFiles(tmp_path / "t", request.param, mor=True)
    table.insert({"p1": "am", "p2": "c"})
    table.commit({"p1": "a"})
    table.delta({"p1": "m"})
    table.commit({"p1": "am"})
    table.commit({"p1": "am"})
    table.delete_partition("p2")
    table.commit({"p1": "a"})
    return table


def make_plan(table: TableFiles, options: dict[str, str] = COMMITS) -> Plan:
    return HudiTable.open(str(table.root)).plan_clean(options, now=moment(40), executor=LocalExecutor(1))


def apply(table: TableFiles, plan: Plan) -> None:
    HudiTable.open(str(table.root)).apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(41)))


def is_refused(table: TableFiles, plan: Plan, words: str, error: type[LakemetaError] = StalePlanError) -> None:
    before = tree(table.root)
    with pytest.raises(error, match=words):
        apply(table, plan)
    assert tree(table.root) == before


def test_the_plan_itself(table: TableFiles) -> None:
    """Untouched, the table takes the plan."""
    plan = make_plan(table)
    assert plan.files == 7
    assert plan.dropped_partitions() == ("p2",)
    apply(table, plan)
    assert table.files() == {f"p1/{base('a', 7)}", f"p1/{base('a', 5)}", f"p1/{base('m', 5)}"}


def test_new_commits_make_no_plan_stale(table: TableFiles) -> None:
    """Later commits, to the same groups and to others, are no reason to refuse."""
    plan = make_plan(table)
    table.commit({"p1": "am"})
    table.insert({"p1": "n", "p3": "x"})
    left = table.files() - {op.path for op in plan.deletes()}
    apply(table, plan)
    assert table.files() == left


def test_a_log_file_on_a_planned_slice_goes_with_it(table: TableFiles) -> None:
    """A plan deletes what it names; nothing that came later."""
    plan = make_plan(table)
    table.delta({"p1": "m"})
    new = table.files()
    apply(table, plan)
    assert table.files() == new - {op.path for op in plan.deletes()}


def test_savepoint_on_a_planned_file(table: TableFiles) -> None:
    """A savepoint made since on a planned file makes the plan stale."""
    plan = make_plan(table)
    table.savepoint(2, {"p1": [base("a", 2)]})
    is_refused(table, plan, rf"p1/{base('a', 2)} must be kept now")


def test_savepoint_elsewhere(table: TableFiles) -> None:
    """A savepoint on files that stay changes nothing."""
    plan = make_plan(table)
    table.savepoint(7, {"p1": [base("a", 7)]})
    apply(table, plan)


def test_savepoint_in_a_dropped_partition(table: TableFiles) -> None:
    """A savepoint in a partition whose directory would go makes the plan stale."""
    plan = make_plan(table, VERSIONS)
    table.savepoint(1, {"p2": [base("c", 1)]})
    is_refused(table, plan, "must be kept now")


@pytest.mark.parametrize("action", ["restore", "rollback"])
def test_rollback_or_restore(table: TableFiles, action: str) -> None:
    """Whatever was undone since, the plan was made from what is no longer so."""
    plan = make_plan(table)
    for path in table.timeline.glob(f"{at(7)}*commit"):
        path.unlink()
    (table.root / "p1" / base("a", 7)).unlink()
    table.put(f"{at(8)}.{action}.requested", b"")
    is_refused(table, plan, "plan again")


def test_the_newest_commit_was_rolled_back_without_a_trace(table: TableFiles) -> None:
    """The newest instant that the plan knew must still be there."""
    plan = make_plan(table)
    for path in table.timeline.glob(f"{at(7)}*commit"):
        path.unlink()
    is_refused(table, plan, "is gone from the timeline")


def test_another_clean_completed(table: TableFiles) -> None:
    """Another clean since makes a plan stale."""
    plan = make_plan(table)
    table.clean(8, at(7), at(7))
    is_refused(table, plan, "was made since the plan")


def test_another_clean_requested(table: TableFiles) -> None:
    """So does a clean that is pending now."""
    plan = make_plan(table)
    table.put(f"{at(8)}.clean.requested", clean_plan({}))
    is_refused(table, plan, "was made since the plan")


def test_pending_compaction_of_a_planned_slice(table: TableFiles) -> None:
    """A compaction scheduled since needs the slices it will merge."""
    plan = make_plan(table)
    table.groups["p1", "m"]["slice"] = at(4)
    table.schedule_compaction({"p1": "m"})
    is_refused(table, plan, rf"p1/{base('m', 4)} must be kept now")


def test_partition_in_use_again(table: TableFiles) -> None:
    """A partition that was written to again is not dropped."""
    plan = make_plan(table)
    table.insert({"p2": "z"})
    is_refused(table, plan, "partition p2 is in use again")


def test_partition_being_written_to_again(table: TableFiles) -> None:
    """Nor is one that an uncommitted write has put a new group in."""
    plan = make_plan(table)
    table.begin({"p2": "z"}, "deltacommit")
    is_refused(table, plan, "partition p2 is in use again")


@pytest.mark.parametrize("options", [COMMITS, VERSIONS])
def test_another_table_in_its_place(table: TableFiles, options: dict[str, str]) -> None:
    """A new table under the same path knows nothing of the plan."""
    plan = make_plan(table, options)
    shutil.rmtree(table.root)
    other = TableFiles(table.root, 9)
    other.hour = 20
    other.insert({"p1": "am", "p2": "c"})
    is_refused(other, plan, "is gone from the timeline")


def test_the_plan_of_another_table(table: TableFiles, tmp_path: Path) -> None:
    """A plan is applied to the table it was made for."""
    shutil.copytree(table.root, tmp_path / "copy")
    plan = make_plan(table)
    before = tree(tmp_path / "copy")
    with pytest.raises(StalePlanError, match=r"is for .*/t, not for .*/copy"):
        HudiTable.open(str(tmp_path / "copy")).apply(plan)
    assert tree(tmp_path / "copy") == before


def test_earliest_commit_archived(table: TableFiles) -> None:
    """The earliest commit to retain must still be on the timeline."""
    plan = make_plan(table, {"hoodie.clean.commits.retained": "3"})
    for path in table.timeline.glob(f"{plan.header.facts['earliest_to_retain']}*"):
        path.unlink()
    is_refused(table, plan, "is no longer on the timeline")


def test_a_plan_of_nothing(table: TableFiles) -> None:
    """A plan of nothing does nothing, whatever came since, unless it would execute a clean that it did not know."""
    plan = make_plan(table, {"hoodie.clean.commits.retained": "30"})
    apply(table, plan)
    table.commit({"p1": "a"})
    before = tree(table.root)
    apply(table, plan)
    assert tree(table.root) == before
    table.put(f"{at(8)}.clean.requested", clean_plan({}))
    is_refused(table, plan, "was made since the plan")


@pytest.mark.parametrize(
    ("operation", "words"),
    [
        (Delete("p1", f"../{base('a', 1)}", 1, "superseded"), "does not lie inside"),
        (Delete("p1", f"p2/{base('a', 1)}", 1, "superseded"), "under partition"),
        (Delete(".hoodie", ".hoodie/hoodie.properties", 1, "superseded"), "own metadata"),
        (Delete("p1", "p1/.hoodie_partition_metadata", 1, "superseded"), "no data file"),
        (DeletePartition(".hoodie", ".hoodie", "no_live_file_group"), "own metadata"),
        (DeletePartition("..", "..", "no_live_file_group"), "does not lie inside"),
        (Rewrite(0, {}, 0, ["a"], [], 1, 1), "cannot rewrite"),
    ],
)
def test_an_operation_no_clean_plans(table: TableFiles, operation: Delete, words: str) -> None:
    """A plan that reaches where no clean does is refused before it is requested, whoever made it."""
    plan = make_plan(table)
    is_refused(table, Plan(plan.header, [operation]), words, LakemetaError)


def test_a_plan_without_its_facts(table: TableFiles) -> None:
    """A plan of another tool must say what it rests on."""
    plan = make_plan(table)
    facts = {k: v for k, v in plan.header.facts.items() if k != "policy"}
    bare = Plan(attrs.evolve(plan.header, facts=facts), plan.operations)
    is_refused(table, bare, "has no policy", CorruptMetadataError)


@pytest.mark.parametrize(
    ("paths", "drops", "words"),
    [
        ({"p1": ["/etc/passwd"]}, [], "does not lie inside"),
        ({"p1": ["{root}/p1/../../x.parquet"]}, [], "does not lie inside"),
        ({"p1": ["s3://bucket/t/p1/x.parquet"]}, [], "does not lie inside"),
        ({"p1": ["{root}/p2/" + base("c", 1)]}, [], "under partition"),
        ({".hoodie": ["{root}/.hoodie/hoodie.properties"]}, [], "own metadata"),
        ({"p1": ["{root}/p1/notes.txt"]}, [], "no data file"),
        ({}, ["../t"], "does not lie inside"),
        ({}, [".hoodie/metadata"], "own metadata"),
    ],
)
def test_a_pending_clean_that_reaches_too_far(
    table: TableFiles, paths: dict[str, list[str]], drops: list[str], words: str
) -> None:
    """The paths of a pending clean are checked, each, before the first file is deleted."""
    root = str(table.root)
    good = {"p1": [f"{root}/p1/{base('a', 1)}"]}
    named = {p: [path.replace("{root}", root) for path in listed] for p, listed in paths.items()}
    table.put(f"{at(8)}.clean.requested", clean_plan({**good, **named}, drops))
    is_refused(table, make_plan(table), words, CorruptMetadataError)


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (lambda r: clean_plan({"p1": [f"{r}/p1/{base('a', 1)}"]}, bootstrap=True), "bootstrap base file"),
        (lambda r: clean_plan({"p1": [f"{r}/p1/{base('a', 1)}"]}, version=1), "clean version 1"),
        (lambda r: clean_plan({"p1": [""]}), "without a path"),
        (lambda r: clean_plan({})[:-9], "cut off"),
        (lambda r: b"", "is empty"),
    ],
)
def test_a_pending_clean_that_cannot_be_executed(
    table: TableFiles, content: Callable[[Path], bytes], words: str
) -> None:
    """A pending clean that is damaged, or does what lakemeta does not do, is refused with nothing changed."""
    table.put(f"{at(8)}.clean.requested", content(table.root))
    is_refused(table, make_plan(table), words, LakemetaError)


def test_a_pending_clean_against_a_savepoint(table: TableFiles) -> None:
    """A pending clean of anybody that names a savepointed file is not executed."""
    table.savepoint(1, {"p1": [base("a", 1)]})
    table.put(f"{at(9)}.clean.requested", clean_plan({"p1": [f"{table.root}/p1/{base('a', 1)}"]}))
    is_refused(table, make_plan(table), f"savepoint {at(1)} needs", CorruptMetadataError)


@pytest.mark.parametrize("state", ["requested", "inflight"])
def test_a_pending_clean_is_executed(table: TableFiles, state: str) -> None:
    """A pending clean is executed as it is, whoever requested it; a partition in use again stays."""
    table.insert({"p2": "z"})
    paths = [f"file:{table.root}/p1/{base('a', 1)}", f"{table.root}/p1/{base('a', 0)}"]
    plan = clean_plan({"p1": paths}, ["p2", ""], earliest=7)
    table.put(f"{at(9)}.clean.requested", plan)
    if state == "inflight":
        table.put(f"{at(9)}.clean.inflight", b"")
    before = table.files()
    report = HudiTable.open(str(table.root)).apply(make_plan(table), env=Environment(lambda: moment(41)))
    assert before - table.files() == {f"p1/{base('a', 1)}"}
    assert (report.deleted_files, report.absent_files) == (1, 1)
    assert len(report.notes) == 2
    assert next(path.name for path in table.timeline.glob("*.clean")).startswith(at(9))


def test_what_lies_deeper_in_a_dropped_partition(table: TableFiles) -> None:
    """A directory with data files of partitions below it is not removed, whatever a plan says."""
    table.put(f"{at(9)}.clean.requested", clean_plan({}, ["p2"], earliest=7))
    table.data("p2/below", base("x", 1))
    report = HudiTable.open(str(table.root)).apply(make_plan(table), env=Environment(lambda: moment(41)))
    assert "lies deeper in it" in report.notes[0]
    assert (table.root / "p2/below" / base("x", 1)).exists()


def test_two_cleans_pending_at_once(table: TableFiles) -> None:
    """Where several cleans may be pending, the new plan is requested before the pending one is executed."""
    pending = clean_plan({"p1": [f"{table.root}/p1/{base('a', 1)}"]}, earliest=7)
    table.put(f"{at(9)}.clean.requested", pending)
    plan = make_plan(table, {**COMMITS, "hoodie.clean.multiple.enabled": "true"})
    report = HudiTable.open(str(table.root)).apply(plan, env=Environment(lambda: moment(41)))
    assert report.result["cleans"] == [at(9), at(41)]
    assert report.absent_files == 1  # both plans name it

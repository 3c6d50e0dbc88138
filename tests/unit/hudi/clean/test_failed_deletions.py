"""Files that a clean could not delete: the next clean takes them up, as Hudi's never does."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from support.builders import TableFiles, at, avro, base, done, log, moment
from support.faults import HookedStorage, Stubborn

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.action_metadata import decode_clean, decode_cleaner_plan

if TYPE_CHECKING:
    from lakemeta.plan import Plan
    from lakemeta.report import Report

ONE = {"hoodie.clean.commits.retained": "1"}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of groups a and b, cleaned to two at 3:30; one file of a could not be deleted."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a", "p2": "b"})
    for _ in range(2):
        table.commit({"p1": "a", "p2": "b"})
    report = clean(table, 3.5, Stubborn("a-0_"))
    assert [outcome.path for outcome in report.failed] == [f"{table.root}/p1/{base('a', 1)}"]
    return table


def opened(table: TableFiles, storage: Stubborn | None = None) -> HudiTable:
    found = HudiTable.open(str(table.root))
    return attrs.evolve(found, place=attrs.evolve(found.place, storage=storage)) if storage else found


def make_plan(table: TableFiles, options: dict[str, str] = ONE, hour: float = 30, **how: Any) -> Plan:
    return opened(table).plan_clean(options, now=moment(hour), executor=LocalExecutor(1), **how)


def clean(table: TableFiles, hour: float, storage: Stubborn | None = None, options: dict[str, str] = ONE) -> Report:
    plan = make_plan(table, options, hour)
    return opened(table, storage).apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(hour)))


def again(plan: Plan) -> list[tuple[str, str | None]]:
    return [(op.path, op.by) for op in plan.deletes() if op.reason == "failed_before"]


def failed_clean(table: TableFiles, hour: float, failed: dict[str, list[str]], earliest: str = at(3)) -> None:
    """A completed clean that could not delete these files."""
    partitions = {
        partition: {
            "partitionPath": partition,
            "policy": "KEEP_LATEST_COMMITS",
            "deletePathPatterns": names,
            "successDeleteFiles": [],
            "failedDeleteFiles": names,
            "isPartitionDeleted": False,
        }
        for partition, names in failed.items()
    }
    record = {
        "startCleanTime": at(hour),
        "timeTakenInMillis": 1,
        "totalFilesDeleted": 0,
        "earliestCommitToRetain": earliest,
        "lastCompletedCommitTimestamp": at(3),
        "partitionMetadata": partitions,
        "version": 2,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": {},
    }
    name = f"{at(hour)}_{done(hour)}.clean" if table.version >= 8 else f"{at(hour)}.clean"
    table.put(name, avro("HoodieCleanMetadata", record))


def test_they_go_when_nothing_else_is_due(table: TableFiles) -> None:
    """The plan names them with a reason of their own, and after that there is nothing left to do."""
    plan = make_plan(table)
    assert again(plan) == [(f"p1/{base('a', 1)}", at(3.5))]
    assert plan.header.facts["scope_reason"] == "0 commits since the last clean, 1 make one due"
    assert clean(table, 30).deleted_files == 1
    assert base("a", 1) not in "".join(table.files())
    assert make_plan(table, hour=31).is_empty


def test_a_clean_for_them_alone_moves_no_boundary(table: TableFiles) -> None:
    """What lies between the last clean's boundary and a newer one was not looked at, and is by the next clean."""
    two_due = {**ONE, "hoodie.clean.trigger.max.commits": "2"}
    table.commit({"p2": "b"})
    table.savepoint(table.hour - 1, {"p1": [base("a", 3)], "p2": [base("b", table.hour - 1)]})
    assert [op.reason for op in make_plan(table, two_due).deletes()] == ["failed_before"]
    clean(table, 30, options=two_due)
    (requested,) = table.timeline.glob(f"{at(30)}.clean.requested")
    plan = decode_cleaner_plan(requested.read_bytes(), "plan")
    assert (plan.earliest, plan.last_completed_commit, plan.extra) == ((at(3), "commit"), at(3), {})
    (completed,) = (p for p in table.timeline.glob("*.clean") if p.name.startswith(at(30)))
    after = decode_clean(completed.read_bytes(), "clean")
    assert (after.earliest_to_retain, after.last_completed_commit) == (at(3), at(3))
    table.commit({"p2": "b"})
    assert [op.path for op in make_plan(table, two_due, 40).deletes()] == [
        f"p1/{base('a', 2)}",
        *(f"p2/{base('b', hour)}" for hour in (2, 3)),
    ]


def test_an_incremental_clean_takes_them_up_in_partitions_it_does_not_visit(table: TableFiles) -> None:
    """Beside what is due anyway."""
    table.commit({"p2": "b"})
    table.clean(4.5, at(4), at(4))
    table.commit({"p2": "b"})
    plan = make_plan(table)
    assert plan.header.facts["scope"] == "incremental"
    assert [(op.path, op.reason) for op in plan.deletes()] == [
        (f"p1/{base('a', 1)}", "failed_before"),
        (f"p2/{base('b', 2)}", "superseded"),
        (f"p2/{base('b', 3)}", "superseded"),
    ]
    assert clean(table, 30).deleted_files == 3


def test_a_full_clean_names_each_file_once(table: TableFiles) -> None:
    """It would have planned them anyway; explained or not."""
    table.commit({"p2": "b"})
    full = {**ONE, "hoodie.clean.incremental.enabled": "false"}
    plan = make_plan(table, full, explain=True)
    paths = [op.path for op in plan.operations]
    assert sorted(paths) == sorted(set(paths)) == sorted(table.files())
    assert again(plan) == [(f"p1/{base('a', 1)}", at(3.5))]
    filtered = {**full, "hoodie.clean.partition.filter.selected": "p2"}
    assert again(make_plan(table, filtered)) == []


def test_they_are_not_forgotten_by_cleans_in_between(table: TableFiles) -> None:
    """Hudi's next clean does not know of them: every clean on the active timeline is asked."""
    table.clean(3.75, at(3), at(3))
    assert again(make_plan(table)) == [(f"p1/{base('a', 1)}", at(3.5))]
    assert clean(table, 30, Stubborn("a-0_")).failed
    assert again(make_plan(table, hour=31)) == [(f"p1/{base('a', 1)}", at(30))]


def test_a_writer_may_archive_cleans_meanwhile(table: TableFiles) -> None:
    """A clean that was archived after the timeline was listed is on the active timeline no more."""
    table.clean(3.75, at(3), at(3))

    def archive(operation: str, path: str) -> None:
        if operation == "read" and f"{at(3.5)}" in path and path.endswith(".clean"):
            Path(path).unlink(missing_ok=True)

    place = opened(table).place
    archiving = attrs.evolve(opened(table), place=attrs.evolve(place, storage=HookedStorage(place.storage, archive)))
    plan = archiving.plan_clean(ONE, now=moment(30), executor=LocalExecutor(1))
    assert again(plan) == []
    assert again(make_plan(table)) == []


def test_only_what_the_rules_let_go_goes(table: TableFiles) -> None:
    """A clean that names live, retained, unknown or absent files as failed is not believed."""
    live, retained = base("a", 3), base("b", 2)
    failed_clean(table, 3.6, {"p1": [live, base("a", 0), "../p2/x.parquet", "x"], "p2": [retained], "p9": [live]})
    assert again(make_plan(table)) == [(f"p1/{base('a', 1)}", at(3.5))]
    table.savepoint(1, {"p1": [base("a", 1)]})
    assert make_plan(table).is_empty


@pytest.mark.parametrize("partition", ["..", "../other", "/p1", ".hoodie/metadata/files", ".HOODIE", "p1/.hoodie/x"])
def test_partitions_that_are_not_the_tables(table: TableFiles, partition: str) -> None:
    """Nothing is listed there, and nothing planned."""
    failed_clean(table, 3.6, {partition: ["x"]})
    with pytest.raises(CorruptMetadataError, match=r"inside the table|own metadata"):
        make_plan(table)


def test_a_pending_clean_comes_first(table: TableFiles) -> None:
    """Nothing is planned beside it."""
    table.put(f"{at(9)}.clean.requested", (next(table.timeline.glob("*.clean.requested"))).read_bytes())
    assert make_plan(table).is_empty


def test_log_files_too(tmp_path: Path) -> None:
    """A slice whose base file went and whose log file stayed."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "a"})
    table.delta({"p1": "a"})
    for hour in (3, 5):
        table.schedule_compaction({"p1": "a"})
        table.complete_compaction(hour, {"p1": "a"})
    clean(table, 7, Stubborn(".log."))
    left = f"p1/{log('a', 2)}"
    assert left in table.files()
    assert again(make_plan(table)) == [(left, at(7))]
    assert clean(table, 30).deleted_files == 1


def test_the_doctor_and_why_say_so(table: TableFiles) -> None:
    """With the command that tries again."""
    now = moment(30)
    findings = opened(table).doctor(ONE, now=now, executor=LocalExecutor(1))
    (found,) = (f for f in findings if f.kind == "failed_deletions")
    assert found.sentence == (
        f"1 file (10 B) that clean {at(3.5)} could not delete, still there: p1/{base('a', 1)}; "
        f"run lakemeta clean {table.root}, which tries again"
    )
    said = opened(table).why(f"p1/{base('a', 1)}", ONE, now=now, executor=LocalExecutor(1))
    assert said.endswith(f"would be deleted: clean {at(3.5)} could not delete it, and the next one tries again")
    said = opened(table).why(f"p2/{base('b', 3)}", ONE, now=now, executor=LocalExecutor(1))
    assert "stays" in said


def test_the_report_names_the_command(table: TableFiles) -> None:
    """After exit code 4."""
    report = clean(table, 30, Stubborn("a-0_"))
    assert not report.complete
    assert report.notes == (f"what could not be deleted is taken up again by: lakemeta clean {table.root}",)

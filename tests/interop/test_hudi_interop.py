"""lakemeta and the real Hudi take turns on one table, for every Hudi release that lakemeta writes for.

Each test writes with the engine, cleans with lakemeta, and lets the engine be the judge: it reads the same
rows, it decodes our clean, it goes on writing and cleaning, and it finishes what we left unfinished.
"""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
import pytest
from interop.engine_process import EngineError
from interop.hudi_engine import VERSIONS, Engine, HudiEngines, HudiEngineTable
from support.faults import Crash, FaultyStorage

from lakemeta.hudi import HudiTable
from lakemeta.plan import Plan

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.engine

COMMITS_2 = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "2"}
CRASHES = ["requested", "inflight", "half deleted", "directory half removed", "all but completed"]
VERSIONS_1 = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}


@pytest.fixture(scope="module", params=list(VERSIONS))
def engine(request: pytest.FixtureRequest, hudi_engines: HudiEngines) -> Engine:
    """The real engine, one release after the other."""
    return hudi_engines.of(request.param)


@pytest.fixture(scope="module")
def originals(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> dict[bool, HudiEngineTable]:
    """One written table of each type; tests work on copies."""
    made = {}
    for mor in (False, True):
        made[mor] = HudiEngineTable(engine, tmp_path_factory.mktemp("originals") / "t", mor=mor)
        write_history(made[mor])
    return made


@pytest.fixture(params=[False, True], ids=["cow", "mor"])
def written(request: pytest.FixtureRequest, originals: dict[bool, HudiEngineTable], tmp_path: Path) -> HudiEngineTable:
    """A table with rewritten, replaced, dropped and (merge on read) compacted file groups."""
    return originals[request.param].twin(tmp_path / "t")


@pytest.fixture
def written_cow(originals: dict[bool, HudiEngineTable], tmp_path: Path) -> HudiEngineTable:
    """The same, copy on write only."""
    return originals[False].twin(tmp_path / "t")


def write_history(table: HudiEngineTable) -> None:
    table.write("insert", [(f"{p}-{n}", p) for p in ("p1", "p2", "p3") for n in range(2)])
    rewrite(table, [("p1-0", "p1")])
    table.delete_partition("p2")
    table.write("insert_overwrite", [("p3-9", "p3")])
    for _ in range(2):
        rewrite(table, [("p1-0", "p1"), ("p3-9", "p3")])


def rewrite(table: HudiEngineTable, rows: list[tuple[str, str]]) -> None:
    """New slices for the file groups of these rows; a merge on read table needs a compaction for them."""
    table.write("upsert", rows)
    if table.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        table.compact("schedule")
        table.compact("run")


def engine_options(options: dict[str, str]) -> dict[str, str]:
    """The same options in the older spelling, which every release knows."""
    return {name.replace("hoodie.clean.", "hoodie.cleaner."): value for name, value in options.items()}


def data_files(base: Path) -> set[str]:
    """The data files of a table that lie there, relative."""
    found = (p.relative_to(base) for p in base.rglob("*") if p.is_file() and p.suffix != ".crc")
    return {str(p) for p in found if p.parts[0] != ".hoodie" and not p.name.startswith(".hoodie")}


def planned(plan: Plan) -> set[str]:
    return {delete.path for delete in plan.deletes()}


@pytest.mark.parametrize("options", [COMMITS_2, VERSIONS_1], ids=["commits", "versions"])
def test_we_delete_what_the_engine_would(written: HudiEngineTable, options: dict[str, str], tmp_path: Path) -> None:
    """Of two copies of a table, one cleaned by us and one by the engine, the same files are left."""
    theirs = written.twin(tmp_path / "theirs")
    decided = theirs.clean(engine_options(options))
    table = HudiTable.open(str(written.base))
    report = table.apply(table.plan_clean(options))
    assert decided is not None
    assert data_files(written.base) == data_files(theirs.base)
    assert not (written.base / "p2").exists()
    assert report.result["total_files_deleted"] == decided["totalFilesDeleted"]
    assert (report.result["earliest_commit_to_retain"] or "") == decided["earliestCommitToRetain"]


def test_the_engine_goes_on_after_our_clean(written: HudiEngineTable) -> None:
    """After our clean the engine reads the same rows, decodes our clean, upserts and cleans on."""
    rows = written.rows()
    table = HudiTable.open(str(written.base))
    report = table.apply(table.plan_clean(COMMITS_2))
    assert report.complete
    assert written.rows() == rows

    ours = written.cleans()[-1]
    assert ours["startCleanTime"] == report.committed
    assert ours["totalFilesDeleted"] == report.deleted_files > 0
    assert {p for p, of in ours["partitionMetadata"].items() if of["isPartitionDeleted"]} == {"p2"}

    for _ in range(3):
        rewrite(written, [("p1-0", "p1"), ("p3-9", "p3"), ("p4-0", "p4")])
    rows = written.rows()
    assert [row[0] for row in rows] == ["p1-0", "p1-1", "p3-9", "p4-0"]
    should_go = planned(HudiTable.open(str(written.base)).plan_clean(COMMITS_2))
    before = data_files(written.base)
    theirs = written.clean(engine_options(COMMITS_2))
    assert theirs is not None
    assert theirs["earliestCommitToRetain"] > ours["earliestCommitToRetain"]
    assert before - data_files(written.base) == should_go
    assert written.rows() == rows


def test_the_engine_lists_our_clean_in_sql(written_cow: HudiEngineTable) -> None:
    """``CALL show_cleans`` and ``CALL show_clean_plans`` show ours; releases before 1.2 do not have them."""
    written = written_cow
    if written.engine.version != "1.2.0":
        with pytest.raises(EngineError, match="show_cleans"):
            written.procedure_by_name("show_cleans")
        return
    table = HudiTable.open(str(written.base))
    report = table.apply(table.plan_clean(COMMITS_2))
    shown = written.procedure_by_name("show_cleans")
    assert [row[0] for row in shown] == [report.committed]
    assert str(report.deleted_files) in shown[0]
    assert [row[0] for row in written.procedure_by_name("show_clean_plans")] == [report.committed]


def test_time_travel_to_what_is_retained(written: HudiEngineTable) -> None:
    """A query as of the earliest commit to retain gives the same rows before and after our clean."""
    table = HudiTable.open(str(written.base))
    plan = table.plan_clean(COMMITS_2)
    earliest = plan.header.facts["earliest_to_retain"]
    rows = written.rows_as_of(earliest)
    assert rows
    table.apply(plan)
    assert written.rows_as_of(earliest) == rows


def test_a_savepoint_can_be_restored_after_our_clean(engine: Engine, tmp_path: Path) -> None:
    """The engine rolls a table back to a savepoint that we cleaned around, and finds its rows of then."""
    written = HudiEngineTable(engine, tmp_path / "t")
    written.write("insert", [(f"{p}-{n}", p) for p in ("p1", "p2") for n in range(2)])
    written.write("upsert", [("p1-0", "p1")])
    written.savepoint(written.commits()[-1])
    then = written.rows()
    for _ in range(4):
        written.write("upsert", [("p1-0", "p1"), ("p2-1", "p2")])
    savepoint = written.commits()[1]
    table = HudiTable.open(str(written.base))
    assert table.apply(table.plan_clean(VERSIONS_1)).deleted_files > 0
    written.procedure("rollback_to_savepoint", f"instant_time => '{savepoint}'")
    assert written.rows() == then


def test_the_engine_executes_a_clean_we_scheduled(written: HudiEngineTable) -> None:
    """A plan that we only scheduled is the engine's next clean, to the file."""
    rows = written.rows()
    plan_file = written.base.parent / "plan.jsonl"
    lakemeta("plan", "clean", str(written.base), *settings(COMMITS_2), "--out", str(plan_file))
    plan = Plan.loads(plan_file.read_text())
    before = data_files(written.base)
    said = lakemeta("clean", str(written.base), *settings(COMMITS_2), "--yes", "--schedule-only")
    assert data_files(written.base) == before
    executed = written.clean(engine_options(COMMITS_2))
    assert executed is not None
    assert executed["startCleanTime"] in said
    assert executed["totalFilesDeleted"] == plan.files
    assert before - data_files(written.base) == planned(plan)
    assert not (written.base / "p2").exists()
    assert written.rows() == rows


@pytest.mark.parametrize(
    ("at", "when"), [(2, "before"), (2, "after"), (3, "half"), (4, "half"), (5, "before")], ids=CRASHES
)
def test_the_engine_completes_our_crashed_clean(
    written_cow: HudiEngineTable, at: int, when: Literal["before", "after", "half"]
) -> None:
    """A clean of ours that died is completed by the engine's next clean: same files, same rows."""
    written = written_cow
    rows = written.rows()
    table = HudiTable.open(str(written.base))
    plan = table.plan_clean(COMMITS_2)
    before = data_files(written.base)
    faulty = FaultyStorage(table.place.storage, at, when)
    with pytest.raises(Crash):
        attrs.evolve(table, place=attrs.evolve(table.place, storage=faulty)).apply(plan)
    assert written.rows() == rows
    completed = written.clean(engine_options(COMMITS_2))
    assert completed is not None
    assert len(written.cleans()) == 1
    assert before - data_files(written.base) == planned(plan)
    assert written.rows() == rows
    assert HudiTable.open(str(written.base)).plan_clean(COMMITS_2).is_empty


def test_we_complete_a_clean_that_the_engine_scheduled(written: HudiEngineTable) -> None:
    """A plan that the engine scheduled and never executed is executed by us, and no second one is made."""
    rows = written.rows()
    scheduled = written.schedule_clean(engine_options(COMMITS_2))
    table = HudiTable.open(str(written.base))
    report = table.apply(table.plan_clean(COMMITS_2))
    assert report.committed == scheduled
    ours = written.cleans()[-1]
    assert ours["startCleanTime"] == scheduled
    assert ours["totalFilesDeleted"] == report.deleted_files > 0
    assert written.rows() == rows


def test_the_engine_goes_on_after_our_rollback(written: HudiEngineTable) -> None:
    """A write of the engine's that died is rolled back by us: the engine reads the rows of before, and goes on."""
    rows, before = written.rows(), data_files(written.base)
    written.crash_write([("p1-0", "p1"), ("p3-9", "p3"), ("p5-0", "p5")])
    table = HudiTable.open(str(written.base))
    report = table.apply(table.plan_rollback())
    assert report.complete
    assert before <= data_files(written.base)
    assert written.rows() == rows
    for _ in range(3):
        rewrite(written, [("p1-0", "p1"), ("p3-9", "p3")])
    rows = written.rows()
    assert [row[0] for row in rows] == ["p1-0", "p1-1", "p3-9"]
    assert written.clean(engine_options(COMMITS_2)) is not None
    assert written.rows() == rows


@pytest.fixture(scope="module")
def original_with_metadata_table(engine: Engine, tmp_path_factory: pytest.TempPathFactory) -> HudiEngineTable:
    """A copy on write table with a metadata table."""
    table = HudiEngineTable(engine, tmp_path_factory.mktemp("original") / "t", metadata=True)
    write_history(table)
    return table


@pytest.mark.parametrize("how", ["applied", "scheduled"])
def test_a_metadata_table_stays_true(original_with_metadata_table: HudiEngineTable, tmp_path: Path, how: str) -> None:
    """With a metadata table, after our clean or the engine's of our plan, the engine lists what the disk has."""
    written = original_with_metadata_table.twin(tmp_path / "t")
    rows = written.rows()
    table = HudiTable.open(str(written.base))
    plan = table.plan_clean(COMMITS_2)
    before = data_files(written.base)
    if how == "applied":
        table.apply(plan)
    else:
        table.schedule_clean(plan)
        written.clean(engine_options(COMMITS_2))
    assert [clean["totalFilesDeleted"] for clean in written.cleans()] == [plan.files]
    assert before - data_files(written.base) == planned(plan)
    assert listed(written) == data_files(written.base)
    assert written.rows() == rows

    for _ in range(3):
        rewrite(written, [("p1-0", "p1"), ("p2-7", "p2")])
    rows = written.rows()
    assert written.clean(engine_options(COMMITS_2)) is not None
    assert listed(written) == data_files(written.base)
    assert written.rows() == rows


def listed(table: HudiEngineTable) -> set[str]:
    """The data files that the engine's metadata table lists, relative."""
    partitions = [row[0] for row in table.procedure_by_name("show_metadata_table_partitions")]
    return {
        f"{partition}/{row[0]}"
        for partition in partitions
        for row in table.procedure_by_name("show_metadata_table_files", f"partition => '{partition}'")
    }


def settings(options: dict[str, str]) -> list[str]:
    return [word for name, value in options.items() for word in ("--set", f"{name}={value}")]


def lakemeta(*words: str) -> str:
    """Run the command line in its own process; what it says."""
    done = subprocess.run([sys.executable, "-m", "lakemeta", *words], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout

"""What undoes a failed write, and what keeps it from being undone."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, base, log, moment, tree
from support.hudi_cases import read_avro
from support.hudi_failed_writes import direct_markers, heartbeat, inflight_updates, log_name, server_markers

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, StalePlanError, UnsupportedFeatureError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.plan import Keep

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.plan import Plan

LAZY = {"hoodie.clean.failed.writes.policy": "LAZY"}
LISTING = {"hoodie.rollback.using.markers": "false"}
NOW = moment(100)


def failed_cow(root: Path, version: int = 9) -> TableFiles:
    """Two commits, then one that died after writing a new version of ``a`` and a new group ``c``."""
    table = TableFiles(root, version)
    table.insert({"p1": "ab"})
    table.commit({"p1": "a"})
    table.begin({"p1": "a", "p2": "c"})
    return table


FAILED = [("p1/" + base("a", 3), "MERGE"), ("p2/" + base("c", 3), "CREATE")]


def failed_mor(root: Path, version: int) -> TableFiles:
    """A delta commit that died after a log file for ``a`` and a base file for the new group ``c``."""
    table = TableFiles(root, version, mor=True)
    table.insert({"p1": "ab"})
    table.delta({"p1": "a"})
    instant = table.begin({"p1": "a"}, "deltacommit", logs=True)
    table.data("p2", base("c", 3))
    if version < 8:
        inflight_updates(table, instant, {"p1": {"a": at(1)}, "p2": {"c": None}})
    return table


def planned(table: TableFiles, options: dict[str, str] | None = None) -> Plan:
    return HudiTable.open(str(table.root)).plan_rollback(options, now=NOW)


def roll_back(table: TableFiles, options: dict[str, str] | None = None) -> Any:
    hudi = HudiTable.open(str(table.root))
    return hudi.apply(hudi.plan_rollback(options, now=NOW), env=Environment(lambda: NOW))


def completed(table: TableFiles) -> list[dict[str, Any]]:
    return [read_avro(path.read_bytes()) for path in sorted(table.timeline.glob("*.rollback"))]


@pytest.mark.parametrize("version", [6, 8, 9])
@pytest.mark.parametrize("markers", [server_markers, direct_markers])
def test_markers_name_what_goes(tmp_path: Path, version: int, markers: Any) -> None:
    """Every file that a marker names goes, whoever keeps the markers; then nothing of the write is left."""
    table = failed_cow(tmp_path, version)
    before = table.files()
    markers(table, at(3), FAILED)
    roll_back(table)
    assert before - table.files() == {path for path, _ in FAILED}
    assert not [name for name in tree(tmp_path) if f"{at(3)}." in name or f".temp/{at(3)}" in name]
    assert completed(table)[0]["commitsRollback"] == [at(3)]


def test_markers_in_several_files_count_once(tmp_path: Path) -> None:
    """A timeline server spreads markers over files, and may repeat one."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED[:1], FAILED)
    assert sorted(op.path for op in planned(table).deletes()) == [path for path, _ in FAILED]


def test_a_file_that_was_never_made_is_absent(tmp_path: Path) -> None:
    """A marker comes before its file; a file that is not there counts as deleted."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), [*FAILED, ("p3/" + base("d", 3), "CREATE")])
    report = roll_back(table)
    assert (report.deleted_files, report.absent_files) == (2, 1)


@pytest.mark.parametrize("version", [6, 9])
def test_without_a_marker_directory_files_are_looked_for(tmp_path: Path, version: int) -> None:
    """Were the files left, they would count as committed once the timeline is archived past them."""
    table = failed_cow(tmp_path, version)
    roll_back(table)
    assert not [name for name in table.files() if at(3) in name]


def test_a_write_that_had_not_begun_has_no_files(tmp_path: Path) -> None:
    """A requested commit is rolled back without looking at any partition."""
    table = TableFiles(tmp_path)
    table.insert({"p1": "a"})
    table.put(f"{at(2)}.commit.requested", b"")
    assert planned(table).is_empty
    assert roll_back(table).result["commits_rollback"] == [at(2)]
    assert not list(table.timeline.glob(f"{at(2)}*"))


@pytest.mark.parametrize("options", [{}, LISTING])
def test_version_6_appends_a_rollback_block(tmp_path: Path, options: dict[str, str]) -> None:
    """A log file named by an earlier slice stays; a block in a new one, the next number, says what no longer counts."""
    table = failed_mor(tmp_path, 6)
    appended = log_name("a", 1, 2)
    server_markers(table, at(3), [(f"p1/{appended}", "APPEND"), ("p2/" + base("c", 3), "CREATE")])
    before = table.files()
    report = roll_back(table, options)
    new = log_name("a", 1, 3, "1-0-1")
    assert table.files() == (before - {"p2/" + base("c", 3)}) | {f"p1/{new}"}
    (block,) = read_blocks((tmp_path / "p1" / new).read_bytes(), new)
    assert isinstance(block, LogBlock)
    assert (block.rolled_back_instant, block.instant_time) == (at(3), report.committed)
    partition = completed(table)[0]["partitionMetadata"]["p1"]
    assert partition["rollbackLogFiles"] == {f"file:{tmp_path}/p1/{new}": (tmp_path / "p1" / new).stat().st_size}


def test_version_6_log_file_of_the_write_itself_goes(tmp_path: Path) -> None:
    """A log file that starts a new group is named by the failed write, so it goes whole."""
    table = failed_mor(tmp_path, 6)
    own = log_name("d", 3, 1)
    table.data("p2", own)
    server_markers(table, at(3), [(f"p2/{own}", "APPEND")])
    roll_back(table)
    assert f"p2/{own}" not in table.files()


def test_version_6_log_file_that_was_never_made_needs_no_block(tmp_path: Path) -> None:
    """Nothing was appended, so there is nothing to undo."""
    table = failed_mor(tmp_path, 6)
    server_markers(table, at(3), [(f"p1/{log_name('b', 1, 1)}", "APPEND")])
    before = table.files()
    roll_back(table)
    assert table.files() == before


@pytest.mark.parametrize("version", [8, 9])
@pytest.mark.parametrize("options", [{}, LISTING])
def test_version_8_log_files_go(tmp_path: Path, version: int, options: dict[str, str]) -> None:
    """From version 8 on a log file is named by its own delta commit."""
    table = failed_mor(tmp_path, version)
    files = [("p1/" + log("a", 3), "CREATE"), ("p2/" + base("c", 3), "CREATE")]
    server_markers(table, at(3), files)
    before = table.files()
    roll_back(table, options)
    assert before - table.files() == {path for path, _ in files}


def test_explained_plans_name_the_log_files_that_stay(tmp_path: Path) -> None:
    """``explain`` says which log file keeps blocks that no longer count."""
    table = failed_mor(tmp_path, 6)
    server_markers(table, at(3), [(f"p1/{log_name('a', 1, 2)}", "APPEND")])
    plan = HudiTable.open(str(tmp_path)).plan_rollback(now=NOW, explain=True)
    (kept,) = (op for op in plan.operations if isinstance(op, Keep))
    assert (kept.path, kept.reason, kept.by) == (f"p1/{log_name('a', 1, 2)}", "undone_by_rollback_block", at(3))


@pytest.mark.parametrize(
    ("marker", "problem"),
    [
        ("p1/" + base("a", 2) + ".marker.MERGE", "a file of another write"),
        ("p1/notes.txt.marker.CREATE", "no data file"),
        ("../x/" + base("a", 3) + ".marker.CREATE", "does not lie inside"),
        (".hoodie/" + base("a", 3) + ".marker.CREATE", "metadata"),
        ("p1/" + base("a", 3), "none that Hudi writes"),
        ("p1/" + base("a", 3) + ".marker.DELETE", "none that Hudi writes"),
    ],
)
def test_a_marker_that_cannot_be_is_refused(tmp_path: Path, marker: str, problem: str) -> None:
    """A marker for a file of somebody else, or for no data file of this table, stops everything."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED)
    with (tmp_path / ".hoodie/.temp" / at(3) / "MARKERS0").open("a") as file:
        file.write(f"{marker}\n")
    before = tree(tmp_path)
    with pytest.raises(CorruptMetadataError, match=problem):
        planned(table)
    assert tree(tmp_path) == before


def test_append_markers_are_refused_from_version_8_on(tmp_path: Path) -> None:
    """Such a marker would mean a writer that we do not know."""
    table = failed_mor(tmp_path, 9)
    server_markers(table, at(3), [("p1/" + log("a", 3), "APPEND")])
    with pytest.raises(UnsupportedFeatureError, match=r"using\.markers=false"):
        planned(table)


def test_markers_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    """A marker directory that says it is kept otherwise may hold anything."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED)
    (tmp_path / ".hoodie/.temp" / at(3) / "MARKERS.type").write_text("QUANTUM")
    with pytest.raises(UnsupportedFeatureError, match="QUANTUM"):
        planned(table)


def test_a_savepointed_file_is_never_deleted(tmp_path: Path) -> None:
    """A savepoint that names a file of the failed write contradicts it: nothing is done."""
    table = failed_cow(tmp_path)
    table.savepoint(2, {"p1": [base("a", 3)]})
    with pytest.raises(CorruptMetadataError, match="savepoint"):
        planned(table)


def test_lazy_leaves_a_living_writer_alone(tmp_path: Path) -> None:
    """A fresh heartbeat means that the write goes on; only the other one is rolled back."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    heartbeat(table, at(4), NOW - timedelta(seconds=119))
    plan = planned(table, LAZY)
    assert plan.header.facts["failed_writes"] == [at(3)]
    assert plan.header.facts["alive_writes"] == [at(4)]
    roll_back(table, LAZY)
    assert list(table.timeline.glob(f"{at(4)}*"))
    assert "p1/" + base("b", 4) in table.files()


def test_an_expired_heartbeat_goes_with_its_write(tmp_path: Path) -> None:
    """The heartbeat is stale after the interval times the tolerable misses, and is removed in the end."""
    table = failed_cow(tmp_path)
    heartbeat(table, at(3), NOW - timedelta(seconds=121))
    roll_back(table, LAZY)
    assert not (tmp_path / ".hoodie/.heartbeat" / at(3)).exists()


def test_eager_refuses_a_fresh_heartbeat(tmp_path: Path) -> None:
    """Who rolls back eagerly takes the place of the only writer; a heartbeat says that there is another."""
    table = failed_cow(tmp_path)
    heartbeat(table, at(3), NOW - timedelta(seconds=5))
    with pytest.raises(UnsupportedFeatureError, match="alive, its heartbeat is 5 s old"):
        planned(table)


def test_eager_refuses_a_write_that_others_went_past(tmp_path: Path) -> None:
    """Commits after the pending one mean more than one writer."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "b"})
    with pytest.raises(UnsupportedFeatureError, match="more than one writer"):
        planned(table)
    assert roll_back(table, LAZY).result["commits_rollback"] == [at(3)]


def test_never_rolls_nothing_back(tmp_path: Path) -> None:
    """Under NEVER no write has failed."""
    assert not planned(failed_cow(tmp_path), {"hoodie.clean.failed.writes.policy": "NEVER"}).header.facts[
        "failed_writes"
    ]


def test_newest_writes_go_first(tmp_path: Path) -> None:
    """Two failed writes make two rollbacks, the newer write's first."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    assert roll_back(table).result["commits_rollback"] == [at(4), at(3)]
    assert [record["commitsRollback"] for record in completed(table)] == [[at(4)], [at(3)]]


@pytest.mark.parametrize("version", [6, 9])
def test_clusterings_and_compactions_are_no_failed_writes(tmp_path: Path, version: int) -> None:
    """Table services are run again by whoever runs them."""
    table = TableFiles(tmp_path, version, mor=True)
    table.insert({"p1": "ab"})
    table.delta({"p1": "a"})
    table.schedule_compaction({"p1": "a"}, inflight=True)
    table.schedule_clustering()
    assert not planned(table).header.facts["failed_writes"]


def test_a_plan_is_stale_once_the_write_completed(tmp_path: Path) -> None:
    """A write that was not dead after all must not lose its files."""
    table = failed_cow(tmp_path)
    plan = planned(table)
    (table.timeline / f"{at(3)}.inflight").unlink()
    (table.timeline / f"{at(3)}.commit.requested").unlink()
    done = next(table.timeline.glob(f"{at(2)}_*.commit")).read_bytes()
    table.put(f"{at(3)}_{at(3.5)}.commit", done)
    before = tree(tmp_path)
    with pytest.raises(StalePlanError, match="is done"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))
    assert tree(tmp_path) == before


def test_a_plan_is_stale_once_the_writer_lives(tmp_path: Path) -> None:
    """A heartbeat that beats again stops a plan that was made without it."""
    table = failed_cow(tmp_path)
    plan = planned(table, LAZY)
    heartbeat(table, at(3), NOW)
    with pytest.raises(StalePlanError, match="alive again"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))


def test_a_plan_is_stale_once_the_write_has_other_files(tmp_path: Path) -> None:
    """Exactly what was planned is undone, or nothing."""
    table = failed_cow(tmp_path)
    plan = planned(table)
    table.data("p1", base("z", 3))
    with pytest.raises(StalePlanError, match="other files"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))


def test_a_plan_applied_twice_does_nothing_more(tmp_path: Path) -> None:
    """What was rolled back by the plan is done."""
    table = failed_cow(tmp_path)
    plan = planned(table)
    hudi = HudiTable.open(str(tmp_path))
    hudi.apply(plan, env=Environment(lambda: NOW))
    before = tree(tmp_path)
    assert hudi.apply(plan, env=Environment(lambda: NOW)).deleted_files == 0
    assert tree(tmp_path) == before


def test_a_rollback_by_an_unknown_hand_is_finished_as_it_was_begun(tmp_path: Path) -> None:
    """A pending rollback is executed from its own plan, also after the failed write is gone from the timeline."""
    table = failed_cow(tmp_path)
    roll_back(table)
    (done,) = table.timeline.glob("*.rollback")
    done.unlink()
    table.data("p2", base("c", 3))
    report = roll_back(table)
    assert report.committed == done.name[:17]
    assert "p2/" + base("c", 3) not in table.files()


def test_an_empty_requested_rollback_is_refused(tmp_path: Path) -> None:
    """Without its plan nobody knows what it was."""
    table = failed_cow(tmp_path)
    table.put(f"{at(9)}.rollback.requested", b"")
    with pytest.raises(CorruptMetadataError, match="is empty"):
        planned(table)


def test_a_lazy_plan_survives_its_own_rollback(tmp_path: Path) -> None:
    """A clean was planned as if the failed write were gone, so rolling back just that one makes nothing stale."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    options = {**LAZY, "hoodie.clean.commits.retained": "1"}
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean(options, now=NOW)
    roll_back(table, LAZY)
    report = hudi.apply(plan, env=Environment(lambda: NOW))
    assert report.committed is not None
    assert report.deleted_files == plan.files > 0


def test_a_lazy_plan_does_not_survive_another_rollback(tmp_path: Path) -> None:
    """A rollback of anything else may have taken files that the plan counted on."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean({**LAZY, "hoodie.clean.commits.retained": "1"}, now=NOW)
    table.begin({"p1": "b"})
    roll_back(table, LAZY)
    with pytest.raises(StalePlanError, match="rollback"):
        hudi.apply(plan, env=Environment(lambda: NOW))


def test_a_lazy_clean_rolls_back_even_if_nothing_is_to_be_cleaned(tmp_path: Path) -> None:
    """As in Hudi, failed writes go whether or not a clean is due."""
    table = failed_cow(tmp_path)
    hudi = HudiTable.open(str(tmp_path))
    report = hudi.apply(hudi.plan_clean(LAZY, now=NOW), env=Environment(lambda: NOW))
    assert report.committed is None
    assert report.result["commits_rollback"] == [at(3)]
    assert not list(table.timeline.glob("*.clean*"))


def test_scheduling_rolls_back_first(tmp_path: Path) -> None:
    """A requested clean does not know of failed writes, so they are gone before it is requested."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean({**LAZY, "hoodie.clean.commits.retained": "1"}, now=NOW)
    requested = hudi.schedule_clean(plan, env=Environment(lambda: NOW))
    (rollback,) = (path.name[:17] for path in table.timeline.glob("*.rollback"))
    assert requested is not None
    assert rollback < requested


def test_a_pending_clean_is_no_news_after_our_rollback(tmp_path: Path) -> None:
    """Where several cleans may be pending, the one that the plan knew of does not make it stale."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    options = {**LAZY, "hoodie.clean.multiple.enabled": "true", "hoodie.clean.commits.retained": "2"}
    hudi = HudiTable.open(str(tmp_path))
    assert hudi.schedule_clean(hudi.plan_clean(options, now=NOW), env=Environment(lambda: NOW))
    table.commit({"p1": "ab"})
    table.begin({"p1": "b"})
    plan = hudi.plan_clean({**options, "hoodie.clean.commits.retained": "1"}, now=NOW)
    report = hudi.apply(plan, env=Environment(lambda: NOW))
    assert len(report.result["cleans"]) == 2

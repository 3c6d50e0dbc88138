"""What undoes a failed write: its markers, or the files of all partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, base, log, tree
from support.hudi_failed_writes import (
    FAILED,
    LISTING,
    NOW,
    direct_markers,
    failed_cow,
    failed_mor,
    log_name,
    plan_rollback,
    roll_back,
    rollback_records,
    server_markers,
)

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.plan_operations import Keep

if TYPE_CHECKING:
    from pathlib import Path


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
    assert rollback_records(table)[0]["commitsRollback"] == [at(3)]


def test_markers_in_several_files_count_once(tmp_path: Path) -> None:
    """A timeline server spreads markers over files, and may repeat one."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED[:1], FAILED)
    assert sorted(op.path for op in plan_rollback(table).deletes()) == [path for path, _ in FAILED]


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
    assert plan_rollback(table).is_empty
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
    partition = rollback_records(table)[0]["partitionMetadata"]["p1"]
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
    """A marker for a file of another write, or for no data file of this table, stops everything."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED)
    with (tmp_path / ".hoodie/.temp" / at(3) / "MARKERS0").open("a") as file:
        file.write(f"{marker}\n")
    before = tree(tmp_path)
    with pytest.raises(CorruptMetadataError, match=problem):
        plan_rollback(table)
    assert tree(tmp_path) == before


def test_append_markers_are_refused_from_version_8_on(tmp_path: Path) -> None:
    """Such a marker would mean a writer that we do not know."""
    table = failed_mor(tmp_path, 9)
    server_markers(table, at(3), [("p1/" + log("a", 3), "APPEND")])
    with pytest.raises(UnsupportedFeatureError, match=r"using\.markers=false"):
        plan_rollback(table)


def test_markers_of_an_unknown_kind_are_refused(tmp_path: Path) -> None:
    """A marker directory that says it is kept otherwise may hold anything."""
    table = failed_cow(tmp_path)
    server_markers(table, at(3), FAILED)
    (tmp_path / ".hoodie/.temp" / at(3) / "MARKERS.type").write_text("QUANTUM")
    with pytest.raises(UnsupportedFeatureError, match="QUANTUM"):
        plan_rollback(table)


def test_a_savepointed_file_is_never_deleted(tmp_path: Path) -> None:
    """A savepoint that names a file of the failed write contradicts it: nothing is done."""
    table = failed_cow(tmp_path)
    table.savepoint(2, {"p1": [base("a", 3)]})
    with pytest.raises(CorruptMetadataError, match="savepoint"):
        plan_rollback(table)

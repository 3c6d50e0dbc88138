"""Whole tables: what is decided, where it looks, what it says. Rules of the decision and of the listing."""

from __future__ import annotations

import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, clean_plan, log, moment, tree

from lakemeta.environment import Environment
from lakemeta.errors import (
    CorruptMetadataError,
    OptionError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.plan import Plan

ONE = {"hoodie.clean.commits.retained": "1"}
ALWAYS = {**ONE, "hoodie.clean.trigger.max.commits": "0"}
VERSIONS = {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"}
FULL = {**ALWAYS, "hoodie.clean.incremental.enabled": "false"}


@pytest.fixture
def table(tmp_path: Path) -> TableFiles:
    """Three versions of group a in p1 and two of group b in p2."""
    table = TableFiles(tmp_path / "t")
    table.insert({"p1": "a", "p2": "b"})
    table.commit({"p1": "a", "p2": "b"})
    table.commit({"p1": "a"})
    return table


def make_plan(table: TableFiles, options: dict[str, str] = ONE, hour: float = 30, explain: bool = False) -> Plan:
    opened = HudiTable.open(str(table.root))
    return opened.plan_clean(options, now=moment(hour), executor=LocalExecutor(1), explain=explain)


def planned(table: TableFiles, options: dict[str, str] = ONE, hour: float = 30) -> list[str]:
    return [op.path for op in make_plan(table, options, hour).deletes()]


def why(table: TableFiles, file: str, options: dict[str, str] = ONE) -> str:
    return HudiTable.open(str(table.root)).why(file, options, now=moment(30), executor=LocalExecutor(1))


def test_the_header_says_what_the_plan_rests_on(table: TableFiles) -> None:
    """Newest instant, options by their primary names, boundary and scope, in words too."""
    table.savepoint(1, {"p1": [base("a", 1)]})
    header = make_plan(table, {"hoodie.cleaner.commits.retained": "1"}).header
    assert (header.based_on, header.table_format_version, header.table) == (at(3), 9, str(table.root))
    assert header.options == {"hoodie.clean.commits.retained": "1"}
    facts = header.facts
    assert (facts["earliest_to_retain"], facts["earliest_action"], facts["last_completed_commit"]) == (
        at(3),
        "commit",
        at(3),
    )
    assert (facts["scope"], facts["partitions"], facts["savepoints"]) == ("full", 2, [at(1)])
    assert facts["scope_reason"] == "there is no completed clean to start from"


def test_an_explained_plan_names_every_file(table: TableFiles) -> None:
    """Each data file once, deleted or kept; the same is deleted as without."""
    plan = make_plan(table, explain=True)
    assert sorted(op.path for op in plan.operations) == sorted(table.files())
    assert [op.path for op in plan.deletes()] == planned(table)


def test_a_pending_clean_comes_first(table: TableFiles) -> None:
    """Nothing new is planned while one is pending, unless several may be."""
    table.put(f"{at(9)}.clean.requested", clean_plan({}))
    plan = make_plan(table)
    assert plan.is_empty
    assert plan.header.facts["scope_reason"] == f"clean {at(9)} is pending and is executed first"
    assert plan.header.facts["pending_cleans"] == [at(9)]
    assert planned(table, {**ONE, "hoodie.clean.allow.multiple": "true"})


@pytest.mark.parametrize(("trigger", "due"), [("0", True), ("1", True), ("3", True), ("4", False)])
def test_enough_commits_make_a_clean_due(table: TableFiles, trigger: str, due: bool) -> None:
    """Counted since the last clean."""
    plan = make_plan(table, {**ONE, "hoodie.clean.max.commits": trigger})
    assert plan.is_empty != due
    if not due:
        assert plan.header.facts["scope_reason"] == "3 commits since the last clean, 4 make one due"
    table.clean(5, at(1), at(3))
    assert make_plan(table).is_empty


def test_no_commit_is_old_enough(table: TableFiles) -> None:
    """Fewer commits than are retained."""
    assert make_plan(table, {}).header.facts["scope_reason"] == "no commit is old enough to be cleaned"


def test_an_incremental_clean_visits_what_changed(table: TableFiles) -> None:
    """Only partitions that commits since the last clean's boundary wrote to again."""
    table.clean(3.5, at(2), at(2))
    assert planned(table) == [f"p1/{base('a', 1)}", f"p2/{base('b', 1)}"]
    table.clean(3.6, at(3), at(2))
    assert planned(table) == []
    table.commit({"p1": "a"})
    table.commit({"p1": "a"})
    assert planned(table) == [f"p1/{base('a', n)}" for n in (1, 2, 3)]
    assert make_plan(table).header.facts["scope"] == "incremental"
    assert len(planned(table, FULL)) == 4


def test_a_partition_without_directory_has_no_files(table: TableFiles) -> None:
    """An incremental clean takes a partition that is gone for empty."""
    table.clean(3.5, at(2), at(2))
    for file in (table.root / "p1").iterdir():
        file.unlink()
    (table.root / "p1").rmdir()
    assert make_plan(table).dropped_partitions() == ("p1",)
    HudiTable.open(str(table.root)).apply(make_plan(table))


def test_where_partitions_are_looked_for(table: TableFiles) -> None:
    """A directory with a partition metadata file is a partition and holds none; others are walked, other tables not."""
    stray = table.data("p1/below", base("x", 1)).parent
    table.data("year=1/month=2", base("c", 1))
    table.data("year=1/month=2", base("c", 2))
    (table.root / "loose").mkdir()
    (table.root / "loose" / base("d", 1)).write_text("no partition")
    table.data("loose/.hoodie", base("e", 1))
    (table.root / ".hoodie" / "p9").mkdir()
    plan = make_plan(table, FULL, explain=True)
    partitions = {op.partition for op in plan.operations}
    assert partitions == {"p1", "p2", "year=1/month=2"}
    (note,) = plan.header.facts["notes"]
    assert note.startswith("loose has a .hoodie of its own, so it is another table")
    assert stray.exists()


@pytest.mark.skipif(sys.platform == "darwin", reason="its file systems have no such names")
def test_names_that_are_not_utf8(table: TableFiles) -> None:
    """No plan can hold them: a partition of such a name is refused, a directory that is no partition does no harm."""
    loose = os.fsencode(table.root) + b"/caf\xe9"
    os.mkdir(loose)
    before = planned(table, FULL)
    Path(os.fsdecode(loose), ".hoodie_partition_metadata").write_text("")
    with pytest.raises(UnsupportedFeatureError, match=r"the name 'caf\\udce9' in partition .* is not UTF-8"):
        make_plan(table, FULL)
    shutil.rmtree(loose)
    assert planned(table, FULL) == before


def test_partition_filters(table: TableFiles) -> None:
    """They choose among all partitions."""
    assert planned(table, {**FULL, "hoodie.clean.partition.filter.regex": "p2"}) == [f"p2/{base('b', 1)}"]
    chosen = {**FULL, "hoodie.clean.partition.filter.selected": "p1"}
    assert planned(table, chosen) == [f"p1/{base('a', 1)}"]
    assert "the partition filters leave p2 out" in why(table, f"p2/{base('b', 1)}", chosen)


def test_a_table_without_partitions(tmp_path: Path) -> None:
    """Its root is its one partition; a clean deletes files there and never the directory."""
    table = TableFiles(tmp_path / "t", partitioned=False)
    for _ in range(3):
        table.commit({"": "a"})
    assert planned(table) == [base("a", 1)]
    table.replace({"": "a"})
    table.commit({"": "b"})
    plan = make_plan(table, {**VERSIONS})
    assert plan.files == 3
    assert plan.dropped_partitions() == ()
    HudiTable.open(str(table.root)).apply(plan)
    assert table.files() == {base("b", 5)}


def test_a_moved_savepoint_widens_the_next_clean(table: TableFiles) -> None:
    """After a savepoint was removed every partition is looked at, for its files may go now."""
    table.clean(3.5, at(3), at(2), [at(1)])
    assert planned(table, ALWAYS) == [f"p1/{base('a', 1)}", f"p2/{base('b', 1)}"]
    assert f"savepoint {at(1)} was removed" in make_plan(table, ALWAYS).header.facts["scope_reason"]


@pytest.mark.parametrize(("hour", "due"), [(10, True), (5, False)])
def test_empty_cleans(table: TableFiles, hour: float, due: bool) -> None:
    """With an interval a clean of nothing moves the boundary on, at most so often, and never back."""
    table.clean(4, at(3), at(3))
    table.commit({"p1": "a"}, "INSERT")
    options = {"hoodie.clean.commits.retained": "3", "hoodie.write.empty.clean.interval.hours": "3"}
    plan = make_plan(table, options, hour)
    assert plan.is_empty
    assert plan.header.facts.get("empty_clean", False) == due
    report = HudiTable.open(str(table.root)).apply(plan, env=Environment(lambda: moment(hour)))
    assert (report.committed is not None) == due
    if due:
        assert report.result["earliest_commit_to_retain"] == at(3)


def test_local_time_needs_a_name(tmp_path: Path) -> None:
    """A timeline in the writers' local time is read in the timezone given."""
    table = TableFiles(tmp_path / "t", **{"hoodie.table.timeline.timezone": "LOCAL"})
    for _ in range(4):
        table.commit({"p1": "a"})
    options = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "2"}
    assert planned(table, {**options, "lakemeta.timeline.timezone": "Etc/UTC"}, hour=5) == [f"p1/{base('a', 1)}"]
    assert planned(table, {**options, "lakemeta.timeline.timezone": "Etc/GMT+1"}, hour=5) == []
    assert make_plan(table, options, hour=5).header.facts["scope"] == "full"


def test_archived_delta_commits_date_log_files(tmp_path: Path) -> None:
    """Without an archive a log file of an unknown delta commit lies on the newest slice and stays with it."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "a"})
    table.delta({"p1": "a"})
    table.commit({"p1": "a"})
    table.commit({"p1": "a"})
    assert planned(table) == [f"p1/{log('a', 2)}", f"p1/{base('a', 1)}"]
    next(table.timeline.glob(f"{at(2)}*")).unlink()
    assert planned(table) == [f"p1/{base('a', 1)}"]


def test_no_table() -> None:
    """A place without properties is no table."""
    with pytest.raises(TableNotFoundError, match="is no Hudi table"):
        HudiTable.open("/nowhere/at/all")


def test_no_timeline(table: TableFiles) -> None:
    """A table without its timeline folder is damaged."""
    for file in table.timeline.iterdir():
        file.unlink()
    table.timeline.rmdir()
    with pytest.raises(CorruptMetadataError, match="has no timeline"):
        make_plan(table)


def test_properties_that_are_being_replaced(table: TableFiles) -> None:
    """While a writer replaces them, the backup stands in."""
    path = table.root / ".hoodie/hoodie.properties"
    path.rename(f"{path}.backup")
    assert planned(table)


def test_a_pending_compaction_whose_plan_is_gone(tmp_path: Path) -> None:
    """What a compaction needs must be known before anything is planned."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "a"})
    table.put(f"{at(2)}.compaction.inflight", b"")
    with pytest.raises(StorageError, match=rf"{at(2)}.compaction.requested"):
        make_plan(table)


def test_a_clustering_is_no_failed_write(tmp_path: Path) -> None:
    """In version 6 only its plan tells a clustering from an overwrite."""
    table = TableFiles(tmp_path / "t", 6)
    for _ in range(3):
        table.commit({"p1": "a"})
    table.schedule_clustering()
    assert "failed_writes" not in make_plan(table, {**ONE, "hoodie.clean.failed.writes.policy": "LAZY"}).header.facts


def test_why_in_an_incremental_clean(table: TableFiles) -> None:
    """A partition that is not visited, and why not."""
    table.clean(3.5, at(3), at(2))
    table.commit({"p1": "a"})
    assert "stays: an incremental clean does not visit p2 (commits from" in why(table, f"p2/{base('b', 1)}")
    assert "superseded" in why(table, f"p1/{base('a', 1)}")


def test_why_when_nothing_is_cleaned(table: TableFiles) -> None:
    """The reason is the clean's."""
    assert "nothing would be cleaned, because no commit is old enough" in why(table, f"p1/{base('a', 1)}", {})


def test_why_of_a_pending_clean(table: TableFiles) -> None:
    """A file that a pending clean names would go, whatever the options."""
    table.put(f"{at(9)}.clean.requested", clean_plan({"p1": [f"file:{table.root}/p1/{base('a', 1)}"]}, ["p2"]))
    assert f"would be deleted: the pending clean {at(9)}" in why(table, f"p1/{base('a', 1)}")
    assert f"would be deleted: the pending clean {at(9)}" in why(table, f"p2/{base('b', 1)}")
    assert "is pending and is executed first" in why(table, f"p1/{base('a', 2)}")


def test_why_of_every_other_reason(tmp_path: Path) -> None:
    """Savepoints, compactions, replaced groups, versions, uncommitted and doubled files, and strangers."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "abcd"})
    for _ in range(3):
        table.commit({"p1": "ab"})
    table.savepoint(1, {"p1": [base("a", 1)]})
    table.groups["p1", "b"]["slice"] = at(2)
    table.schedule_compaction({"p1": "b"})
    table.replace({"p1": "c"})
    for _ in range(3):
        table.commit({"p1": "a"})
    table.begin({"p1": "z"})
    (table.root / "p1" / base("a", 1, "0-0-0")).write_text("doubled")
    (table.root / "p1/notes.txt").write_text("x")
    (table.root / "loose").mkdir()
    (table.root / "loose" / base("a", 1)).write_text("x")
    two = {"hoodie.clean.commits.retained": "2"}
    hours = {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": str(30 - 8)}
    expected = [
        (base("a", 1), two, f"is needed by savepoint {at(1)}"),
        (base("b", 3), hours, "pinned by the pending compaction"),
        (base("c", 1), {**hours, "hoodie.clean.hours.retained": "24"}, f"was replaced by {at(7)}, which is retained"),
        (base("c", 1), VERSIONS, f"its file group was replaced by {at(7)}"),
        (base("a", 9), hours, f"its commit {at(9)} is retained"),
        (base("a", 9), {**VERSIONS, "hoodie.clean.fileversions.retained": "2"}, "among the newest versions to retain"),
        (base("z", 11), two, f"no completed commit {at(11)} is on the timeline"),
        (base("a", 1, "0-0-0"), two, "another base file of its slice has the same instant"),
        ("notes.txt", two, "is no data file of the table"),
    ]
    for name, options, words in expected:
        assert words in why(table, f"p1/{name}", options), name
    loose = {**hours, "hoodie.clean.incremental.enabled": "false"}
    assert "its directory is no partition of the table" in why(table, f"loose/{base('a', 1)}", loose)
    with pytest.raises(OptionError, match="is not a file of"):
        why(table, "p1/none")


def test_inspect(tmp_path: Path) -> None:
    """Counts of partitions, groups, files and bytes, what is older, what is pending; nothing is changed."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "ab", "p2": "c"})
    table.delta({"p1": "a"})
    table.commit({"p1": "b"})
    table.replace({"p2": "c"}, {"p2": "d"})
    table.savepoint(1, {"p1": [base("a", 1)]})
    table.clean(6, at(2), at(4))
    table.begin({"p1": "a"})
    before = tree(table.root)
    facts = HudiTable.open(str(table.root)).inspect(executor=LocalExecutor(1))
    assert tree(table.root) == before
    assert (facts.name, facts.table_type, facts.version, facts.partitions) == ("t", "MERGE_ON_READ", 9, 2)
    assert (facts.file_groups, facts.files, facts.bytes) == (4, 7, 70)
    assert facts.actions == {"clean": 1, "commit": 1, "deltacommit": 2, "replacecommit": 1, "savepoint": 1}
    assert facts.pending == (f"{at(6)} commit (inflight)",)
    assert (facts.savepoints, facts.first_instant, facts.earliest_retained) == ((at(1),), at(1), at(2))
    assert facts.older_files == 4
    assert facts.to_json()["older_bytes"] == facts.older_bytes == 40


def test_inspect_of_an_empty_table(tmp_path: Path) -> None:
    """A table that nobody wrote to yet."""
    table = TableFiles(tmp_path / "t")
    facts = HudiTable.open(str(table.root)).inspect(executor=LocalExecutor(1))
    assert (facts.partitions, facts.files, facts.first_instant, facts.last_instant) == (0, 0, None, None)
    assert make_plan(table).is_empty

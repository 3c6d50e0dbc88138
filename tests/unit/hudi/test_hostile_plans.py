"""Plans that somebody wrote to have files deleted that are needed: pending cleans and rollbacks, edited plan files."""

from __future__ import annotations

import json
from contextlib import suppress
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from support.builders import TableFiles, at, avro, base, clean_plan, compaction_plan, done, log, moment, tree

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.plan import Delete, DeletePartition, Plan

if TYPE_CHECKING:
    from pathlib import Path

ONE = {"hoodie.clean.commits.retained": "1"}
VICTIMS = ("victim/precious", "t2/precious")


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Four versions of group a in p1, b in p2 and a dropped group c in p3; neighbours ``victim`` and ``t2``."""
    for path in VICTIMS:
        (tmp_path / path).parent.mkdir()
        (tmp_path / path).write_bytes(b"1")
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a", "p2": "b", "p3": "c"})
    table.commit({"p1": "a"})
    table.commit({"p1": "a"})
    table.delete_partition("p3")
    table.commit({"p1": "a"})
    return table


def everything(table: TableFiles) -> dict[str, bytes]:
    """All files of the table and its neighbours, but for what any action adds to the timeline."""
    return {name: data for name, data in tree(table.root.parent).items() if "/.hoodie/" not in name}


def clean(table: TableFiles, options: dict[str, str] | None = None) -> Any:
    opened = HudiTable.open(str(table.root))
    executor = LocalExecutor(1)
    plan = opened.plan_clean(options or ONE, now=moment(30), executor=executor)
    return opened.apply(plan, executor=executor, env=Environment(lambda: moment(30)))


def pend(table: TableFiles, deletes: dict[str, list[str]], drops: list[str] | None = None) -> None:
    """Leave a pending clean that retains the commit at hour 1."""
    hour = table.hour
    table.put(f"{at(hour)}.clean.requested", clean_plan(deletes, drops or []))
    table.hour += 1


def plan_of(**fields: Any) -> bytes:
    """A requested clean of ``p1``'s first version that retains the commit at hour 3, with other fields."""
    record = {
        "earliestInstantToRetain": {"timestamp": at(3), "action": "commit", "state": "COMPLETED"},
        "lastCompletedCommitTimestamp": at(5),
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {"p1": [{"filePath": base("a", 1), "isBootstrapBaseFile": False}]},
        "partitionsToBeDeleted": [],
        "extraMetadata": {},
    }
    return avro("HoodieCleanerPlan", {**record, **fields})


def files(table: TableFiles, **named: str) -> dict[str, Any]:
    return {
        "filePathsToBeDeletedPerPartition": {
            partition: [{"filePath": f"{table.root}/{partition}/{name}", "isBootstrapBaseFile": False}]
            for partition, name in named.items()
        }
    }


def refused(table: TableFiles, plan: bytes, words: str) -> None:
    table.put(f"{at(table.hour)}.clean.requested", plan)
    before = everything(table)
    with pytest.raises(LakemetaError, match=words):
        clean(table)
    assert everything(table) == before
    assert not list(table.timeline.glob(f"{at(table.hour)}*.inflight"))


def test_a_pending_clean_of_superseded_files_is_executed(table: TableFiles) -> None:
    """The plan that the other tests bend: superseded files of a live group, and a group that was replaced."""
    plan = plan_of(
        earliestInstantToRetain={"timestamp": at(5), "action": "commit", "state": "COMPLETED"},
        **files(table, p1=base("a", 1), p3=base("c", 1)),
    )
    table.put(f"{at(table.hour)}.clean.requested", plan)
    clean(table)
    assert f"p1/{base('a', 1)}" not in table.files()
    assert f"p3/{base('c', 1)}" not in table.files()


def test_a_group_that_was_replaced_since_is_judged_as_live(table: TableFiles) -> None:
    """Its superseded slices may go, as the plan says; its newest may not, for the plan retains the replace commit."""
    table.replace({"p1": "a"}, {"p1": "d"})
    table.put(f"{at(table.hour)}.clean.requested", plan_of(**files(table, p1=base("a", 1))))
    clean(table, {"hoodie.clean.commits.retained": "10"})
    assert f"p1/{base('a', 1)}" not in table.files()
    table.hour += 1
    refused(table, plan_of(**files(table, p1=base("a", 5))), "newest committed slice")


@pytest.mark.parametrize(
    ("partition", "name", "words"),
    [
        ("p1", base("a", 5), "newest committed slice"),
        ("p2", base("b", 1), "newest committed slice"),
        ("p1", base("a", 3), "a commit that the plan retains"),
        ("p1", base("a", 2), "earliest commit that the plan retains reads"),
        ("p1", base("a", 5, "9-9-9"), "newest committed slice"),
        ("p3", base("c", 1), "newest committed slice"),
        ("p1", base("z", 6), "which has not completed"),
    ],
)
def test_a_file_that_is_needed_stays(table: TableFiles, partition: str, name: str, words: str) -> None:
    """The newest slice of a live group, also under another write token; what a retained commit reads; a write's."""
    if not (table.root / partition / name).exists():
        table.data(partition, name)
    refused(table, plan_of(**files(table, **{partition: name})), words)


@pytest.mark.parametrize("policy", ["KEEP_LATEST_FILE_VERSIONS", "KEEP_LATEST_BY_HOURS", "KEEP_LATEST_COMMITS"])
@pytest.mark.parametrize("earliest", [None, 1, 5])
def test_no_policy_lets_the_newest_slice_go(table: TableFiles, policy: str, earliest: int | None) -> None:
    """Whatever a plan says it follows."""
    retained = earliest and {"timestamp": at(earliest), "action": "commit", "state": "COMPLETED"}
    plan = plan_of(policy=policy, earliestInstantToRetain=retained, **files(table, p1=base("a", 5)))
    refused(table, plan, "newest committed slice")


@pytest.mark.parametrize("earliest", ["99999999999999999", "", "a", "../x", at(9), "2026", "\uff12" * 17])
def test_the_boundary_is_a_commit_that_was(table: TableFiles, earliest: str) -> None:
    """A plan that retains commits from some day to come retains none."""
    bound = {"timestamp": earliest, "action": "commit", "state": "COMPLETED"}
    plan = plan_of(earliestInstantToRetain=bound, **files(table, p1=base("a", 4), p3=base("c", 1)))
    refused(table, plan, "retains commits from|newest committed slice")


def test_an_unknown_policy_is_refused(table: TableFiles) -> None:
    """Nobody can say what it keeps."""
    refused(table, plan_of(policy="KEEP_NOTHING", **files(table, p1=base("a", 1))), "a policy that nobody knows")


def test_what_a_savepoint_names_stays(table: TableFiles) -> None:
    """Also if it was made after the plan."""
    table.savepoint(1, {"p1": [base("a", 1)]})
    refused(table, plan_of(**files(table, p1=base("a", 1))), "savepoint")


@pytest.mark.parametrize("action", ["compaction", "logcompaction"])
def test_what_a_pending_compaction_reads_stays(table: TableFiles, action: str) -> None:
    """Its slice, and all after it."""
    table.put(f"{at(6)}.{action}.requested", compaction_plan([("p1", "a-0", at(1))]))
    table.hour += 1
    refused(table, plan_of(**files(table, p1=base("a", 1))), "pending compaction")


def test_what_a_pending_clustering_reads_stays(table: TableFiles) -> None:
    """By the names in its plan."""
    table.schedule_clustering([f"file:{table.root}/p1/{base('a', 1)}"])
    refused(table, plan_of(**files(table, p1=base("a", 1))), f"pending clustering {at(6)} reads")


@pytest.mark.parametrize("version", [6, 9])
def test_log_files_of_the_newest_slice_stay(tmp_path: Path, version: int) -> None:
    """A log file in it is needed as much as its base file."""
    table = TableFiles(tmp_path / "t", version, mor=True)
    table.insert({"p1": "a"})
    table.delta({"p1": "a"})
    name = log("a", 1 if version == 6 else 2)
    assert f"p1/{name}" in table.files()
    refused(table, plan_of(**files(table, p1=name)), "newest committed slice|retains")


PATHS = [
    "{root}/../victim/precious",
    "{root}/p1/../../victim/precious",
    "{root}2/precious",
    "/etc/passwd",
    "../victim/precious",
    "{root}/.hoodie/hoodie.properties",
    "{root}/p1/{name}/",
    "{root}//p1/{name}",
    "{root}/p1//{name}",
    "{root}/./p1/{name}",
    "{root}/p1/{name}\0",
    "{root}/P1/{name}",
    "{root}/p2/{name}",
    "{root}/p1/.hoodie_partition_metadata",
    "{root}/p1",
    "{root}",
    "{root}/p1/%2e%2e",
    "s3://{root}/p1/{name}",
    "",
]


@pytest.mark.parametrize("path", PATHS)
def test_paths_of_a_pending_clean(table: TableFiles, path: str) -> None:
    """A path outside the table, of another partition, of no data file, or written in an odd way is refused."""
    found = path.format(root=table.root, name=base("a", 1))
    listed = {"p1": [{"filePath": found, "isBootstrapBaseFile": False}]}
    refused(table, plan_of(filePathsToBeDeletedPerPartition=listed), r"\w")


PARTITIONS = ["..", "../victim", "/", ".", "p1/..", "p1/../../victim", ".hoodie", ".HOODIE", ".hoodie/metadata", "p1/",
              "//", "p1//", "\0", "p1/.hoodie", "out", "out/deep"]  # fmt: skip


@pytest.mark.parametrize("partition", PARTITIONS)
@pytest.mark.parametrize("drop", [True, False])
def test_partitions_of_a_pending_clean(table: TableFiles, partition: str, drop: bool) -> None:
    """A partition outside the table, in its metadata, behind a link or written in an odd way is refused."""
    (table.root / "out").symlink_to(table.root.parent / "victim")
    (table.root.parent / "victim" / base("a", 1)).write_bytes(b"1")
    path = f"{table.root}/{partition}/{base('a', 1)}"
    listed = {} if drop else {partition: [{"filePath": path, "isBootstrapBaseFile": False}]}
    dropped = [partition] if drop else []
    refused(table, plan_of(filePathsToBeDeletedPerPartition=listed, partitionsToBeDeleted=dropped), r"\w")


def test_directories_in_use_are_not_dropped(table: TableFiles) -> None:
    """Of a live partition, of one that is replaced but retained, of the table itself, and of another table."""
    other = table.data("p4/sub", base("x", 1)).parent
    (other / ".hoodie").mkdir()
    (other / ".hoodie/hoodie.properties").write_text("another table\n")
    for file in other.glob(".hoodie_partition_metadata"):
        file.unlink()
    (other / base("x", 1)).unlink()
    plan = plan_of(filePathsToBeDeletedPerPartition={}, partitionsToBeDeleted=["p1", "p3", "", "p4"])
    table.put(f"{at(table.hour)}.clean.requested", plan)
    before = everything(table)
    report = clean(table, {"hoodie.clean.commits.retained": "10"})
    assert everything(table) == before
    assert len([note for note in report.notes if "stays" in note]) == 4
    assert (other / ".hoodie/hoodie.properties").exists()


LIVE = [
    lambda t: Delete("p1", f"p1/{base('a', 5)}", 10, "superseded", at(5)),
    lambda t: Delete("p2", f"p2/{base('b', 1)}", 10, "superseded", at(5)),
    lambda t: Delete("p1", f"p2/{base('b', 1)}", 10, "superseded", at(5)),
    lambda t: Delete("p1", "../victim/precious", 10, "superseded", at(5)),
    lambda t: Delete("", "../victim/precious", 10, "superseded", at(5)),
    lambda t: Delete(".hoodie", ".hoodie/hoodie.properties", 10, "superseded", at(5)),
    lambda t: Delete("p1", f"{t.root.parent}/victim/precious", 10, "superseded", at(5)),
    lambda t: DeletePartition("..", "..", "no_live_file_group"),
    lambda t: DeletePartition(".hoodie", ".hoodie", "no_live_file_group"),
    lambda t: DeletePartition("../victim", "../victim", "no_live_file_group"),
    lambda t: DeletePartition("p3", "p1", "no_live_file_group"),
]


@pytest.mark.parametrize("number", range(len(LIVE)))
def test_an_edited_plan_file(table: TableFiles, number: int) -> None:
    """A line that was added by hand, with totals and hash made anew, is refused with the whole plan."""
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(ONE, now=moment(30), executor=LocalExecutor(1))
    edited = Plan(plan.header, [*plan.operations, LIVE[number](table)])
    before = everything(table)
    with pytest.raises(LakemetaError):
        opened.apply(Plan.loads(edited.dumps()), executor=LocalExecutor(1), env=Environment(lambda: moment(30)))
    assert everything(table) == before
    assert not list(table.timeline.glob("*.clean.requested"))


FACTS = {"policy": ["x", ""], "earliest_to_retain": ["99999999999999999", "../x"], "earliest_action": [None, "x", ""]}


@pytest.mark.parametrize(("fact", "value"), [(fact, value) for fact, values in FACTS.items() for value in values])
def test_an_edited_header(table: TableFiles, fact: str, value: Any) -> None:
    """A policy or a boundary that nobody could have planned with is refused."""
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(ONE, now=moment(30), executor=LocalExecutor(1))
    header = attrs.evolve(plan.header, facts={**plan.header.facts, fact: value})
    before = everything(table)
    with pytest.raises(LakemetaError):
        opened.apply(Plan(header, plan.operations), executor=LocalExecutor(1), env=Environment(lambda: moment(30)))
    assert everything(table) == before


def rollback_record(instant: str, action: str = "commit", **request: Any) -> bytes:
    whole = {
        "partitionPath": "p1",
        "fileId": "a-0",
        "latestBaseInstant": instant,
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": None,
        **request,
    }
    record = {
        "instantToRollback": {"commitTime": instant, "action": action},
        "RollbackRequests": [whole],
        "version": 1,
    }
    return avro("HoodieRollbackPlan", record)


def try_rollback(table: TableFiles, plan: bytes, instant: str | None = None) -> set[str]:
    """Execute a pending rollback by every way there is; the files that are gone, or of other content, then."""
    table.put(f"{instant or at(table.hour)}.rollback.requested", plan)
    before = {**everything(table), **{f"t/{name}": b"" for name in tree(table.root) if name.startswith(".hoodie/")}}
    opened = HudiTable.open(str(table.root))
    executor = LocalExecutor(1)
    with suppress(LakemetaError):
        made = opened.plan_rollback({}, now=moment(30), executor=executor)
        opened.apply(made, executor=executor, env=Environment(lambda: moment(30)))
    with suppress(LakemetaError):
        clean(table, {"hoodie.clean.commits.retained": "20", "hoodie.clean.failed.writes.policy": "LAZY"})
    after = tree(table.root.parent)
    return {name for name in before if name not in after}


STRINGS = ["../../../victim", "../../p1", "/..", "..", ".", "", "/", "\0", "20260101", "x" * 17, "\uff12" * 17,
           "20260101000000000/..", "2026010100000000000000", ".hoodie", "metadata", "../metadata"]  # fmt: skip


@pytest.mark.parametrize("text", STRINGS)
def test_the_instant_of_a_rollback(table: TableFiles, text: str) -> None:
    """Whatever is no instant becomes no path: no directory and no file goes."""
    assert try_rollback(table, rollback_record(text)) == set()


@pytest.mark.parametrize("text", [*STRINGS, "clean", "savepoint", "COMMIT", "rollback", "deltacommit", "compaction"])
def test_the_action_of_a_rollback(table: TableFiles, text: str) -> None:
    """Only what writes is rolled back, and only the write that the timeline has: nothing of the others goes."""
    instant = table.begin({"p1": "a"})
    assert try_rollback(table, rollback_record(instant, text)) <= {
        f"t/p1/{base('a', 6)}",
        *(f"t/{name}" for name in tree(table.root) if instant in name),
        *(f"t/.hoodie/{folder}{instant}{end}" for folder in ("", "timeline/") for end in ENDS),
    }
    assert f"p1/{base('a', 5)}" in table.files()


ENDS = (".commit.requested", ".inflight", ".commit.inflight")


@pytest.mark.parametrize("hour", [1, 4, 5])
def test_a_rollback_of_what_completed(table: TableFiles, hour: int) -> None:
    """A completed commit, be it an early one, is rolled back by nobody."""
    name = f"{table.root}/p1/{base('a', hour)}"
    assert try_rollback(table, rollback_record(at(hour), filesToBeDeleted=[name])) == set()


@pytest.mark.parametrize("action", ["commit", "deltacommit", "replacecommit"])
def test_a_rollback_of_what_was_archived(table: TableFiles, action: str) -> None:
    """A commit that the timeline does not have any more counts: its files stay."""
    for path in table.timeline.glob(f"{at(1)}*"):
        path.unlink()
    name = f"{table.root}/p2/{base('b', 1)}"
    plan = rollback_record(at(1), action, partitionPath="p2", fileId="b-0", filesToBeDeleted=[name])
    assert try_rollback(table, plan) == set()


def test_a_rollback_that_appends_to_what_was_archived(tmp_path: Path) -> None:
    """Nor do its log blocks get a rollback block."""
    table = TableFiles(tmp_path / "t", 6, mor=True)
    table.insert({"p1": "a"})
    archived = table.delta({"p1": "a"})
    table.delta({"p1": "a"})
    (table.root / "p1" / log("a", 1)).write_bytes(b"")
    (table.root / "p1" / log("a", 1, 2)).write_bytes(b"")
    for path in (*table.timeline.glob(f"{at(1)}*"), *table.timeline.glob(f"{archived}*")):
        path.unlink()
    before = table.files()
    blocks = {log("a", 1): 1}
    plan = rollback_record(archived, "deltacommit", latestBaseInstant=at(1), logBlocksToBeDeleted=blocks)
    try_rollback(table, plan)
    assert table.files() == before


FIELDS = {
    "partitionPath": [*STRINGS, "p2", "out", "out/deep", "P1", "p1/", "p1//", "./p1"],
    "fileId": [*STRINGS, "b-0"],
    "latestBaseInstant": [*STRINGS, at(5)],
    "filesToBeDeleted": [["{root}/" + path] for path in (
        "p1/" + base("a", 5), "p2/" + base("b", 1), "../victim/precious", "../t2/precious", "p1", "", ".hoodie",
        ".hoodie/hoodie.properties", "p1/../p1/" + base("a", 5), "p1//" + base("a", 6), "out/" + base("a", 6),
        "p1/" + base("a", 6) + "/", "P1/" + base("a", 6), "p1/%2e%2e/" + base("a", 6),
    )],
    "logBlocksToBeDeleted": [{"../../victim/precious": 1}, {base("a", 5): 1}, {"": 1}, {"/": 1}],
}  # fmt: skip


@pytest.mark.parametrize(("field", "value"), [(field, value) for field, values in FIELDS.items() for value in values])
def test_the_fields_of_a_rollback(table: TableFiles, field: str, value: Any) -> None:
    """A rollback of a write that failed takes that write's files, and no other, whatever else its plan names."""
    instant = table.begin({"p1": "a"})
    victim = table.root.parent / "victim" / base("a", 6)
    victim.write_bytes(b"1")
    (table.root / "out").symlink_to(victim.parent)
    if field == "filesToBeDeleted":
        value = [path.format(root=table.root) for path in value]
    gone = try_rollback(table, rollback_record(instant, **{field: value}))
    assert all(instant in name for name in gone)
    assert victim.exists()
    assert (victim.parent / "precious").exists()


@pytest.mark.parametrize(
    "line",
    ["../victim/precious.marker.CREATE", "p1/../../victim/x.marker.CREATE", "/etc/passwd.marker.CREATE",
     ".hoodie/hoodie.properties.marker.CREATE", "p1/{live}.marker.CREATE", "p1/{live}.marker.MERGE",
     "out/{failed}.marker.CREATE", "../victim/{failed}.marker.CREATE", ".hoodie/{failed}.marker.CREATE",
     "p1//{failed}.marker.CREATE", "/p1/{failed}.marker.CREATE", "./p1/{failed}.marker.MERGE",
     "p1/{failed}\0.marker.CREATE", "p1/{failed}.marker.CREATE/.marker.CREATE"],
)  # fmt: skip
def test_markers(table: TableFiles, line: str) -> None:
    """A marker that points elsewhere than at a file of the write in the table is refused."""
    instant = table.begin({"p1": "a"})
    victim = table.root.parent / "victim" / base("a", 6)
    victim.write_bytes(b"1")
    (table.root / "out").symlink_to(victim.parent)
    folder = table.root / ".hoodie/.temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED\n")
    (folder / "MARKERS0").write_text(line.format(live=base("a", 5), failed=base("a", 6)) + "\n")
    before = everything(table)
    opened = HudiTable.open(str(table.root))
    with pytest.raises(LakemetaError):
        opened.apply(opened.plan_rollback({}, now=moment(30)), env=Environment(lambda: moment(30)))
    assert everything(table) == before


@pytest.mark.parametrize("target", ["none", "victim", "t/p1", "t"])
def test_a_marker_directory_that_is_a_link(table: TableFiles, target: str) -> None:
    """Be it broken: refused before anything is requested, and nothing spins."""
    instant = table.begin({"p1": "a"})
    folder = table.root / ".hoodie/.temp"
    folder.mkdir()
    (folder / instant).symlink_to(table.root.parent / target)
    before = everything(table)
    opened = HudiTable.open(str(table.root))
    with pytest.raises(LakemetaError, match=r"symbolic link|none that Hudi writes"):
        opened.apply(opened.plan_rollback({}, now=moment(30)), env=Environment(lambda: moment(30)))
    assert everything(table) == before
    assert not list(table.timeline.glob("*.rollback.requested"))


def linked(table: TableFiles) -> Path:
    """Another table with a partition p1 of the same names, to which p9 of the table is a link."""
    other = TableFiles(table.root.parent / "other", table.version)
    other.insert({"p1": "a"})
    for _ in range(4):
        other.commit({"p1": "a"})
    (table.root / "p9").symlink_to(other.root / "p1")
    return other.root


@pytest.mark.parametrize("incremental", ["true", "false"])
def test_a_partition_that_is_a_link_is_left_out(table: TableFiles, incremental: str) -> None:
    """The other table keeps its files, and the plan and the doctor say what was left out."""
    other = linked(table)
    options = {**ONE, "hoodie.clean.trigger.max.commits": "0", "hoodie.clean.incremental.enabled": incremental}
    if incremental == "true":
        table.clean(5.5, at(1), at(1))
        for _ in range(3):
            table.commit({"p9": "a"})
    before = tree(other)
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(options, now=moment(30), executor=LocalExecutor(1))
    assert {op.partition for op in plan.operations} <= {"p1", "p2", "p3"}
    assert plan.header.facts["notes"][0].startswith("p9 is a symbolic link")
    opened.apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(30)))
    assert tree(other) == before
    if incremental == "false":
        found = opened.doctor(options, now=moment(30), executor=LocalExecutor(1))
        assert [f.sentence for f in found if f.kind == "left_out"]
        assert opened.inspect(executor=LocalExecutor(1)).partitions == 2
        assert "symbolic link" in opened.why(f"p9/{base('a', 2)}", options, now=moment(30), executor=LocalExecutor(1))


def test_loops_of_links_are_listed_once(table: TableFiles) -> None:
    """A link to the table itself, to a directory above it, to itself, and two to each other: no end, no file twice."""
    full = {**ONE, "hoodie.clean.incremental.enabled": "false"}
    executor = LocalExecutor(1)
    expected = HudiTable.open(str(table.root)).plan_clean(full, now=moment(30), executor=executor).operations
    for name, target in {"a": ".", "b": "..", "c": "c", "d": "e", "e": "d", "f": "p1", "p1/g": "."}.items():
        (table.root / name).symlink_to(target)
    plan = HudiTable.open(str(table.root)).plan_clean(full, now=moment(30), executor=executor)
    assert plan.operations == expected
    assert [note.partition(" ")[0] for note in plan.header.facts["notes"]] == ["a", "b", "f"]


def test_a_rollback_by_listing_wants_the_whole_table(table: TableFiles) -> None:
    """Where a part of it is left out, files of the failed write could stay unseen."""
    table.begin({"p1": "a"})
    linked(table)
    with pytest.raises(UnsupportedFeatureError, match="p9 is a symbolic link"):
        HudiTable.open(str(table.root)).plan_rollback({}, now=moment(30))


def test_commits_that_name_partitions_elsewhere(table: TableFiles) -> None:
    """An incremental clean looks where commits wrote; a commit that says it wrote outside the table is damaged."""
    table.clean(5.5, at(1), at(1))
    table.hour += 1
    victim = table.root.parent / "victim"
    for hour in (1, 2, 7):
        (victim / base("a", hour)).write_bytes(b"1")
    write = {"p1/../../victim": [{"fileId": "a-0", "path": "x", "prevCommit": at(1), "partitionPath": ""}]}
    record = {"partitionToWriteStats": write, "compacted": False, "extraMetadata": {}, "operationType": "UPSERT"}
    name = f"{at(7)}.commit" if table.version == 6 else f"{at(7)}_{done(7)}.commit"
    content = json.dumps(record).encode() if table.version == 6 else avro("HoodieCommitMetadata", record)
    table.put(name, content)
    table.hour += 1
    table.commit({"p1": "a"})
    with pytest.raises(CorruptMetadataError, match="victim"):
        clean(table)

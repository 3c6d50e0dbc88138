"""Plans that were written or edited to have files deleted that are needed: pending cleans and plan files."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from support.builders import TableFiles, at, avro, base, clean_plan, compaction_plan, done, log, moment
from support.hudi_hostile import ONE, clean, everything, neighboured

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, DeletePartition

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    return neighboured(tmp_path, request.param)


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
    refused(table, plan_of(policy="KEEP_NOTHING", **files(table, p1=base("a", 1))), "a policy that Hudi does not have")


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

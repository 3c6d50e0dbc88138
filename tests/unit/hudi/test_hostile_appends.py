"""Pending rollbacks of unknown writers: what they append is proved as what they delete is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, avro, base, log, moment, tree

from lakemeta.deletion import Door
from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.doors import block_door
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, DeletePartition
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

ONE = LocalExecutor(1)


def begin(root: Path, version: int) -> tuple[TableFiles, str]:
    """Slices with logs of a in p1 and of b in p2, and a delta commit that failed while it appended to both."""
    table = TableFiles(root, version, mor=True)
    table.insert({"p1": "a", "p2": "b"})
    table.delta({"p1": "a", "p2": "b"})
    return table, table.begin({"p1": "a", "p2": "b"}, "deltacommit", logs=True)


def pend(table: TableFiles, failed: str, **fields: Any) -> None:
    """Leave a pending rollback that appends a block to the slice of a."""
    request = {
        "partitionPath": "p1",
        "fileId": "a-0",
        "latestBaseInstant": at(1),
        "filesToBeDeleted": [],
        "logBlocksToBeDeleted": {log("a", 1): 1},
        **fields,
    }
    target = {"commitTime": failed, "action": "deltacommit"}
    record = {"instantToRollback": target, "RollbackRequests": [request], "version": 1}
    table.put(f"{at(table.hour)}.rollback.requested", avro("HoodieRollbackPlan", record))


def roll_back(table: TableFiles) -> None:
    opened = HudiTable.open(str(table.root))
    opened.apply(
        opened.plan_rollback({}, now=moment(30), executor=ONE), executor=ONE, env=Environment(lambda: moment(30))
    )


@pytest.mark.parametrize("named", [log("a", 1), "p1/" + log("a", 1), "{root}/p1/" + log("a", 1), "{root}"])
def test_a_block_for_a_slice(tmp_path: Path, named: str) -> None:
    """What the other tests bend: log files by name and by path, and the table itself for what Hudi does not know."""
    table, failed = begin(tmp_path / "t", 6)
    pend(table, failed, logBlocksToBeDeleted={named.format(root=table.root): 1})
    before = table.files()
    roll_back(table)
    (new,) = table.files() - before
    assert new == f"p1/.a-0_{at(1)}.log.3_1-0-1"


FIELDS: list[dict[str, Any]] = [
    {"logBlocksToBeDeleted": {log("b", 1): 1}},
    {"logBlocksToBeDeleted": {"p2/" + log("a", 1): 1}},
    {"logBlocksToBeDeleted": {"../victim": 1}},
    {"logBlocksToBeDeleted": {"/etc/passwd": 1}},
    {"logBlocksToBeDeleted": {"s3:x/y": 1}},
    {"logBlocksToBeDeleted": {"": 1}},
    {"fileId": "../p2/.b-0"},
    {"fileId": ""},
    {"fileId": "b-0"},
    {"latestBaseInstant": at(2)},
    {"latestBaseInstant": ""},
    {"partitionPath": ".hoodie"},
]


@pytest.mark.parametrize("fields", FIELDS)
def test_a_block_for_something_else(tmp_path: Path, fields: dict[str, Any]) -> None:
    """A rollback whose slice, partition or log files do not belong together is refused, and nothing changes."""
    table, failed = begin(tmp_path / "t", 6)
    pend(table, failed, **fields)
    before = tree(table.root)
    with pytest.raises(LakemetaError):
        roll_back(table)
    assert tree(table.root) == before


def test_a_block_in_a_table_that_has_none(tmp_path: Path) -> None:
    """From version 8 on log files are deleted: a block would be a file of another write."""
    table, failed = begin(tmp_path / "t", 9)
    pend(table, failed, logBlocksToBeDeleted={log("a", 2): 1}, latestBaseInstant=at(2))
    before = tree(table.root)
    with pytest.raises(CorruptMetadataError, match="which a table of version 9 does not have"):
        roll_back(table)
    assert tree(table.root) == before


@pytest.mark.parametrize(
    "path",
    ["../.a-0_{at}.log.1_1-0-1", ".hoodie/.a-0_{at}.log.1_1-0-1", "p1/x", "p1/../p2/.a-0_{at}.log.1_1-0-1",
     "p1/.a-0_{at}.log.1_0-0-0", "p1/.a/0_{at}.log.1_1-0-1/x", "p1/.a-0_.log.1_1-0-1", "out/.a-0_{at}.log.1_1-0-1"],
)  # fmt: skip
def test_the_door_of_blocks(tmp_path: Path, path: str) -> None:
    """Only a new log file of a slice goes in, and not behind a link."""
    (tmp_path / "t/p1").mkdir(parents=True)
    (tmp_path / "victim").mkdir()
    (tmp_path / "t/out").symlink_to(tmp_path / "victim")
    door: Door = block_door(LocalStorage(), str(tmp_path / "t"))
    door.create_file(f"{tmp_path}/t/p1/.a-0_{at(1)}.log.1_1-0-1", b"1")
    before = tree(tmp_path)
    with pytest.raises(LakemetaError):
        door.create_file(f"{tmp_path}/t/{path.format(at=at(1))}", b"1")
    assert tree(tmp_path) == before


@pytest.mark.parametrize("markers", ["true", "false"])
def test_a_file_in_the_place_of_markers(tmp_path: Path, markers: str) -> None:
    """Refused before anything goes, since the rollback could not remove it; without it the table is listed."""
    table, failed = begin(tmp_path / "t", 9)
    file = table.root / ".hoodie/.temp" / failed
    file.parent.mkdir()
    file.write_text("a file")
    before = tree(table.root)
    opened = HudiTable.open(str(table.root))
    with pytest.raises(CorruptMetadataError, match="delete that file and roll back again"):
        opened.plan_rollback({"hoodie.rollback.using.markers": markers}, now=moment(30), executor=ONE)
    assert tree(table.root) == before
    file.unlink()
    roll_back(table)
    assert not any(failed in name for name in table.files())


@pytest.mark.parametrize(
    "line",
    [DeletePartition("p1", "p1", "no_live_file_group"), Delete("p1", "p1/" + base("a", 1), 10, "failed_write", at(1))],
)
def test_an_edited_rollback(tmp_path: Path, line: Delete | DeletePartition) -> None:
    """A rollback plan with a line that no rollback has is refused, not applied without it."""
    table, _ = begin(tmp_path / "t", 9)
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_rollback({}, now=moment(30), executor=ONE)
    before = tree(table.root)
    with pytest.raises(CorruptMetadataError, match=r"make (?:the plan|it) again"):
        opened.apply(Plan(plan.header, [*plan.operations, line]), executor=ONE, env=Environment(lambda: moment(30)))
    assert tree(table.root) == before

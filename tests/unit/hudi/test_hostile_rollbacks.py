"""Pending rollbacks that somebody wrote: what they append is proved as what they delete is."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from builders import TableFiles, at, avro, log, moment, tree

from lakemeta.deletion import Door
from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.doors import block_door
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
    opened.apply(opened.plan_rollback({}, now=moment(30), executor=ONE), executor=ONE, clock=lambda: moment(30))


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

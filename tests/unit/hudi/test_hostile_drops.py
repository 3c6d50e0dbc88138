"""Pending cleans that drop directories which are no partitions, are in use, or belong to another table."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, avro, base, moment, tree

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Group a in p1 and a group c in p3 that a commit replaced, with three commits behind that."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a", "p3": "c"})
    table.delete_partition("p3")
    for _ in range(3):
        table.commit({"p1": "a"})
    return table


def pend(table: TableFiles, drops: list[str], earliest: int | None, **fields: Any) -> None:
    """Leave a pending clean that drops directories."""
    boundary = None if earliest is None else {"timestamp": at(earliest), "action": "commit", "state": "COMPLETED"}
    record = {
        "earliestInstantToRetain": boundary,
        "lastCompletedCommitTimestamp": at(5),
        "policy": "KEEP_LATEST_COMMITS",
        "filesToBeDeletedPerPartition": {},
        "version": 2,
        "filePathsToBeDeletedPerPartition": {},
        "partitionsToBeDeleted": drops,
        "extraMetadata": {},
    }
    table.put(f"{at(table.hour)}.clean.requested", avro("HoodieCleanerPlan", {**record, **fields}))
    table.hour += 1


def clean(table: TableFiles) -> Any:
    opened, executor = HudiTable.open(str(table.root)), LocalExecutor(1)
    plan = opened.plan_clean({"hoodie.clean.commits.retained": "10"}, now=moment(30), executor=executor)
    return opened.apply(plan, executor=executor, env=Environment(lambda: moment(30)))


def data(table: TableFiles) -> dict[str, bytes]:
    return {name: content for name, content in tree(table.root).items() if not name.startswith(".hoodie/")}


def test_a_dropped_partition_goes(table: TableFiles) -> None:
    """What the other tests bend: the replaced group is older than the boundary, and a file of nobody goes with it."""
    (table.root / "p3/foreign.txt").write_text("as in the engine")
    pend(table, ["p3"], 4)
    clean(table)
    assert not (table.root / "p3").exists()


@pytest.mark.parametrize("path", ["ice/metadata/v1.metadata.json", "docs/thesis.doc", "docs/.HOODIE/hoodie.properties"])
def test_what_is_no_partition_stays(table: TableFiles, path: str) -> None:
    """A directory without partition metadata stays if anything lies in it, and so does one with directories in it."""
    file = table.root / path
    file.parent.mkdir(parents=True)
    file.write_text("somebody's")
    pend(table, [path.partition("/")[0]], 4)
    before = data(table)
    assert any("stays" in note for note in clean(table).notes)
    assert data(table) == before


@pytest.mark.parametrize("policy", ["KEEP_LATEST_COMMITS", "KEEP_LATEST_BY_HOURS"])
def test_without_a_boundary_all_is_retained(table: TableFiles, policy: str) -> None:
    """Only a policy that keeps versions drops a replaced partition without an earliest commit to retain."""
    pend(table, ["p3"], None, policy=policy)
    before = data(table)
    assert any("which the plan retains" in note for note in clean(table).notes)
    assert data(table) == before


def test_files_of_an_unfinished_write_stay(table: TableFiles) -> None:
    """A pending write may have files of the replaced group, too."""
    table.data("p3", base("c", 8))
    table.put(f"{at(8)}.commit.requested", b"")
    table.put(f"{at(8)}.inflight" if table.version < 8 else f"{at(8)}.commit.inflight", b"")
    pend(table, ["p3"], 4)
    before = data(table)
    assert any("which has not completed" in note for note in clean(table).notes)
    assert data(table) == before


@pytest.mark.parametrize("drop", [True, False])
@pytest.mark.parametrize("partition", ["sub", "sub/a"])
def test_another_table_in_this_one(table: TableFiles, partition: str, drop: bool) -> None:
    """No file and no directory of it goes, whatever this table's plan says."""
    (table.root / "sub/.hoodie").mkdir(parents=True)
    (table.root / "sub/.hoodie/hoodie.properties").write_text("another table\n")
    path = table.data(partition, base("x", 1))
    if drop:
        pend(table, [partition], 4)
    else:
        listed = {partition: [{"filePath": str(path), "isBootstrapBaseFile": False}]}
        pend(table, [], 4, filePathsToBeDeletedPerPartition=listed)
    before = data(table)
    with pytest.raises(CorruptMetadataError, match="another table"):
        clean(table)
    assert data(table) == before

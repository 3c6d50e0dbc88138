"""Directories of a table that are symbolic links are left out of what is listed, cleaned and rolled back."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, moment, tree
from support.hudi_hostile import ONE, neighboured

from lakemeta.environment import Environment
from lakemeta.errors import UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    return neighboured(tmp_path, request.param)


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

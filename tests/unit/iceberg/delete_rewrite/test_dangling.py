"""Delete files that apply to nothing: which they are, and that no other goes, whatever a plan says."""

from __future__ import annotations

import attrs
import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import OptionError, StalePlanError
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete, Remove
from lakemeta.storage import LocalStorage

SERVICE = "remove-dangling-deletes"


@pytest.fixture
def small(tmp_path) -> SmallTable:
    """A delete file that applies, and one whose data file is gone."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    table.append([(1, "a", 0.5), (2, "a", 0.5)], [(3, "b", 0.5)])
    live, lost = table.data_files()
    table.delete_positions(live, [1])
    table.delete_positions(lost, [0])
    table.append([(4, "a", 0.5)])
    table.remove(lost)
    return table


def opened(small: SmallTable) -> IcebergTable:
    return IcebergTable(Place(small.root, small.operations))


def test_only_what_applies_to_nothing_goes(small) -> None:
    """One of two goes from the metadata, its file stays on disk, and a second run finds nothing."""
    rows = TableState.local(small.root).rows()
    plan = opened(small).plan(SERVICE)
    assert [(op.partition, op.reason) for op in plan.operations] == [("p=b", "applies to no data file")]
    report = opened(small).apply(Plan.loads(plan.dumps()))
    assert report.result["removed_delete_files_count"] == 1
    assert report.result["removed"] == [plan.operations[0].path]
    assert small.storage.exists(f"{small.root}/{plan.operations[0].path}")
    assert TableState.local(small.root).rows() == rows
    assert opened(small).plan(SERVICE).is_empty


@pytest.mark.parametrize("edit", ["applied", "data", "gone", "twice", "outside"])
def test_edited_plans_do_nothing(small, edit: str) -> None:
    """A plan that names a delete file that applies, a data file, no live file, or one twice, is stale."""
    plan = opened(small).plan(SERVICE)
    (line,) = plan.operations
    live = TableState.local(small.root)
    names = {
        "applied": next(p for p in live.paths(1) if not p.endswith(line.path)).removeprefix(f"{small.root}/"),
        "data": live.paths(0)[0].removeprefix(f"{small.root}/"),
        "gone": "data/nothing.parquet",
        "twice": line.path,
        "outside": f"../t/{line.path}",
    }
    lines = [line, attrs.evolve(line, path=names[edit])]
    before = small.metadata
    with pytest.raises(StalePlanError, match="make the plan again"):
        opened(small).apply(Plan(plan.header, lines))
    assert small.metadata == before


def test_a_delete_that_came_to_apply_stays(small) -> None:
    """A file that was dangling when it was planned applies again after a rollback: it is not removed."""
    plan = opened(small).plan(SERVICE)
    metadata = small.operations.refresh()
    parent = small.head.parent_snapshot_id
    back = attrs.evolve(metadata.metadata.refs["main"], snapshot_id=parent)
    refs = {**metadata.metadata.refs, "main": back}
    small.operations.commit(metadata, attrs.evolve(metadata.metadata, refs=refs, current_snapshot_id=parent))
    with pytest.raises(StalePlanError, match="applies to data files"):
        opened(small).apply(plan)


def test_what_cannot_be_asked_for(small) -> None:
    """A filter, an unknown option, a branch that is not there, an operation of another service."""
    table = opened(small)
    with pytest.raises(OptionError, match="takes no filter"):
        table.plan(SERVICE, where="id = 1")
    with pytest.raises(OptionError, match="branch"):
        table.plan(SERVICE, {"brunch": "main"})
    with pytest.raises(OptionError, match="branch away: branch does not exist"):
        table.plan(SERVICE, {"branch": "away"})
    plan = table.plan(SERVICE)
    with pytest.raises(StalePlanError, match="this is no plan of"):
        table.apply(Plan(plan.header, [Delete("", "data/x.parquet", 1, "r")]))
    assert all(isinstance(op, Remove) for op in plan.operations)


def test_an_empty_table_and_a_branch(tmp_path) -> None:
    """A table without snapshots has nothing to remove; a branch has deletes of its own."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    assert opened(table).plan(SERVICE).is_empty
    table.append([(1, "a", 0.5)])
    table.append([(2, "b", 0.5)], branch="dev")
    table.delete_ids(1)
    report = opened(table).apply(opened(table).plan(SERVICE, {"branch": "dev"}))
    assert report.result["removed_delete_files_count"] == 0

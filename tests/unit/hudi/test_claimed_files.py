"""What the plans of pending compactions, log compactions and clusterings name is deleted by nothing, by its name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, clean_plan, compaction_plan, log, moment, tree
from support.hudi_failed_writes import roll_back

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.hudi import HudiTable
from lakemeta.plan_operations import Delete, Keep

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakemeta.plan import Plan

    Claim = Callable[[TableFiles, str], str]

COMMITS = {"hoodie.clean.commits.retained": "1"}
POLICIES = {
    "commits": COMMITS,
    "versions": {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"},
}


def _merges(action: str) -> Claim:
    """A pending merge of a later slice of ``a`` whose plan names a file of an earlier one."""

    def claim(table: TableFiles, name: str) -> str:
        instant = at(table.hour)
        table.put(f"{instant}.{action}.requested", compaction_plan([("p1", "a-0", at(3))], [name]))
        table.hour += 1
        return instant

    return claim


def _clusters(table: TableFiles, name: str) -> str:
    return table.schedule_clustering([f"file:{table.root}/p1/{name}"])


CLAIMS: dict[str, Claim] = {
    "compaction": _merges("compaction"),
    "logcompaction": _merges("logcompaction"),
    "clustering": _clusters,
}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of a group and a log file of the first."""
    made = TableFiles(tmp_path / "t", request.param, mor=True)
    made.insert({"p1": "a"})
    for _ in range(2):
        made.commit({"p1": "a"})
    made.data("p1", log("a", 1))
    return made


def plan(table: TableFiles, options: dict[str, str]) -> Plan:
    return HudiTable.open(str(table.root)).plan_clean(options, now=moment(40), explain=True)


def deleted(plan: Plan) -> set[str]:
    return {op.path for op in plan.operations if isinstance(op, Delete)}


@pytest.mark.parametrize("policy", POLICIES)
@pytest.mark.parametrize("claim", CLAIMS)
def test_a_clean_plans_around_it(table: TableFiles, claim: str, policy: str) -> None:
    """The whole slice of a named file stays, with the operation as the cause; without it the slice goes."""
    name = log("a", 1) if claim != "clustering" and table.version == 6 else base("a", 1)
    table.commit({"p2": "z"})
    assert f"p1/{name}" in deleted(plan(table, POLICIES[policy]))
    instant = CLAIMS[claim](table, name)
    made = plan(table, POLICIES[policy])
    assert f"p1/{base('a', 1)}" not in deleted(made)
    keep = next(op for op in made.operations if isinstance(op, Keep) and op.path == f"p1/{name}")
    assert (keep.reason, keep.by) == (f"pinned_by_pending_{claim.removeprefix('log')}", instant)


def test_a_replaced_group_that_a_clustering_reads_stays(tmp_path: Path) -> None:
    """An overwrite does not take from a pending clustering what it is going to read."""
    table = TableFiles(tmp_path / "t")
    table.insert({"p1": "ab"})
    table.replace({"p1": "a"}, {"p1": "c"})
    table.commit({"p1": "b"})
    assert f"p1/{base('a', 1)}" in deleted(plan(table, COMMITS))
    _clusters(table, base("a", 1))
    assert f"p1/{base('a', 1)}" not in deleted(plan(table, COMMITS))


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_pending_clean_that_names_it_is_refused(table: TableFiles, claim: str) -> None:
    """Whoever wrote it, and whatever slice the file counts to; nothing is changed."""
    instant = CLAIMS[claim](table, log("a", 1))
    paths = [f"{table.root}/p1/{log('a', 1)}"]
    table.put(f"{at(table.hour)}.clean.requested", clean_plan({"p1": paths}, earliest=3))
    made = plan(table, COMMITS)
    before = tree(table.root)
    with pytest.raises(CorruptMetadataError, match=rf"{log('a', 1)}, which the pending .* {instant} reads; have Hudi"):
        HudiTable.open(str(table.root)).apply(made, env=Environment(lambda: moment(41)))
    assert tree(table.root) == before


@pytest.mark.parametrize("claim", CLAIMS)
def test_a_plan_from_before_the_operation_is_refused(table: TableFiles, claim: str) -> None:
    """A saved plan that names a file is stale once an operation has come to read it."""
    table.commit({"p2": "z"})
    made = plan(table, COMMITS)
    CLAIMS[claim](table, base("a", 1))
    before = tree(table.root)
    with pytest.raises(LakemetaError, match=r"must be kept now|reads"):
        HudiTable.open(str(table.root)).apply(made, env=Environment(lambda: moment(41)))
    assert tree(table.root) == before


def test_once_the_compaction_is_done_the_files_go(tmp_path: Path) -> None:
    """A plan names what a completed operation has read."""
    table = TableFiles(tmp_path / "t", mor=True)
    table.insert({"p1": "a"})
    table.delta({"p1": "a"})
    hour = table.hour
    table.put(f"{at(hour)}.compaction.requested", compaction_plan([("p1", "a-0", at(1))], [log("a", 2)]))
    table.hour += 1
    table.commit({"p2": "z"})
    assert not deleted(plan(table, POLICIES["versions"]))
    table.complete_compaction(hour, {"p1": "a"})
    table.commit({"p2": "y"})
    made = plan(table, POLICIES["versions"])
    assert deleted(made) == {f"p1/{base('a', 1)}", f"p1/{log('a', 2)}"}
    report = HudiTable.open(str(table.root)).apply(made, env=Environment(lambda: moment(41)))
    assert report.deleted_files == 2


@pytest.mark.parametrize("claim", CLAIMS)
@pytest.mark.parametrize("version", [6, 9])
def test_a_rollback_that_names_it_is_refused(tmp_path: Path, version: int, claim: str) -> None:
    """A failed write whose file an operation is going to read is not undone; nothing is changed."""
    table = TableFiles(tmp_path / "t", version)
    table.insert({"p1": "a"})
    table.begin({"p1": "a"})
    instant = CLAIMS[claim](table, base("a", 2))
    before = tree(table.root)
    with pytest.raises(CorruptMetadataError, match=f"{instant} reads; have Hudi run that, and roll back again"):
        roll_back(table)
    assert tree(table.root) == before

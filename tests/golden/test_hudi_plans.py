"""Every recorded clean is planned as real Hudi planned it, except for differences listed by name."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.hudi_cases import load_cases
from support.sampling import one_in

from lakemeta.errors import OptionError
from lakemeta.hudi import HudiTable
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from pathlib import Path

PLANNED = [name for name, case in load_cases().items() if case.expected["action"] in ("clean", "schedule_clean")]

# What lakemeta refuses where the engine goes on, or refuses as the engine does.
REFUSED = {
    "0.15.0__retained0__versions0": "deletes every version of every file",
    "1.0.2__retained0__versions0": "deletes every version of every file",
    "1.2.0__retained0__versions0": "deletes every version of every file",
    "1.2.0__filters12__regex_inc_error": "the engine refuses it too",
}
# Hudi 0.15 takes the Parquet form of the partition metadata file for a base file; we decide as 1.2.
DROPS_MORE = {"0.15.0__metafile_parquet__commits1": {"p2"}}


def test_all_recorded_cases_are_here() -> None:
    """The archives hold every recorded clean, so that none is lost unseen."""
    assert len(PLANNED) == 370


@pytest.mark.parametrize("name", one_in(3, [n for n in PLANNED if n not in REFUSED]))
def test_plan_is_the_engines(name: str, tmp_path: Path) -> None:
    """Same files, same partitions to delete, same earliest commit to retain."""
    case = load_cases()[name]
    plan = HudiTable.open(case.unpack(tmp_path)).plan_clean(case.options, now=case.now)
    assert {op.path for op in plan.deletes()} == case.planned_files()
    assert set(plan.dropped_partitions()) == case.planned_partitions() | DROPS_MORE.get(name, set())
    if case.expected["clean_plan"] is not None:
        assert plan.header.facts["earliest_to_retain"] == case.planned_earliest()
    else:
        assert plan.is_empty
    assert Plan.loads(plan.dumps()) == plan


@pytest.mark.parametrize("name", REFUSED)
def test_refused_plan(name: str, tmp_path: Path) -> None:
    """Options that would delete live data, or contradict each other, are refused before anything is read."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    with pytest.raises(OptionError):
        table.plan_clean(case.options, now=case.now)


@pytest.mark.parametrize("name", one_in(4, [n for n in PLANNED if n not in REFUSED][::7]))
def test_explained_plan_names_every_slice_once(name: str, tmp_path: Path) -> None:
    """Explaining adds what stays and changes nothing of what goes; no file stands in a plan twice."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    plain = table.plan_clean(case.options, now=case.now)
    explained = table.plan_clean(case.options, now=case.now, explain=True)
    assert list(explained.deletes()) == list(plain.deletes())
    paths = [op.path for op in explained.operations if op.op != "delete_partition"]
    assert len(paths) == len(set(paths))

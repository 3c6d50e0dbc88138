"""Random histories of tables, cleaned with changing policies, judged by a checker that shares no code with lakemeta."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.builders import TableFiles, moment, tree
from support.checker import Retention, must_be_readable, required_files
from support.examples import examples
from support.strategies import Policy, Step, histories, play, policies

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from lakemeta.plan import Plan

pytestmark = pytest.mark.slow

ALWAYS = {"hoodie.clean.trigger.max.commits": "0"}
FULL = {**ALWAYS, "hoodie.clean.incremental.enabled": "false"}
KINDS = [(6, False), (6, True), (8, True), (9, False), (9, True)]
Round = tuple[list[Step], Policy]


def rounds(mor: bool) -> st.SearchStrategy[list[Round]]:
    return st.lists(st.tuples(histories(mor=mor), policies()), min_size=2, max_size=3)


@pytest.mark.parametrize(("version", "mor"), KINDS)
def test_no_clean_deletes_what_a_reader_needs(version: int, mor: bool) -> None:
    """Whatever happened before, every file of a latest, retained, savepointed, merging or uncommitted slice stays."""

    @settings(max_examples=examples(15))
    @given(rounds(mor))
    def check(history: list[Round]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = TableFiles(Path(folder) / "t", version, mor=mor)
            for steps, policy in history:
                play(table, steps)
                _clean(table, policy)

    check()


def _clean(table: TableFiles, policy: Policy) -> None:
    opened, executor = HudiTable.open(str(table.root)), LocalExecutor(1)
    now = moment(table.hour)
    required = required_files(table.root, policy.retention(table.hour))
    before = set(tree(table.root))
    plan = opened.plan_clean({**ALWAYS, **policy.options}, now=now, executor=executor)
    assert set(tree(table.root)) == before
    _deletes_nothing_required(plan, required, before)
    report = opened.apply(plan, executor=executor, env=Environment(lambda: moment(table.hour)))
    table.hour += 1
    must_be_readable(table.root, required)
    gone = {path for path in before - set(tree(table.root)) if not path.startswith(".hoodie/")}
    assert gone == _deleted(plan, before)
    assert report.deleted_files == plan.files
    again = opened.plan_clean(
        {**(FULL if plan.header.facts["scope"] == "full" else ALWAYS), **policy.options},
        now=now,
        executor=executor,
    )
    assert again.is_empty


def _deletes_nothing_required(plan: Plan, required: set[str], before: set[str]) -> None:
    deleted = _deleted(plan, before)
    assert deleted <= before
    assert not deleted & required


def _deleted(plan: Plan, before: set[str]) -> set[str]:
    dropped = tuple(f"{partition}/" for partition in plan.dropped_partitions())
    return {op.path for op in plan.deletes()} | {path for path in before if path.startswith(dropped or ("\0",))}


@pytest.mark.parametrize("version", [6, 9])
def test_loosening_and_tightening_again_loses_nothing(version: int) -> None:
    """Any sequence of full cleans deletes what the tightest of them may, and never what the current one retains."""

    @settings(max_examples=examples(10))
    @given(histories(mor=False), st.lists(st.integers(1, 5), min_size=1, max_size=4))
    def check(steps: list[Step], retained: list[int]) -> None:
        with tempfile.TemporaryDirectory() as folder:
            table = TableFiles(Path(folder) / "t", version)
            play(table, steps)
            required = required_files(table.root, Retention(commits=min(retained)))
            for number in retained:
                options = {**FULL, "hoodie.clean.commits.retained": str(number)}
                opened = HudiTable.open(str(table.root))
                plan = opened.plan_clean(options, now=moment(table.hour), executor=LocalExecutor(1))
                opened.apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(table.hour)))
                table.hour += 1
            must_be_readable(table.root, required)

    check()

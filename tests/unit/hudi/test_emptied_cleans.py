"""A clean that completed with an empty file, as a crash leaves it on a store where files do not appear as a whole.

Hudi 1.2 removes the empty file and executes the clean's plan again before it plans anything new
(``CleanPlanActionExecutor.requestClean``); recorded with releases 0.15 and 1.2.
"""

from __future__ import annotations

from datetime import UTC
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, moment, tree

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.instant_writer import InstantWriter
from lakemeta.hudi.timeline.loading import load_state
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.plan import Plan

ONE = {"hoodie.clean.commits.retained": "1"}


@pytest.fixture(autouse=True)
def _does_not_wait(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemeta.hudi.timeline.loading._WAITS", (0.0,))


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of a group, cleaned to two and written again; the clean's completed file is empty."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a"})
    table.commit({"p1": "a"})
    table.commit({"p1": "a"})
    clean(table, 3.5)
    completed(table).write_bytes(b"")
    table.commit({"p1": "a"})
    return table


def clean(table: TableFiles, hour: float) -> list[str]:
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(ONE, now=moment(hour), executor=LocalExecutor(1))
    return list(opened.apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(hour))).result["cleans"])


def completed(table: TableFiles) -> Path:
    (found,) = table.timeline.glob("*.clean")
    return found


def make_plan(table: TableFiles) -> Plan:
    return HudiTable.open(str(table.root)).plan_clean(ONE, now=moment(30), executor=LocalExecutor(1))


def test_its_plan_is_executed_again_before_anything_new_is_planned(table: TableFiles) -> None:
    """The empty file goes, the clean completes with what it had to say, and the next clean goes on from there."""
    facts = make_plan(table).header.facts
    assert facts["pending_cleans"] == [at(3.5)]
    assert facts["scope_reason"] == f"clean {at(3.5)} completed with an empty file and is executed again first"
    assert clean(table, 30) == [at(3.5)]
    assert completed(table).stat().st_size > 0
    assert table.files() == {f"p1/{base('a', hour)}" for hour in (2, 3, 4)}
    assert "incremental" in make_plan(table).header.facts["scope"]
    assert clean(table, 31) == [at(31)]
    assert table.files() == {f"p1/{base('a', hour)}" for hour in (3, 4)}


def test_planning_changes_nothing(table: TableFiles) -> None:
    """Unlike Hudi, which removes the file while it plans."""
    before = tree(table.root)
    make_plan(table)
    assert tree(table.root) == before


def test_the_doctor_says_so(table: TableFiles) -> None:
    """What is wrong, and the command that mends it."""
    found = HudiTable.open(str(table.root)).doctor(ONE, now=moment(30), executor=LocalExecutor(1))
    sentence = f"clean {at(3.5)} completed with an empty file, as a crash leaves it; run lakemeta clean, which"
    assert any(f.kind == "emptied_clean" and f.sentence.startswith(sentence) for f in found)


@pytest.mark.parametrize("left", [b"", None])
def test_without_a_plan_there_is_nothing_to_execute(table: TableFiles, left: bytes | None) -> None:
    """The sentence names the files to delete; once they are gone the table is cleaned as if there had been none."""
    requested = table.timeline / f"{at(3.5)}.clean.requested"
    requested.unlink() if left is None else requested.write_bytes(left)
    with pytest.raises(CorruptMetadataError, match=r"is empty, and so is its plan; delete .*\.clean and ") as caught:
        make_plan(table)
    for path in list(table.timeline.iterdir()):
        if str(path) in str(caught.value):
            path.unlink()
    assert clean(table, 30) == [at(30)]
    assert table.files() == {f"p1/{base('a', hour)}" for hour in (3, 4)}


def test_only_the_newest_cleans_are_looked_at(table: TableFiles) -> None:
    """An older one is nobody's concern: what it left is cleaned by now."""
    table.clean(5, at(3), at(4))
    assert not make_plan(table).header.facts.get("pending_cleans")


def test_a_writer_that_is_just_completing_it(table: TableFiles) -> None:
    """Where files do not appear as a whole an empty one may be about to be written: it is never removed then."""
    state = load_state(LocalStorage(), str(table.root), LocalExecutor(1))
    (emptied,) = state.emptied_cleans
    completed(table).write_bytes(b"whole")
    writer = InstantWriter(LocalStorage(), str(table.root), state.config, UTC, lambda: moment(30))
    with pytest.raises(StalePlanError, match="was executed by another writer meanwhile"):
        writer.reopen(emptied)
    assert completed(table).read_bytes() == b"whole"

"""Reading a table while a writer is at work on it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from support.builders import TableFiles, at, moment
from support.faults import HookedStorage

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakemeta.plan import Plan

LAZY = {"hoodie.clean.commits.retained": "1", "hoodie.clean.failed.writes.policy": "LAZY"}


@pytest.fixture(autouse=True)
def _looks_again(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("lakemeta.hudi.timeline.loading._WAITS", (0.0, 0.0))


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "ab"})
    for _ in range(3):
        table.commit({"p1": "ab"})
    return table


def hooked(table: TableFiles, hook: Callable[[str, str], None]) -> HudiTable:
    opened = HudiTable.open(str(table.root))
    return attrs.evolve(opened, place=attrs.evolve(opened.place, storage=HookedStorage(LocalStorage(), hook)))


def plan_while(table: TableFiles, hook: Callable[[str, str], None], options: dict[str, str] = LAZY) -> Plan:
    return hooked(table, hook).plan_clean(options, now=moment(40), executor=LocalExecutor(1))


def completed_file(table: TableFiles, hour: float) -> Path:
    (found,) = (p for p in table.timeline.glob(f"{at(hour)}*.commit"))
    return found


def test_an_instant_that_is_archived_meanwhile(table: TableFiles) -> None:
    """An instant that was listed and is gone when it is read is no error: the timeline is read again."""
    oldest = completed_file(table, 1)

    def archive(name: str, path: str) -> None:
        if path == str(oldest):
            oldest.unlink(missing_ok=True)

    plan = plan_while(table, archive)
    assert {op.path for op in plan.deletes()} == {op.path for op in plan_while(table, lambda *_: None).deletes()}
    assert not oldest.exists()


def test_an_instant_that_is_half_written(table: TableFiles) -> None:
    """A completed commit that is empty at first and whole a moment later is a writer at work, no damage."""
    newest = completed_file(table, 4)
    content = newest.read_bytes()
    newest.write_bytes(b"")
    looks: list[str] = []

    def write_on(name: str, path: str) -> None:
        if path == str(newest.parent) and name == "list_dir":
            looks.append(path)
            newest.write_bytes(content if len(looks) > 2 else content[: len(content) // 2 * (len(looks) - 1)])

    assert plan_while(table, write_on).files == 4
    assert len(looks) == 3


def test_a_commit_that_stays_empty(table: TableFiles) -> None:
    """Damage that lasts is believed, and refused."""
    completed_file(table, 4).write_bytes(b"")
    with pytest.raises(CorruptMetadataError, match="is empty or cut off"):
        plan_while(table, lambda *_: None)


def begin_and_complete(table: TableFiles) -> tuple[str, Callable[[str, str], None]]:
    """A pending write, and a hook that completes it when somebody looks at heartbeats."""
    content = completed_file(table, 4).read_bytes()
    pending = table.begin({"p1": "a"})
    completed = table.timeline / completed_file(table, 4).name.replace(at(4), pending)

    def complete(name: str, path: str) -> None:
        if path.endswith(".heartbeat"):
            completed.write_bytes(content)

    return pending, complete


def test_a_write_that_completes_while_heartbeats_are_read(table: TableFiles) -> None:
    """A write that was pending when the timeline was read, and has no heartbeat as it is done now, has not failed."""
    pending, complete = begin_and_complete(table)
    plan = plan_while(table, complete)
    assert "failed_writes" not in plan.header.facts
    assert plan.header.based_on == pending


@pytest.mark.parametrize("policy", ["LAZY", "EAGER"])
def test_a_write_that_completes_while_a_rollback_is_planned(table: TableFiles, policy: str) -> None:
    """Nor is it rolled back: the plan has nothing to do, and applying it is no error."""
    pending, complete = begin_and_complete(table)
    changing = hooked(table, complete)
    plan = changing.plan_rollback({"hoodie.clean.failed.writes.policy": policy}, now=moment(40))
    assert (plan.files, plan.header.facts["failed_writes"], plan.header.based_on) == (0, [], pending)
    assert changing.apply(plan, env=Environment(lambda: moment(40))).committed is None


def test_a_write_that_failed(table: TableFiles) -> None:
    """A write that is pending before and after a look at the heartbeats, and has none, has failed."""
    pending = table.begin({"p1": "a"})
    assert plan_while(table, lambda *_: None).header.facts["failed_writes"] == [pending]

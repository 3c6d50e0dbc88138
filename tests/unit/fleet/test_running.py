"""A run as it is driven: several tables at a time, stopped early, with a budget, on record."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from threading import Barrier

import attrs

from lakemeta.fleet.budget import Budget
from lakemeta.fleet.config import Config, Override
from lakemeta.fleet.discovery import Found
from lakemeta.fleet.journal import Journal
from lakemeta.fleet.memory import Memory
from lakemeta.fleet.part import Part
from lakemeta.fleet.place_globs import PlaceGlob
from lakemeta.fleet.running import Run
from lakemeta.fleet.schedule import Visit
from lakemeta.fleet.selection import Asked, select
from lakemeta.fleet.visiting import Opened
from lakemeta.maintenance import Duty, Step, files_gained
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete
from lakemeta.report import Report

TABLES = tuple(f"/lake/{n}" for n in range(8))
ASKED = Asked("", apply=True)


class Lake:
    """Tables with two services of one file each; what is applied is counted, and ``before`` is called then."""

    def __init__(self, before=lambda table: None) -> None:
        self.applied: list[str] = []
        self.before = before

    def open(self, table: str, part: Part) -> Opened:
        plan = Plan(PlanHeader("x", table, 2, None, {}), [Delete("", "f", 10, "old")])
        step = Step(Duty("clean", "file", files_gained), lambda: plan, partial(self.apply, table), 1)
        return Opened("Hudi", (step, step))

    def apply(self, table: str, plan: Plan) -> Report:
        self.before(table)
        self.applied.append(table)
        return Report(plan.header.plan, table, "1", freed_bytes=10)


def config(**more) -> Config:
    return Config((PlaceGlob.of("/lake/*"),), **more)


def run(folder: Path, lake: Lake, config: Config, memory: Memory | None = None, asked: Asked = ASKED) -> Run:
    memory = Memory() if memory is None else memory
    selection = select(map(Found, TABLES), config, memory, asked, 0)
    return Run(config, selection, memory, asked, Journal(folder / "s.jsonl"), lake.open)


def test_several_at_once(tmp_path: Path) -> None:
    """Three tables are at work at a time, and every table is on record once, whatever the order."""
    together = Barrier(3, timeout=10)
    lake = Lake(lambda table: together.wait() if table in TABLES[:3] and table not in lake.applied else None)
    rows = list(run(tmp_path, lake, config(tables_at_once=3)).rows())
    assert [row.table for row in rows] == list(TABLES)
    assert sorted(lake.applied) == sorted(TABLES * 2)
    memory = Journal(tmp_path / "s.jsonl").load()
    assert memory.visits.keys() == set(TABLES)
    assert memory.unfinished is None


def test_a_run_that_is_stopped(tmp_path: Path) -> None:
    """Services that have begun end, no other begins, and what is done is on record for the run that goes on."""
    lake = Lake()
    rows = run(tmp_path, lake, config(tables_at_once=3)).rows()
    next(rows)
    rows.close()
    journal = Journal(tmp_path / "s.jsonl")
    memory = journal.load()
    assert memory.unfinished is not None
    done = memory.unfinished.done
    assert TABLES[0] in done
    assert all(lake.applied.count(table) == 2 for table in done)
    second = Lake()
    unfinished = attrs.evolve(memory.unfinished, began_ms=0)
    again = run(tmp_path, second, config(), attrs.evolve(memory, unfinished=unfinished))
    assert {row.table for row in again.rows()} == set(TABLES) - done == set(second.applied)
    assert journal.load().unfinished is None


def test_budgets_of_the_run_and_of_tables(tmp_path: Path) -> None:
    """That of the run counts for all, that of an override for each of its tables; what is left is due at once."""
    override = Override((PlaceGlob.of("/lake/[01]"),), Part(budget=Budget(files=1)))
    lake = Lake()
    settings = config(overrides=(override,), budget=Budget(bytes=95), tables_at_once=1)
    rows = list(run(tmp_path, lake, settings).rows())
    assert [len(row.begun) for row in rows] == [1, 1, 2, 2, 2, 1, 0, 0]
    assert {row.table for row in rows if row.left} == {*TABLES[:2], *TABLES[5:]}
    assert not any(row.code for row in rows)
    memory = Journal(tmp_path / "s.jsonl").load()
    now_ms = max(visit.at_ms for visit in memory.visits.values())
    assert set(select(map(Found, TABLES), settings, memory, ASKED, now_ms).tables) == {*TABLES[:2], *TABLES[5:]}


def test_the_interval_of_visits(tmp_path: Path) -> None:
    """It doubles after a visit that moved little, and is what it was after one that was cut short."""
    earlier = {table: Visit(table, 0, 48, left=True) for table in TABLES}
    settings = config(budget=Budget(files=5), tables_at_once=1)
    assert all(run(tmp_path, Lake(), settings, Memory(earlier)).rows())
    visits = Journal(tmp_path / "s.jsonl").load().visits
    assert [visits[table].hours for table in TABLES] == [96, 96, *[48] * 6]


def test_a_service_that_fails_unforeseen(tmp_path: Path) -> None:
    """It is a row with what was done before it; the others are done."""

    def fail(table: str) -> None:
        if table == TABLES[3] and table in lake.applied:
            raise RuntimeError("boom")

    lake = Lake(fail)
    rows = {row.table: row for row in run(tmp_path, lake, config()).rows()}
    wrong = rows.pop(TABLES[3])
    assert (wrong.error, wrong.kind, wrong.code) == ("unexpected RuntimeError: boom", "RuntimeError", 1)
    assert len(wrong.services) == 1
    assert all(len(row.begun) == 2 and row.code == 0 for row in rows.values())


def test_nothing_is_on_record_without_apply(tmp_path: Path) -> None:
    """A run that only shows leaves no file."""
    lake = Lake()
    rows = list(run(tmp_path, lake, config(), asked=Asked("")).rows())
    assert len(rows) == len(TABLES)
    assert not lake.applied
    assert not list(tmp_path.iterdir())

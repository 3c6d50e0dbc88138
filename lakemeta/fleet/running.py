"""A run over many tables (I/O: threads, the clock, the journal).

Rules of this module:

1. Tables are visited in the order of the schedule, several at a time, and each is on record as soon as it is done.
2. A run that was interrupted goes on with the tables that were not done, and with what it had left of its budget, if
   the same is asked for again within the shortest interval of the schedule.
3. Without ``apply`` nothing is changed: neither tables nor the journal. What is shown is what a run would do.
"""

from __future__ import annotations

from functools import partial
from threading import Event, Lock
from typing import TYPE_CHECKING

import attrs

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.fleet.budget import Budget, Spent
from lakemeta.fleet.memory import Unfinished, end_line, visit_line
from lakemeta.fleet.schedule import Visit
from lakemeta.fleet.visiting import StoppedError, failed, visit

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.fleet.config import Config
    from lakemeta.fleet.journal import Journal
    from lakemeta.fleet.memory import Memory
    from lakemeta.fleet.part import Part
    from lakemeta.fleet.selection import Asked, Selection
    from lakemeta.fleet.visiting import Opened, Row


class Account:
    """The budget of a run, which services of several threads are booked on."""

    def __init__(self, budget: Budget, spent: Spent, seconds: Callable[[], float]) -> None:
        """``spent`` is what an interrupted part had taken on; ``seconds`` have passed since the start of this one."""
        self._budget, self._spent, self._seconds = budget, spent, seconds
        self._lock = Lock()

    def table(self, own: Budget) -> Callable[[int, int], str | None]:
        """What admits the services of one table, which has a budget of its own beside that of the run."""
        start = self._seconds()
        spent = Spent()

        def admit(files: int, size: int) -> str | None:
            nonlocal spent
            now = self._seconds()
            with self._lock:
                of_run = attrs.evolve(self._spent, seconds=self._spent.seconds + now)
                of_table = attrs.evolve(spent, seconds=now - start)
                refused = self._budget.refusal(of_run, files, size) or own.refusal(of_table, files, size)
                if refused is None:
                    self._spent, spent = self._spent.plus(files, size), spent.plus(files, size)
            return refused

        return admit


class Run:
    """One run over the tables of a selection, whose journal is held meanwhile."""

    def __init__(
        self,
        config: Config,
        selection: Selection,
        memory: Memory,
        asked: Asked,
        journal: Journal,
        open_table: Callable[[str, Part], Opened],
        env: Environment | None = None,
    ) -> None:
        """``open_table`` opens a table with what the configuration says of it."""
        self.config, self.selection, self.memory, self.asked = config, selection, memory, asked
        self._journal, self._open, self._env = journal, open_table, env or Environment()
        self._stop, self._lock = Event(), Lock()
        began = self._env.now_ms()
        before = selection.resumed.spent if selection.resumed else Spent()
        self._account = Account(config.budget, before, lambda: (self._env.now_ms() - began) / 1000)
        self._run = selection.resumed or Unfinished(asked.key, began, began)

    def rows(self) -> Iterator[Row]:
        """Visit the tables; what ends the iteration early lets services end that have begun, and begins no other."""
        if self.asked.apply:
            self._journal.rewrite(self.memory.lines(self._run))
        for found in self.selection.broken:
            assert found.error is not None
            yield failed(found.url, found.error)
        executor = LocalExecutor(self.config.tables_at_once, self._stop.set)
        yield from executor.map_batches(self._visit_all, self.selection.tables, batch_size=1)
        if self.asked.apply:
            self._journal.add(end_line(self._env.now_ms()))

    def _visit_all(self, tables: Sequence[str]) -> Iterable[Row]:
        for table in tables:
            try:
                yield self._visit(table)
            except StoppedError:
                return

    def _visit(self, table: str) -> Row:
        try:
            part = self.config.of(table)
        except Exception as error:  # noqa: BLE001 - as in a visit: overrides that contradict each other are this table's
            row = failed(table, error)
        else:
            admit = self._account.table(part.budget)
            opening = partial(self._open, table, part)
            row = visit(table, opening, admit, apply=self.asked.apply, stopped=self._stop.is_set)
        if self.asked.apply:
            self._record(row)
        return row

    def _record(self, row: Row) -> None:
        before = self.memory.visits.get(row.table)
        hours = self.config.schedule.next_interval(None if before is None else before.hours, row.moved)
        if before is not None and (row.code or row.left):
            hours = before.hours  # a visit that was cut short says nothing of how often is often enough
        visited = Visit(
            row.table, self._env.now_ms(), hours, row.code, bool(row.left), files=row.files, bytes=row.bytes
        )
        with self._lock:
            self._journal.add(visit_line(visited))

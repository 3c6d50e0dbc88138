"""The run that is going on: records what passes the doors, and says whether that is deleted or quarantined (I/O).

Rules of this module:

1. A run is opened before its plan changes anything, by the service that applies it. Opening writes the ledger's first
   part; a run whose plan deletes nothing is never opened, and leaves none.
2. Work is announced as the executor takes it: an executor takes items on the driver, in order, and a batch is in the
   ledger before the first of its files is handed out. What became of it is recorded as results come in. Workers write
   nothing, so a ledger has one writer.
3. Outcomes wait for the next announcement, but no longer than a batch where the store appends.
"""

from __future__ import annotations

import logging
from contextlib import contextmanager
from contextvars import ContextVar
from functools import cached_property
from itertools import islice
from typing import TYPE_CHECKING, Final, TypeVar

import attrs

from lakemeta.errors import LakemetaError, StorageError
from lakemeta.ledger.files import LedgerFile, LedgerPlace, find_ledgers
from lakemeta.ledger.lines import Batch, Done, End, Mode, Opening, run_id
from lakemeta.report import Outcome
from lakemeta.storage.contract import AppendingStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.plan import Plan
    from lakemeta.report import Report

R = TypeVar("R")
_log = logging.getLogger(__name__)

_BATCH: Final = 1000  # files of one line; a bulk request of an object store has as many
_CURRENT: ContextVar[Run | None] = ContextVar("run", default=None)


@attrs.define(eq=False, slots=False)
class Run:
    """One run of one plan. ``mode`` says what becomes of files: ``delete`` or ``quarantine``.

    ``find_place`` says where the ledger goes, once it is to be written. ``id`` is empty until then.
    """

    find_place: Callable[[], LedgerPlace]
    env: Environment
    kind: str
    mode: Mode
    plan: Plan | None = None
    of: tuple[str, ...] = ()
    id: str = ""
    place: LedgerPlace | None = None
    _file: LedgerFile | None = None
    _batches: int = 0
    _pending: list[bytes] = attrs.field(factory=list)
    _deleted: int = 0
    _absent: int = 0
    _size: int = 0
    _failed: list[Outcome] = attrs.field(factory=list)

    @property
    def has_announced(self) -> bool:
        """True once something may have been deleted."""
        return self._batches > 0

    @property
    def path(self) -> str | None:
        """The store path of the ledger; None as long as there is none."""
        return self._file.path if self._file else None

    @property
    def totals(self) -> tuple[int, int, int, tuple[Outcome, ...]]:
        """Of all that was recorded: files that went, that were absent, bytes that went, and what failed."""
        return self._deleted, self._absent, self._size, tuple(self._failed)

    def went_before(self) -> set[str]:
        """The store paths that interrupted runs of the same plan have on record as gone; these runs become ``of``.

        A ledger that is damaged says nothing.
        """
        place, found = self.find_place(), set[str]()
        interrupted: list[str] = []
        for ledger in find_ledgers(place.storage, place.folder):
            try:
                opening = ledger.opening()
                if (opening.identity, opening.plan_sha256) != (
                    place.identity,
                    self._sha256,
                ) or ledger.end() is not None:
                    continue
                for batch, done in ledger.batches():
                    if done is not None:
                        stays = {*done.stayed, *done.failed}
                        found.update(path for n, path in enumerate(batch.paths) if n not in stays)
                interrupted.append(ledger.run)
            except LakemetaError as error:
                _log.warning("an earlier run is not gone on with: %s", error)
        self.of = (*self.of, *interrupted)
        return found

    @cached_property
    def _sha256(self) -> str | None:
        return self.plan.sha256 if self.plan is not None else None

    def open(self) -> None:
        """Write the first line, unless that is done. Raises StorageError if it cannot be written."""
        if self._file is not None:
            return
        place, self.id = self.find_place(), run_id(self.env.now(), self.env.new_uuid())
        opening = Opening(self.id, self.kind, self._sha256, place.table, place.identity, self.mode, self.of)
        file = LedgerFile(place.storage, f"{place.folder}/{self.id}.jsonl", synced=self.mode != "delete")
        try:
            file.write(opening.line())
        except LakemetaError as error:
            raise StorageError(
                f"the ledger of this run cannot be written, so nothing was deleted: {error}; name a directory that can "
                "be written with --ledger"
            ) from error
        self._file, self.place = file, place

    def each(
        self,
        work: Callable[[Sequence[str]], Iterable[R]],
        base: str,
        files: Sequence[tuple[str, int | None]],
        executor: Executor,
        *,
        batch_size: int,
        directory: str | None = None,
    ) -> Iterator[R]:
        """What ``work`` says of each file (store path, bytes), which lies below ``base``; rule 2.

        What is no Outcome stands for a file that stays.
        """
        self.open()
        first = self._batches + 1
        results = executor.map_batches(work, self._announced(base, files, directory), batch_size=batch_size)
        number = first
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            found = list(islice(results, len(batch)))
            self._record(number, batch, found)
            number += 1
            yield from found
        yield from results  # there are none: ends the executor's work

    def _announced(self, base: str, files: Sequence[tuple[str, int | None]], directory: str | None) -> Iterator[str]:
        for start in range(0, len(files), _BATCH):
            batch = files[start : start + _BATCH]
            self._batches += 1
            names = [path[len(base) + 1 :] for path, _ in batch]
            intent = Batch(self._batches, base, names, [size for _, size in batch], directory)
            self._write([*self._pending, intent.line()])
            yield from (path for path, _ in batch)

    def _record(self, number: int, batch: Sequence[tuple[str, int | None]], found: Sequence[object]) -> None:
        outcomes = [fate if isinstance(fate, Outcome) else None for fate in found]
        gone = [n for n, outcome in enumerate(outcomes) if outcome is not None and outcome.status == "deleted"]
        versions = [outcome.version if outcome else None for outcome in outcomes]
        done = Done(
            number,
            len(gone),
            sum(batch[n][1] or 0 for n in gone),
            [n for n, outcome in enumerate(outcomes) if outcome is not None and outcome.status == "absent"],
            [n for n, outcome in enumerate(outcomes) if outcome is None],
            {n: outcome.error or "" for n, outcome in enumerate(outcomes) if outcome is not None and not outcome.done},
            versions if any(versions) else (),
        )
        self._deleted, self._absent = self._deleted + done.deleted, self._absent + len(done.absent)
        self._size += done.size
        self._failed += [outcome for outcome in outcomes if outcome is not None and not outcome.done]
        self._pending.append(done.line())
        if self._file is not None and isinstance(self._file.storage, AppendingStorage):
            self._write(self._pending)

    def _write(self, lines: Sequence[bytes]) -> None:
        assert self._file is not None, "a run is opened before it deletes"
        self._file.write(b"".join(lines))
        self._pending = []

    def end(self, report: Report) -> Report:
        """Write the last line, if there was a first one: the report, which names the ledger and what is in quarantine.

        What is deleted is deleted: a line that cannot be written any more becomes a note.
        """
        if self._file is None:
            return report
        named = attrs.evolve(report, ledger=self._file.storage.url(self._file.path))
        if self.mode == "quarantine":
            named = attrs.evolve(named, freed_bytes=0, quarantined_bytes=self._size)
        self._file.synced = True
        try:
            self._write([*self._pending, self._end(report).line()])
        except LakemetaError as error:
            return attrs.evolve(named, notes=(*named.notes, f"the end of the ledger could not be written: {error}"))
        return named

    def _end(self, report: Report) -> End:
        at = self.env.now().isoformat(timespec="milliseconds")
        return End(at, report.complete, report.committed, self._deleted, self._absent, len(self._failed), self._size)


@contextmanager
def running(run: Run) -> Iterator[None]:
    """What is deleted inside by a service's plan belongs to the run."""
    token = _CURRENT.set(run)
    try:
        yield
    finally:
        _CURRENT.reset(token)


def current_run() -> Run | None:
    """The run that is going on here; None if nothing is recorded."""
    return _CURRENT.get()


def open_ledger() -> None:
    """Open the ledger of the run that is going on, if there is one: before anything is changed (rule 1)."""
    run = current_run()
    if run is not None:
        run.open()

"""Runs units on an executor, commits what they wrote, and leaves no file that no snapshot names (I/O)."""

from __future__ import annotations

import logging
import secrets
from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CommitStateUnknownError, LakemetaError
from lakemeta.events import Progress
from lakemeta.executor import LocalExecutor, ships
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.commit.committer import remove_files
from lakemeta.iceberg.delete_rewrite.unit_writer import write_unit
from lakemeta.iceberg.delete_rewrite.units import WrittenDeletes
from lakemeta.iceberg.rewrite.strays import remove_strays

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.delete_rewrite.units import DeleteJob, DeleteUnit
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.unfinished import RunMarker
    from lakemeta.iceberg.service.requests import ApplyRequest

_log = logging.getLogger(__name__)
_THREADS = 5  # units at a time on this machine if nothing else is asked for

Batch = list[tuple["DeleteUnit", WrittenDeletes]]


@attrs.frozen(eq=False)
class Failed:
    """What went wrong with a unit; a value, because other units may go on."""

    error: LakemetaError


@attrs.define(eq=False)
class UnitRuns:
    """The units of one run. ``commit`` takes a batch of them that are written.

    ``committed`` are those that a snapshot has; ``notes`` say what failed, which only ``partial`` runs go on after.
    """

    request: ApplyRequest
    job: DeleteJob
    units: Sequence[DeleteUnit]
    marker: RunMarker
    commit: Callable[[Batch], None]
    batch_size: int
    partial: bool = False
    threads: int | None = None
    committed: Batch = attrs.field(factory=list)
    notes: list[str] = attrs.field(factory=list)
    _in_commit: bool = attrs.field(default=False, init=False)

    def run(self) -> None:
        """Write and commit all units.

        Raises what went wrong, with all new files removed that no snapshot names; with CommitStateUnknownError none is.
        """
        self.marker.begin()
        try:
            self._run()
        except CommitStateUnknownError:
            raise
        except (LakemetaError, KeyboardInterrupt):
            if not self._in_commit:  # else it is unknown whether a snapshot names the new files
                self._clean_up(everywhere=True)
            raise
        self._clean_up(everywhere=bool(self.notes))

    def _run(self) -> None:
        waiting: Batch = []
        with closing(self._results()) as results:
            for unit, result in results:
                if isinstance(result, Failed):
                    self._note(f"{unit} were not rewritten", result.error)
                    continue
                waiting.append((unit, result))
                if len(waiting) == self.batch_size:
                    self._commit(waiting)
                    waiting = []
        if waiting:
            self._commit(waiting)

    def _commit(self, batch: Batch) -> None:
        self._in_commit = True
        try:
            self.commit(batch)
        except CommitStateUnknownError:
            raise
        except LakemetaError as error:
            self._in_commit = False
            remove_files(self._door, [file.file_path for file in _files(batch)])
            self._note(f"a commit of {len(batch)} groups failed", error)
            return
        self._in_commit = False
        self.committed += batch

    def _note(self, what: str, error: LakemetaError) -> None:
        if not self.partial:
            raise error
        _log.warning("%s: %s", what, error)
        self.notes.append(f"{what}: {error}")

    def _results(self) -> Generator[tuple[DeleteUnit, WrittenDeletes | Failed], None, None]:
        executor = self._executor
        attempt = secrets.randbelow(1 << 31) if ships(executor) else 0
        results = executor.map_batches(partial(_write, self.job, attempt), self.units, batch_size=1)
        size, done = sum(unit.bytes for unit in self.units), 0
        try:
            for number, (unit, result) in enumerate(zip(self.units, results, strict=True), 1):
                done += unit.bytes
                if self.request.on_progress is not None:
                    self.request.on_progress(Progress(number, len(self.units), done, size))
                yield unit, result
        finally:
            if isinstance(results, Generator):  # waits for units under way, whose files are looked for then
                results.close()

    @property
    def _executor(self) -> Executor:
        given = self.request.executor
        return LocalExecutor(self.threads or _THREADS) if given is None or not ships(given) else given

    @property
    def _door(self) -> Door:
        return data_door(self.job.storage, self.job.metadata, self.job.uuid)

    def _clean_up(self, *, everywhere: bool) -> None:
        """Remove files of attempts that were lost or failed, and the marker if none stays."""
        strays: list[str] = []
        if everywhere or ships(self._executor):
            kept = [file.file_path for file in _files(self.committed)]
            strays = remove_strays(self.job.storage, self.job.metadata, self.job.uuid, kept, kept, everywhere=True)
        for stray in strays:
            _log.warning("%s", stray)
        self.notes += strays
        if not strays:
            self.marker.end()


def _write(job: DeleteJob, attempt: int, units: Sequence[DeleteUnit]) -> Iterator[WrittenDeletes | Failed]:
    for unit in units:
        try:
            yield write_unit(job, unit, attempt)
        except LakemetaError as error:
            yield Failed(error)


def _files(batch: Batch) -> list[DataFile]:
    return [file for _, written in batch for file in written.files]

"""Ends quarantines: deletes for good what runs of some age have moved out of the way (I/O).

Rules of this module:

1. The age of a run is that of its name, which its quarantine has too. So quarantines are found by listing, those of
   runs whose ledger is lost among them.
2. In a store that keeps versions, ledgers name what is hidden. A file that is there again keeps all its versions.
3. It is a run of its own, with a ledger, which names the runs that it ends.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.deletion import purge_door
from lakemeta.errors import LakemetaError, PathNotFoundError
from lakemeta.executor import LocalExecutor
from lakemeta.ledger.files import find_ledgers
from lakemeta.ledger.lines import RUN, run_time
from lakemeta.ledger.recording import recorded
from lakemeta.ledger.run import Run
from lakemeta.report import Report
from lakemeta.undo.waiting import opened, waiting

if TYPE_CHECKING:
    from collections.abc import Iterator
    from datetime import datetime

    from lakemeta.deletion import Quarantine
    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.ledger.files import Ledger
    from lakemeta.undo.home import Home

KIND = "lakemeta.purge"


@attrs.frozen
class Quarantined:
    """What waits of one run: its directories, and the ledger if files are hidden as versions."""

    run: str
    folders: tuple[tuple[Quarantine, str], ...]
    ledger: Ledger | None
    files: int
    size: int

    @property
    def at(self) -> datetime:
        """When the run began."""
        return run_time(self.run)

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        at = self.at.isoformat(timespec="milliseconds")
        return {"run": self.run, "at": at, "files": self.files, "bytes": self.size}


def quarantined(home: Home, before: datetime) -> list[Quarantined]:
    """What waits of runs that began before a moment, oldest first."""
    folders: dict[str, list[tuple[Quarantine, str]]] = {}
    for _, quarantine in home.quarantines():
        for run in _runs(home, quarantine.folder):
            folders.setdefault(run, []).append((quarantine, f"{quarantine.folder}/{run}"))
    hidden = dict(_hidden(home, before)) if home.versions is not None else {}
    return [
        _measured(home, run, tuple(folders.get(run, ())), hidden.get(run))
        for run in sorted({*folders, *hidden})
        if run_time(run) < before
    ]


def purge(home: Home, runs: list[Quarantined], env: Environment, executor: Executor | None = None) -> Report:
    """Delete for good what waits of some runs. Raises StorageError for what cannot be deleted; run again."""
    run = Run(lambda: home.ledgers, env, KIND, "purge", of=tuple(one.run for one in runs))
    return recorded(run, lambda: _purge(home, run, runs, executor or LocalExecutor()))


def _purge(home: Home, run: Run, runs: list[Quarantined], executor: Executor) -> Report:
    for one in runs:
        for quarantine, folder in one.folders:
            purge_door(home.storage, quarantine).dispose_directory(folder, executor)
        if one.ledger is not None:
            _forget(home, run, one.ledger, executor)
    deleted, absent, size, failed = run.totals
    return Report(
        KIND,
        home.ledgers.table,
        None,
        deleted,
        absent,
        size,
        failed=failed,
        result={"purged_runs": [one.run for one in runs]},
    )


def _forget(home: Home, run: Run, ledger: Ledger, executor: Executor) -> None:
    hidden = [one for one in waiting(home, ledger).values() if one.place is None]
    for base in sorted({one.door.base for one in hidden}):
        own = {one.origin: one for one in hidden if one.door.base == base}
        door = next(iter(own.values())).door
        files = [(path, one.recorded) for path, one in own.items()]
        markers = {path: one.marker for path, one in own.items()}
        for _ in run.each(lambda paths, m=markers, d=door: d.forget(paths, m), base, files, executor, batch_size=100):  # type: ignore[misc]
            pass


def _runs(home: Home, folder: str) -> Iterator[str]:
    try:
        entries = home.storage.list_dir(folder)
    except PathNotFoundError:
        return
    yield from (e.name for e in entries if e.is_dir and not e.is_link and re.fullmatch(RUN, e.name, re.ASCII))


def _hidden(home: Home, before: datetime) -> Iterator[tuple[str, Ledger]]:
    """The ledgers of runs that hid versions and that no purge has ended."""
    ended: set[str] = set()
    found: dict[str, Ledger] = {}
    for ledger in find_ledgers(home.ledgers.storage, home.ledgers.folder):
        try:
            opening = opened(home, ledger)
            if opening.mode == "purge" and ledger.end() is not None:
                ended.update(opening.of)
        except LakemetaError:
            continue
        if opening.mode == "quarantine" and opening.at < before:
            found[ledger.run] = ledger
    yield from ((run, ledger) for run, ledger in found.items() if run not in ended)


def _measured(home: Home, run: str, folders: tuple[tuple[Quarantine, str], ...], ledger: Ledger | None) -> Quarantined:
    sizes = [entry.size for _, folder in folders for entry in home.storage.walk(folder)]
    if ledger is not None:
        hidden = [one.recorded or 0 for one in waiting(home, ledger).values() if one.place is None]
        ledger = ledger if hidden else None
        sizes += hidden
    return Quarantined(run, folders, ledger, len(sizes), sum(sizes))

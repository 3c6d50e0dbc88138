"""Brings files back that a run has quarantined (I/O).

Rules of this module:

1. All of what is asked for is proven before the first file comes back (``waiting``, rule 3). A file that is not as long
   as the ledger says stays where it is.
2. No file is ever replaced: what has come to lie where a file was stays, and the file waits.
3. A file that is back is looked at once more. What was brought back before counts as done, so a run that was
   interrupted is completed by another.
4. It is a run of its own, with a ledger.
"""

from __future__ import annotations

from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError, OptionError, StorageError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.ledger.recording import recorded
from lakemeta.ledger.run import Run
from lakemeta.paths import base_of, inside
from lakemeta.report import Outcome, Report, count
from lakemeta.undo.waiting import opened, waiting
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.ledger.files import Ledger
    from lakemeta.undo.home import Home
    from lakemeta.undo.waiting import Waiting

KIND: Final = "lakemeta.restore"
_BATCH: Final = 1000  # files in one call of a worker


def restore(
    home: Home, ledger: Ledger, files: Collection[str], env: Environment, executor: Executor | None = None
) -> Report:
    """Bring all files of a run back, or those that are named by path, URL or path below the table.

    Raises OptionError if the run has no file of such a name, UnsupportedFeatureError for a run that deleted its files,
    CorruptMetadataError for a ledger that is damaged or another table's; nothing was moved then.
    """
    opening = opened(home, ledger)
    if opening.mode != "quarantine":
        raise UnsupportedFeatureError(
            f"the run {opening.run} quarantined nothing (its mode is {opening.mode}), so nothing of it can come back"
        )
    found = waiting(home, ledger)
    named = _named(home, found, files)
    chosen = [found[path] for path in (named if files else sorted(found)) if path in found]
    before = sum(path not in found for path in named)
    run = Run(lambda: home.ledgers, env, KIND, "restore", of=(opening.run,))
    advice = [home.advice[opening.plan]] if opening.plan in home.advice else []
    return recorded(run, lambda: _restore(home, run, chosen, executor or LocalExecutor(), before, advice))


def _named(home: Home, found: Mapping[str, Waiting], files: Iterable[str]) -> list[str]:
    """The store paths of files that a caller names; those that are back already are among them."""
    named = []
    for file in files:
        paths = list(_meant(home, file))
        there = next((p for p in paths if p in found), None) or next(filter(home.storage.exists, paths), None)
        if there is None:
            raise OptionError(f"the run has no file {file} in quarantine; lakemeta history TABLE names runs that have")
        named.append(there)
    return list(dict.fromkeys(named))


def _meant(home: Home, file: str) -> Iterator[str]:
    """The store paths that a caller's name of a file may mean."""
    for door in home.doors:
        for name in (file, f"{door.base}/{file}"):
            with suppress(CorruptMetadataError):  # it lies elsewhere
                yield inside(base_of(home.storage.scheme, door.base), name)


def _restore(
    home: Home, run: Run, chosen: Sequence[Waiting], executor: Executor, before: int, advice: Sequence[str]
) -> Report:
    """Bring files back; ``before`` is how many of those that were asked for are back already."""
    outcomes: list[Outcome] = []
    sizes = {one.origin: one.recorded if one.size is None else one.size for one in chosen}
    for base in sorted({one.door.base for one in chosen}):
        own = [one for one in chosen if one.door.base == base]
        work = partial(_bring_back, {one.origin: one for one in own})
        files = [(one.origin, sizes[one.origin]) for one in own]
        outcomes += run.each(work, base, files, executor, batch_size=_BATCH)
    for door, quarantine in home.quarantines():
        for of in run.of:
            door.forget_emptied(f"{quarantine.folder}/{of}")
    back, absent, failed = count(outcomes)
    result: dict[str, Any] = {
        "restored_files_count": back,
        "restored_bytes": sum(sizes[o.path] or 0 for o in outcomes if o.status == "deleted"),
    }
    notes = [f"{count_of(before, 'file')} had been brought back before"] if before else []
    if absent:
        notes.append(f"{count_of(absent, 'file')} of the run can be found no more: purged, or never there")
    if not outcomes and not before:
        notes.append("nothing of the run is in quarantine: it was brought back or purged before")
    notes += advice if back else []
    return Report(KIND, home.ledgers.table, None, failed=failed, result=result, notes=tuple(notes))


def _bring_back(files: Mapping[str, Waiting], origins: Sequence[str]) -> list[Outcome]:
    """Bring files back, and look at each."""
    wrong: dict[str, Outcome] = {}
    for path in origins:
        one = files[path]
        if one.size is not None and one.recorded is not None and one.size != one.recorded:
            wrong[path] = Outcome(path, "failed", f"it has {one.size} bytes in quarantine instead of {one.recorded}")
    right = [files[path] for path in origins if path not in wrong]
    done = {outcome.path: outcome for outcome in right[0].door.bring_back(right)} if right else {}
    return [wrong.get(path) or _looked_at(files[path], done[path]) for path in origins]


def _looked_at(one: Waiting, outcome: Outcome) -> Outcome:
    if outcome.status != "deleted":
        return outcome
    expected = one.recorded if one.recorded is not None else one.size
    try:
        size = one.door.storage.size(one.origin)
    except StorageError as error:
        return attrs.evolve(outcome, status="failed", error=str(error))
    if expected is not None and size != expected:
        return attrs.evolve(outcome, status="failed", error=f"it is back with {size} bytes instead of {expected}")
    return outcome

"""The files of a run that quarantined, and where each of them waits (I/O).

Rules of this module:

1. What lies in a quarantine is looked for there: the ledger is asked for sizes alone, so a line that was lost loses no
   file. Where a file belongs follows from where it waits.
2. In a store that keeps versions the ledger names the files, and the delete marker of each; where the outcome of a
   batch was not recorded, a file of it may have a marker.
3. A ledger is a stranger's: each file lies in a place of the table, has a shape that may go, and lies behind no link.
"""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING

import attrs

from lakemeta.deletion import Links
from lakemeta.errors import CorruptMetadataError, PathNotFoundError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.deletion import Door
    from lakemeta.ledger.files import Ledger
    from lakemeta.ledger.lines import Opening
    from lakemeta.undo.home import Home


@attrs.frozen
class Waiting:
    """A file that waits: where it was, its bytes as recorded (None: not known), and by which door it comes back.

    ``place`` is where it lies in quarantine, with its ``size`` there; both are None where it is hidden as a version,
    behind ``marker`` if that is known.
    """

    origin: str
    recorded: int | None
    door: Door
    place: str | None = None
    size: int | None = None
    marker: str | None = None


def opened(home: Home, ledger: Ledger) -> Opening:
    """The first line of a ledger of this table; raises CorruptMetadataError if it is another table's."""
    opening = ledger.opening()
    folder = ledger.path.rpartition("/")[0]
    elsewhere = folder != home.ledgers.folder and ".lakemeta" in folder and folder.endswith("ledgers")
    if opening.identity != home.ledgers.identity or elsewhere:
        raise CorruptMetadataError(
            f"{ledger.path} is not the ledger of a run on {home.ledgers.table}; nothing was done by it"
        )
    return opening


def waiting(home: Home, ledger: Ledger) -> dict[str, Waiting]:
    """The files of a run that can come back, by where they were. Raises CorruptMetadataError for those of rule 3."""
    recorded: dict[str, int | None] = {}
    hidden: dict[str, str | None] = {}
    for batch, done in ledger.batches():
        not_moved = set() if done is None else {*done.absent, *done.stayed, *done.failed}
        for number, (path, size) in enumerate(zip(batch.paths, batch.sizes, strict=True)):
            recorded[path] = size
            if number not in not_moved and (done is None or done.versions):
                hidden[path] = done.versions[number] if done is not None else None
    found = {one.origin: one for one in _in_quarantine(home, ledger.run, recorded)}
    if home.versions is not None:
        for path, marker in hidden.items():
            if path not in found:
                found[path] = Waiting(path, recorded[path], home.door_for(path), marker=marker)
    by_door: dict[str, list[Waiting]] = defaultdict(list)
    for one in found.values():
        by_door[one.door.base].append(one)
    for group in by_door.values():
        group[0].door.check_files(one.origin for one in group)
    return found


def _in_quarantine(home: Home, run: str, recorded: Mapping[str, int | None]) -> Iterator[Waiting]:
    for door, quarantine in home.quarantines():
        folder = f"{quarantine.folder}/{run}"
        if Links(home.storage, quarantine.root).hide(folder[len(quarantine.root) + 1 :]):
            raise UnsupportedFeatureError(f"{folder} is or lies behind a symbolic link, so nothing in it comes back")
        try:
            for entry in home.storage.walk(folder):
                origin = quarantine.origin(run, entry.path)
                yield Waiting(origin, recorded.get(origin), door, entry.path, entry.size)
        except PathNotFoundError:
            continue

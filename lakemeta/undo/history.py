"""What runs have deleted of a table, by its ledgers (I/O).

Rules of this module:

1. Of a run that has ended the first and the last line are read, of one that has not all of them.
2. A ledger that is damaged or of another table is passed over with a sentence: history refuses nothing.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.errors import LakemetaError
from lakemeta.ledger.files import find_ledgers

if TYPE_CHECKING:
    from lakemeta.ledger.files import Ledger
    from lakemeta.ledger.lines import End, Opening
    from lakemeta.undo.home import Home


@attrs.frozen
class PastRun:
    """One run: what it was, and how it ended (None: it was interrupted, or is still going on).

    Counts of a run that has not ended are those of the batches whose outcome is recorded; ``in_doubt`` are the files of
    the others. ``waiting`` says that files of it are in quarantine.
    """

    opening: Opening
    end: End | None
    ledger: str
    deleted: int
    size: int
    in_doubt: int
    waiting: bool

    @property
    def freed_bytes(self) -> int:
        """The bytes that the run gave back to the store: those of deleted or purged files."""
        return self.size if self.opening.mode in ("delete", "purge") else 0

    @property
    def state(self) -> str:
        """How the run ended, in a word or two."""
        if self.end is None:
            return "interrupted"
        return "done" if self.end.complete else "partly done"

    def to_json(self) -> dict[str, Any]:
        """The run as one JSON object."""
        opening = self.opening
        return {
            "run": opening.run,
            "at": opening.at.isoformat(timespec="milliseconds"),
            "plan": opening.plan,
            "plan_sha256": opening.plan_sha256,
            "mode": opening.mode,
            "of": list(opening.of),
            "state": self.state,
            "committed": self.end.committed if self.end else None,
            "files": self.deleted,
            "bytes": self.size,
            "freed_bytes": self.freed_bytes,
            "files_in_doubt": self.in_doubt,
            "in_quarantine": self.waiting,
            "ledger": self.ledger,
        }


@attrs.frozen
class History:
    """The runs of a table, oldest first, and sentences about ledgers that could not be read."""

    runs: tuple[PastRun, ...]
    notes: tuple[str, ...] = ()


def history(home: Home) -> History:
    """What runs have deleted of a table, as far as ledgers in its place say."""
    runs: list[PastRun] = []
    notes: list[str] = []
    for ledger in find_ledgers(home.ledgers.storage, home.ledgers.folder):
        try:
            opening = ledger.opening()
            if opening.identity == home.ledgers.identity:
                runs.append(_past_run(home, ledger, opening))
        except LakemetaError as error:
            notes.append(str(error))
    return History(tuple(runs), tuple(notes))


def _past_run(home: Home, ledger: Ledger, opening: Opening) -> PastRun:
    end = ledger.end()
    url = ledger.storage.url(ledger.path)
    waiting = opening.mode == "quarantine" and home.holds(opening.run)
    if end is not None:
        return PastRun(opening, end, url, end.deleted, end.size, 0, waiting)
    deleted = size = in_doubt = 0
    for batch, done in ledger.batches():
        if done is None:
            in_doubt += len(batch.files)
        else:
            deleted, size = deleted + done.deleted, size + done.size
    return PastRun(opening, None, url, deleted, size, in_doubt, waiting)

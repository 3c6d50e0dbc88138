"""Where a Hudi table's ledgers and quarantine are (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.hudi.files.doors import data_door
from lakemeta.hudi.files.layout import LEDGERS
from lakemeta.ledger.files import LedgerPlace
from lakemeta.undo.home import Home

if TYPE_CHECKING:
    from lakemeta.hudi.files.place import Place

_ADVICE: Final = {
    "hudi.clean": "the files are back, and a metadata table does not list them; docs/undo.md says what reads them",
    "hudi.rollback": "the files are back, but their write stays rolled back: copy what you need and delete them before "
    "the timeline is archived past it, for Hudi would take them for committed then",
}


def ledgers_of(place: Place) -> LedgerPlace:
    """Where the ledgers of a table are. It is known in them by the URL of its directory."""
    return LedgerPlace(place.storage, f"{place.root}/{LEDGERS}", place.url, place.storage.url(place.root))


def home_of(place: Place, ledger: str | None = None) -> Home:
    """What undoing needs to know of a table; ``ledger`` is the directory of its ledgers if that is another one."""
    return Home(place.storage, ledgers_of(place).moved(ledger), (data_door(place.storage, place.root),), _ADVICE)

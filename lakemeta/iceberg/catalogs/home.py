"""Where an Iceberg table's ledgers and quarantines are (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.catalogs.doors import LEDGERS, metadata_folder, orphan_door, own_bases
from lakemeta.ledger.files import LedgerPlace
from lakemeta.undo.home import Home

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.place import Place

_ADVICE: Final = {
    "iceberg.expire-snapshots": "the files are back, the snapshots are not: a metadata file that names them can be "
    "registered as another table, before remove-orphan-files takes them; docs/undo.md says how",
}


def ledgers_of(place: Place) -> LedgerPlace:
    """Where the ledgers of a table are. It is known in them by its uuid."""
    operations = place.operations
    uuid = operations.current().metadata.table_uuid or operations.current().metadata.location
    return LedgerPlace(operations.storage, f"{metadata_folder(operations)}/{LEDGERS}", place.url, uuid)


def home_of(place: Place, ledger: str | None = None) -> Home:
    """What undoing needs to know of a table; ``ledger`` is the directory of its ledgers if that is another one.

    Raises UnsupportedFeatureError for a table that is only read.
    """
    storage, metadata = place.operations.storage, place.operations.current().metadata
    bases = own_bases(storage, metadata)
    outer = sorted(b for b in bases if not any(b.startswith(f"{other}/") for other in bases))
    doors = tuple(orphan_door(storage, metadata, base) for base in outer)
    return Home(storage, ledgers_of(place).moved(ledger), doors, _ADVICE)

"""What undoing needs to know of a table of either format (I/O: it holds what reaches the table)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.storage.contract import VersionedStorage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.deletion import Door, Quarantine
    from lakemeta.ledger.files import LedgerPlace
    from lakemeta.storage import Storage


@attrs.frozen(eq=False)
class Home:
    """A table: where its ledgers are, and a door with a quarantine for each place that it has files in.

    No base of a door lies in that of another. ``advice`` are sentences by kind of plan: what the table knows of files
    of such a plan that have been brought back.
    """

    storage: Storage
    ledgers: LedgerPlace
    doors: tuple[Door, ...]
    advice: Mapping[str, str] = attrs.field(factory=dict)

    def quarantines(self) -> Iterator[tuple[Door, Quarantine]]:
        """Each door with its quarantine."""
        return ((door, door.quarantine) for door in self.doors if door.quarantine is not None)

    def holds(self, run: str) -> bool:
        """True if files of a run are in quarantine; versions of a store that keeps them are not looked for."""
        return any(self.storage.exists(f"{quarantine.folder}/{run}") for _, quarantine in self.quarantines())

    def door_for(self, path: str) -> Door:
        """The door of the place in which a path lies; raises CorruptMetadataError if it lies in none."""
        found = next((door for door in self.doors if path.startswith(f"{door.base}/")), None)
        if found is None:
            raise CorruptMetadataError(f"{path!r} lies in no place of the table {self.ledgers.table}; nothing was done")
        return found

    @property
    def versions(self) -> VersionedStorage | None:
        """The store, if it keeps versions of the table's files."""
        storage = self.storage
        if isinstance(storage, VersionedStorage) and any(storage.keeps_versions(door.base) for door in self.doors):
            return storage
        return None

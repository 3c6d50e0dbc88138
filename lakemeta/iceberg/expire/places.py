"""Where files really lie, where links lead there: two names of one file are one file (I/O).

A table may be reached by ``/lake/t`` and by ``/disk/t``, and its snapshots name files by either. Only disks have links.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.storage.contract import Storage


@attrs.define(eq=False)
class RealPlaces:
    """Tells of locations where their files really lie; directories are looked up once."""

    storage: Storage
    _folders: dict[str, str | None] = attrs.field(factory=dict)

    def beside(self, locations: Iterable[str]) -> Iterator[str]:
        """The locations, and after each one that is reached through links the path where that file really lies."""
        for location in locations:
            yield location
            folder, _, name = location.rpartition("/")
            if folder not in self._folders:
                self._folders[folder] = self._real(folder)
            if (place := self._folders[folder]) is not None:
                yield f"{place}/{name}"

    def _real(self, folder: str) -> str | None:
        """The path of a directory with all links followed; None where there are none, or the place is no one's."""
        if self.storage.scheme != "file" or "\0" in folder:
            return None
        try:
            path = store_path(self.storage.scheme, folder)
        except (CorruptMetadataError, UnsupportedFeatureError):
            return None
        real = self.storage.resolve(path)
        return None if real == path else real

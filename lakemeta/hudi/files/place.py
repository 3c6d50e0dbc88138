"""Where a table lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from lakemeta.storage import Storage


@attrs.frozen
class Place:
    """Where a table lies: as the caller names it (``url``), its storage and its path there (``root``)."""

    url: str
    storage: Storage
    root: str

    def engine_url(self, path: str) -> str:
        """A store path as Hudi names it: ``file:/...`` on a local disk, under the URL as given elsewhere."""
        return f"file:{path}" if self.storage.scheme == "file" else self.url + path[len(self.root) :]

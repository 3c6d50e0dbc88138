"""Where a table lies."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.paths import base_of, is_hdfs

if TYPE_CHECKING:
    from lakemeta.storage import Storage


@attrs.frozen
class Place:
    """Where a table lies: as the caller names it (``url``), its storage and its path there (``root``)."""

    url: str
    storage: Storage
    root: str

    @property
    def base(self) -> str:
        """What paths from metadata are compared with."""
        return base_of(self.storage.scheme, self.root)

    def engine_url(self, path: str) -> str:
        """A store path as Hudi names it: ``file:/...`` on a local disk, under the URL as given elsewhere.

        On HDFS it is under the cluster's own name, by which an engine finds the table that was opened over HTTP.
        """
        if is_hdfs(self.storage.scheme):
            return self.storage.url(path)
        return f"file:{path}" if self.storage.scheme == "file" else self.url + path[len(self.root) :]

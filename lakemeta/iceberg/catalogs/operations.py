"""What a table's metadata is loaded from and committed to.

A catalog is anything that can say which metadata file is current and can swap it for another one
atomically. :mod:`lakemeta.iceberg.catalogs.hadoop` does it with the file system alone; a table whose catalog is not
at hand can be read from its metadata files, and then refuses to commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage


@attrs.frozen(slots=True, eq=False)
class LoadedTable:
    """One version of a table: its metadata, and the file it was read from as the metadata log names it."""

    metadata: TableMetadata
    location: str
    version: int


class TableOperations(Protocol):
    """Loads and swaps the metadata of one table (Iceberg's TableOperations)."""

    storage: Storage

    def current(self) -> LoadedTable:
        """The version that was loaded last; loads it the first time. Raises TableNotFoundError."""
        ...

    def refresh(self) -> LoadedTable:
        """Look for newer versions and load the newest."""
        ...

    def metadata_location(self, name: str) -> str:
        """Where a new manifest or manifest list called ``name`` is written, as metadata names it."""
        ...

    def check_writable(self) -> None:
        """Raise UnsupportedFeatureError if commits to this table must go through something else."""
        ...

    def commit(self, base: LoadedTable, new: TableMetadata) -> None:
        """Make ``new`` the current version if ``base`` still is.

        Raises CommitConflictError if another version came first (nothing was changed),
        CommitStateUnknownError if the storage failed in a way that leaves both possible.
        """
        ...

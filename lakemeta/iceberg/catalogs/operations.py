"""What a table's metadata is loaded from and committed to.

A catalog is anything that can say which metadata file is current and can swap it for another one
atomically. :mod:`lakemeta.iceberg.catalogs.hadoop` does it with the file system alone; a table whose catalog is not
at hand can be read from its metadata files, and then refuses to commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from lakemeta.errors import CorruptMetadataError

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage


@attrs.frozen(slots=True, eq=False)
class LoadedTable:
    """One version of a table: its metadata, and the file it was read from as the metadata log names it."""

    metadata: TableMetadata
    location: str
    version: int


def check_same_table(known: LoadedTable | None, fresh: TableMetadata) -> None:
    """Raise CorruptMetadataError if another table took the place of the one that was loaded before."""
    uuid = known.metadata.table_uuid if known else None
    if uuid and fresh.table_uuid and uuid != fresh.table_uuid:
        raise CorruptMetadataError(
            f"the table at {fresh.location} was replaced by another one while it was open: its uuid was {uuid} and is "
            f"{fresh.table_uuid}"
        )


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

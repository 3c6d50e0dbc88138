"""Whether a commit that removed snapshots left every branch and tag, asked of the table before files go (I/O).

A catalog removes a ref whose snapshot a commit removes, and says nothing. All known refs are asserted in the commit, so
what remains is one that another writer made meanwhile, and a catalog that does not mind what is asserted.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.catalogs.hadoop import read_metadata
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.operations import LoadedTable, TableOperations
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


def check_refs_intact(operations: TableOperations, committed: TableMetadata) -> LoadedTable:
    """The newest version of a table that ``committed`` was committed to, read now.

    It has every ref of ``committed`` and of each version that came between that and its base; they may have moved on.
    The metadata log says which versions came between; a catalog that keeps no log is believed. Raises
    CorruptMetadataError if a ref is gone or what came between cannot be seen: then no file may be deleted.
    """
    fresh = operations.refresh()
    base, storage = committed.metadata_log[-1].metadata_file, operations.storage
    seen = dict.fromkeys(committed.refs, base)
    for location in _after(base, committed, fresh.metadata):
        version = read_metadata(storage, store_path(storage.scheme, location))
        seen |= dict.fromkeys(version.refs, location)
    for name in sorted(seen.keys() - fresh.metadata.refs.keys()):
        raise CorruptMetadataError(
            f"the table at {committed.location} lost its ref {name} while snapshots were removed, so no file was "
            f"deleted; {seen[name]} is the last version that has it"
        )
    return fresh


def _after(base: str, committed: TableMetadata, fresh: TableMetadata) -> list[str]:
    """The metadata files of the versions between the base of a commit and the newest version."""
    log = [entry.metadata_file for entry in fresh.metadata_log]
    if not log:
        return []
    if base not in log:
        raise CorruptMetadataError(
            f"the metadata log of the table at {committed.location} does not name {base}, so it cannot be seen that no "
            f"ref was lost while snapshots were removed; no file was deleted"
        )
    return log[log.index(base) + 1 :]

"""Remembers an expire while it deletes, so that the next one ends what an interrupted one has left (I/O).

Rules of this module:

1. Before it commits, an expire writes ``.lakemeta-expire-<uuid>.json`` into the metadata directory: the version of the
   table it is based on, and the snapshots that go. It is deleted when the last file is gone, or nothing was committed.
2. The next expire with the same cleanup level takes up the snapshots of such a ledger that the table does not have any
   more: that version says which lists, manifests and files they named. What of these is missing was deleted before, as
   files go before the manifests that name them, and these before their lists.
3. A ledger is no lock. Two expires that delete the same files do no harm: both have proved that nothing names them.
4. A ledger whose version cannot be read any more is of no use; it is named, and what it was about are orphan files.
"""

from __future__ import annotations

import json
import logging
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from lakemeta.errors import CorruptMetadataError, LakemetaError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.iceberg.catalogs.doors import EXPIRE_PREFIX, MARKER_SUFFIX, metadata_door, metadata_folder
from lakemeta.iceberg.catalogs.hadoop import read_metadata
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.json_text import parse_json
from lakemeta.paths import inside

if TYPE_CHECKING:
    from collections.abc import Collection

    from lakemeta.iceberg.catalogs.operations import LoadedTable, TableOperations
    from lakemeta.iceberg.expire.options import Level
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

_log = logging.getLogger(__name__)
_LEVELS: Final = ("all", "metadata")


@attrs.frozen(eq=False)
class Former:
    """What an expire that did not end was about: snapshots that are gone, as an earlier version had them.

    ``path`` is the store path of its ledger.
    """

    path: str
    version: TableMetadata
    snapshots: frozenset[int]
    level: Level


def begin(operations: TableOperations, base: LoadedTable, uuid: str, snapshots: Collection[int], level: Level) -> str:
    """Write the ledger of an expire; returns its store path. Raises StorageError if it cannot be written."""
    location = operations.metadata_location(f"{EXPIRE_PREFIX}{uuid}{MARKER_SUFFIX}")
    path = store_path(operations.storage.scheme, location)
    content = {"expire": uuid, "base": base.location, "level": level, "snapshots": sorted(snapshots)}
    operations.storage.create(path, json.dumps(content).encode())
    return path


def end(operations: TableOperations, paths: Collection[str]) -> None:
    """Delete ledgers. One that stays is found by the next expire, which finds nothing left and deletes it."""
    try:
        metadata_door(operations.storage, metadata_folder(operations)).delete_files(list(paths))
    except LakemetaError as error:
        _log.warning("a ledger of an expire that has ended could not be deleted: %s", error)


def unfinished(operations: TableOperations, current: TableMetadata) -> tuple[list[Former], list[str]]:
    """What expires that did not end were about, and sentences about ledgers that are of no use (rule 4)."""
    try:
        folder = metadata_folder(operations)
        names = [entry.name for entry in operations.storage.list_dir(folder) if not entry.is_dir]
    except (PathNotFoundError, UnsupportedFeatureError):  # nothing can be written there, so no expire was run
        return [], []
    found: list[Former] = []
    notes: list[str] = []
    for name in sorted(n for n in names if n.startswith(EXPIRE_PREFIX) and n.endswith(MARKER_SUFFIX)):
        try:
            former = _former(operations.storage, folder, name, current)
        except LakemetaError as error:
            notes.append(f"{folder}/{name} does not say what an expire has left: {error}; remove-orphan-files finds it")
            continue
        found += [former] if former else []
    return found, notes


def _former(storage: Storage, folder: str, name: str, current: TableMetadata) -> Former | None:
    path = f"{folder}/{name}"
    try:
        ledger = parse_json(storage.read(path))
        UUID(ledger["expire"])
        base, level, ids = ledger["base"], ledger["level"], ledger["snapshots"]
        if not (type(base) is str and level in _LEVELS and all(type(i) is int for i in ids)):
            raise ValueError(level)
    except PathNotFoundError:
        return None  # it ended while we looked
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise CorruptMetadataError(f"it is no ledger ({error})") from None
    version = read_metadata(storage, inside(folder, base))
    if version.table_uuid != current.table_uuid:
        raise CorruptMetadataError("it is about another table")
    gone = frozenset(ids) & version.snapshots_by_id.keys() - current.snapshots_by_id.keys()
    return Former(path, version, gone, level)

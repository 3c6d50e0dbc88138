"""Removes what lost attempts of a rewrite left behind: files of this run that no snapshot will ever name (I/O).

An attempt that fails deletes its own files. One that dies with its worker, is overtaken by another, or whose answer
gets lost cannot. Every file of a run carries the run's uuid in its name, so that its strays are known.

Rules of this module:

1. Only files whose names are those of this run are deleted, and none whose name is that of a committed file. Names
   and not paths are compared: a path may be spelled in several ways, and attempts never share a name.
2. This is not called while groups are written or where the state of a commit is unknown.
3. Attempts at one group write the same rows to the same directories, so those of the group's new files are listed. The
   whole data location is walked where they do not say: for a group without result, and for the object storage
   layout, whose directories are hashes of the names.
4. The rewrite is over, well or not: strays that stay are reported and raise nothing.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from lakemeta.errors import LakemetaError, PathNotFoundError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.write.settings import data_root, hashes_names, is_name_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Sequence

    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Entry, Storage

_LOOKS: Final = 2  # while strays are found: an attempt that was not yet dead may write behind the first listing's back


def remove_strays(
    storage: Storage,
    metadata: TableMetadata,
    uuid: str,
    written: Collection[str],
    committed: Collection[str],
    *,
    everywhere: bool,
) -> list[str]:
    """Delete the strays of the run ``uuid``; returns sentences about those that stay.

    ``written`` are the locations of all files that groups have reported, of which ``committed`` are kept.
    ``everywhere`` says that there are groups that reported nothing.
    """
    kept = {_name(location) for location in committed}
    failed: list[str] = []
    try:
        root = store_path(storage.scheme, data_root(metadata.location, metadata.properties))
        door = data_door(storage, metadata, uuid)
        walked = everywhere or hashes_names(metadata.properties)
        folders = {store_path(storage.scheme, location).rpartition("/")[0] for location in written}
        for _ in range(_LOOKS):
            found = _find(storage, [root] if walked else sorted(folders), uuid, kept, walked)
            failed = [f"{o.path}: {o.error}" for o in door.delete_files(found) if not o.done]
            if not found:
                break
    except LakemetaError as error:
        return [f"files that lost attempts may have left could not be looked for: {error}"]
    return [f"a file of a lost attempt could not be removed; no snapshot has it: {text}" for text in failed]


def _find(storage: Storage, folders: Sequence[str], uuid: str, kept: Collection[str], walked: bool) -> list[str]:
    look = partial(_look, storage, uuid, kept, walked)
    return list(LocalExecutor().map_batches(look, folders, batch_size=1))


def _look(storage: Storage, uuid: str, kept: Collection[str], walked: bool, folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        for entry in _files(storage, folder, walked):
            if is_name_of(uuid, entry.name) and entry.name not in kept:
                yield entry.path


def _files(storage: Storage, folder: str, walked: bool) -> Iterator[Entry]:
    try:
        found = storage.walk(folder) if walked else iter(storage.list_dir(folder))
        yield from (entry for entry in found if not entry.is_dir)
    except PathNotFoundError:  # nothing was ever written there
        return


def _name(location: str) -> str:
    return location.rpartition("/")[2]

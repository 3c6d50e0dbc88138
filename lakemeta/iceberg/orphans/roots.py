"""Which directories are looked at for orphan files (I/O).

Rules of this module:

1. Without an argument it is the table's location, and every write path that the table declares outside of it.
2. A write path that another table beside this one declares too, in part or in whole, is left out with a note; so is one
   where that cannot be found out. Named as ``location`` it is looked at.
3. A ``location`` that is given lies in one of these places and behind no link there, compared by folder: ``/t2`` does
   not lie in ``/t``. (To the engine it may lie anywhere, and everything there that the table does not name is an
   orphan.)
"""

from __future__ import annotations

import posixpath
from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.deletion import Links
from lakemeta.errors import LakemetaError, OptionError, PathNotFoundError, StorageError
from lakemeta.iceberg.catalogs.doors import OWN_LOCATIONS, QUARANTINE
from lakemeta.iceberg.catalogs.hadoop import read_metadata
from lakemeta.iceberg.orphans.uris import Prefix, split_location
from lakemeta.iceberg.service.neighbours import METADATA
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.paths import is_rooted

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage


@attrs.frozen
class Root:
    """A directory that is looked at: as it is spelled, its store path, and whether it has to be there."""

    location: str
    path: str
    must_exist: bool = True

    def prefix(self, scheme: str) -> Prefix:
        """The prefix of files in it, in a store of ``scheme``."""
        prefix = split_location(self.location)[0]
        if prefix.scheme:
            return prefix
        name, _, clusters = scheme.partition("://")  # of HDFS alone, which may have several
        return Prefix(name, prefix.authority or clusters.partition(",")[0] or None)

    def holds(self, path: str) -> bool:
        """True for the store path of a file or directory strictly below it."""
        return path.startswith(f"{self.path}/")


def root_at(storage: Storage, location: str, *, must_exist: bool = True) -> Root:
    """The directory at a location; raises as :func:`store_path`."""
    path = store_path(storage.scheme, location)
    path = posixpath.normpath(path) if is_rooted(storage.scheme) else path.rstrip("/")
    return Root(location.rstrip("/") or location, path, must_exist)


def declared_roots(storage: Storage, metadata: TableMetadata) -> tuple[Root, list[Root]]:
    """The table's location, and the write paths that lie outside of it, outermost ones only."""
    table = root_at(storage, metadata.location)
    outside: list[Root] = []
    for root in (root_at(storage, p, must_exist=False) for p in _declared(metadata.properties)):
        if not any(other.path == root.path or other.holds(root.path) for other in (table, *outside)):
            outside = [*(other for other in outside if not root.holds(other.path)), root]
    return table, outside


def chosen_root(storage: Storage, metadata: TableMetadata, location: str) -> Root:
    """The directory that an argument names; raises OptionError unless it is or lies in one of the table's."""
    table, outside = declared_roots(storage, metadata)
    root = root_at(storage, location)
    around = next((own for own in (table, *outside) if own.path == root.path or own.holds(root.path)), None)
    if around is None:
        raise OptionError(
            f"the location {location} lies neither in the table's location {metadata.location} nor in one of its write "
            f"paths, so that files there may be others'; name a location inside of the table"
        )
    if Links(storage, around.path).hide(root.path[len(around.path) + 1 :]):
        raise OptionError(
            f"the location {location} lies behind a symbolic link, and files there may be others'; name the directory "
            "itself"
        )
    if QUARANTINE in root.path.split("/"):
        raise OptionError(f"the location {location} lies in a quarantine folder, of which no file is an orphan")
    return root


def alone(storage: Storage, metadata: TableMetadata, root: Root, executor: Executor) -> str | None:
    """Why files in a write path outside the table may be others', by rule 2; None if nothing speaks for that."""
    table, real = root_at(storage, metadata.location), storage.resolve(root.path)
    beside = table.path.rpartition("/")[0]
    try:
        siblings = [e.path for e in storage.list_dir(beside) if e.is_dir and not e.is_link and e.path != table.path]
        for path, others in executor.map_batches(partial(_paths_of, storage), siblings, batch_size=4):
            for other in others:
                if other == real or other.startswith(f"{real}/") or real.startswith(f"{other}/"):
                    return f"the table at {storage.url(path)} writes there too"
    except LakemetaError as error:
        return f"whether other tables write there cannot be found out: {error}"
    return None


def _paths_of(storage: Storage, folders: Sequence[str]) -> Iterator[tuple[str, list[str]]]:
    """The directories that a table in each of some folders says that it has; none of a folder that is no table's."""
    for folder in folders:
        try:
            entries = [e for e in storage.list_dir(f"{folder}/metadata") if METADATA.fullmatch(e.name)]
        except PathNotFoundError:
            continue
        except StorageError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                continue
            raise
        if entries:
            newest = max(entries, key=lambda entry: (entry.modified_ms, entry.path))
            metadata = read_metadata(storage, newest.path)
            locations = [metadata.location, *_declared(metadata.properties)]
            yield folder, [storage.resolve(root_at(storage, location).path) for location in locations]


def _declared(properties: Mapping[str, str]) -> list[str]:
    return [properties[name] for name in OWN_LOCATIONS if properties.get(name)]

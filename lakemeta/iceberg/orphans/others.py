"""Whether other tables of the table's catalog lie where orphans are looked for (I/O: asks the catalog).

A table that keeps its metadata elsewhere leaves no trace among listed files but files that nothing names.

Rules of this module:

1. A table whose location is a directory that is looked at, or lies in one, refuses by name; so does one that writes
   into such a directory, above it or below it. A table around this one does no harm as long as it writes elsewhere.
2. A table of which the catalog cannot say where it lies refuses too, and so does a catalog that cannot list.
   The caller may name tables that have nothing to do with this one, by patterns, and is believed; ``*`` asks nothing.
3. The same table by another name, with the same current metadata file, is no other one.
4. Locations are compared as store paths, on disks with links followed.
"""

from __future__ import annotations

import posixpath
from typing import TYPE_CHECKING

from lakemeta.errors import CatalogError, CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations
from lakemeta.iceberg.orphans.options import UNRELATED
from lakemeta.iceberg.service.arguments import FOREIGN
from lakemeta.iceberg.service.neighbours import SHOWN
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.paths import is_rooted
from lakemeta.words import some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.catalogs.operations import LoadedTable, TableOperations
    from lakemeta.iceberg.catalogs.other_tables import OtherTable
    from lakemeta.iceberg.orphans.options import OrphanOptions
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.storage.contract import Storage

_ALL = "*"


def refuse_others(
    operations: TableOperations, loaded: LoadedTable, roots: Sequence[Root], options: OrphanOptions
) -> None:
    """Raise UnsupportedFeatureError if another table of the catalog lies there, CatalogError if that is not known.

    A table that no catalog keeps has no others.
    """
    if not isinstance(operations, CatalogTableOperations) or _ALL in options.unrelated:
        return
    storage = operations.storage
    places = [storage.resolve(root.path) for root in roots]
    found, unknown = list[str](), list[str]()
    try:
        for other in operations.others(options.unrelated):
            if other.unknown is not None:
                unknown.append(f"{other.name} ({other.unknown})")
            elif (why := _why(storage, other, loaded, places)) and (other.uuid or "") not in options.foreign_uuids:
                found.append(f"{other.name}, {why}")
    except CatalogError as error:
        raise CatalogError(f"{error}; {_ADVICE}") from error
    if found:
        raise UnsupportedFeatureError(
            f"another table of the catalog lies where orphan files of {operations.name} are looked for, and its files "
            f"would be taken for them; nothing was done, move it, or say of one that was dropped {FOREIGN}=UUID: "
            f"{some(found, SHOWN, '; ')}"
        )
    if unknown:
        raise CatalogError(
            f"the catalog cannot say of tables whether they lie where orphan files of {operations.name} are looked "
            f"for: {some(unknown, SHOWN, '; ')}; {_ADVICE}"
        )


_ADVICE = f"nothing was done, try again, or name tables that lie elsewhere: {UNRELATED}=db.a,old.* ({_ALL} is all)"


def _why(storage: Storage, other: OtherTable, loaded: LoadedTable, places: Sequence[str]) -> str | None:
    """Why a table speaks against removing orphans in some directories, in a few words; None if it does not."""
    if other.metadata_location == loaded.location:
        return None
    location = _path(storage, other.location)
    uuid = f"uuid {other.uuid}"
    if location is not None and any(_holds(place, location) for place in places):
        return f"at {other.location}, {uuid}"
    for written in other.writes:
        path = _path(storage, written)
        if path is not None and any(_holds(place, path) or _holds(path, place) for place in places):
            return f"which writes to {written}, {uuid}"
    return None


def _path(storage: Storage, location: str) -> str | None:
    """Where a location really lies in the store; None if it lies in another store, or nowhere."""
    try:
        path = store_path(storage.scheme, location)
    except (CorruptMetadataError, UnsupportedFeatureError):
        return None
    return storage.resolve(posixpath.normpath(path)) if is_rooted(storage.scheme) else path.rstrip("/")


def _holds(place: str, path: str) -> bool:
    """True for the directory itself and what lies in it."""
    return path == place or path.startswith(f"{place}/")

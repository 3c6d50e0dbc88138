"""What may be deleted of an Iceberg table, as doors for :mod:`lakemeta.deletion` (I/O).

Rules of this module:

1. Data and delete files: those below the data location (``write.data.path``, which may lie outside the table) whose
   names are those of one rewrite of ours. A file of another writer has no name that a door lets through.
2. Metadata: manifests, manifest lists, metadata files, statistics, markers of rewrites and ledgers of expires in the
   directory where new ones are written. Callers name only files that they wrote themselves, or that left the log.
3. Orphan files: any file below a directory that is looked at for them, but for names of ours and the version hint.
   Callers prove of each path that the table's newest metadata does not name it.
4. Files that no snapshot names any more: anything below a location that the table declares as its own, whoever wrote
   it, but no version of the table, no version hint, and no marker of lakemeta. Callers prove that nothing needs them.
5. No directory ever goes, but a quarantine when it is purged.
6. Quarantined files wait in ``.lakemeta-quarantine`` in the outermost location of the table that they lie in.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.deletion import Door, Quarantine
from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.write.settings import data_root, name_pattern
from lakemeta.paths import is_rooted

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

MARKER_PREFIX: Final = ".lakemeta-rewrite-"
EXPIRE_PREFIX: Final = ".lakemeta-expire-"
LEDGERS: Final = ".lakemeta-ledgers"
QUARANTINE: Final = ".lakemeta-quarantine"
MARKER_SUFFIX: Final = ".json"
_STATISTICS: Final = r"partition-stats-[^/]+\.parquet|[^/]+\.stats"
_MARKERS: Final = rf"(?:{re.escape(MARKER_PREFIX)}|{re.escape(EXPIRE_PREFIX)})[^/]+\.json"
_METADATA: Final = rf"[^/]+\.avro|[^/]+\.metadata\.json(?:\.gz)?|{_STATISTICS}|{_MARKERS}"
_ORPHAN: Final = r"(?s:(?:(?!\.lakemeta-)[^/]+/)*(?!\.lakemeta-|version-hint\.text\Z)[^/]+)"
_UNNAMED: Final = r"(?:[^/]+/)*(?!\.lakemeta-|version-hint\.text\Z|[^/]*\.metadata\.json(?:\.gz)?\Z)[^/]+"
OWN_LOCATIONS: Final = (
    "write.data.path",
    "write.metadata.path",
    "write.object-storage.path",
    "write.folder-storage.path",
)


def data_door(storage: Storage, metadata: TableMetadata, uuid: str) -> Door:
    """The door for data files that the rewrite ``uuid`` wrote."""
    root = store_path(storage.scheme, data_root(metadata.location, metadata.properties))
    return Door(storage, root, rf"(?:[^/]+/)*{name_pattern(uuid)}")


@attrs.frozen
class Doors:
    """The doors for files that no snapshot names any more, one for each location of a table."""

    doors: tuple[Door, ...]

    @classmethod
    def of_table(cls, storage: Storage, metadata: TableMetadata) -> Doors:
        """Those of all locations that the table declares and that lie in its store."""
        bases = sorted(own_bases(storage, metadata), key=lambda base: (-len(base), base))
        return cls(tuple(Door(storage, b, _UNNAMED, quarantine=quarantine_around(storage, metadata, b)) for b in bases))

    def find(self, location: str) -> tuple[Door, str] | None:
        """The door that lets a file through, and the file's store path; None if there is no such door."""
        if not self.doors or (path := _path(self.doors[0].storage, location)) is None:
            return None
        return next(((door, path) for door in self.doors if door.permits(path)), None)


def _path(storage: Storage, location: str) -> str | None:
    try:
        path = store_path(storage.scheme, location)
    except (CorruptMetadataError, UnsupportedFeatureError):
        return None
    return re.sub("/{2,}", "/", path) if is_rooted(storage.scheme) else path


def metadata_door(storage: Storage, folder: str) -> Door:
    """The door for files of a table's metadata directory, given as store path."""
    return Door(storage, folder, _METADATA)


def orphan_door(storage: Storage, metadata: TableMetadata, root: str) -> Door:
    """The door for orphan files below a directory, given as store path."""
    return Door(storage, root, _ORPHAN, quarantine=quarantine_around(storage, metadata, root))


def own_bases(storage: Storage, metadata: TableMetadata) -> set[str]:
    """The store paths of all locations that the table declares and that lie in its store."""
    declared = [metadata.location, *(metadata.properties[n] for n in OWN_LOCATIONS if n in metadata.properties)]
    return {base for location in declared if (base := (_path(storage, location) or "").rstrip("/"))}


def quarantine_around(storage: Storage, metadata: TableMetadata, directory: str) -> Quarantine:
    """Where files of a directory wait (rule 6)."""
    around = (base for base in own_bases(storage, metadata) if f"{directory}/".startswith(f"{base}/"))
    root = min(around, key=len, default=directory)
    return Quarantine(root, f"{root}/{QUARANTINE}")


def metadata_folder(operations: TableOperations) -> str:
    """The store path of the directory where new metadata is written."""
    return store_path(operations.storage.scheme, operations.metadata_location("x")).rpartition("/")[0]

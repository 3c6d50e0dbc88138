"""Tables kept by the file system alone (I/O; Iceberg's HadoopTableOperations).

Version N of the table is ``metadata/vN.metadata.json`` (``vN.gz.metadata.json`` if compressed), and
creating version N+1, which must not exist, is the commit. ``metadata/version-hint.text`` only says where to
start looking: a hint that is behind, missing or unreadable costs a few look-ups, one that is ahead is an
error.
"""

from __future__ import annotations

import logging
import re
from typing import TYPE_CHECKING, Final

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    LakemetaError,
    PathExistsError,
    PathNotFoundError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg.catalogs.doors import metadata_door
from lakemeta.iceberg.catalogs.old_metadata import files_to_delete
from lakemeta.iceberg.catalogs.operations import LoadedTable, check_same_table
from lakemeta.iceberg.spec.locations import same_location
from lakemeta.iceberg.spec.metadata_json import dump_metadata, load_metadata

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

HINT: Final = "version-hint.text"
_EXTENSIONS: Final = (".metadata.json", ".gz.metadata.json", ".metadata.json.gz")
_ANSWERS_AT_ONCE: Final = frozenset({"file", "memory"})  # nothing is on its way once a call has failed
_HINT: Final = re.compile("[+]?[0-9]{1,20}")
_INT_MAX: Final = 2**31 - 1  # a hint beyond it is unreadable to the engine
VERSION_NAME: Final = re.compile(r"v([0-9]{1,9})\.")
_log = logging.getLogger(__name__)


class HadoopTableOperations:
    """Loads and commits the table in the directory ``root`` (a path of ``storage``)."""

    def __init__(self, storage: Storage, root: str) -> None:
        """Nothing is read yet."""
        self.storage = storage
        self.root = root
        self._loaded: LoadedTable | None = None

    def current(self) -> LoadedTable:
        """The version that was loaded last; loads it the first time. Raises TableNotFoundError."""
        return self._loaded or self.refresh()

    def refresh(self) -> LoadedTable:
        """Find the newest version, from the last known one or the hint on, and load it."""
        version, path = self._newest(self._loaded.version if self._loaded else self._start())
        if self._loaded is None or self._loaded.version != version:
            loaded = self._load(version, path)
            check_same_table(self._loaded, loaded.metadata)
            self._loaded = loaded
        return self._loaded

    def metadata_location(self, name: str) -> str:
        """Where a new manifest or manifest list is written, as metadata names it."""
        return f"{self.current().metadata.location.rstrip('/')}/metadata/{name}"

    def check_writable(self) -> None:
        """Raise UnsupportedFeatureError if the table lies elsewhere than its metadata says.

        Raises CorruptMetadataError if commits are to delete what no metadata file of the table is.
        """
        metadata = self.current().metadata
        if not same_location(metadata.location, self.storage.url(self.root)):
            raise UnsupportedFeatureError(
                f"the table at {self.storage.url(self.root)} says that it lies at {metadata.location}; open it there"
            )
        if "write.metadata.path" in metadata.properties:
            raise UnsupportedFeatureError(
                f"the table at {metadata.location} sets write.metadata.path, which a table without a catalog cannot "
                f"follow; unset it or commit through the table's catalog"
            )
        files_to_delete(metadata, metadata, self._folder, self.current().version)  # or the commit would be refused

    def commit(self, base: LoadedTable, new: TableMetadata) -> None:
        """Create the next version, then move the hint and remove metadata files that left the log.

        Raises CommitConflictError if another writer created that version, CommitStateUnknownError if the
        storage failed and the version may be there, CorruptMetadataError as :func:`files_to_delete`.
        """
        if self._loaded is None or base.location != self._loaded.location:
            raise CommitConflictError(f"cannot commit to {new.location}: the change is based on an older version")
        version = base.version + 1
        codec = new.properties.get("write.metadata.compression-codec", "none").lower()
        if self._find(version) is not None:
            raise CommitConflictError(f"version {version} of {new.location} exists already")
        path = self._path(f"v{version}{_extension(codec)}")
        old = files_to_delete(base.metadata, new, self._folder, base.version)
        self._create(path, dump_metadata(new, compress=codec == "gzip"))
        self._loaded = None
        self._write_hint(version)
        self._remove_old_metadata(old)

    def _create(self, path: str, data: bytes) -> None:
        """Create a version. After a failure the file itself says whether it was ours that arrived."""
        try:
            self.storage.create(path, data)
        except StorageError as error:
            try:
                arrived = self.storage.read(path)
            except PathNotFoundError:
                if self.storage.scheme in _ANSWERS_AT_ONCE and not isinstance(error, PathExistsError):
                    raise error from None
                raise _unknown(path, error) from error
            except StorageError:
                raise _unknown(path, error) from error
            if arrived != data:
                raise CommitConflictError(f"{path} was created by another writer") from error

    def _write_hint(self, version: int) -> None:
        """Move the hint, which only saves readers a listing: the commit has happened, so a failure is logged only."""
        try:
            self.storage.replace(self._path(HINT), str(version).encode())
        except StorageError as error:
            _log.warning("version %d is committed, but %s could not be moved to it: %s", version, HINT, error)

    @property
    def _folder(self) -> str:
        """The URL of the directory of the metadata files."""
        return f"{self.storage.url(self.root)}/metadata"

    def _remove_old_metadata(self, paths: list[str]) -> None:
        """Remove metadata files; the commit has happened, so what stays is logged only."""
        try:
            outcomes = metadata_door(self.storage, self._path("")).delete_files(paths)
        except LakemetaError as error:
            _log.warning("the commit is done, but old metadata files could not be removed: %s", error)
            return
        for outcome in (o for o in outcomes if not o.done):
            _log.warning("the old metadata file %s could not be removed: %s", outcome.path, outcome.error)

    def _newest(self, version: int) -> tuple[int, str]:
        path = self._find(version)
        if path is None and version == 0 and self._loaded is None:
            raise TableNotFoundError(f"no Iceberg table lies at {self.storage.url(self.root)}")
        if path is None:
            raise CorruptMetadataError(
                f"metadata file for version {version} is missing under {self.storage.url(self.root)}/metadata; "
                f"correct or delete {HINT}"
            )
        while (following := self._find(version + 1)) is not None:
            version, path = version + 1, following
        return version, path

    def _start(self) -> int:
        """The version in the hint; if it cannot be read, the highest version there is, 0 if there is none."""
        try:
            hint = self.storage.read(self._path(HINT)).decode().split("\n", 1)[0]
        except (StorageError, ValueError):
            hint = ""
        if _HINT.fullmatch(hint) and int(hint) <= _INT_MAX:
            return int(hint)
        return max(self._listed(), default=0)

    def _listed(self) -> list[int]:
        try:
            names = [entry.name for entry in self.storage.list_dir(self._path(""))]
        except PathNotFoundError:
            return []
        return [int(match[1]) for name in names if name.endswith(_EXTENSIONS) and (match := VERSION_NAME.match(name))]

    def _find(self, version: int) -> str | None:
        paths = [self._path(f"v{version}{extension}") for extension in _EXTENSIONS]
        return next((path for path in paths if self.storage.exists(path)), None)

    def _load(self, version: int, path: str) -> LoadedTable:
        metadata = read_metadata(self.storage, path)
        return LoadedTable(metadata, f"{metadata.location.rstrip('/')}/metadata/{path.rpartition('/')[2]}", version)

    def _path(self, name: str) -> str:
        return f"{self.root}/metadata/{name}".rstrip("/")


def _unknown(path: str, error: StorageError) -> CommitStateUnknownError:
    return CommitStateUnknownError(f"creating {path} failed and it may still appear: {error}")


def read_metadata(storage: Storage, path: str) -> TableMetadata:
    """Read one metadata file; raises CorruptMetadataError naming it."""
    return load_metadata(storage.read(path), path)


def _extension(codec: str) -> str:
    if codec not in ("none", "gzip"):
        raise UnsupportedFeatureError(f"write.metadata.compression-codec {codec} is unknown; set it to none or gzip")
    return ".gz.metadata.json" if codec == "gzip" else ".metadata.json"

"""Finding a table: a directory that the file system keeps, or the metadata files of a catalog's table (I/O)."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import PathNotFoundError, StorageError, TableNotFoundError, UnsupportedFeatureError
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations, read_metadata
from lakemeta.iceberg.catalogs.operations import LoadedTable
from lakemeta.iceberg.catalogs.place import SCHEME, Place
from lakemeta.storage import name_of, open_storage
from lakemeta.storage.formats import METADATA_FILES, other_format
from lakemeta.typed_text import texts

if TYPE_CHECKING:
    from collections.abc import Mapping
    from os import PathLike

    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage import Storage
    from lakemeta.typed_text import Value

_CATALOG_FILE: Final = re.compile(r"([0-9]+)-[0-9a-fA-F-]{36}(\.gz)?\.metadata\.json(\.gz)?")
_HADOOP_FILE: Final = re.compile(r"v[0-9]+(\.gz)?\.metadata\.json(\.gz)?|version-hint\.text")


class FixedTableOperations:
    """Reads a table from one metadata file; what a catalog keeps, only the catalog can commit to."""

    def __init__(self, storage: Storage, path: str) -> None:
        """``path`` is the metadata file."""
        self.storage = storage
        self._path = path
        self._loaded: LoadedTable | None = None

    def current(self) -> LoadedTable:
        """The version in the metadata file."""
        return self._loaded or self.refresh()

    def refresh(self) -> LoadedTable:
        """Read the metadata file."""
        match = _CATALOG_FILE.fullmatch(self._path.rpartition("/")[2])
        metadata = read_metadata(self.storage, self._path)
        self._loaded = LoadedTable(metadata, self.storage.url(self._path), int(match[1]) if match else 0)
        return self._loaded

    def metadata_location(self, name: str) -> str:  # noqa: ARG002 - the protocol's argument
        """Raises UnsupportedFeatureError: nothing can be written."""
        raise self._refusal()

    def check_writable(self) -> None:
        """Raises UnsupportedFeatureError, always."""
        raise self._refusal()

    def commit(self, base: LoadedTable, new: TableMetadata) -> None:  # noqa: ARG002 - the protocol's arguments
        """Raises UnsupportedFeatureError, always."""
        raise self._refusal()

    def _refusal(self) -> UnsupportedFeatureError:
        return UnsupportedFeatureError(
            f"the table of {self.storage.url(self._path)} is kept by a catalog, which alone can take a commit; "
            f"it can be inspected and planned from its files, but not changed"
        )


def open_place(url: str | PathLike[str], storage_options: Mapping[str, Value] | None) -> Place:
    """The table at a directory, a metadata file, or ``catalog://NAME/namespace.table``.

    Its metadata is loaded. Raises TableNotFoundError if neither is there.
    """
    if str(url).startswith(SCHEME):
        from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations

        return Place(str(url).rstrip("/"), CatalogTableOperations.open(str(url), texts(storage_options)))
    storage, path = open_storage(url, storage_options)
    if path.endswith(METADATA_FILES):
        operations: TableOperations = FixedTableOperations(storage, path)
    else:
        try:
            operations = _open_directory(storage, path)
        except TableNotFoundError as error:
            raise TableNotFoundError(other_format(storage, path, "Iceberg") or str(error)) from None
    try:
        operations.current()
    except PathNotFoundError as error:
        raise TableNotFoundError(f"no Iceberg table lies at {url}: {error}") from error
    return Place(name_of(url, storage, path), operations)


def place_of(table: Any) -> Place:
    """The place of a pyiceberg ``Table``; a ``StaticTable`` has no catalog, so it can be read only."""
    from pyiceberg.table import StaticTable

    from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations, storage_of

    if isinstance(table, StaticTable):
        return Place(table.metadata_location, FixedTableOperations(*storage_of(table)))
    operations = CatalogTableOperations(table.catalog, table.name())
    return Place(f"{SCHEME}{table.catalog.name}/{operations.name}", operations)


def _open_directory(storage: Storage, root: str) -> TableOperations:
    try:
        names = [entry.name for entry in storage.list_dir(f"{root}/metadata")]
    except StorageError as error:
        if not isinstance(error, PathNotFoundError) and not isinstance(error.__cause__, NotADirectoryError):
            raise
        raise TableNotFoundError(
            f"no Iceberg table lies at {storage.url(root)}: it has no metadata directory"
        ) from None
    if any(map(_HADOOP_FILE.fullmatch, names)):
        return HadoopTableOperations(storage, root)
    numbered = [(int(match[1]), name) for name in names if (match := _CATALOG_FILE.fullmatch(name))]
    if not numbered:
        raise TableNotFoundError(
            f"no Iceberg table lies at {storage.url(root)}: its metadata directory has no metadata"
        )
    newest = max(number for number, _ in numbered)
    paths = [f"{root}/metadata/{name}" for number, name in numbered if number == newest]
    return FixedTableOperations(storage, max(paths, key=lambda path: read_metadata(storage, path).last_updated_ms))

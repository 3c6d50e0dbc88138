"""Tables that a catalog keeps, through pyiceberg's catalogs: REST, SQL, Glue, Hive, ... (I/O).

The catalog says which metadata file is current and takes commits as requirements and updates. lakemeta writes the
manifests; the catalog, or pyiceberg for it, writes the metadata.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import CatalogError, CommitConflictError, OptionError, UnsupportedFeatureError
from lakemeta.iceberg.catalogs.catalog_errors import commit_error, load_error, reason
from lakemeta.iceberg.catalogs.configuration import configuration, not_configured
from lakemeta.iceberg.catalogs.difference import difference
from lakemeta.iceberg.catalogs.hadoop import read_metadata
from lakemeta.iceberg.catalogs.operations import LoadedTable, check_same_table
from lakemeta.iceberg.catalogs.other_tables import OtherTable, other_tables, table_names
from lakemeta.iceberg.catalogs.place import SCHEME
from lakemeta.iceberg.catalogs.vended import Vended, storage_options
from lakemeta.iceberg.spec.locations import metadata_root, store_path
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

_ANSWER_WITHIN: Final = (30.0, 600.0)  # seconds to connect and to answer; pyiceberg itself waits for ever
_WILD: Final = frozenset("*?[")


class CatalogTableOperations:
    """Loads and commits one table of a pyiceberg catalog."""

    def __init__(self, catalog: Any, identifier: str | tuple[str, ...]) -> None:
        """``catalog`` is a ``pyiceberg.catalog.Catalog``.

        Raises TableNotFoundError if it has no such table, CatalogError if it gives no answer.
        """
        self._catalog = catalog
        self._identifier = identifier
        self.name = identifier if isinstance(identifier, str) else ".".join(identifier)
        self._loaded: LoadedTable | None = None
        self._known: LoadedTable | None = None
        table = self._load()
        self._vended = Vended(self._load, table) if _is_on_s3(table) else None
        self.storage, _ = open_storage(
            table.metadata_location,
            self._vended.options if self._vended else None,
            self._vended.renewed if self._vended else None,
        )

    @classmethod
    def open(cls, url: str, options: Mapping[str, str] | None) -> CatalogTableOperations:
        """The table ``catalog://NAME/namespace.table``.

        NAME is configured as pyiceberg has it (``.pyiceberg.yaml``, environment); ``options`` are added to that.
        """
        name, _, identifier = url.removeprefix(SCHEME).partition("/")
        if not name or not all(identifier.partition(".")):
            raise OptionError(f"{url} names no table; write {SCHEME}NAME/namespace.table")
        return cls(_catalog(name, options or {}), identifier)

    def current(self) -> LoadedTable:
        """The version that was loaded last; loads it the first time."""
        return self._loaded or self.refresh()

    def refresh(self) -> LoadedTable:
        """Ask the catalog which metadata file is current, and load it if it is another one."""
        table = self._load()
        if self._vended is not None:
            self._vended.take(table)
        location = table.metadata_location
        if self._loaded is None or self._loaded.location != location:
            metadata = read_metadata(self.storage, store_path(self.storage.scheme, location))
            check_same_table(self._known, metadata)
            self._known = self._loaded = LoadedTable(metadata, location, 0)
        return self._loaded

    def metadata_location(self, name: str) -> str:
        """Where a new manifest or manifest list is written: ``write.metadata.path``, or below the table."""
        metadata = self.current().metadata
        return f"{metadata_root(metadata.location, metadata.properties)}/{name}"

    def check_writable(self) -> None:
        """Raise UnsupportedFeatureError if pyiceberg, which is to write the metadata, cannot write this version."""
        if self._is_remote():
            return
        try:
            self._load().metadata.model_dump_json()
        except NotImplementedError as error:
            raise UnsupportedFeatureError(
                f"pyiceberg writes the metadata of the catalog of {self.name} and cannot write it: {reason(error)}; "
                f"change the table through a REST catalog"
            ) from error

    def commit(self, base: LoadedTable, new: TableMetadata) -> None:
        """Send what changed to the catalog, on the conditions of :mod:`lakemeta.iceberg.catalogs.difference`.

        Raises CommitConflictError if the table has moved, CatalogError if the catalog refused, CommitStateUnknownError
        if it did not say.
        """
        table = self._load()
        if table.metadata_location != base.location:
            raise CommitConflictError(f"{self.name} has a newer version than the change is based on")
        requirements, updates = self._models(base.metadata, new)
        self._loaded = None
        try:
            self._catalog.commit_table(table, requirements, updates)
        except Exception as error:
            raise commit_error(error, self.name, remote=self._is_remote()) from error

    def others(self, passed_over: Sequence[str]) -> Iterator[OtherTable]:
        """The other tables of the catalog, without those whose full names match a pattern; see ``other_tables``."""
        return other_tables(self._catalog, self.name, passed_over, remote=self._is_remote())

    def _models(self, base: TableMetadata, new: TableMetadata) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
        from pydantic import TypeAdapter, ValidationError
        from pyiceberg.table.update import TableRequirement, TableUpdate

        change = difference(base, new)
        try:
            return (
                TypeAdapter(tuple[TableRequirement, ...]).validate_python(change.requirements),
                TypeAdapter(tuple[TableUpdate, ...]).validate_python(change.updates),
            )
        except ValidationError as error:
            raise UnsupportedFeatureError(
                f"this pyiceberg cannot send the change of {self.name}, and nothing was changed; update pyiceberg "
                f"({error.errors()[0]['msg']})"
            ) from error

    def _is_remote(self) -> bool:
        """True if another process applies the updates; where it is this one, it is pyiceberg that does."""
        from pyiceberg.catalog.rest import RestCatalog

        return isinstance(self._catalog, RestCatalog)

    def _load(self) -> Any:
        try:
            table = self._catalog.load_table(self._identifier)
        except Exception as error:
            raise load_error(error, self._catalog.name, self.name) from error
        if not table.metadata_location:
            raise UnsupportedFeatureError(
                f"the catalog {self._catalog.name} names no metadata file of {self.name}, without which it cannot be "
                f"read; use a catalog that keeps its tables in files"
            )
        return table


def tables_of_catalog(url: str, options: Mapping[str, str] | None) -> tuple[str, ...]:
    """The URLs of the tables that a glob such as ``catalog://NAME/sales.*`` may take, sorted.

    They are those of its namespace, and below it, up to the first part with a wildcard. Raises OptionError and
    CatalogError.
    """
    name, _, pattern = url.removeprefix(SCHEME).partition("/")
    above = pattern.split(".")[:-1]
    fixed = tuple(takewhile(lambda part: _WILD.isdisjoint(part), above))
    return tuple(
        sorted(f"{SCHEME}{name}/{'.'.join(found)}" for found in table_names(_catalog(name, options or {}), fixed))
    )


def storage_of(table: Any) -> tuple[Storage, str]:
    """The storage of a pyiceberg ``Table``, with the credentials it was given, and the path of its metadata file."""
    return open_storage(table.metadata_location, storage_options(table.io.properties) if _is_on_s3(table) else None)


def _is_on_s3(table: Any) -> bool:
    location: str = table.metadata_location
    return location.startswith("s3")


def _catalog(name: str, options: Mapping[str, str]) -> Any:
    """The catalog of this name, as pyiceberg's configuration has it."""
    try:
        from pyiceberg.catalog import load_catalog
    except ImportError as error:
        raise OptionError("tables of a catalog need pyiceberg; install lakemeta[catalog]") from error
    except Exception as error:  # its configuration is read on import
        said = " ".join(str(error).split())[:300]
        raise OptionError(f"pyiceberg cannot read its configuration; correct {configuration()}: {said}") from error
    from pyiceberg.exceptions import NotInstalledError

    try:
        catalog = load_catalog(name, **options)
    except NotInstalledError as error:
        raise OptionError(f"the catalog {name} needs a package that is not installed: {reason(error)}") from error
    except (ValueError, KeyError) as error:
        raise OptionError(f"the catalog {name} is not configured: {not_configured(name, error)}") from error
    except Exception as error:
        raise CatalogError(f"the catalog {name} cannot be opened: {reason(error)}") from error
    _answer_in_time(catalog)
    return catalog


def _answer_in_time(catalog: Any) -> None:
    """Have the HTTP client of a REST catalog give up; pyiceberg has no property for it."""
    from requests import Session
    from requests.adapters import HTTPAdapter

    class InTime(HTTPAdapter):
        def send(self, *args: Any, **options: Any) -> Any:
            return super().send(*args, **{**options, "timeout": options.get("timeout") or _ANSWER_WITHIN})

    session = getattr(catalog, "_session", None)
    if isinstance(session, Session):
        session.mount("http://", InTime())
        session.mount("https://", InTime())

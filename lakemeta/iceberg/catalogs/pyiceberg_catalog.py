"""Tables that a catalog keeps, through pyiceberg's catalogs: REST, SQL, Glue, Hive, ... (I/O).

The catalog says which metadata file is current and takes commits as requirements and updates. lakemeta writes the
manifests; the catalog, or pyiceberg for it, writes the metadata.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    OptionError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg.catalogs.hadoop import read_metadata
from lakemeta.iceberg.catalogs.operations import LoadedTable
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.metadata_json import metadata_to_json
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_STORE_OPTIONS: Final = (
    "s3.endpoint",
    "s3.access-key-id",
    "s3.secret-access-key",
    "s3.session-token",
    "s3.region",
    "s3.profile-name",
)


class CatalogTableOperations:
    """Loads and commits one table of a pyiceberg catalog."""

    def __init__(self, catalog: Any, identifier: str) -> None:
        """``catalog`` is a ``pyiceberg.catalog.Catalog``; raises TableNotFoundError if it has no such table."""
        self._catalog = catalog
        self._identifier = identifier
        self._loaded: LoadedTable | None = None
        table = self._load()
        options = {k: str(v) for k, v in table.io.properties.items() if k in _STORE_OPTIONS and v}
        remote = table.metadata_location.startswith("s3")
        self.storage, _ = open_storage(table.metadata_location, options if remote else None)

    @classmethod
    def open(cls, url: str, options: Mapping[str, str] | None) -> CatalogTableOperations:
        """The table ``catalog://NAME/namespace.table``.

        NAME is configured as pyiceberg has it (``.pyiceberg.yaml``, environment); ``options`` are added to that.
        """
        name, _, identifier = url.partition("://")[2].partition("/")
        if not name or "." not in identifier:
            raise OptionError(f"{url} names no table; write catalog://NAME/namespace.table")
        try:
            from pyiceberg.catalog import load_catalog
        except ImportError:
            raise OptionError("tables of a catalog need pyiceberg; install lakemeta[catalog]") from None
        try:
            catalog = load_catalog(name, **(options or {}))
        except (ValueError, KeyError) as error:
            raise OptionError(f"the catalog {name} is not configured: {error}") from error
        return cls(catalog, identifier)

    def current(self) -> LoadedTable:
        """The version that was loaded last; loads it the first time."""
        return self._loaded or self.refresh()

    def refresh(self) -> LoadedTable:
        """Ask the catalog which metadata file is current, and load it if it is another one."""
        location = self._load().metadata_location
        if self._loaded is None or self._loaded.location != location:
            metadata = read_metadata(self.storage, store_path(self.storage.scheme, location))
            self._loaded = LoadedTable(metadata, location, 0)
        return self._loaded

    def metadata_location(self, name: str) -> str:
        """Where a new manifest or manifest list is written: ``write.metadata.path``, or below the table."""
        metadata = self.current().metadata
        default = f"{metadata.location.rstrip('/')}/metadata"
        return f"{metadata.properties.get('write.metadata.path', default).rstrip('/')}/{name}"

    def check_writable(self) -> None:
        """A catalog takes commits."""

    def commit(self, base: LoadedTable, new: TableMetadata) -> None:
        """Send what changed to the catalog, on the condition that the branch is where it was.

        Raises CommitConflictError if the catalog refused, CommitStateUnknownError if it did not say.
        """
        from pyiceberg.exceptions import CommitFailedException, CommitStateUnknownException

        table = self._load()
        if table.metadata_location != base.location:
            raise CommitConflictError(f"{self._identifier} has a newer version than the change is based on")
        requirements, updates = _difference(base.metadata, new)
        self._loaded = None
        try:
            self._catalog.commit_table(table, requirements, updates)
        except CommitStateUnknownException as error:
            raise CommitStateUnknownError(f"the catalog did not say whether it took the commit: {error}") from error
        except (CommitFailedException, ValueError) as error:
            raise CommitConflictError(f"the catalog did not take the commit to {self._identifier}: {error}") from error
        except Exception as error:
            # Whatever else a catalog's client raises, a timeout among it, does not say that nothing has happened.
            raise CommitStateUnknownError(f"the commit to {self._identifier} ended in an error: {error}") from error

    def _load(self) -> Any:
        from pyiceberg.exceptions import NoSuchTableError

        try:
            return self._catalog.load_table(self._identifier)
        except NoSuchTableError as error:
            raise TableNotFoundError(f"the catalog has no table {self._identifier}: {error}") from error


def _difference(base: TableMetadata, new: TableMetadata) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """What a commit requires and changes, as pyiceberg's requirements and updates.

    Raises UnsupportedFeatureError for a change that is not a new snapshot or a moved ref.
    """
    from pyiceberg.table.update import AddSnapshotUpdate, AssertRefSnapshotId, AssertTableUUID, SetSnapshotRefUpdate

    document = metadata_to_json(new)
    added = [s for s in document["snapshots"] if s["snapshot-id"] not in base.snapshots_by_id]
    moved = [name for name, ref in new.refs.items() if base.refs.get(name) != ref]
    if base.refs.keys() - new.refs.keys() or len(new.snapshots) != len(base.snapshots) + len(added):
        raise UnsupportedFeatureError("a catalog is sent new snapshots and moved branches only; nothing was changed")
    requirements: list[Any] = [AssertTableUUID.model_validate({"uuid": new.table_uuid})]
    updates: list[Any] = [AddSnapshotUpdate.model_validate({"snapshot": snapshot}) for snapshot in added]
    for name in moved:
        before = base.refs.get(name)
        asserted = {"ref": name, "snapshot-id": before.snapshot_id if before else None}
        requirements.append(AssertRefSnapshotId.model_validate(asserted))
        updates.append(SetSnapshotRefUpdate.model_validate({"ref-name": name, **document["refs"][name]}))
    return tuple(requirements), tuple(updates)

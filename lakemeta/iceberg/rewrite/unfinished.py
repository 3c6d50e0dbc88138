"""Remembers a rewrite while it runs, so that what an interrupted one left behind is found and named (I/O).

Rules of this module:

1. A rewrite keeps a marker in the metadata directory, ``.lakemeta-rewrite-<uuid>.json``, from before its first file
   until it has ended in a known way. Names that begin with a dot are hidden from Iceberg, its orphan removal included.
2. A marker of another rewrite is no lock: that rewrite may still run. Its files that no snapshot names are reported,
   never deleted. The marker of a rewrite that left nothing is removed.
3. Files are known by the uuids in their names: the rewrite's own in data files, a commit's in manifests and lists.
"""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Final
from uuid import UUID

import attrs

from lakemeta.errors import CorruptMetadataError, LakemetaError, PathNotFoundError
from lakemeta.iceberg.catalogs.doors import MARKER_PREFIX, MARKER_SUFFIX, metadata_door, metadata_folder
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.write.settings import data_root, is_name_of
from lakemeta.json_text import parse_json
from lakemeta.words import some

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Entry, Storage

_NAMED: Final = 20  # how many files a sentence names


@attrs.define(eq=False)
class RunMarker:
    """The marker file of one rewrite: its uuid, when it began (ms since the epoch) and on what, its commits' uuids."""

    operations: TableOperations
    uuid: str
    begun_ms: int
    snapshot_id: int
    commits: list[str] = attrs.field(factory=list)

    def begin(self) -> None:
        """Write the marker; raises StorageError if it cannot be written, before anything else was."""
        self._put()

    def committing(self, commit_uuid: str) -> None:
        """Add a commit, before it writes its first manifest."""
        self.commits.append(commit_uuid)
        self._put()

    def end(self) -> None:
        """Delete the marker; one that stays is found by the next rewrite, which finds nothing left and removes it."""
        metadata_door(self.operations.storage, metadata_folder(self.operations)).delete_files([self._path])

    @property
    def _path(self) -> str:
        location = self.operations.metadata_location(f"{MARKER_PREFIX}{self.uuid}{MARKER_SUFFIX}")
        return store_path(self.operations.storage.scheme, location)

    def _put(self) -> None:
        content = {"rewrite": self.uuid, "begun_ms": self.begun_ms, "snapshot_id": self.snapshot_id}
        content["commits"] = self.commits
        self.operations.storage.replace(self._path, json.dumps(content).encode())


def unfinished_uuids(storage: Storage, folder: str) -> set[str]:
    """The uuids of rewrites that have not ended, and of their commits, by the markers in a metadata directory.

    Raises CorruptMetadataError for a marker that says nothing.
    """
    return {uuid for _, marker in _markers(storage, folder) for uuid in (marker.uuid, *marker.commits)}


def base_snapshots(storage: Storage, folder: str) -> dict[int, str]:
    """The snapshots on which rewrites work that have not ended, and a sentence about each.

    Raises CorruptMetadataError for a marker that says nothing, or not on what: such were made before this was kept.
    """
    found = {}
    for path, marker in _markers(storage, folder):
        if marker.snapshot_id is None:
            raise _no_mark(path)
        found[marker.snapshot_id] = (
            f"the rewrite {marker.uuid} works on it; once that surely runs no more, delete {path}"
        )
    return found


def _markers(storage: Storage, folder: str) -> Iterator[tuple[str, _Marker]]:
    try:
        names = [entry.name for entry in storage.list_dir(folder) if not entry.is_dir]
    except PathNotFoundError:
        return
    for path in (f"{folder}/{name}" for name in names if _is_marker(name)):
        if (marker := _read_marker(storage, path)) is not None:
            yield path, marker


@attrs.frozen
class _Marker:
    """What a marker says: the uuids of a rewrite and of its commits, when it began (ms since the epoch) and on what."""

    uuid: str
    commits: tuple[str, ...]
    begun_ms: int
    snapshot_id: int | None


def _is_marker(name: str) -> bool:
    return name.startswith(MARKER_PREFIX) and name.endswith(MARKER_SUFFIX)


def _read_marker(storage: Storage, path: str) -> _Marker | None:
    """The marker at a path, None if its rewrite has ended; raises CorruptMetadataError if it is none."""
    try:
        marker = parse_json(storage.read(path))
        uuid, *commits = [str(UUID(name)) for name in (marker["rewrite"], *marker["commits"])]
        base = marker.get("snapshot_id")
        return _Marker(uuid, tuple(commits), int(marker["begun_ms"]), None if base is None else int(base))
    except PathNotFoundError:
        return None
    except (ValueError, KeyError, TypeError, AttributeError, OverflowError):
        raise _no_mark(path) from None


def _no_mark(path: str) -> CorruptMetadataError:
    return CorruptMetadataError(f"{path} is no mark of a rewrite; delete it if no rewrite is running")


def left_behind(operations: TableOperations, metadata: TableMetadata, executor: Executor | None) -> list[str]:
    """Sentences about files of rewrites that did not end, by name; markers of which nothing is left are removed."""
    storage = operations.storage
    folder = metadata_folder(operations)
    try:
        names = [entry.name for entry in storage.list_dir(folder) if not entry.is_dir]
        markers = [name for name in names if _is_marker(name)]
        door = metadata_door(storage, folder)
        return [found for name in markers for found in _left_by(door, metadata, executor, f"{folder}/{name}", names)]
    except LakemetaError as error:
        return [f"files of interrupted rewrites could not be looked for: {error}"]


def _left_by(
    door: Door, metadata: TableMetadata, executor: Executor | None, path: str, names: list[str]
) -> Iterator[str]:
    storage = door.storage
    try:
        marker = _read_marker(storage, path)
        if marker is None:
            return
        when = datetime.fromtimestamp(marker.begun_ms / 1000, UTC).isoformat(timespec="seconds")
    except (CorruptMetadataError, ValueError, OverflowError):
        yield f"{path} is no mark of a rewrite; delete it if no rewrite is running"
        return
    uuid, commits = marker.uuid, marker.commits
    root = store_path(storage.scheme, data_root(metadata.location, metadata.properties))
    written = [f"{path.rpartition('/')[0]}/{name}" for name in names if any(c in name for c in commits)]
    written += [entry.path for entry in _walk(storage, root) if is_name_of(uuid, entry.name)]
    known = _named_by_snapshots(storage, metadata, executor) if written else set()
    left = sorted(file for file in written if file.rpartition("/")[2] not in known)
    if not left:
        door.delete_files([path])
        return
    sentence = f"the rewrite {uuid} that began at {when} did not end; once it surely runs no more, delete its files"
    yield f"{sentence}, which no snapshot names: {some(left, _NAMED)}"


def _walk(storage: Storage, root: str) -> Iterator[Entry]:
    try:
        yield from storage.walk(root)
    except PathNotFoundError:
        return


def _named_by_snapshots(storage: Storage, metadata: TableMetadata, executor: Executor | None) -> set[str]:
    """The names of all lists, manifests and files that any snapshot of the table names."""
    stored = StoredManifests(storage, metadata.specs_by_id, executor)
    manifests = {m.manifest_path: m for snapshot in metadata.snapshots for m in stored.of(snapshot)}
    paths = {snapshot.manifest_list or "" for snapshot in metadata.snapshots} | set(manifests)
    for entries in stored.stream(manifests.values()):
        paths.update(entry.data_file.file_path for entry in entries)
    return {path.rpartition("/")[2] for path in paths}

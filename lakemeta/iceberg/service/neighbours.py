"""Whether another table lies in the directories of this one: the guard of services that delete files there (I/O).

To the engine, all files of a table below another one's location are orphans of that one, and of two tables at one
location each removes the other's.

Rules of this module:

1. A file ``*.metadata.json`` or ``.metadata.json.gz`` that names another table's uuid, or of which no uuid can be read,
   refuses the whole removal, by name. The uuid may be said to be that of a table that was dropped.
   So does metadata of the table itself in a directory that is none of its metadata: a copy of the table lies there.
2. A table from before uuids is identified by its location. A Hudi or Delta Lake table is one with a ``.hoodie`` or
   ``_delta_log``, and refuses too.
3. In the table's own metadata directory a file is debris, and no table's, if it has no name that a writer of versions
   gives and does not even begin as JSON or gzip do, such as what a crashed commit left empty.
4. What is known as the table's own by its newest metadata is not read.
5. Of a table without a catalog no version may lie behind a gap in its versions: either may count.
"""

from __future__ import annotations

import re
import zlib
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta import unpack
from lakemeta.errors import PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.iceberg.catalogs.hadoop import VERSION_NAME
from lakemeta.iceberg.spec.locations import metadata_root, same_location, store_path
from lakemeta.json_text import parse_json
from lakemeta.storage.formats import DELTA, HUDI
from lakemeta.words import some

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

METADATA: Final = re.compile(r".*\.metadata\.json(?:\.gz)?", re.DOTALL)
OTHER_TABLES: Final = {".hoodie": HUDI, "_delta_log": DELTA}  # directories that their tables have
_HEAD: Final = 4096  # bytes, which hold the uuid of every metadata file that an engine wrote
_BATCH: Final = 16
SHOWN: Final = 5  # lines that a sentence names
_UUID: Final = re.compile(rb'\s*\{\s*"format-version"\s*:\s*[0-9]+\s*,\s*"table-uuid"\s*:\s*"([^"\\]{1,100})"')
_VERSION: Final = re.compile(r"(?:v[0-9]+|[0-9]+-[0-9a-fA-F-]{36})(?:\.gz)?\.metadata\.json(?:\.gz)?")


@attrs.frozen
class Neighbours:
    """Looks for metadata of other tables than the one with ``uuid`` (None: none) at ``location``.

    ``folders`` are the store paths of its own metadata directories, ``known`` those of its own metadata files,
    ``current`` is the name of the newest, ``dropped`` are uuids of tables that are no more. ``harm`` says in a message
    what is done at the location, and to what.
    """

    storage: Storage
    uuid: str | None
    location: str
    folders: frozenset[str]
    known: frozenset[str]
    current: str
    dropped: frozenset[str]
    harm: str

    @classmethod
    def of(cls, storage: Storage, loaded: LoadedTable, dropped: Iterable[str], harm: str) -> Neighbours:
        """Those of a version of a table."""
        metadata, known = loaded.metadata, {store_path(storage.scheme, name) for name in known_metadata(loaded)}
        own = {metadata_directory(storage, metadata), *(path.rpartition("/")[0] for path in known)}
        own.add(f"{store_path(storage.scheme, metadata.location).rstrip('/')}/metadata")
        current = loaded.location.rpartition("/")[2]
        return cls(
            storage,
            metadata.table_uuid,
            metadata.location,
            frozenset(own),
            frozenset(known),
            current,
            frozenset(uuid.lower() for uuid in dropped),
            harm,
        )

    def refuse(self, paths: Iterable[str], executor: Executor) -> None:
        """Raise UnsupportedFeatureError if a metadata file at one of these store paths is another table's."""
        unknown = sorted(set(paths) - self.known)
        found = [line for line in executor.map_batches(self._look, unknown, batch_size=_BATCH) if line]
        if found:
            raise UnsupportedFeatureError(
                f"another table lies where {self.harm}; nothing was done: {some(sorted(found), SHOWN, '; ')}"
            )

    def refuse_near(self, root: str, paths: Iterable[str], executor: Executor, *, own: bool = True) -> None:
        """The same for the metadata directories beside all directories from ``root`` down to files at ``paths``.

        Without ``own`` the table's own metadata directories are left out: a table that was dropped may have left its
        metadata there.
        """
        folders = {root, *(folder for path in paths for folder in _between(root, path))}
        work = partial(_metadata_in, self.storage, frozenset() if own else self.folders)
        self.refuse(executor.map_batches(work, sorted(folders), batch_size=_BATCH), executor)

    def _look(self, paths: Sequence[str]) -> Iterator[str | None]:
        for path in paths:
            try:
                yield self._what(path)
            except PathNotFoundError:  # gone since it was listed
                yield None

    def _what(self, path: str) -> str | None:
        """What speaks against removing orphans, if what lies at ``path`` does."""
        url, other = self.storage.url(path), OTHER_TABLES.get(path.rpartition("/")[2])
        if other is not None:
            return f"{url} is of a {other} table, move that away"
        head = self.storage.read_range(path, 0, _HEAD)
        if self._is_debris(path, head):
            return None
        uuid, location = self._identity(path, head)
        own = path.rpartition("/")[0] in self.folders
        if self.uuid is not None and uuid == self.uuid:
            if own and _lies_behind_gap(self.current, path.rpartition("/")[2]):
                return f"{url} is newer than {self.current}, with versions missing between; put right which counts"
            return None if own else f"{url} is of a copy of this table, move that away"
        if self.uuid is None and uuid is None and location is not None and same_location(location, self.location):
            return None
        if uuid is None:
            return f"{url} is metadata of which no table uuid can be read; try again if it is being written, or move it"
        if uuid.lower() in self.dropped:
            return None
        return f"{url} is of the table with the uuid {uuid}, move that, or say that it was dropped: foreign-uuid={uuid}"

    def _is_debris(self, path: str, head: bytes) -> bool:
        folder, _, name = path.rpartition("/")
        starts = head.lstrip()[:1] == b"{" or head[:2] == unpack.GZIP_MAGIC
        return folder in self.folders and not starts and not _VERSION.fullmatch(name)

    def _identity(self, path: str, head: bytes) -> tuple[str | None, str | None]:
        """The uuid and the location in a metadata file, as far as they can be read."""
        found = _UUID.match(_unpacked(head))
        if found:
            return found[1].decode("utf-8", "replace"), None
        try:
            data = self.storage.read(path)
            if data[:2] == unpack.GZIP_MAGIC:
                data = unpack.gunzip(data, unpack.allowance(len(data)))
            value: Any = parse_json(data)
        except unpack.ERRORS:
            return None, None
        if not isinstance(value, dict):
            return None, None
        uuid, location = value.get("table-uuid"), value.get("location")
        return uuid if isinstance(uuid, str) else None, location if isinstance(location, str) else None


def known_metadata(loaded: LoadedTable) -> list[str]:
    """The locations of a table's own metadata files."""
    return [loaded.location, *(entry.metadata_file for entry in loaded.metadata.metadata_log)]


def metadata_directory(storage: Storage, metadata: TableMetadata) -> str:
    """The store path of the directory of a table's own metadata."""
    return store_path(storage.scheme, metadata_root(metadata.location, metadata.properties))


def _lies_behind_gap(current: str, name: str) -> bool:
    """True for a version of a table without a catalog that is newer than the one after the current one."""
    mine, other = VERSION_NAME.match(current), VERSION_NAME.match(name)
    return mine is not None and other is not None and int(other[1]) > int(mine[1]) + 1


def _unpacked(head: bytes) -> bytes:
    if head[:2] != unpack.GZIP_MAGIC:
        return head
    try:
        return zlib.decompressobj(wbits=31).decompress(head, _HEAD)
    except zlib.error:
        return b""


def _between(root: str, path: str) -> Iterator[str]:
    """The directories between ``root`` and the file, that of the file included."""
    at = path.find("/", len(root) + 1)
    while at != -1:
        yield path[:at]
        at = path.find("/", at + 1)


def _metadata_in(storage: Storage, passed_over: frozenset[str], folders: Sequence[str]) -> Iterator[str]:
    for folder in folders:
        yield from (path for path in (f"{folder}/{name}" for name in OTHER_TABLES) if storage.exists(path))
        if f"{folder}/metadata" in passed_over:
            continue
        try:
            entries = storage.list_dir(f"{folder}/metadata")
        except PathNotFoundError:
            continue
        except StorageError as error:
            if isinstance(error.__cause__, NotADirectoryError):
                continue
            raise
        yield from (entry.path for entry in entries if not entry.is_dir and METADATA.fullmatch(entry.name))

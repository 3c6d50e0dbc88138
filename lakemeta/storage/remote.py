"""Stores reached through fsspec. This is the only module that imports it, once such a store is used.

A path is what fsspec calls a path without protocol: ``bucket/t/x``, in memory ``/t/x``.
"""

from __future__ import annotations

import hashlib
import io
import os
import threading
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import attrs

from lakemeta.errors import (
    OptionError,
    PathExistsError,
    PathNotFoundError,
    StorageError,
    UnsupportedFeatureError,
)
from lakemeta.report import Outcome
from lakemeta.storage.contract import Entry, is_checksum_file
from lakemeta.storage.failure import reason, storage_errors
from lakemeta.storage.requests import RequestCounts

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable, Iterator, Mapping, Sequence

_CONNECTING = threading.Lock()
_MEMORY_CREATES = threading.Lock()
_PIECE = 8 * 2**20  # bytes compared at a time
_COPIES_AT_ONCE = 16  # of one call: each is some requests that take a distant store a while
_TIMES = ("mtime", "LastModified", "last_modified", "modified", "updated", "created")


@attrs.define
class FsspecStorage:
    """Any file system of fsspec, to read, list and delete from.

    It cannot be written to: fsspec promises neither an exclusive create nor an atomic replace. The stores
    that have them are subclasses. ``options`` are the arguments of the file system and may hold credentials,
    so they are in no repr. The file system is made on first use in each process and caches no listings.

    ``renewal`` is asked before each use for arguments that have taken the place of ``options``, None if none have. It
    stays in this process: what is sent to a worker has the arguments of the moment that it was sent.
    """

    scheme: str
    options: Mapping[str, Any] = attrs.field(factory=dict, repr=False)
    renewal: Callable[[], Mapping[str, Any] | None] | None = attrs.field(default=None, repr=False, eq=False)
    requests: RequestCounts = attrs.field(factory=RequestCounts, init=False, repr=False, eq=False)
    _made: tuple[int, Any] | None = attrs.field(default=None, init=False, repr=False, eq=False)

    def __getstate__(self) -> tuple[str, Mapping[str, Any]]:
        with _CONNECTING:
            self._renew()
            return self.scheme, self.options

    def __setstate__(self, state: tuple[str, Mapping[str, Any]]) -> None:
        self.scheme, self.options = state
        self.requests = RequestCounts()
        self.renewal = self._made = None

    @property
    def fs(self) -> Any:
        """The fsspec file system of this process."""
        with _CONNECTING:
            self._renew()
            if self._made is None or self._made[0] != os.getpid():
                self._made = os.getpid(), self._connect()
            return self._made[1]

    def _renew(self) -> None:
        options = self.renewal() if self.renewal else None
        if options is not None and options != self.options:
            self.options, self._made = options, None

    def _connect(self) -> Any:
        return self._file_system(self.options)

    def _file_system(self, options: Mapping[str, Any]) -> Any:
        import fsspec

        protocol = self.scheme.partition(":")[0]
        try:
            return fsspec.filesystem(protocol, use_listings_cache=False, skip_instance_cache=True, **options)
        except ImportError as error:
            raise OptionError(f"{protocol}:// needs a package that is not installed: {error}") from error
        except (TypeError, ValueError) as error:
            raise OptionError(f"{protocol}:// does not take these storage options: {error}") from error

    def wait_for(self, request: Callable[..., Awaitable[Any]], *arguments: Any, **named: Any) -> Any:
        """The result of a coroutine that runs on the loop of the file system."""
        from fsspec.asyn import sync

        return sync(self.fs.loop, request, *arguments, **named)

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path."""
        self.requests.count("LIST")
        with storage_errors("list", self.url(path)):
            found = self.fs.ls(path, detail=True, refresh=True)
        if any(info["name"].rstrip("/") == path and info["type"] != "directory" for info in found):
            raise StorageError(f"cannot list {path}: it is a file")
        entries = (_entry(info) for info in found)
        return sorted(_below(path, entries), key=lambda entry: entry.path)

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory; fsspec's own walk would skip what it cannot list."""
        pending = self.list_dir(path)
        while pending:
            entry = pending.pop()
            if entry.is_dir:
                pending += self.list_dir(entry.path)
            else:
                yield entry

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        try:
            self._info(path)
        except PathNotFoundError:
            return False
        return True

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return int(self._info(path)["size"])

    def stat(self, path: str) -> Entry:
        """Size and last change of one file."""
        entry = _entry(self._info(path))
        if entry.is_dir:
            raise StorageError(f"cannot look up {path}: it is a directory")
        return attrs.evolve(entry, path=path)

    def _info(self, path: str) -> Any:
        self.requests.count("HEAD")
        with storage_errors("look up", self.url(path)):
            return self.fs.info(path)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        self.requests.count("GET")
        with storage_errors("read", self.url(path)):
            return cast("bytes", self.fs.cat_file(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``."""
        self.requests.count("GET")
        with storage_errors("read", self.url(path)):
            return cast("bytes", self.fs.cat_file(path, start=start, end=start + length))

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader."""
        self.requests.count("GET")
        with storage_errors("read", self.url(path)):
            return cast("BinaryIO", self.fs.open(path, "rb"))

    def open_output(self, path: str) -> BinaryIO:
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(path))

    def create(self, path: str, data: bytes) -> None:  # noqa: ARG002 - the contract's argument
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(path))

    def replace(self, path: str, data: bytes) -> None:  # noqa: ARG002 - the contract's argument
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(path))

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files, one by one."""
        return [self._delete(path) for path in paths]

    def _delete(self, path: str) -> Outcome:
        self.requests.count("DELETE")
        try:
            self.fs.rm_file(path)
        except FileNotFoundError:
            return Outcome(path, "absent")
        except Exception as error:  # noqa: BLE001 - a file system raises what it likes; the outcome has it
            return Outcome(path, "failed", reason(error))
        return Outcome(path, "deleted")

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        """Copy files inside of the store, some at a time, then delete the old ones."""
        with ThreadPoolExecutor(_COPIES_AT_ONCE, thread_name_prefix="lakemeta-move") as pool:
            unmoved = list(pool.map(self._copy_to_move, moves))
        copied = [old for (old, _), outcome in zip(moves, unmoved, strict=True) if outcome is None]
        gone = {outcome.path: outcome for outcome in self.delete_many(copied)}
        # One that was gone when it was to be deleted had been copied: another process has moved it too.
        return [
            outcome or (Outcome(old, "deleted") if gone[old].done else gone[old])
            for (old, _), outcome in zip(moves, unmoved, strict=True)
        ]

    def _copy_to_move(self, move: tuple[str, str]) -> Outcome | None:
        """Copy a file to where it is moved: why that was not done, None if the old one is to be deleted."""
        old, new = move
        try:
            size = self.size(old)
            if not self.exists(new):
                self._copy(old, new)
            elif self.size(new) != size or not self._same_content(old, new, size):
                return Outcome(old, "failed", f"{new} exists")
        except PathNotFoundError:
            return Outcome(old, "absent")
        except (StorageError, UnsupportedFeatureError) as error:
            return Outcome(old, "failed", str(error))
        return None

    def _same_content(self, one: str, other: str, size: int) -> bool:
        """True if two files of one size are equal, as a move leaves them that was cut short."""
        pieces = range(0, size, _PIECE)
        return all(self.read_range(one, at, _PIECE) == self.read_range(other, at, _PIECE) for at in pieces)

    def _copy(self, old: str, new: str) -> None:
        with storage_errors("copy", self.url(old)):
            self.fs.cp_file(old, new)

    def delete_tree(self, path: str) -> None:
        """Remove a directory with everything in it."""
        with storage_errors("remove", self.url(path)):
            if self.fs.exists(path):
                self.fs.rm(path, recursive=True)

    def resolve(self, path: str) -> str:
        """The path as it is: such a store has no links."""
        return path

    def url(self, path: str) -> str:
        """The path with its scheme."""
        return f"{self.scheme}://{path}"


class ReadOnlyStorage(FsspecStorage):
    """A file system that is not held to the contract: tables there can be planned, and nothing is changed."""

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(paths[0] if paths else ""))

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(moves[0][0] if moves else ""))

    def delete_tree(self, path: str) -> None:
        """Refused with UnsupportedFeatureError."""
        raise _cannot_write(self.url(path))


class MemoryStorage(FsspecStorage):
    """fsspec's memory of this process, for tests and demonstrations: every instance sees the same files."""

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory, in one pass: any listing in memory goes over all files there are."""
        self.list_dir(path)
        with storage_errors("list", self.url(path)):
            found = self.fs.find(path, detail=True)
        return _below(path, (_entry(info) for info in found.values()))

    def open_input(self, path: str) -> BinaryIO:
        """A reader of its own: fsspec's would share its position with every other."""
        return io.BytesIO(self.read(path))

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer; the content is there once it is closed."""
        return _MemoryWriter(self, path)

    def create(self, path: str, data: bytes) -> None:
        """Create a file that must not exist, one creator at a time."""
        self.requests.count("PUT")
        with _MEMORY_CREATES, storage_errors("create", self.url(path)):
            if self.fs.exists(path):
                raise PathExistsError(f"cannot create {path}: it exists")
            self.fs.pipe_file(path, data)

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path."""
        self.requests.count("PUT")
        with _MEMORY_CREATES, storage_errors("write", self.url(path)):
            self.fs.pipe_file(path, data)

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and its digest."""
        data = self.read(path)
        return data, _digest(data)

    def put_versioned(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put new content in place of the version with this digest, or of nothing."""
        self.requests.count("PUT")
        with _MEMORY_CREATES, storage_errors("write", self.url(path)):
            found = _digest(self.fs.cat_file(path)) if self.fs.exists(path) else None
            if found != version:
                return None
            self.fs.pipe_file(path, data)
        return _digest(data)


class _MemoryWriter(io.BytesIO):
    def __init__(self, storage: MemoryStorage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def close(self) -> None:
        if not self.closed:
            self._storage.replace(self._path, self.getvalue())
        super().close()


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _cannot_write(url: str) -> UnsupportedFeatureError:
    return UnsupportedFeatureError(
        f"cannot change {url}: {url.partition('://')[0]}:// is not known to create files exclusively, so tables there "
        f"can only be planned; keep the table on s3://, gs://, abfss:// or a local disk to maintain it"
    )


def _entry(info: Mapping[str, Any]) -> Entry:
    name = info["name"].rstrip("/")
    if info["type"] == "directory":
        return Entry(name, 0, 0, is_dir=True)
    if info.get("size") is None:
        raise StorageError(f"cannot list {name}: the store does not give its size")
    return Entry(name, int(info["size"]), _modified_ms(info))


def _modified_ms(info: Mapping[str, Any]) -> int:
    value = next((info[key] for key in _TIMES if info.get(key) is not None), 0)
    if isinstance(value, str):
        value = datetime.fromisoformat(value)
    if isinstance(value, datetime):
        value = value.timestamp()
    return int(value * 1000)


def _below(path: str, entries: Iterator[Entry]) -> Iterator[Entry]:
    """The entries, each of which must have a name below ``path``; but for Hadoop's checksum files."""
    prefix = path.rstrip("/") + "/"
    for entry in entries:
        if not entry.path.startswith(prefix):
            raise StorageError(f"cannot list {path}: the store answers with {entry.path}, which is not in it")
        if not is_checksum_file(entry.name):
            yield entry

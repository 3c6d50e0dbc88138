"""HDFS over WebHDFS, without a JVM (I/O).

Paths begin with a slash and name no cluster: ``/t/x``. The storage's scheme does, by all names that are known of it
(:mod:`lakemeta.paths`).

A file is written under a name of its own beside its place, looked at, and renamed by WebHDFS's RENAME with
``renameoptions``: NONE fails if anything is at the target, OVERWRITE replaces a file there, both in one step of the
NameNode (``FSDirRenameOp``), and neither moves a file into a directory of that name, as RENAME without options does. A
gateway that does not know the options (HttpFS) is refused before anything is renamed.

A crash may leave such a file ``.<token>.lakemeta-tmp``, which is never listed. HDFS has its own checksums: no writer
makes ``.name.crc`` there, and such a file is not listed either, and goes with its directory only.

No ConditionalStorage: the protocol replaces without comparing.
"""

from __future__ import annotations

import contextlib
import io
import tempfile
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, BinaryIO, Final, cast

import attrs

from lakemeta.errors import PathExistsError, PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.report import Outcome
from lakemeta.storage.contract import Entry, is_side_file, temporary_name
from lakemeta.storage.failure import reason, storage_errors
from lakemeta.storage.streams import RangeReader

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.storage.webhdfs import WebHdfs

_READ_BLOCK: Final = 4 * 2**20
_IN_MEMORY: Final = 16 * 2**20
_DELETERS: Final = 8
_ABSENT: Final = (FileNotFoundError, NotADirectoryError)


@attrs.define
class HdfsStorage:
    """One cluster. ``names`` are those it has in ``hdfs://`` URLs; the NameNode is asked where none is known.

    ``addresses`` are its names in ``webhdfs://`` URLs, written ``webhdfs@host:port``.
    """

    web: WebHdfs
    names: tuple[str, ...]
    addresses: tuple[str, ...]
    _asked: str | None = attrs.field(default=None, init=False, eq=False)
    _minds_options: bool = attrs.field(default=False, init=False, eq=False)

    @property
    def scheme(self) -> str:
        """``hdfs://`` with the names of the cluster."""
        return f"hdfs://{','.join([*self._names(), *self.addresses])}"

    def _names(self) -> tuple[str, ...]:
        if not self.names and self._asked is None:
            with storage_errors("look up", "the name of the cluster"):
                # The address that a client would be sent to, to write; nothing is written.
                location = self.web.ask("PUT", "CREATE", "/").headers.get("Location", "")
            self._asked = _parameter(location, "namenoderpcaddress")
        return self.names or tuple(filter(None, [self._asked]))

    def url(self, path: str) -> str:
        """The path with ``hdfs://`` and the first name of the cluster."""
        return f"hdfs://{next(iter(self._names()), '')}{path}"

    def resolve(self, path: str) -> str:
        """The path as it is: servers have no symbolic links, and a listing with one raises."""
        return path

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path."""
        with storage_errors("list", path):
            found = [_entry(f"{path}/{status['pathSuffix']}", status) for status in self._children(path)]
        return sorted((entry for entry in found if not is_side_file(entry.name)), key=lambda entry: entry.path)

    def _children(self, path: str) -> Iterator[Any]:
        """What a directory holds, in pages of as many as the server gives at once (1000)."""
        last: str | None = None
        while True:
            more = {} if last is None else {"startAfter": last}
            listing = self.web.ask("GET", "LISTSTATUS_BATCH", path, **more).json()["DirectoryListing"]
            page = listing["partialListing"]["FileStatuses"]["FileStatus"]
            if any(not status["pathSuffix"] for status in page):
                raise NotADirectoryError("it is a file")
            yield from page
            if not listing["remainingEntries"]:
                return
            if not page or page[-1]["pathSuffix"] == last:
                raise StorageError(f"cannot list {path}: the server has more names and gives none of them")
            last = page[-1]["pathSuffix"]

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory, in no promised order."""
        pending = self.list_dir(path)
        while pending:
            entry = pending.pop()
            if entry.is_dir:
                with contextlib.suppress(PathNotFoundError):  # removed since its parent was listed
                    pending += self.list_dir(entry.path)
            else:
                yield entry

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        with storage_errors("look up", path):
            try:
                self._status(path)
            except _ABSENT:
                return False
        return True

    def _status(self, path: str) -> Any:
        return self.web.ask("GET", "GETFILESTATUS", path).json()["FileStatus"]

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        return self.stat(path).size

    def stat(self, path: str) -> Entry:
        """Size and last change of one file."""
        with storage_errors("look up", path):
            try:
                entry = _entry(path, self._status(path))
            except NotADirectoryError as error:
                raise FileNotFoundError(path) from error  # a part of the way there is a file
            if entry.is_dir:
                raise IsADirectoryError("it is a directory")
            return entry

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with storage_errors("read", path):
            return self.web.fetch(path)

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``; the server refuses a range that holds none."""
        with storage_errors("read", path):
            try:
                return self.web.fetch(path, start, length) if length else b""
            except _ABSENT:
                raise
            except OSError:
                if start >= self._status(path)["length"]:
                    return b""
                raise

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader that reads ahead by 4 MiB."""
        return cast("BinaryIO", io.BufferedReader(RangeReader(self, path, self.size(path)), _READ_BLOCK))

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer, which keeps what it is given on this machine; the file appears once it is closed."""
        return cast("BinaryIO", _Writer(self, path))

    def create(self, path: str, data: bytes) -> None:
        """Atomically create a file that must not exist."""
        with storage_errors("create", path):
            if self.exists(path):
                raise PathExistsError(f"cannot create {path}: it exists")
            self._write(path, data, len(data), "NONE")

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path, in one step."""
        with storage_errors("write", path):
            self._write(path, data, len(data), "OVERWRITE")

    def put_whole(self, path: str, data: BinaryIO, size: int) -> None:
        """The same with the content of a file of this machine."""
        with storage_errors("write", path):
            self._write(path, data, size, "OVERWRITE")

    def _write(self, path: str, data: bytes | BinaryIO, size: int, option: str) -> None:
        temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
        self._need_rename_options(temporary)
        try:
            self.web.put(temporary, data)
            status = self._status(temporary)
            if status["length"] != size:
                raise StorageError(f"cannot write {path}: {status['length']} of {size} bytes have arrived")
            self._rename(temporary, path, option, status["fileId"])
        except BaseException:
            with contextlib.suppress(Exception):
                self.web.ask("DELETE", "DELETE", temporary, recursive="false")
            raise

    def _rename(self, temporary: str, path: str, option: str, file_id: int) -> None:
        """Rename a file; after an answer that got lost the server finds its name gone, and then the file says so."""
        try:
            self.web.ask("PUT", "RENAME", temporary, destination=path, renameoptions=option)
        except FileExistsError:
            raise PathExistsError(f"cannot create {path}: it exists") from None
        except OSError as error:
            try:
                arrived = self._status(path)["fileId"] == file_id
            except OSError:
                arrived = False
            if not arrived:
                raise StorageError(f"cannot write {path}: {reason(error)}") from error

    def _need_rename_options(self, temporary: str) -> None:
        """Refuse a server that does not know them, by renaming what is not there: it would say false, not fail."""
        if self._minds_options:
            return
        try:
            self.web.ask("PUT", "RENAME", temporary, destination=f"{temporary}.none", renameoptions="NONE")
        except FileNotFoundError:
            self._minds_options = True
        else:
            raise UnsupportedFeatureError(
                "the server does not know the options of RENAME, so files cannot be created there exclusively; have "
                "hdfs.webhdfs-url name the NameNode itself, not a gateway"
            )

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files, some at a time; the protocol has no request for many."""
        several = list(dict.fromkeys(paths))
        if len(several) < 2:
            return [self._delete(path) for path in paths]
        with ThreadPoolExecutor(min(_DELETERS, len(several))) as threads:
            outcomes = dict(zip(several, threads.map(self._delete, several), strict=True))
        return [outcomes[path] for path in paths]

    def _delete(self, path: str) -> Outcome:
        try:
            if self._status(path)["type"] == "DIRECTORY":  # which DELETE would remove, were it empty
                return Outcome(path, "failed", "IsADirectoryError: it is a directory")
            gone = self.web.ask("DELETE", "DELETE", path, recursive="false").json()["boolean"]
        except _ABSENT:
            return Outcome(path, "absent")
        except Exception as error:  # noqa: BLE001 - the connection raises what it likes; the outcome has it
            return Outcome(path, "failed", reason(error))
        return Outcome(path, "deleted" if gone else "absent")

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        """Rename files, some at a time; each in one step of the NameNode, which replaces nothing."""
        if not moves:
            return []
        self._need_rename_options(f"{moves[0][0].rpartition('/')[0]}/{temporary_name()}")
        with ThreadPoolExecutor(min(_DELETERS, len(moves))) as threads:
            return list(threads.map(self._move, moves))

    def _move(self, move: tuple[str, str]) -> Outcome:
        old, new = move
        try:
            status = self._status(old)
            if status["type"] == "DIRECTORY":
                return Outcome(old, "failed", "IsADirectoryError: it is a directory")
            self.web.ask("PUT", "MKDIRS", new.rpartition("/")[0])
            self._rename(old, new, "NONE", status["fileId"])
        except _ABSENT:
            return Outcome(old, "absent")
        except PathExistsError:
            return Outcome(old, "failed", f"{new} exists")
        except Exception as error:  # noqa: BLE001 - as in _delete
            return Outcome(old, "failed", reason(error))
        return Outcome(old, "deleted")

    def delete_tree(self, path: str) -> None:
        """Remove a directory with everything in it, in one step of the NameNode."""
        with storage_errors("remove", path):
            if not path.strip("/"):
                raise StorageError(f"cannot remove {path}: it is a whole cluster")
            with contextlib.suppress(*_ABSENT):
                if self._status(path)["type"] != "DIRECTORY":
                    raise StorageError(f"cannot remove {path}: it is no directory")
                self.web.ask("DELETE", "DELETE", path, recursive="true")


class _Writer(io.RawIOBase):
    """Keeps what is written until it is closed. One that was never closed writes nothing."""

    def __init__(self, storage: HdfsStorage, path: str) -> None:
        self._storage, self._path, self._size = storage, path, 0
        self._kept = tempfile.SpooledTemporaryFile(_IN_MEMORY)  # noqa: SIM115 - closed with this one

    def writable(self) -> bool:
        return True

    def tell(self) -> int:
        return self._size

    def write(self, data: Any) -> int:
        written = self._kept.write(data)
        self._size += written
        return written

    def close(self) -> None:
        if self.closed:
            return
        try:
            self._storage.put_whole(self._path, cast("BinaryIO", self._kept), self._size)
        except StorageError as error:
            raise OSError(str(error)) from error
        finally:
            self._kept.close()
            super().close()

    def __del__(self) -> None:
        self._kept.close()


def _entry(path: str, status: Any) -> Entry:
    kind = status["type"]
    if kind == "DIRECTORY":
        return Entry(path, 0, 0, is_dir=True)
    if kind != "FILE":
        raise UnsupportedFeatureError(f"{path} is a {kind.lower()} in HDFS, which is not followed; remove it")
    return Entry(path, int(status["length"]), int(status["modificationTime"]))


def _parameter(url: str, name: str) -> str:
    from urllib.parse import parse_qs

    return parse_qs(url.partition("?")[2]).get(name, [""])[0]

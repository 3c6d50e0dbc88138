from __future__ import annotations

import errno
import io
import os
import shutil
import stat
from pathlib import Path
from typing import TYPE_CHECKING, Any, BinaryIO, cast

import attrs

from lakemeta.errors import PathExistsError, StorageError, UnsupportedFeatureError
from lakemeta.report import Outcome
from lakemeta.storage.contract import Entry, is_side_file, temporary_name
from lakemeta.storage.failure import reason, storage_errors

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

_ABSENT = frozenset({errno.ENOENT, errno.ENOTDIR, errno.ENAMETOOLONG})  # no file has a name that is too long
_NO_HARD_LINKS = frozenset({errno.EPERM, errno.ENOTSUP, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK})


@attrs.frozen
class LocalStorage:
    """The disks of this machine.

    A symbolic link to a directory is a directory to ``list_dir``, which was given its name, but ``walk`` and
    ``delete_tree`` never go through one: what is behind it may belong to others, and may be a circle.
    Deleting a link deletes the link.

    A crash may leave a temporary file ``.<token>.lakemeta-tmp``. Hudi and Iceberg do not take it for one of
    theirs, and it is never listed.
    """

    scheme: str = attrs.field(default="file", init=False)

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path."""
        with storage_errors("list", path):
            return sorted(_scan(path, links=True), key=lambda entry: entry.path)

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory, in no promised order."""
        with storage_errors("list", path):
            pending = _scan(path, links=False)
        while pending:
            entry = pending.pop()
            if entry.is_dir:
                pending += _scan_if_there(entry.path)
            else:
                yield entry

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        with storage_errors("look up", path):
            return _exists(path)

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        with storage_errors("look up", path):
            return Path(path).stat().st_size

    def stat(self, path: str) -> Entry:
        """Size and last change of one file; of a link its own."""
        with storage_errors("look up", path):
            try:
                found = Path(path).lstat()
            except NotADirectoryError as error:
                raise FileNotFoundError(path) from error  # a part of the way there is a file
            if stat.S_ISDIR(found.st_mode):
                raise IsADirectoryError(errno.EISDIR, "it is a directory", path)
        return Entry(path, found.st_size, found.st_mtime_ns // 1_000_000)

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        with storage_errors("read", path):
            return Path(path).read_bytes()

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``."""
        with storage_errors("read", path), Path(path).open("rb") as file:
            file.seek(start)
            return file.read(length)

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader."""
        with storage_errors("read", path):
            return Path(path).open("rb")

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer; the content is on the disk once it is closed."""
        with storage_errors("write", path):
            _make_parent(path)
            _unlink_if_there(_checksum_file(path))
            return cast("BinaryIO", io.BufferedWriter(_DurableFile(path, "wb")))

    def create(self, path: str, data: bytes) -> None:
        """Atomically create a file that must not exist: a temporary file, then a hard link to it.

        A checksum file that is there already goes, for it is of an earlier file: at once if there is none, else by
        whoever has made the file. Another process that makes it at the same time keeps its own: Hadoop's lock providers
        fail for ever on a lock file whose checksum file vanishes under them.
        """
        with storage_errors("create", path):
            checksum = _checksum_file(path)
            left = os.path.lexists(checksum)
            if os.path.lexists(path):
                raise PathExistsError(f"cannot create {path}: it exists")
            if left:
                _unlink_if_there(checksum)
            temporary = _write_temporary(path, data)
            try:
                _link(temporary, path)
                _unlink_if_there(checksum)
            finally:
                _unlink_if_there(temporary)
            _sync_directory(path)

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path.

        The checksum file goes first: a reader may meet content without checksum, never with the wrong one.
        """
        with storage_errors("write", path):
            temporary = _write_temporary(path, data)
            try:
                _unlink_if_there(_checksum_file(path))
                Path(temporary).replace(path)
            except BaseException:
                _unlink_if_there(temporary)
                raise
            _sync_directory(path)

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files, each with its checksum file."""
        return [_delete(path) for path in paths]

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        """Rename files, each without its checksum file."""
        return [_move(*move) for move in moves]

    def append(self, path: str, data: bytes, *, synced: bool) -> None:
        """Add to the end of a file that is there."""
        with storage_errors("write", path):
            descriptor = os.open(path, os.O_WRONLY | os.O_APPEND)
            with open(descriptor, "ab", buffering=0) as file:  # noqa: PTH123 - of a descriptor: it makes no file
                _write_all(file, data)
                if synced:
                    os.fsync(file.fileno())

    def delete_tree(self, path: str) -> None:
        """Remove a directory with everything in it; links are removed, not followed."""
        with storage_errors("remove", path):
            if os.path.islink(path):  # noqa: PTH114 - a Path raises for a name that is too long. rmtree refuses it too, but says of a broken one that nothing is there
                raise OSError(errno.ELOOP, "it is a symbolic link; remove the link itself", path)
            while os.path.lexists(path):
                try:
                    shutil.rmtree(path)
                except FileNotFoundError:
                    continue  # another process removes the same things; what they left is still to do

    def resolve(self, path: str) -> str:
        """The path with every symbolic link on the way followed, as far as that leads anywhere."""
        with storage_errors("look up", path):
            return os.path.realpath(path)

    def url(self, path: str) -> str:
        """The path as it is."""
        return path


class _DurableFile(io.FileIO):
    """A file that is on the disk, not only in the cache, once it is closed; what fails names it."""

    def write(self, data: Any) -> int:
        with storage_errors("write", str(self.name)):
            return super().write(data) or 0

    def close(self) -> None:
        if not self.closed:
            try:
                os.fsync(self.fileno())
            finally:
                super().close()


def _scan(path: str, *, links: bool) -> list[Entry]:
    """What a directory holds; linked directories only if ``links``, our and Hadoop's side files never."""
    found = []
    with os.scandir(path) as entries:
        for entry in entries:
            if not entry.is_file(follow_symlinks=False) and _is_directory(entry):
                if links or not entry.is_symlink():
                    found.append(Entry(entry.path, 0, 0, is_dir=True, is_link=entry.is_symlink()))
            elif not is_side_file(entry.name):
                try:
                    facts = entry.stat(follow_symlinks=False)
                except FileNotFoundError:
                    continue  # deleted since the directory was read
                found.append(Entry(entry.path, facts.st_size, facts.st_mtime_ns // 1_000_000))
    return found


def _is_directory(entry: os.DirEntry[str]) -> bool:
    """True for a directory, or a link to one; a link to itself is none."""
    try:
        return entry.is_dir()
    except OSError as error:
        if error.errno != errno.ELOOP:
            raise
        return False


def _scan_if_there(path: str) -> list[Entry]:
    with storage_errors("list", path):
        try:
            return _scan(path, links=False)
        except FileNotFoundError:
            return []  # removed since its parent was read, with everything in it


def _exists(path: str) -> bool:
    try:
        Path(path).lstat()
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
    return True


def _checksum_file(path: str) -> str:
    parent, _, name = path.rpartition("/")
    return f"{parent}/.{name}.crc"


def _delete(path: str) -> Outcome:
    try:
        _unlink_if_there(_checksum_file(path))
        return Outcome(path, "deleted" if _unlink_if_there(path) else "absent")
    except (OSError, ValueError) as error:
        return Outcome(path, "failed", reason(error))


def _move(old: str, new: str) -> Outcome:
    """Rename by a second name that must be new, and the end of the first: ``rename`` would replace a file."""
    try:
        if not _exists(old):
            return Outcome(old, "absent")
        _make_parent(new)
        try:
            os.link(old, new, follow_symlinks=False)
        except FileExistsError:
            if not _same_file(old, new):
                return Outcome(old, "failed", f"{new} exists")
        except OSError as error:
            if error.errno not in _NO_HARD_LINKS:
                raise
            if _exists(new):
                return Outcome(old, "failed", f"{new} exists")
            os.rename(old, new)  # noqa: PTH104 - as in _unlink_if_there
        _unlink_if_there(_checksum_file(new))
        _unlink_if_there(_checksum_file(old))
        _unlink_if_there(old)
        return Outcome(old, "deleted")
    except (OSError, ValueError) as error:
        return Outcome(old, "failed", reason(error))


def _same_file(one: str, other: str) -> bool:
    """True for two names of one file, as a move leaves them that was cut short."""
    first, second = Path(one).lstat(), Path(other).lstat()
    return (first.st_dev, first.st_ino) == (second.st_dev, second.st_ino)


def _write_all(file: io.FileIO, data: bytes) -> None:
    view = memoryview(data)
    while view:
        view = view[file.write(view) :]


def _unlink_if_there(path: str) -> bool:
    try:
        os.unlink(path)  # noqa: PTH108 - called for every deleted file, and a Path costs as much as the call
    except OSError as error:
        if error.errno not in _ABSENT:
            raise
        return False
    return True


def _make_parent(path: str) -> None:
    Path(path).parent.mkdir(parents=True, exist_ok=True)


def _write_temporary(path: str, data: bytes) -> str:
    """Write and sync ``data`` beside ``path``, under a name of its own."""
    _make_parent(path)
    temporary = f"{path.rpartition('/')[0]}/{temporary_name()}"
    try:
        with _DurableFile(temporary, "xb") as file, io.BufferedWriter(file) as writer:
            writer.write(data)
    except BaseException:
        _unlink_if_there(temporary)
        raise
    return temporary


def _link(temporary: str, path: str) -> None:
    try:
        os.link(temporary, path)
    except FileExistsError:
        # NFS repeats a link request whose answer was lost, and then reports our own file as that of another.
        if Path(temporary).stat().st_nlink != 2:
            raise PathExistsError(f"cannot create {path}: it exists") from None
    except OSError as error:
        if error.errno not in _NO_HARD_LINKS:
            raise
        raise UnsupportedFeatureError(
            f"the file system of {path} has no hard links, so files cannot be created there exclusively; "
            f"keep the table on another one"
        ) from error


def _sync_directory(path: str) -> None:
    """Make the entry of ``path`` in its directory durable; not every file system can."""
    descriptor = os.open(Path(path).parent, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:
            raise StorageError(f"cannot sync the directory of {path}: {reason(error)}") from error
    finally:
        os.close(descriptor)

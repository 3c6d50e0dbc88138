"""The storage contract, as rules. ``tests/contract`` holds every implementation to them.

Paths are absolute and without scheme, in the store's own form: ``/data/t/x`` on a local disk,
``bucket/t/x`` on S3, ``/t/x`` in memory. :func:`lakemeta.storage.open_storage` turns a URL into a storage
and such a path.

1. A storage is picklable and cheap to ship to a worker: it holds options, never a connection.
2. ``list_dir`` gives the direct children of a directory, ``walk`` every file below it: all of them, or they
   raise StorageError. A listing that fails part-way never looks complete. A directory that is not there
   raises PathNotFoundError; object stores have no empty directories. ``list_dir`` is sorted by path,
   ``walk`` promises no order. What vanishes while it is listed may be left out.
3. ``read`` gives whole contents and ``read_range`` a part, which is shorter where the file ends, and ``stat`` what a
   listing says of the file now, of a symbolic link its own. A missing file raises PathNotFoundError. What
   ``open_input`` and ``open_output`` give raises OSError from then on.
4. ``create`` is atomic and fails with PathExistsError if the path is taken: no reader ever sees a part of the
   content, and of two creators exactly one wins. After any other StorageError it is unknown whether the
   file is there. A store that cannot promise this raises UnsupportedFeatureError.
5. ``replace`` puts new content at a path that may exist; readers see the old or the new content.
6. ``delete_many`` gives one Outcome a path, in the order given; an absent file counts as done. It retries
   what the store says is worth retrying. It deletes files only, never a directory. A store that cannot tell
   an absent file from one it has just deleted says ``deleted``.
7. ``delete_tree`` removes a directory and everything below it; absent is fine.
8. A store that is a ConditionalStorage too can replace a file only if no other writer has replaced it meanwhile.
9. Checksum side files of Hadoop's local file system (``.name.crc``) are not listed, and go with their file.
   Directories that a new file needs are made.
10. ``resolve`` gives the path of a directory without symbolic links on the way, there or not; a store that has none
    gives the path as it is. An entry of ``list_dir`` that is a link to a directory says so.
11. ``move_many`` gives one Outcome a move, in the order given and by the old path: ``deleted`` once the content is at
   the new path and no more at the old one, ``absent`` if nothing is at the old one. A new path that is taken by other
   content is a failure: a move never replaces a file. One that was cut short leaves the content at one path or at both,
   and is completed by the same move. Nothing of the content goes through this process.
12. A store that is an AppendingStorage adds to the end of a file, one that is a VersionedStorage hides files in buckets
   that keep versions, instead of deleting them.
"""

from __future__ import annotations

import secrets
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, BinaryIO, Protocol, runtime_checkable

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.report import Outcome

Renewal = Callable[[], Mapping[str, str] | None]


@attrs.frozen(slots=True)
class Entry:
    """One listed path: size in bytes (0 for a directory), last change in ms since the epoch (0: unknown).

    ``is_link`` is true for a symbolic link to a directory, which ``is_dir`` too.
    """

    path: str
    size: int
    modified_ms: int
    is_dir: bool = False
    is_link: bool = False

    @property
    def name(self) -> str:
        """The last part of the path."""
        return self.path.rpartition("/")[2]


TEMPORARY_SUFFIX = ".lakemeta-tmp"


def is_side_file(name: str) -> bool:
    """True for the name of a file that is never listed: a checksum file, or what a crash left of a file of ours."""
    return name.startswith(".") and name.endswith((".crc", TEMPORARY_SUFFIX))


def temporary_name() -> str:
    """A new name for a file that is not whole yet."""
    return f".{secrets.token_hex(16)}{TEMPORARY_SUFFIX}"


def is_checksum_file(name: str) -> bool:
    """True for the name of a side file of Hadoop's ``ChecksumFileSystem``."""
    return name.startswith(".") and name.endswith(".crc")


class Storage(Protocol):
    """One store; the module text holds the rules."""

    @property
    def scheme(self) -> str:
        """``file``, ``s3``, ``memory``, ..."""
        ...

    def list_dir(self, path: str) -> list[Entry]:
        """The direct children of a directory, sorted by path."""
        ...

    def walk(self, path: str) -> Iterator[Entry]:
        """Every file below a directory, in no promised order (sorting is the reader's choice)."""
        ...

    def exists(self, path: str) -> bool:
        """True if a file or directory is there."""
        ...

    def size(self, path: str) -> int:
        """The size of a file in bytes."""
        ...

    def stat(self, path: str) -> Entry:
        """Size and last change of one file."""
        ...

    def read(self, path: str) -> bytes:
        """The whole content of a file."""
        ...

    def read_range(self, path: str, start: int, length: int) -> bytes:
        """At most ``length`` bytes from ``start``."""
        ...

    def open_input(self, path: str) -> BinaryIO:
        """A seekable binary reader."""
        ...

    def open_output(self, path: str) -> BinaryIO:
        """A binary writer to a path that no other writer uses; the content is there once it is closed."""
        ...

    def create(self, path: str, data: bytes) -> None:
        """Atomically create a file that must not exist."""
        ...

    def replace(self, path: str, data: bytes) -> None:
        """Put new content at a path."""
        ...

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files."""
        ...

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        """Move files, each from its old path to a new one."""
        ...

    def delete_tree(self, path: str) -> None:
        """Remove a directory with everything in it."""
        ...

    def resolve(self, path: str) -> str:
        """The path with every symbolic link on the way followed."""
        ...

    def url(self, path: str) -> str:
        """The path with its scheme, as other tools write it; a local path stays as it is."""
        ...


@runtime_checkable
class ConditionalStorage(Protocol):
    """A store that compares before it replaces, as locks need it."""

    def read_versioned(self, path: str) -> tuple[bytes, str]:
        """The whole content of a file, and a token of this version of it; PathNotFoundError if there is none."""
        ...

    def put_versioned(self, path: str, data: bytes, version: str | None) -> str | None:
        """Put new content in place of the given version, or of nothing: the new version, None if there was another."""
        ...


@runtime_checkable
class AppendingStorage(Protocol):
    """A store whose files grow."""

    def append(self, path: str, data: bytes, *, synced: bool) -> None:
        """Add to the end of a file that is there; ``synced`` waits until it has reached the disk."""
        ...


@runtime_checkable
class VersionedStorage(Protocol):
    """A store with buckets that keep what is deleted as versions, behind a delete marker."""

    def keeps_versions(self, path: str) -> bool:
        """True if what is deleted below a path can come back; False also if that cannot be found out."""
        ...

    def hide_many(self, paths: Sequence[str]) -> list[Outcome]:
        """Put a delete marker on each file, and say by ``version`` which it is."""
        ...

    def unhide_many(self, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
        """Take the given marker, or if it is not known the newest, off each file: ``deleted`` if the file is back.

        A file that is there is ``failed``: nothing of it is changed.
        """
        ...

    def forget_many(self, paths: Sequence[tuple[str, str | None]]) -> list[Outcome]:
        """Delete for good the version that a marker hides, and the marker; files that are there again stay."""
        ...

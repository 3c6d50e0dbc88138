"""The one door through which anything of a table is deleted, and what plans of others have written goes in (I/O).

Rules of this module:

1. No other module calls a storage's ``delete_many`` or ``delete_tree``; ``tests/unit/test_deletion.py`` reads the code
   for that. A door is made for what one caller may delete, and is picklable: workers get it as it is.
2. A file goes only if it lies strictly below the door's base, if no part of the way there is empty, ``.`` or
   ``..`` or has a NUL in it, and if the door permits its shape. A directory goes whole under the same rules, by a
   permission of its own. The base itself never goes.
3. No symbolic link lies on the way from the base to what is deleted: what is behind one may belong to others.
   The base itself may be reached through links. Deleting a link deletes the link.
4. All paths of a call are proven before the first of them is deleted. Each directory is looked up once a call.

A process that replaces a directory by a link between the proof and the deletion, and so may write to the table, is not
kept out.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakemeta.report import Outcome
    from lakemeta.storage.contract import Storage

_NO_PARTS: Final = frozenset({"", ".", ".."})
_NOTHING: Final = r"(?!)"


@attrs.frozen
class Door:
    """Deletes what lies below ``base`` (a store path) and has a shape that may go; refuses all else beforehand.

    ``files`` and ``directories`` are regular expressions of whole paths relative to ``base``: what of it may be
    deleted as a file, and what as a directory with everything in it (None: nothing).
    """

    storage: Storage
    base: str
    files: str | None = None
    directories: str | None = None

    def permits(self, path: str) -> bool:
        """True if a file lies below the base and has a shape that may go; links are not looked for."""
        below = bool(self.base) and _lies_below(self.base, path)
        return below and re.fullmatch(self.files or _NOTHING, path[len(self.base) + 1 :]) is not None

    def check_files(self, paths: Iterable[str]) -> None:
        """Raise unless every path is a file that may go.

        Raises CorruptMetadataError for a path outside or of another shape, UnsupportedFeatureError for one behind a
        symbolic link.
        """
        shape, links = re.compile(self.files or _NOTHING), Links(self.storage, self.base)
        start = len(self.base) + 1
        proven: set[str] = set()
        for path in paths:
            folder, _, name = path.rpartition("/")
            if folder not in proven:
                if not self.base or (folder != self.base and not _lies_below(self.base, folder)):
                    raise self._refusal(path)
                _refuse_links(links, folder, path)
                proven.add(folder)
            if name in _NO_PARTS or "\0" in name or not shape.fullmatch(path, start):
                raise self._refusal(path)

    def delete_files(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files: an Outcome each, in the order given. Raises as :meth:`check_files`, with nothing deleted."""
        self.check_files(paths)
        return self.storage.delete_many(paths)

    def create_file(self, path: str, content: bytes) -> None:
        """Create a file whose path a plan made up. Raises as :meth:`check_files`, PathExistsError if it exists."""
        self.check_files([path])
        self.storage.create(path, content)

    def check_directory(self, path: str) -> None:
        """Raise, as :meth:`check_files`, unless the directory may go."""
        shape = self.directories or _NOTHING
        if not _lies_below(self.base, path) or not re.fullmatch(shape, path[len(self.base) + 1 :]):
            raise self._refusal(path)
        _refuse_links(Links(self.storage, self.base), path, path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with everything in it; absent is fine. Raises as :meth:`check_directory`."""
        self.check_directory(path)
        self.storage.delete_tree(path)

    def _refusal(self, path: str) -> CorruptMetadataError:
        return CorruptMetadataError(
            f"{path!r} was to be deleted or made, which lakemeta does to no such name in {self.base}; nothing was done"
        )


class Links:
    """Tells what lies behind symbolic links below ``base``; the base itself is resolved once."""

    def __init__(self, storage: Storage, base: str) -> None:
        self.storage, self.base = storage, base
        self._resolved = storage.resolve(base).rstrip("/")

    def hide(self, directory: str) -> bool:
        """True if a directory, relative to the base, is a link or lies behind one."""
        return bool(directory) and self.storage.resolve(f"{self.base}/{directory}") != f"{self._resolved}/{directory}"


def _refuse_links(links: Links, folder: str, path: str) -> None:
    if links.hide(folder[len(links.base) + 1 :]):
        raise UnsupportedFeatureError(
            f"{path} lies behind a symbolic link in {links.base}, and lakemeta changes nothing there; put the "
            "directory itself in the place of the link, or take the link out of the table"
        )


def _lies_below(base: str, path: str) -> bool:
    if not base or not path.startswith(f"{base}/") or "\0" in path:
        return False
    return _NO_PARTS.isdisjoint(path[len(base) + 1 :].split("/"))

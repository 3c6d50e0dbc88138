"""The one door through which anything of a table is deleted (I/O).

Rules of this module:

1. Nobody else calls a storage's ``delete_many`` or ``delete_tree``; ``tests/unit/test_deletion.py`` reads the sources
   for it. A door is made from a storage and the areas that its caller may delete in, and is picklable: workers get it
   as it is.
2. A file goes only if it lies strictly below the base of an area, if no part of the way there is empty, ``.`` or
   ``..`` or has a NUL in it, and if the area permits its shape. A directory goes whole under the same rules, by a
   permission of its own. No base goes itself.
3. No symbolic link lies on the way from the base to what is deleted: what is behind one may belong to somebody else.
   The base itself may be reached through links. Deleting a link deletes the link.
4. All paths of a call are proven before the first of them is deleted. Each directory is looked up once a call.

Somebody who replaces a directory by a link between the proof and the deletion, and so may write to the table, is not
kept out.
"""

from __future__ import annotations

import re
from operator import attrgetter
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakemeta.report import Outcome
    from lakemeta.storage.contract import Storage

_NO_PARTS: Final = frozenset({"", ".", ".."})


@attrs.frozen
class Area:
    """A directory (store path) below which something may go.

    ``files`` and ``directories`` are regular expressions of whole paths relative to ``base``: what of it may be
    deleted as a file, and what as a directory with everything in it (None: nothing).
    """

    base: str
    files: str | None = None
    directories: str | None = None


_FILES: Final = attrgetter("files")
_DIRECTORIES: Final = attrgetter("directories")


@attrs.frozen
class Door:
    """Deletes what its areas permit, and refuses everything else before it deletes anything."""

    storage: Storage
    areas: tuple[Area, ...]

    def check_files(self, paths: Iterable[str]) -> None:
        """Raise unless every path is a file that may go.

        Raises CorruptMetadataError for a path outside or of another shape, UnsupportedFeatureError for one behind a
        symbolic link.
        """
        links = {area.base: Links(self.storage, area.base) for area in self.areas}
        proven: set[tuple[str, str]] = set()
        for path in paths:
            base, folder = self._area(path, _FILES).base, path.rpartition("/")[0]
            if (base, folder) not in proven:
                _refuse_links(links[base], folder, path)
                proven.add((base, folder))

    def delete_files(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files: an Outcome each, in the order given. Raises as :meth:`check_files`, with nothing deleted."""
        self.check_files(paths)
        return self.storage.delete_many(paths)

    def check_directory(self, path: str) -> None:
        """Raise, as :meth:`check_files`, unless the directory may go."""
        _refuse_links(Links(self.storage, self._area(path, _DIRECTORIES).base), path, path)

    def delete_directory(self, path: str) -> None:
        """Delete a directory with everything in it; absent is fine. Raises as :meth:`check_directory`."""
        self.check_directory(path)
        self.storage.delete_tree(path)

    def _area(self, path: str, shape_of: Callable[[Area], str | None]) -> Area:
        for area in self.areas:
            shape = shape_of(area)
            if shape is not None and _lies_below(area.base, path) and re.fullmatch(shape, path[len(area.base) + 1 :]):
                return area
        where = " or ".join(area.base for area in self.areas)
        raise CorruptMetadataError(
            f"{path!r} was to be deleted, which is nothing that lakemeta deletes in {where}; nothing was done"
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
            f"{path} lies behind a symbolic link in {links.base}, and lakemeta deletes nothing there; put the "
            "directory itself in the place of the link, or take the link out of the table"
        )


def _lies_below(base: str, path: str) -> bool:
    if not base or not path.startswith(f"{base}/") or "\0" in path:
        return False
    return _NO_PARTS.isdisjoint(path[len(base) + 1 :].split("/"))

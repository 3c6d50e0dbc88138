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
        proven: set[tuple[str, str]] = set()
        for path in paths:
            area = self._area(path, _FILES)
            folder = path.rpartition("/")[0]
            if (area.base, folder) not in proven:
                self._refuse_links(area.base, folder, path)
                proven.add((area.base, folder))

    def delete_files(self, paths: Sequence[str]) -> list[Outcome]:
        """Delete files: an Outcome each, in the order given. Raises as :meth:`check_files`, with nothing deleted."""
        self.check_files(paths)
        return self.storage.delete_many(paths)

    def check_directory(self, path: str) -> None:
        """Raise, as :meth:`check_files`, unless the directory may go."""
        self._refuse_links(self._area(path, _DIRECTORIES).base, path, path)

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

    def _refuse_links(self, base: str, folder: str, path: str) -> None:
        if is_behind_link(self.storage, base, folder[len(base) + 1 :]):
            raise UnsupportedFeatureError(
                f"{path} lies behind a symbolic link in {base}, and lakemeta deletes nothing there; put the "
                "directory itself in the place of the link, or take it out of the table"
            )


def is_behind_link(storage: Storage, base: str, directory: str) -> bool:
    """True if a directory, relative to ``base``, is a symbolic link or lies behind one that is below ``base``."""
    if not directory:
        return False
    return storage.resolve(f"{base}/{directory}") != f"{storage.resolve(base).rstrip('/')}/{directory}"


def _lies_below(base: str, path: str) -> bool:
    if not base or not path.startswith(f"{base}/") or "\0" in path:
        return False
    return _NO_PARTS.isdisjoint(path[len(base) + 1 :].split("/"))

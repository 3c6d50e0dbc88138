"""Lists the files of a table's directories, in a streaming way, level by level on an executor (I/O).

Rules of this module:

1. Hidden names are left out below each location (``names``), and so is what is behind a symbolic link.
2. Only files that were last changed before the cutoff, in ms, are candidates. Files of unknown age never are.
3. A location that is given by name must be there; a directory that vanishes while it is listed is empty.
4. What looks like table metadata is kept apart, whatever its age, hidden directories of other formats too: it says
   whether another table lies here.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from lakemeta.errors import OptionError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.executor import nearby
from lakemeta.iceberg.service.neighbours import METADATA, OTHER_TABLES
from lakemeta.paths import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.orphans.names import HiddenNames
    from lakemeta.storage.contract import Entry, Storage

MAX_DEPTH: Final = 2000
_DIRECTORIES: Final = 8  # in one batch of work
_FEW: Final = 16  # directories, which are listed from here
_ROWS: Final = 16_384  # of one chunk of a flat listing


@attrs.frozen
class Counts:
    """How many files were listed, how many are too young or of unknown age to be candidates, and the bytes of all."""

    listed: int = 0
    young: int = 0
    unknown_age: int = 0
    bytes: int = 0

    def plus(self, other: Counts) -> Counts:
        """Both together."""
        return Counts(*(a + b for a, b in zip(attrs.astuple(self), attrs.astuple(other), strict=True)))


@attrs.frozen
class Chunk:
    """Some of the files below a directory: store paths and sizes (bytes) of candidates, store paths by rule 4."""

    paths: pa.Array
    sizes: pa.Array
    metadata: tuple[str, ...] = ()
    directories: tuple[str, ...] = ()
    counts: Counts = Counts()


@attrs.frozen
class Listing:
    """What to list: a directory of a store, what is hidden in it, and before when (ms) a candidate has changed."""

    storage: Storage
    root: str
    hidden: HiddenNames
    cutoff_ms: int

    def chunks(self, executor: Executor, *, flat: bool) -> Iterator[Chunk]:
        """All files below the directory; ``flat`` asks for them in one listing, without directories.

        Raises PathNotFoundError if the directory is not there, UnsupportedFeatureError if it is too deep.
        """
        if flat:
            return self._walk()
        return self._levels(executor)

    def _levels(self, executor: Executor) -> Iterator[Chunk]:
        first = self._folder(self.storage.list_dir(self.root))
        yield first
        level: Sequence[str] = first.directories
        for _ in range(MAX_DEPTH):
            if not level:
                return
            here = nearby(executor) if len(level) <= _FEW else executor
            below: list[str] = []
            for chunk in here.map_batches(self._list, level, batch_size=_DIRECTORIES):
                below += chunk.directories
                yield chunk
            level = below
        if level:
            raise UnsupportedFeatureError(
                f"Could not list sub directories, reached maximum depth: {MAX_DEPTH}; nothing was done, look at "
                f"{self.storage.url(level[0])[:200]}"
            )

    def _list(self, directories: Sequence[str]) -> Iterator[Chunk]:
        for directory in directories:
            try:
                entries = self.storage.list_dir(directory)
            except PathNotFoundError:
                continue
            yield self._folder(entries)

    def _folder(self, entries: Sequence[Entry]) -> Chunk:
        shown = [entry for entry in entries if not self.hidden.hide(entry.name)]
        directories = tuple(e.path for e in shown if e.is_dir and not e.is_link and is_text(e.path))
        others = tuple(e.path for e in entries if e.is_dir and e.name in OTHER_TABLES)
        found = self._files(e for e in shown if not e.is_dir)
        return attrs.evolve(found, metadata=(*found.metadata, *others), directories=directories)

    def _walk(self) -> Iterator[Chunk]:
        below = len(self.root) + 1
        visible = partial(_is_visible, self.hidden.hide, {}, below)
        waiting: list[Entry] = []
        others: set[str] = set()
        for entry in self.storage.walk(self.root):
            if visible(entry.path):
                waiting.append(entry)
            else:
                others.update(_other_table(entry.path, below))
            if len(waiting) >= _ROWS:
                yield self._files(waiting)
                waiting = []
        last = self._files(waiting)
        yield attrs.evolve(last, metadata=(*last.metadata, *sorted(others)))

    def _files(self, entries: Iterable[Entry]) -> Chunk:
        paths, sizes, metadata = [], [], []
        listed = young = unknown = size = 0
        for entry in entries:
            listed += 1
            size += entry.size
            if entry.path.endswith((".json", ".gz")) and METADATA.fullmatch(entry.name):
                metadata.append(entry.path)
            if entry.modified_ms <= 0:
                unknown += 1
            elif entry.modified_ms >= self.cutoff_ms:
                young += 1
            elif is_text(entry.path):
                paths.append(entry.path)
                sizes.append(entry.size)
        counts = Counts(listed, young, unknown, size)
        return Chunk(pa.array(paths, pa.string()), pa.array(sizes, pa.int64()), tuple(metadata), (), counts)


def _is_visible(hide: Callable[[str], bool], seen: dict[str, bool], below: int, path: str) -> bool:
    """True unless a part of a path from ``below`` on is hidden; folders are looked at once."""
    folder, _, name = path.rpartition("/")
    if folder not in seen:
        if len(seen) > _ROWS:
            seen.clear()
        seen[folder] = not any(map(hide, folder[below:].split("/"))) if len(folder) >= below else True
    return seen[folder] and not hide(name)


def _other_table(path: str, below: int) -> list[str]:
    """The directory of another format's table that a hidden file lies in, if it does."""
    parts = path[below:].split("/")[:-1]
    at = next((at for at, part in enumerate(parts, 1) if part in OTHER_TABLES), None)
    return [] if at is None else [path[:below] + "/".join(parts[:at])]


def missing(location: str) -> OptionError:
    """The error for a location that was given by name and is not there."""
    return OptionError(f"File {location} does not exist; name a location of the table that does")

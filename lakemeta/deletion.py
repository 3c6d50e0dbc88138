"""The one door through which anything of a table is deleted, and what plans of others have written goes in (I/O).

Rules of this module:

1. No other module calls a storage's operations that delete or move; ``tests/unit/test_deletion.py`` reads the code
   for that. A door is made for what one caller may delete, and is picklable: workers get it as it is.
2. A file goes only if it lies strictly below the door's base, if no part of the way there is empty, ``.`` or
   ``..`` or has a NUL in it, and if the door permits its shape. A directory goes whole under the same rules, by a
   permission of its own. The base itself never goes.
3. No symbolic link lies on the way from the base to what is deleted: what is behind one may belong to others.
   The base itself may be reached through links. Deleting a link deletes the link.
4. All paths of a call are proven before the first of them is deleted. Each directory is looked up once a call.
5. What a plan names is disposed of: recorded in the ledger of the run that is going on (``ledger.run``), and in a
   run that quarantines moved out of the way, into the door's quarantine, or hidden where the store keeps versions.
   What a run takes back that it wrote itself, and its marks, locks and instants, are deleted and not recorded.

A process that replaces a directory by a link between the proof and the deletion, and so may write to the table, is not
kept out.
"""

from __future__ import annotations

import re
from functools import partial
from typing import TYPE_CHECKING, Final, Protocol, TypeVar

import attrs

from lakemeta.errors import CorruptMetadataError, StorageError, UnsupportedFeatureError
from lakemeta.ledger.lines import RUN
from lakemeta.ledger.run import current_run
from lakemeta.storage.contract import VersionedStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.report import Outcome
    from lakemeta.storage.contract import Storage

R = TypeVar("R")

_NO_PARTS: Final = frozenset({"", ".", ".."})
_NOTHING: Final = r"(?!)"
_BATCH: Final = 1000  # one bulk request of an object store


@attrs.frozen
class Quarantine:
    """Where quarantined files of a directory ``root`` wait: below ``folder``, by run and path in ``root``."""

    root: str
    folder: str

    def place(self, run: str, path: str) -> str:
        """Where a file of a run waits."""
        return f"{self.folder}/{run}/{path[len(self.root) + 1 :]}"

    def origin(self, run: str, place: str) -> str:
        """Where a file that waits was."""
        return f"{self.root}/{place[len(self.folder) + len(run) + 2 :]}"


@attrs.frozen
class Door:
    """Deletes what lies below ``base`` (a store path) and has a shape that may go; refuses all else beforehand.

    ``files`` and ``directories`` are regular expressions of whole paths relative to ``base``: what of it may be
    deleted as a file, and what as a directory with everything in it (None: nothing). ``quarantine`` is where files wait
    in runs that do not delete; None if what goes through this door can be made again. ``run`` is such a run.
    """

    storage: Storage
    base: str
    files: str | None = None
    directories: str | None = None
    quarantine: Quarantine | None = None
    run: str | None = None

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
        if self.quarantine is None or self.run is None:
            return self.storage.delete_many(paths)
        return self._put_aside(self.quarantine, self.run, paths)

    def _put_aside(self, quarantine: Quarantine, run: str, paths: Sequence[str]) -> list[Outcome]:
        if isinstance(self.storage, VersionedStorage) and self.storage.keeps_versions(self.base):
            return self.storage.hide_many(paths)
        folder = f"{quarantine.folder}/{run}"
        _refuse_links(Links(self.storage, quarantine.root), folder, folder)
        return self.storage.move_many([(path, quarantine.place(run, path)) for path in paths])

    def dispose(
        self,
        files: Sequence[tuple[str, int | None]],
        executor: Executor,
        *,
        batch_size: int = _BATCH,
        work: Callable[[Door, Sequence[str]], Iterable[R]] | None = None,
    ) -> Iterator[R | Outcome]:
        """Do away with files (store path, bytes) that a plan names, as rule 5 says: what became of each.

        ``work`` may look at files before it deletes them by the door that it is given; for what stays it says something
        else than an Outcome.
        """
        run, door = current_run(), self._of_run()
        act: Callable[[Sequence[str]], Iterable[R | Outcome]]
        act = door.delete_files if work is None else partial(work, door)
        if run is None:
            return executor.map_batches(act, [path for path, _ in files], batch_size=batch_size)
        return run.each(act, self.base, files, executor, batch_size=batch_size)

    def _of_run(self) -> Door:
        run = current_run()
        if run is None or run.mode != "quarantine":
            return self
        run.open()
        return attrs.evolve(self, run=run.id)

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

    def dispose_directory(self, path: str, executor: Executor) -> None:
        """Do away with a directory and all files in it, as rule 5 says; absent is fine.

        Raises as :meth:`check_directory`, and StorageError if a file in it cannot be moved.
        """
        self.check_directory(path)
        run = current_run()
        if run is not None and self.storage.exists(path):
            inside = attrs.evolve(self._of_run(), base=path, files=r"(?s:.+)", directories=None)
            files = sorted((entry.path, entry.size) for entry in self.storage.walk(path))
            for one in run.each(inside.delete_files, self.base, files, executor, batch_size=_BATCH, directory=path):
                if not one.done:
                    raise StorageError(f"cannot remove {path}: {one.path}: {one.error}")
        self.storage.delete_tree(path)

    def bring_back(self, files: Sequence[Put]) -> list[Outcome]:
        """Move quarantined files back, or take their delete markers off: an Outcome each, by where they belong.

        Raises as :meth:`check_files`, with nothing moved. ``deleted`` is said of a file that is back.
        """
        self.check_files(file.origin for file in files)
        hidden = [(file.origin, file.marker) for file in files if file.place is None]
        moves = {file.place: file.origin for file in files if file.place is not None}
        done = {moves[o.path]: attrs.evolve(o, path=moves[o.path]) for o in self.storage.move_many([*moves.items()])}
        if hidden and isinstance(self.storage, VersionedStorage):
            done |= {outcome.path: outcome for outcome in self.storage.unhide_many(hidden)}
        return [done[file.origin] for file in files]

    def forget(self, paths: Sequence[str], markers: Mapping[str, str | None]) -> list[Outcome]:
        """Delete for good what delete markers hide. Raises as :meth:`check_files`, with nothing deleted."""
        self.check_files(paths)
        assert isinstance(self.storage, VersionedStorage), "only such a store hides files"
        return self.storage.forget_many([(path, markers[path]) for path in paths])

    def forget_emptied(self, folder: str) -> None:
        """Remove the directories of a run in the quarantine if no file is left in them."""
        assert self.quarantine is not None, "this door has a quarantine"
        door = purge_door(self.storage, self.quarantine)
        door.check_directory(folder)
        if self.storage.exists(folder) and next(self.storage.walk(folder), None) is None:
            door.delete_directory(folder)

    def _refusal(self, path: str) -> CorruptMetadataError:
        return CorruptMetadataError(
            f"{path!r} was to be deleted or made, which lakemeta does to no such name in {self.base}; nothing was done"
        )


def purge_door(storage: Storage, quarantine: Quarantine) -> Door:
    """The door for what runs have put into a quarantine, run by run."""
    folder = re.escape(quarantine.folder[len(quarantine.root) + 1 :])
    return Door(storage, quarantine.root, None, rf"{folder}/{RUN}")


class Put(Protocol):
    """A file that was put aside: where it belongs, and where it waits, or behind which delete marker."""

    @property
    def origin(self) -> str:
        """Its store path in the table."""
        ...

    @property
    def place(self) -> str | None:
        """Its store path in quarantine; None if it is hidden as a version."""
        ...

    @property
    def marker(self) -> str | None:
        """The marker that hides it, if that is known."""
        ...


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

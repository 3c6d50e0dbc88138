"""Ledgers as files: written part by part, found and read again (I/O).

Rules of this module:

1. A ledger is ``<run>.jsonl`` in a directory of its own. A store that appends grows that file; in any other each write
   is a new object, ``<run>.0002.jsonl`` and so on, made exclusively: rewriting one object would cost the square of its
   length, and would put at risk what was recorded before.
2. The first part is written before anything is changed. If it cannot be, nothing is.
3. What was appended outlives the process. It reaches the disk with the first and the last part, and before every move
   into a quarantine: a deletion has nothing that a lost line could bring back.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, PathExistsError, PathNotFoundError, StorageError
from lakemeta.ledger.lines import RUN, Batch, Done, End, Line, Opening, parse_line, parse_lines
from lakemeta.storage import open_storage
from lakemeta.storage.contract import AppendingStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from os import PathLike

    from lakemeta.storage import Storage

_PART: Final = re.compile(rf"({RUN})(?:\.([0-9]{{4,8}}))?\.jsonl", re.ASCII)
_EDGE: Final = 64 * 2**10  # bytes of a file that hold its first or last line


@attrs.frozen
class LedgerPlace:
    """Where the ledgers of a table are, its URL, and by which name it is known in them."""

    storage: Storage
    folder: str
    table: str
    identity: str

    def moved(self, url: str | PathLike[str] | None) -> LedgerPlace:
        """The place in a directory that a caller names by path or URL, itself if none is named.

        Another one in the table's kind of store is reached as the table is. Raises OptionError for a malformed URL.
        """
        if url is None:
            return self
        storage, folder = open_storage(url)
        return attrs.evolve(
            self, storage=self.storage if storage.scheme == self.storage.scheme else storage, folder=folder
        )

    def named(self, name: str) -> Ledger:
        """The ledger whose first part has this name; raises StorageError if there is none."""
        found = next((one for one in find_ledgers(self.storage, self.folder) if f"{one.run}.jsonl" == name), None)
        if found is None:
            raise StorageError(f"{self.folder}/{name} is no ledger; lakemeta history TABLE names those of a table")
        return found


@attrs.define
class LedgerFile:
    """A ledger that is being written; ``path`` is that of its first part."""

    storage: Storage
    path: str
    synced: bool
    _parts: int = 0

    def write(self, data: bytes) -> None:
        """Add lines; raises StorageError if they may not be there."""
        if self._parts and isinstance(self.storage, AppendingStorage):
            self.storage.append(self.path, data, synced=self.synced)
            return
        while True:
            self._parts += 1
            path = self.path if self._parts == 1 else f"{self.path.removesuffix('.jsonl')}.{self._parts:04d}.jsonl"
            try:
                self.storage.create(path, data)
            except PathExistsError:
                if self._parts == 1:
                    raise
                continue  # the answer to an earlier create was lost
            return


@attrs.frozen
class Ledger:
    """A ledger that was found: the store paths of its parts, in order."""

    storage: Storage
    run: str
    parts: tuple[str, ...]

    @property
    def path(self) -> str:
        """The path by which it is named."""
        return self.parts[0]

    def opening(self) -> Opening:
        """Its first line; raises CorruptMetadataError if that is none."""
        head = self.storage.read_range(self.path, 0, _EDGE).partition(b"\n")
        found = parse_line(head[0], self.path) if head[1] else None
        if not isinstance(found, Opening) or found.run != self.run:
            raise CorruptMetadataError(f"{self.path} is no ledger: it does not begin as one; nothing was done by it")
        return found

    def end(self) -> End | None:
        """Its last line; None if the run has not ended."""
        last = self.parts[-1]
        size = self.storage.size(last)
        tail = self.storage.read_range(last, max(0, size - _EDGE), min(size, _EDGE))
        lines = tail.split(b"\n")
        if lines[-1] or not lines[-2:-1] or not lines[-2].startswith(b'{"end"'):
            return None
        found = parse_line(lines[-2], last)
        return found if isinstance(found, End) else None

    def lines(self) -> list[Line]:
        """All its lines."""
        found = parse_lines((self.storage.read(part) for part in self.parts), self.path)
        if isinstance(found[0], Opening) and found[0].run != self.run:
            raise CorruptMetadataError(f"{self.path} is the ledger of another run; nothing was done by it")
        return found

    def batches(self) -> Iterator[tuple[Batch, Done | None]]:
        """Each batch, and its outcome if that was recorded."""
        lines = self.lines()
        done = {line.number: line for line in lines if isinstance(line, Done)}
        for line in lines:
            if isinstance(line, Batch):
                yield line, _fitting(line, done.get(line.number), self.path)


def _fitting(batch: Batch, done: Done | None, where: str) -> Done | None:
    if done is not None:
        named = (*done.absent, *done.stayed, *done.failed)
        if any(not 0 <= place < len(batch.files) for place in named) or len(done.versions) not in (0, len(batch.files)):
            raise CorruptMetadataError(f"{where} was damaged: batch {batch.number} has other files than its outcome")
    return done


def find_ledgers(storage: Storage, folder: str) -> list[Ledger]:
    """The ledgers in a directory, oldest run first; none if there is no such directory."""
    try:
        entries = storage.list_dir(folder)
    except PathNotFoundError:
        return []
    parts: dict[str, dict[int, str]] = {}
    for entry in entries:
        match = None if entry.is_dir else _PART.fullmatch(entry.name)
        if match is not None:
            parts.setdefault(match[1], {})[int(match[2] or 1)] = entry.path
    return [
        Ledger(storage, run, tuple(path for _, path in sorted(found.items())))
        for run, found in sorted(parts.items())
        if 1 in found
    ]

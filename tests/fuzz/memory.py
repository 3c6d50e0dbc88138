"""A store of one table in memory, as fast as Python goes: new for each mutation, and asked afterwards what is left."""

from __future__ import annotations

import io
from collections.abc import Iterator, Mapping, Sequence
from typing import BinaryIO

from lakemeta.errors import PathExistsError, PathNotFoundError, StorageError
from lakemeta.report import Outcome
from lakemeta.storage.contract import Entry, is_checksum_file

File = tuple[bytes, int]  # content, and when it was last changed (ms since the epoch)
WRITTEN_MS = 1_800_000_000_000


class MemoryTable:
    """The storage contract over a dictionary; ``scheme`` says whose paths the table's metadata names."""

    scheme = "file"

    def __init__(self, files: Mapping[str, File]) -> None:
        self.files = dict(files)
        self._children: dict[str, set[str]] = {}
        for path in files:
            self._know(path)

    def _know(self, path: str) -> None:
        while path:
            parent, _, name = path.rpartition("/")
            known = self._children.setdefault(parent, set())
            if name in known:
                return
            known.add(name)
            path = parent

    def _forget(self, path: str) -> None:
        self.files.pop(path, None)
        while path and path not in self.files and not self._children.get(path):
            self._children.pop(path, None)
            parent, _, name = path.rpartition("/")
            self._children.get(parent, set()).discard(name)
            path = parent

    def list_dir(self, path: str) -> list[Entry]:
        path = path.rstrip("/")
        if path in self.files:
            raise StorageError(f"cannot list {path}: it is a file")
        if path not in self._children:
            raise PathNotFoundError(f"cannot list {path}: there is no such file or directory")
        return [self._entry(f"{path}/{name}") for name in sorted(self._children[path]) if not is_checksum_file(name)]

    def _entry(self, path: str) -> Entry:
        found = self.files.get(path)
        return Entry(path, 0, 0, is_dir=True) if found is None else Entry(path, len(found[0]), found[1])

    def walk(self, path: str) -> Iterator[Entry]:
        pending = self.list_dir(path)
        while pending:
            entry = pending.pop()
            if entry.is_dir:
                pending += self.list_dir(entry.path)
            else:
                yield entry

    def exists(self, path: str) -> bool:
        return path in self.files or path in self._children

    def size(self, path: str) -> int:
        return len(self.read(path))

    def stat(self, path: str) -> Entry:
        self.read(path)
        return self._entry(path)

    def read(self, path: str) -> bytes:
        found = self.files.get(path)
        if found is None:
            raise PathNotFoundError(f"cannot read {path}: there is no such file or directory")
        return found[0]

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.read(path)[start : start + length]

    def open_input(self, path: str) -> BinaryIO:
        return io.BytesIO(self.read(path))

    def open_output(self, path: str) -> BinaryIO:
        return _Writer(self, path)

    def create(self, path: str, data: bytes) -> None:
        if self.exists(path):
            raise PathExistsError(f"cannot create {path}: it exists")
        self.replace(path, data)

    def replace(self, path: str, data: bytes) -> None:
        path.encode()
        if "\0" in path:
            raise StorageError(f"cannot write {path!r}: no file has such a name")
        if path in self._children:
            raise StorageError(f"cannot write {path}: it is a directory")
        self.files[path] = (data, WRITTEN_MS)
        self._know(path)

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        return [self._delete(path) for path in paths]

    def _delete(self, path: str) -> Outcome:
        if path not in self.files:
            return Outcome(path, "absent")
        self._forget(path)
        return Outcome(path, "deleted")

    def delete_tree(self, path: str) -> None:
        for name in list(self._children.get(path, ())):
            child = f"{path}/{name}"
            if child in self.files:
                self._forget(child)
            else:
                self.delete_tree(child)

    def resolve(self, path: str) -> str:
        return path

    def url(self, path: str) -> str:
        return path


class _Writer(io.BytesIO):
    def __init__(self, table: MemoryTable, path: str) -> None:
        super().__init__()
        self._table, self._path = table, path

    def close(self) -> None:
        if not self.closed:
            self._table.replace(self._path, self.getvalue())
        super().close()

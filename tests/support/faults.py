"""Storages that misbehave on purpose or tell what was asked of them, around any other storage.

A crash loop runs the same work again and again, crashing one operation later each time::

    for at in count(1):
        table = fresh_copy()
        storage = FaultyStorage(LocalStorage(), at, "half")
        with suppress(Crash):
            work(storage, table)
        check(table)
        if not storage.crashed:
            break

All of them can be pickled if the storage inside can; a copy counts and records for itself.
"""

from __future__ import annotations

import io
import threading
import time
from typing import TYPE_CHECKING, Any, BinaryIO, Literal, TypeVar

from lakemeta.report import Outcome
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.storage import Entry, Storage

T = TypeVar("T")

MUTATING = frozenset({"open_output", "create", "replace", "delete_many", "move_many", "delete_tree"})


class Crash(BaseException):
    """The process is gone. No ``except Exception`` may hold it up."""


class WrappedStorage:
    """Hands every operation to the storage inside, through :meth:`operation`.

    Writing with ``open_output`` is one operation, which happens when the writer is closed.
    """

    def __init__(self, inner: Storage) -> None:
        self.inner = inner

    @property
    def scheme(self) -> str:
        return self.inner.scheme

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        """Do one operation; ``half`` is what a crash in the middle would leave done (nothing if atomic)."""
        return effect()

    def list_dir(self, path: str) -> list[Entry]:
        return self.operation("list_dir", [path], lambda: self.inner.list_dir(path))

    def walk(self, path: str) -> Iterator[Entry]:
        return self.operation("walk", [path], lambda: self.inner.walk(path))

    def exists(self, path: str) -> bool:
        return self.operation("exists", [path], lambda: self.inner.exists(path))

    def size(self, path: str) -> int:
        return self.operation("size", [path], lambda: self.inner.size(path))

    def stat(self, path: str) -> Entry:
        return self.operation("stat", [path], lambda: self.inner.stat(path))

    def read(self, path: str) -> bytes:
        return self.operation("read", [path], lambda: self.inner.read(path))

    def read_range(self, path: str, start: int, length: int) -> bytes:
        return self.operation("read_range", [path], lambda: self.inner.read_range(path, start, length))

    def open_input(self, path: str) -> BinaryIO:
        return self.operation("open_input", [path], lambda: self.inner.open_input(path))

    def open_output(self, path: str) -> BinaryIO:
        return _Writer(self, path)

    def create(self, path: str, data: bytes) -> None:
        self.operation("create", [path], lambda: self.inner.create(path, data))

    def replace(self, path: str, data: bytes) -> None:
        self.operation("replace", [path], lambda: self.inner.replace(path, data))

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        first = paths[: len(paths) // 2]
        return self.operation(
            "delete_many",
            paths,
            lambda: self.inner.delete_many(paths),
            lambda: self.inner.delete_many(first),
        )

    def move_many(self, moves: Sequence[tuple[str, str]]) -> list[Outcome]:
        first = moves[: len(moves) // 2]
        return self.operation(
            "move_many",
            [old for old, _ in moves],
            lambda: self.inner.move_many(moves),
            lambda: self.inner.move_many(first),
        )

    def delete_tree(self, path: str) -> None:
        self.operation(
            "delete_tree",
            [path],
            lambda: self.inner.delete_tree(path),
            lambda: _delete_half(self.inner, path),
        )

    def resolve(self, path: str) -> str:
        return self.inner.resolve(path)

    def url(self, path: str) -> str:
        return self.inner.url(path)


class FaultyStorage(WrappedStorage):
    """Raises Crash at the ``at``-th operation (from 1; None: never), and at every later one.

    ``when`` is ``before`` the operation has any effect, ``after`` it has all of it, or ``half``: of the files
    to delete the first half is gone, of a file written with ``open_output`` the first half is there; an
    operation that is atomic has no half and did not happen. ``counted`` says what counts as an operation: the
    ``mutating`` ones, or ``all``. ``operations`` tells how many were counted, ``crashed`` whether it happened.
    """

    def __init__(
        self,
        inner: Storage,
        at: int | None = None,
        when: Literal["before", "after", "half"] = "before",
        counted: Literal["mutating", "all"] = "mutating",
    ) -> None:
        super().__init__(inner)
        self.at, self.when, self.counted = at, when, counted
        self.operations = 0
        self.crashed = False
        self._lock = threading.RLock()

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        if self.counted == "mutating" and name not in MUTATING:
            self._check_alive(name, paths)
            return effect()
        with self._lock:
            self._check_alive(name, paths)
            self.operations += 1
            if self.operations != self.at:
                return effect()
            self.crashed = True
            if self.when == "after":
                effect()
            elif self.when == "half" and half is not None:
                half()
        raise Crash(f"{self.when} operation {self.at}: {name} {list(paths[:1])}")

    def _check_alive(self, name: str, paths: Sequence[str]) -> None:
        if self.crashed:
            raise Crash(f"{name} {list(paths[:1])} after the crash")

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state)
        self._lock = threading.RLock()


class LatencyStorage(WrappedStorage):
    """Waits ``ms`` milliseconds before every operation, as a distant store would."""

    def __init__(self, inner: Storage, ms: float) -> None:
        super().__init__(inner)
        self.ms = ms

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        time.sleep(self.ms / 1000)
        return effect()


class HookedStorage(WrappedStorage):
    """Tells ``hook`` of every operation, by name and first path, before it happens."""

    def __init__(self, inner: Storage, hook: Callable[[str, str], object]) -> None:
        super().__init__(inner)
        self.hook = hook

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        self.hook(name, next(iter(paths), ""))
        return effect()


class Stubborn(WrappedStorage):
    """Local storage that deletes no file whose path has ``word`` in it, as a store does that does not allow it."""

    def __init__(self, word: str) -> None:
        super().__init__(LocalStorage())
        self.word = word

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        return effect()

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        return [
            Outcome(path, "failed", "denied") if self.word in path else self.inner.delete_many([path])[0]
            for path in paths
        ]


class RecordingStorage(WrappedStorage):
    """Keeps ``calls``, the (operation, path) pairs in order; ``delete_many`` gives one pair a path."""

    def __init__(self, inner: Storage) -> None:
        super().__init__(inner)
        self.calls: list[tuple[str, str]] = []

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        self.calls += [(name, path) for path in paths]
        return effect()

    def mutations(self) -> list[tuple[str, str]]:
        """The calls that change something."""
        return [call for call in self.calls if call[0] in MUTATING]


class _Writer(io.BytesIO):
    """Keeps the content until it is closed. A writer dropped by a crash leaves nothing."""

    def __init__(self, storage: WrappedStorage, path: str) -> None:
        super().__init__()
        self._storage, self._path = storage, path

    def close(self) -> None:
        if self.closed:
            return
        data = self.getvalue()
        super().close()
        if not getattr(self._storage, "crashed", False):
            self._storage.operation(
                "open_output",
                [self._path],
                lambda: self._put(data),
                lambda: self._put(data[: len(data) // 2]),
            )

    def _put(self, data: bytes) -> None:
        with self._storage.inner.open_output(self._path) as file:
            file.write(data)


def _delete_half(storage: Storage, path: str) -> None:
    if storage.exists(path):
        files = sorted(entry.path for entry in storage.walk(path))
        storage.delete_many(files[: len(files) // 2])

"""How work is spread: the Executor protocol and the executor that uses local threads (I/O).

An executor needs ``map_batches`` alone (:class:`Executor`). One that also says where it works is a
:class:`LocatedExecutor`. Any other is taken to ship its work, small work too: :func:`ships`, :func:`nearby`.

Rules of the contract, which ``tests/contract`` holds every executor to:

- ``fn`` is picklable and idempotent: a batch may run more than once.
- Results come in input order and depend neither on the batch size nor on the executor.
- What can be expected to fail for one item is a value in the results. A raise ends the run as ExecutorError
  (a LakemetaError passes through as it is): never a shorter result that looks complete.
- The context in which ``map_batches`` is called has the name of the work (:func:`current_work`) and what to call when a
  batch has ended (:func:`batch_listener`), which is for executors that hold results back for the sake of their order.
  An executor may use both and may ignore both.
"""

from __future__ import annotations

import os
from collections import deque
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from contextvars import ContextVar
from itertools import islice
from typing import TYPE_CHECKING, Final, Protocol, TypeVar, runtime_checkable

from lakemeta.errors import ExecutorError, LakemetaError, OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from concurrent.futures import Future

T = TypeVar("T")
R = TypeVar("R")

_LONGEST: Final = 300  # characters of a name or an error in a message

_WORK = ContextVar("work", default="work")
_ENDED: ContextVar[Callable[[int], None] | None] = ContextVar("ended", default=None)


class Executor(Protocol):
    """Maps a function over batches of items, somewhere."""

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the results of ``fn`` over consecutive batches of ``items``, in input order."""
        ...


@runtime_checkable
class LocatedExecutor(Executor, Protocol):
    """An executor that says where it works. One around another says what that one says."""

    @property
    def ships(self) -> bool:
        """True if work leaves this process: it is pickled, shares no memory, and an attempt may get lost."""
        ...

    @property
    def nearby(self) -> Executor:
        """An executor of this process, for work that is too small to be shipped; itself if nothing is shipped."""
        ...


def ships(executor: Executor) -> bool:
    """True unless the executor says that its work stays in this process."""
    return executor.ships if isinstance(executor, LocatedExecutor) else True


def nearby(executor: Executor) -> Executor:
    """Where to do work that is too small to be shipped: what the executor names, else the executor itself."""
    return executor.nearby if isinstance(executor, LocatedExecutor) else executor


class LocalExecutor:
    """Runs batches on a pool of threads, a bounded number ahead of the consumer.

    Items are taken from their iterable as they are needed. Once the consumer stops, by an error, by Ctrl-C or
    by closing the iterator, no further batch starts; those that run are waited for. With one thread
    everything happens on the consumer's own, in an order that is always the same.
    """

    def __init__(self, threads: int | None = None, on_stop: Callable[[], None] | None = None) -> None:
        """``threads`` defaults to four a core, at most 32: the work is mostly waiting for storage.

        ``on_stop`` is called once no more results are wanted, before batches that run are waited for: long ones may
        take it as a sign to give up.
        """
        self._on_stop = on_stop
        self.threads = min(32, 4 * (os.cpu_count() or 1)) if threads is None else threads
        if self.threads < 1:
            raise OptionError(f"an executor of {threads} threads does no work; give it at least 1")

    @property
    def ships(self) -> bool:
        """False: threads share this process."""
        return False

    @property
    def nearby(self) -> LocalExecutor:
        """Itself."""
        return self

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the results of ``fn`` over consecutive batches of ``items``, in input order."""
        if batch_size < 1:
            raise OptionError(f"the batch size is {batch_size}; it must be at least 1")
        if self.threads == 1:
            return (result for batch in batched(items, batch_size) for result in run_batch(fn, batch))
        return self._on_pool(fn, batched(items, batch_size))

    def _on_pool(self, fn: Callable[[Sequence[T]], Iterable[R]], batches: Iterator[list[T]]) -> Iterator[R]:
        pending: deque[Future[list[R]]] = deque()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakemeta") as pool:
            try:
                for batch in batches:
                    pending.append(pool.submit(run_batch, fn, batch))
                    if len(pending) >= 2 * self.threads:
                        yield from pending.popleft().result()
                while pending:
                    yield from pending.popleft().result()
            finally:
                for future in pending:
                    future.cancel()
                if self._on_stop is not None:
                    self._on_stop()


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of at most ``size`` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def run_batch(fn: Callable[[Sequence[T]], Iterable[R]], batch: Sequence[T]) -> list[R]:
    """The results of one batch. Raises ExecutorError, naming the batch, for what is no LakemetaError."""
    try:
        return list(fn(batch))
    except LakemetaError:
        raise
    except Exception as error:
        what = f"{type(error).__name__}: {' '.join(str(error).split())}".removesuffix(": ")[:_LONGEST]
        raise ExecutorError(
            f"work on {describe_batch(batch)} failed in a way that was not foreseen, nothing of it counts, and it "
            f"should be reported: {what}"
        ) from error


def describe_batch(batch: Sequence[object]) -> str:
    """A batch in the words of a message: its first item, and how many there are after it."""
    more = len(batch) - 1
    return _item(batch[0]) + (
        f" and the {more} items after it" if more > 1 else " and the item after it" if more else ""
    )


def _item(item: object) -> str:
    """An item by the name that it gives itself, or by the first text in it; its repr, cut off, if there is none."""
    if isinstance(item, tuple):
        item = next((part for part in item if isinstance(part, str)), item)
    named = isinstance(item, str) or type(item).__str__ is not object.__str__
    return str(item) if named else repr(item)[:_LONGEST]


@contextmanager
def working_on(name: str) -> Iterator[None]:
    """Name the work that starts inside, by phase and table, for executors that show what they do."""
    token = _WORK.set(name)
    try:
        yield
    finally:
        _WORK.reset(token)


@contextmanager
def hearing_of_batches(ended: Callable[[int], None]) -> Iterator[None]:
    """Call ``ended`` with the number, from 0, of each batch of the work that starts inside once it has ended.

    Executors that hold results back for the sake of their order do so: before the result is given, from any thread,
    in any order, maybe twice. Others need not.
    """
    token = _ENDED.set(ended)
    try:
        yield
    finally:
        _ENDED.reset(token)


def batch_listener() -> Callable[[int], None] | None:
    """What to call with the number of each batch that has ended, by :func:`hearing_of_batches`; None if nothing."""
    return _ENDED.get()


def current_work() -> str:
    """The name that :func:`working_on` gave to the work."""
    return _WORK.get()

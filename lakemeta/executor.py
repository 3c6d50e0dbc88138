"""How work is spread: the Executor protocol and the executor that uses local threads.

Rules of the contract, which ``tests/contract`` holds every executor to:

- ``fn`` is picklable and idempotent: a batch may run more than once.
- Results come in input order and depend neither on the batch size nor on the executor.
- What can be expected to fail for one item is a value in the results. A raise ends the run as ExecutorError
  (a LakemetaError passes through as it is): never a shorter result that looks complete.
"""

from __future__ import annotations

import os
from collections import deque
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor
from itertools import islice
from typing import Protocol, TypeVar

from lakemeta.errors import ExecutorError, LakemetaError

T = TypeVar("T")
R = TypeVar("R")


class Executor(Protocol):
    """Maps a function over batches of items, somewhere."""

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the results of ``fn`` over consecutive batches of ``items``, in input order."""
        ...


class LocalExecutor:
    """Runs batches on a pool of threads, a bounded number ahead of the consumer."""

    def __init__(self, threads: int | None = None) -> None:
        """``threads`` defaults to four a core, at most 32: the work is mostly waiting for storage."""
        self.threads = threads or min(32, 4 * (os.cpu_count() or 1))

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the results of ``fn`` over consecutive batches of ``items``, in input order."""
        if batch_size < 1:
            raise ValueError(f"batch_size is {batch_size}; it must be at least 1")
        pending: deque[tuple[list[T], Future[list[R]]]] = deque()
        with ThreadPoolExecutor(self.threads, thread_name_prefix="lakemeta") as pool:
            try:
                for batch in batched(items, batch_size):
                    pending.append((batch, pool.submit(_run, fn, batch)))
                    if len(pending) >= 2 * self.threads:
                        yield from _result(*pending.popleft())
                while pending:
                    yield from _result(*pending.popleft())
            finally:
                for _, future in pending:
                    future.cancel()


def batched(items: Iterable[T], size: int) -> Iterator[list[T]]:
    """Consecutive lists of at most ``size`` items."""
    iterator = iter(items)
    while batch := list(islice(iterator, size)):
        yield batch


def _run(fn: Callable[[Sequence[T]], Iterable[R]], batch: Sequence[T]) -> list[R]:
    return list(fn(batch))


def _result(batch: Sequence[T], future: Future[list[R]]) -> list[R]:
    try:
        return future.result()
    except LakemetaError:
        raise
    except Exception as error:
        raise ExecutorError(f"work on {batch[0]!r} failed: {type(error).__name__}: {error}") from error

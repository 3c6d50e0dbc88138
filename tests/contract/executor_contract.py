"""The rules of ``lakemeta.executor``, as tests that every executor must pass.

A subclass gives the fixture ``executor``. Functions here are at the top of the module, so they can be pickled.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import pytest

from lakemeta.errors import CorruptMetadataError, ExecutorError, OptionError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.executor import Executor


def squares(batch: Sequence[int]) -> Iterator[int]:
    return (n * n for n in batch)


def repeated(batch: Sequence[int]) -> list[int]:
    return [n for n in batch for _ in range(n % 3)]


def size_of(batch: Sequence[int]) -> list[int]:
    return [len(batch)]


def fails_at(bad: int, error: type[Exception], batch: Sequence[int]) -> Iterator[int]:
    for n in batch:
        if n == bad:
            raise error(f"number {n} is bad")
        yield n


class ExecutorContract:
    @pytest.mark.parametrize("batch_size", [1, 3, 7, 1000])
    def test_results_come_in_input_order(self, executor: Executor, batch_size: int) -> None:
        """Results do not depend on the batch size and follow the input, however many each item gives."""
        items = list(range(50))
        assert list(executor.map_batches(squares, items, batch_size=batch_size)) == [n * n for n in items]
        assert list(executor.map_batches(repeated, items, batch_size=batch_size)) == repeated(items)

    def test_batches_are_consecutive_and_full(self, executor: Executor) -> None:
        """Every batch but the last has the size that was asked for."""
        assert list(executor.map_batches(size_of, iter(range(10)), batch_size=4)) == [4, 4, 2]

    def test_nothing_to_do(self, executor: Executor) -> None:
        """No items, no results."""
        assert list(executor.map_batches(squares, [], batch_size=4)) == []

    def test_a_raise_ends_the_run(self, executor: Executor) -> None:
        """An unexpected error is an ExecutorError that names the batch and the cause, with no shorter result."""
        work = executor.map_batches(partial(fails_at, 13, ValueError), range(20), batch_size=5)
        with pytest.raises(ExecutorError, match=r"(?s)10.*number 13 is bad"):
            list(work)

    def test_an_error_of_ours_passes_through(self, executor: Executor) -> None:
        """A LakemetaError keeps its class and its sentence: the exit code depends on it."""
        work = executor.map_batches(partial(fails_at, 13, CorruptMetadataError), range(20), batch_size=5)
        with pytest.raises(CorruptMetadataError, match="number 13 is bad"):
            list(work)

    def test_stop_iteration_is_an_error_too(self, executor: Executor) -> None:
        """A StopIteration that escapes from the work must not look like the end of the results."""
        with pytest.raises(ExecutorError):
            list(executor.map_batches(partial(fails_at, 13, StopIteration), range(20), batch_size=5))

    def test_the_message_names_the_item(self, executor: Executor) -> None:
        """Long paths are named in full."""
        path = "table/" + "p=1/" * 30 + "file.parquet"
        with pytest.raises(ExecutorError, match=path):
            list(executor.map_batches(partial(fails_at, path, ValueError), [path], batch_size=1))  # type: ignore[arg-type]

    def test_an_iterable_that_fails(self, executor: Executor) -> None:
        """A listing that fails while items are taken fails the run."""

        def items() -> Iterator[int]:
            yield from range(10)
            raise CorruptMetadataError("half a listing")

        with pytest.raises(CorruptMetadataError, match="half a listing"):
            list(executor.map_batches(squares, items(), batch_size=2))

    @pytest.mark.parametrize("batch_size", [0, -1])
    def test_batch_size_must_be_positive(self, executor: Executor, batch_size: int) -> None:
        """A batch holds at least one item."""
        with pytest.raises(OptionError, match="batch size"):
            list(executor.map_batches(squares, [1], batch_size=batch_size))

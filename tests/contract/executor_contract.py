"""The rules of ``lakemeta.executor``, as tests that every executor must pass.

A subclass gives the fixture ``executor``. Functions here are at the top of the module, so they can be pickled.
"""

from __future__ import annotations

import os
from functools import partial
from typing import TYPE_CHECKING

import pytest
from contract.golden_tables import EXECUTIONS, Golden, run_together

from lakemeta.errors import CorruptMetadataError, ExecutorError, OptionError
from lakemeta.executor import LocalExecutor, LocatedExecutor, nearby, ships

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence
    from pathlib import Path

    from contract.golden_tables import Planned

    from lakemeta.executor import Executor


class Job:
    """Something to work on that says what it is."""

    def __init__(self, path: str) -> None:
        self.path = path

    def __str__(self) -> str:
        return f"{self.path} in 2 parts"


def fails_in_lines(batch: Sequence[object]) -> Iterator[int]:
    raise ValueError(f"one\n{'two' if batch else ''}")


def squares(batch: Sequence[int]) -> Iterator[int]:
    return (n * n for n in batch)


def repeated(batch: Sequence[int]) -> list[int]:
    return [n for n in batch for _ in range(n % 3)]


def process_of(batch: Sequence[int]) -> list[int]:
    return [os.getpid() for _ in batch]


def size_of(batch: Sequence[int]) -> list[int]:
    return [len(batch)]


def fails_at(bad: int, error: type[Exception], batch: Sequence[int]) -> Iterator[int]:
    for n in batch:
        if n == bad:
            raise error(f"number {n} is bad")
        yield n


class ExecutorContract:
    every = 4  # of how many recorded tables one is planned: what is carried to the work is of a few kinds

    def test_says_where_it_works(self, executor: Executor) -> None:
        """``ships`` is true of it, and what is nearby works in this process."""
        assert isinstance(executor, LocatedExecutor)
        found = set(executor.map_batches(process_of, range(3), batch_size=1))
        assert (os.getpid() in found) == (not ships(executor))
        near = nearby(executor)
        assert not ships(near)
        assert set(near.map_batches(process_of, range(3), batch_size=1)) == {os.getpid()}

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
            list(executor.map_batches(partial(fails_at, path, ValueError), [path], batch_size=1))

    def test_the_message_is_one_sentence_about_things_people_know(self, executor: Executor) -> None:
        """Items are called as they call themselves, or by the first text in them, and lines of an error are joined."""
        for items, called in (([Job("a.orc")] * 3, "a.orc in 2 parts and the 2 items after it"), ([(7, "b")], "b")):
            with pytest.raises(ExecutorError) as raised:
                list(executor.map_batches(fails_in_lines, items, batch_size=3))
            message = str(raised.value)
            assert f"work on {called} failed " in message
            assert message.endswith(": ValueError: one two")
            assert "\n" not in message
            assert "Job(" not in message

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

    @pytest.mark.slow
    def test_plans_of_recorded_hudi_tables(self, executor: Executor, golden: Golden) -> None:
        """Explained plans of recorded cleans and rollbacks are those of one local thread, byte for byte."""
        self._same_plans(executor, golden.hudi(self.every))

    @pytest.mark.slow
    def test_plans_of_recorded_iceberg_tables(self, executor: Executor, golden: Golden) -> None:
        """Plans of recorded rewrites are those of one local thread, byte for byte; so are the refusals."""
        self._same_plans(executor, golden.iceberg(self.every))

    def _same_plans(self, executor: Executor, works: Sequence[Planned]) -> None:
        found = run_together(executor, [work for work, _ in works])
        assert len(found) > 100 // self.every
        assert [n for n, (_, plan) in enumerate(works) if found[n] != plan] == []

    @pytest.mark.slow
    @pytest.mark.parametrize("name", EXECUTIONS)
    def test_what_is_left_of_recorded_tables(self, executor: Executor, name: str, tmp_path: Path) -> None:
        """Reports and tables are those of one local thread: every file, every row, every number."""
        alone, other = EXECUTIONS[name]().states(tmp_path, [LocalExecutor(1), executor])
        assert other[0] == alone[0]
        assert other[1].keys() == alone[1].keys()
        assert [key for key in alone[1] if other[1][key] != alone[1][key]] == []
        assert alone[0].committed is not None or alone[0].deleted_files

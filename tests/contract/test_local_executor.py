from __future__ import annotations

import threading
from typing import TYPE_CHECKING

import pytest
from contract.executor_contract import ExecutorContract, squares

from lakemeta.errors import OptionError
from lakemeta.executor import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


class TestOneThread(ExecutorContract):
    every = 40  # the plans to compare with are one thread's

    @pytest.fixture
    def executor(self) -> LocalExecutor:
        return LocalExecutor(1)


class TestEightThreads(ExecutorContract):
    @pytest.fixture
    def executor(self) -> LocalExecutor:
        return LocalExecutor(8)


@pytest.mark.parametrize("threads", [1, 4])
def test_items_are_taken_as_they_are_needed(threads: int) -> None:
    """A bounded number of items is taken ahead of the consumer, so endless input is fine."""
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    results = LocalExecutor(threads).map_batches(squares, endless(), batch_size=10)
    assert taken == 0
    assert [next(results) for _ in range(25)] == [n * n for n in range(1, 26)]
    assert taken <= 10 * (2 * threads + 3)
    results.close()
    after = taken
    with pytest.raises(StopIteration):
        next(results)
    assert taken == after


def test_closing_stops_the_work() -> None:
    """Once the iterator is closed nothing new starts, and nothing runs on."""
    started: list[int] = []
    go_on = threading.Event()

    def work(batch: Sequence[int]) -> list[int]:
        started.append(batch[0])
        if batch[0] > 0:
            go_on.wait(10)
        return list(batch)

    executor = LocalExecutor(2)
    results = executor.map_batches(work, range(100), batch_size=1)
    assert next(results) == 0
    threading.Timer(0.05, go_on.set).start()
    results.close()
    assert len(started) <= 4
    assert not [thread for thread in threading.enumerate() if thread.name.startswith("lakemeta")]


@pytest.mark.parametrize("threads", [1, 4])
@pytest.mark.parametrize("stop", [KeyboardInterrupt, SystemExit])
def test_ctrl_c_in_the_work_passes_through(threads: int, stop: type[BaseException]) -> None:
    """What is no Exception ends the run as it is, and starts nothing more."""
    started: list[int] = []

    def work(batch: Sequence[int]) -> list[int]:
        started.append(batch[0])
        if batch[0] == 0:
            raise stop
        return []

    with pytest.raises(stop):
        list(LocalExecutor(threads).map_batches(work, range(1000), batch_size=1))
    assert len(started) <= 2 * threads


def test_one_thread_is_the_consumers_own() -> None:
    """With one thread the work happens in the consumer's thread, batch by batch."""
    seen = list(LocalExecutor(1).map_batches(lambda batch: [threading.get_ident()], range(3), batch_size=1))
    assert set(seen) == {threading.get_ident()}


def test_many_threads_work_at_once() -> None:
    """Four threads run four batches at the same time."""
    together = threading.Barrier(4, timeout=10)
    executor = LocalExecutor(4)
    assert len(list(executor.map_batches(lambda batch: [together.wait()], range(8), batch_size=1))) == 8


@pytest.mark.parametrize("threads", [0, -1])
def test_threads_must_be_positive(threads: int) -> None:
    """An executor without threads is refused."""
    with pytest.raises(OptionError, match="threads"):
        LocalExecutor(threads)

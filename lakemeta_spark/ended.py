"""Tells the driver of tasks as they end. Results come by the job, and a job ends with its slowest task.

Spark brings accumulators home with every task that succeeds. The driver's copy of this one keeps nothing: it calls a
listener instead, in the thread in which PySpark takes updates.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from pyspark.accumulators import Accumulator, AccumulatorParam

if TYPE_CHECKING:
    from collections.abc import Callable

    from pyspark import SparkContext

    from lakemeta_spark.waves import Wave


def ended_tasks(
    context: SparkContext, wave: Wave, listener: Callable[[int], None] | None
) -> Accumulator[tuple[int, ...]] | None:
    """An accumulator for numbers of tasks of a wave that have ended; ``listener`` gets the number of each batch."""
    if listener is None:
        return None
    return context.accumulator((), EndedTasks(wave.first - 1, [len(task) for task in wave.tasks], listener))


class EndedTasks(AccumulatorParam[tuple[int, ...]]):
    """Adds numbers of tasks on a worker, and reports their batches on the driver."""

    def __init__(self, first: int, sizes: list[int], listener: Callable[[int], None] | None = None) -> None:
        self.first, self.sizes, self.listener = first, sizes, listener

    def __reduce__(self) -> tuple[type[EndedTasks], tuple[int, list[int]]]:
        return EndedTasks, (self.first, self.sizes)  # the listener stays on the driver

    def zero(self, value: tuple[int, ...]) -> tuple[int, ...]:  # noqa: ARG002 - PySpark calls it so
        """No task."""
        return ()

    def addInPlace(self, value1: tuple[int, ...], value2: tuple[int, ...]) -> tuple[int, ...]:  # noqa: N802
        """Both, on a worker; on the driver nothing is kept."""
        if self.listener is None:
            return value1 + value2
        for task in value2:
            start = self.first + sum(self.sizes[:task])
            for number in range(start, start + self.sizes[task]):
                self.listener(number)
        return ()

"""Cuts batches into waves of tasks, one Spark job each.

Rules of this module:

1. A wave has at most one task for each core. What a wave carries to the workers is bounded in bytes, and so is what it
   is expected to bring back, going by the biggest result so far.
2. A task costs Spark some hundredths of a second whatever it does, so tasks of quick batches take several of them:
   about a second's worth, going by how long batches took so far. Slow batches have a task of their own.
"""

from __future__ import annotations

import pickle
from itertools import pairwise
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.executor import describe_batch

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

WAVE_BYTES = 32 * 2**20
TASK_SECONDS = 1.0
BATCHES_A_TASK = 16


@attrs.frozen
class Wave:
    """The tasks of one job, each a list of pickled batches; for messages the first item of each task.

    ``first`` is the number of its first batch in the whole call, from 1.
    """

    first: int
    tasks: list[list[bytes]]
    heads: list[str]

    @property
    def last(self) -> int:
        """The number of the last batch."""
        return self.first - 1 + sum(map(len, self.tasks))


class Waves:
    """Waves of at most ``width()`` tasks, taken from ``batches`` as they are asked for."""

    def __init__(self, batches: Iterable[list[Any]], width: Callable[[], int], limit: int = WAVE_BYTES) -> None:
        self._batches = iter(batches)
        self._width = width
        self._limit = limit
        self._biggest = 1
        self._seconds = TASK_SECONDS

    def saw(self, result_bytes: int, seconds: float) -> None:
        """Learn how big one batch's pickled results are and how long it took; the last ones weigh most."""
        self._biggest = max(self._biggest, result_bytes)
        self._seconds = (self._seconds + seconds) / 2

    def __iter__(self) -> Iterator[Wave]:
        first = 1
        while (wave := self._next(first)).tasks:
            yield wave
            first = wave.last + 1

    def _next(self, first: int) -> Wave:
        width = self._width()
        heads, batches = self._take(width * self._per_task())
        tasks = min(width, len(batches))
        cuts = [len(batches) * task // tasks for task in range(tasks + 1)] if tasks else []
        slices = [slice(*ends) for ends in pairwise(cuts)]
        return Wave(first, [batches[part] for part in slices], [heads[part.start] for part in slices])

    def _per_task(self) -> int:
        return max(1, min(BATCHES_A_TASK, int(TASK_SECONDS / max(self._seconds, 1e-3))))

    def _take(self, room: int) -> tuple[list[str], list[bytes]]:
        room = max(1, min(room, self._limit // self._biggest))
        heads: list[str] = []
        batches: list[bytes] = []
        size = 0
        while len(batches) < room and size < self._limit:
            batch = next(self._batches, None)
            if batch is None:
                break
            heads.append(describe_batch(batch))
            batches.append(pickle.dumps(batch))
            size += len(batches[-1])
        return heads, batches

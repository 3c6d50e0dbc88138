"""Executors that tell what they were asked."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lakemeta.executor import LocalExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

T = TypeVar("T")
R = TypeVar("R")


class Cluster:
    """Stands for executors that ship their work: notes how many items they get."""

    def __init__(self) -> None:
        self.ships, self.nearby = True, LocalExecutor(1)
        self.shipped: list[int] = []

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        listed = list(items)
        self.shipped.append(len(listed))
        return LocalExecutor(1).map_batches(fn, listed, batch_size=batch_size)

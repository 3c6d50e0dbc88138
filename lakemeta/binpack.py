"""Size-based grouping: next-fit packing with a lookback (the algorithm of Iceberg's util.BinPacking)."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

T = TypeVar("T")


def pack(
    items: Iterable[T],
    weight: Callable[[T], int],
    *,
    target: int,
    lookback: int = 1,
    largest_first: bool = False,
    max_items: int | None = None,
) -> Iterator[list[T]]:
    """Pack items in order into bins of at most ``target`` weight and ``max_items`` items.

    An item goes into the first of the ``lookback`` open bins that takes it, else into a new one, whatever it
    weighs. When too many bins are open, the oldest is closed for good, or the heaviest if ``largest_first``.
    """
    if lookback < 1:
        raise ValueError(f"lookback is {lookback}; it must be at least 1")
    open_bins: list[tuple[int, list[T]]] = []
    for item in items:
        added = weight(item)
        for i, (total, held) in enumerate(open_bins):
            if total + added <= target and (max_items is None or len(held) < max_items):
                held.append(item)
                open_bins[i] = (total + added, held)
                break
        else:
            open_bins.append((added, [item]))
            if len(open_bins) > lookback:
                yield open_bins.pop(_heaviest(open_bins) if largest_first else 0)[1]
    yield from (held for _, held in open_bins)


def _heaviest(bins: list[tuple[int, list[T]]]) -> int:
    return max(range(len(bins)), key=lambda i: bins[i][0])

"""Markdown tables of seconds, as benchmarks print them."""

from __future__ import annotations

import statistics
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Sequence


def row(cells: Sequence[object]) -> None:
    """One row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def header(*names: str) -> None:
    """The first two rows of a Markdown table."""
    row(names)
    row(["---"] * len(names))


def spread(seconds: Sequence[float]) -> str:
    """The least and the median."""
    return f"{min(seconds):.2f} / {statistics.median(seconds):.2f}"


def times(theirs: Sequence[float], ours: Sequence[float]) -> str:
    """How many times longer theirs took than ours, by medians."""
    return f"{statistics.median(theirs) / statistics.median(ours):.1f}x"

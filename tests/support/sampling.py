"""Parameters of which fast tests try some, and slow ones all others."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


def one_in(every: int, values: Iterable[Any], *, of: int = 1) -> list[Any]:
    """Each ``every``-th of the values is fast. ``of`` is the number of parameters that a value stands for."""
    marks = {True: (), False: pytest.mark.slow}
    chosen = ((n % every == 0, (value,) if of == 1 else value) for n, value in enumerate(values))
    return [pytest.param(*parameters, marks=marks[fast]) for fast, parameters in chosen]


def some_of(values: Sequence[Any], some: Iterable[int]) -> list[Any]:
    """The values at some places, or all of them where ``LAKEMETA_ALL`` is set: engines take their time."""
    return [value for at, value in enumerate(values) if at in set(some) or os.environ.get("LAKEMETA_ALL")]

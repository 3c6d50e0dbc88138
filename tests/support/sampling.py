"""Parameters of which fast tests try some, and slow ones all others."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterable


def one_in(every: int, values: Iterable[Any], *, of: int = 1) -> list[Any]:
    """Each ``every``-th of the values is fast. ``of`` is the number of parameters that a value stands for."""
    marks = {True: (), False: pytest.mark.slow}
    chosen = ((n % every == 0, (value,) if of == 1 else value) for n, value in enumerate(values))
    return [pytest.param(*parameters, marks=marks[fast]) for fast, parameters in chosen]

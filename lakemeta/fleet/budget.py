"""Bounds of a run, or of one table in it: what has been taken on, and whether a further service still fits.

A service is counted with what its plan changes, before it begins: files and bytes that are deleted or rewritten.
Minutes are counted from the start: how long a service will take is not known, so none begins once they are over.
"""

from __future__ import annotations

from typing import TypeVar

import attrs

from lakemeta.words import count_of, human_bytes

N = TypeVar("N", int, float)


@attrs.frozen
class Spent:
    """What services have taken on so far; ``seconds`` have passed since the start."""

    files: int = 0
    bytes: int = 0
    seconds: float = 0.0

    def plus(self, files: int, size: int) -> Spent:
        """With a further service."""
        return attrs.evolve(self, files=self.files + files, bytes=self.bytes + size)


@attrs.frozen
class Budget:
    """At most so much; None is no bound."""

    files: int | None = None
    bytes: int | None = None
    minutes: float | None = None

    def smaller(self, other: Budget) -> Budget:
        """The bounds of both, of each the smaller one."""
        return Budget(
            _least(self.files, other.files), _least(self.bytes, other.bytes), _least(self.minutes, other.minutes)
        )

    def over(self, general: Budget) -> Budget:
        """These bounds, and those of another where there is none."""
        mine = {name: limit for name, limit in attrs.asdict(self).items() if limit is not None}
        return attrs.evolve(general, **mine)

    def refusal(self, spent: Spent, files: int, size: int) -> str | None:
        """Why a service that changes so much does not begin; None if it fits."""
        if self.minutes is not None and spent.seconds >= self.minutes * 60:
            return f"its budget of {self.minutes:g} minutes is used up"
        if self.files is not None and spent.files + files > self.files:
            return (
                f"{count_of(files, 'file')} would exceed its budget: {spent.files:,} of {self.files:,} files are used"
            )
        if self.bytes is not None and spent.bytes + size > self.bytes:
            used = f"{human_bytes(spent.bytes)} of {human_bytes(self.bytes)} are used"
            return f"{human_bytes(size)} would exceed its budget: {used}"
        return None


def _least(one: N | None, other: N | None) -> N | None:
    return other if one is None else one if other is None else min(one, other)

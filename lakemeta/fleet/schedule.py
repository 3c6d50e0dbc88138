"""When a table is visited again: less often if it gained little, more often if it gained much.

Rules of this module:

1. After its first visit a table is visited again after ``shortest_hours``.
2. From then on the interval doubles, up to ``longest_hours``, after a visit that moved less than ``little`` bytes, and
   halves, down to ``shortest_hours``, after one that moved ``much`` or more. Bytes that were freed, quarantined or
   newly written count.
3. A visit that did not end well, or left a service for want of budget, is made up for at once and leaves the interval
   as it is.
4. A table is due a tenth of its interval early, so that seconds do not make a daily run miss a day.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

_HOUR_MS: Final = 3_600_000
_EARLY: Final = 0.9


@attrs.frozen
class Schedule:
    """The bounds of intervals in hours, and what is little and much in bytes."""

    shortest_hours: float = 24.0
    longest_hours: float = 30 * 24.0
    little: int = 16 * 2**20
    much: int = 2**30

    def next_interval(self, before: float | None, moved: int) -> float:
        """Hours until the next visit, after one that moved so many bytes; ``before`` is None after the first one."""
        if before is None:
            return self.shortest_hours
        factor = 2.0 if moved < self.little else 0.5 if moved >= self.much else 1.0
        return min(max(before * factor, self.shortest_hours), self.longest_hours)


@attrs.frozen
class Visit:
    """The last visit of a table: when (ms since the epoch), for how many hours it holds, and how it ended.

    ``files`` and ``bytes`` are what its services took on; ``left`` says that one did not begin for want of budget.
    """

    table: str
    at_ms: int
    hours: float
    code: int = 0
    left: bool = False
    files: int = 0
    bytes: int = 0

    @property
    def due_ms(self) -> int:
        """From when on the table is visited again (rules 3 and 4)."""
        return self.at_ms if self.code or self.left else self.at_ms + round(self.hours * _EARLY * _HOUR_MS)


def due(tables: Iterable[str], visits: Mapping[str, Visit], now_ms: int) -> tuple[str, ...]:
    """The tables that are due, those first that are due for longest."""
    when = {table: visits[table].due_ms if table in visits else 0 for table in tables}
    return tuple(sorted((table for table in when if when[table] <= now_ms), key=lambda table: (when[table], table)))

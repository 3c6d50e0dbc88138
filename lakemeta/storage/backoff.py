"""How fast a store may be asked: additive increase, multiplicative decrease, for each prefix by itself (I/O).

1. A prefix (``bucket/t/p``) is asked at will until the store says 503 or 429 for it. From then on it and what lies
   below it have a rate of keys per second, which is halved by each further such answer and grows with each success.
2. Answers to requests that were under way when the rate was halved do not halve it again.
3. A prefix whose rate has grown to ``FULL`` is forgotten.

A request of many keys (a bulk delete) counts for as many as it has.
"""

from __future__ import annotations

import random
import threading
import time
from typing import TYPE_CHECKING, Final

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable

FULL: Final = 4000.0  # keys a second; S3 promises 3500 writes of a prefix
SLOWEST: Final = 2.0
GROWTH: Final = 20.0  # keys a second for each request that succeeds
LONGEST_TURN: Final = 20.0  # seconds
FIRST_PAUSE: Final = 0.1
LONGEST_PAUSE: Final = 10.0


@attrs.define
class _Pace:
    rate: float
    lowered: float  # when the rate was halved last
    free: float  # when the next request may go


class Backoff:
    """The rates of all prefixes of this process; safe for threads."""

    def __init__(
        self,
        clock: Callable[[], float] = time.monotonic,
        sleep: Callable[[float], None] | None = None,
        chance: Callable[[], float] = random.random,
    ) -> None:
        self.clock, self.chance = clock, chance
        self.sleep = sleep or (lambda seconds: time.sleep(seconds))
        self._paces: dict[str, _Pace] = {}
        self._lock = threading.Lock()

    def turn(self, prefix: str, keys: int = 1) -> float:
        """Wait until a request of ``keys`` keys below a prefix may go: the time at which it does."""
        if not self._paces:
            return self.clock()
        with self._lock:
            now = start = self.clock()
            for pace in self._above(prefix):
                start = max(start, min(pace.free, now + LONGEST_TURN))
                pace.free = max(pace.free, now) + keys / pace.rate
        if start > now:
            self.sleep(start - now)
        return start

    def throttled(self, prefix: str, asked: float) -> None:
        """The store had no time for a request of a prefix that went at the time ``asked``."""
        with self._lock:
            now = self.clock()
            pace = self._paces.setdefault(prefix, _Pace(FULL, float("-inf"), now))
            if asked >= pace.lowered:
                pace.rate, pace.lowered = max(SLOWEST, pace.rate / 2), now

    def succeeded(self, prefix: str) -> None:
        """A request of a prefix was answered."""
        if not self._paces:
            return
        with self._lock:
            for pace in self._above(prefix):
                pace.rate += GROWTH
            for full in [name for name, pace in self._paces.items() if pace.rate >= FULL]:
                del self._paces[full]

    def rate(self, prefix: str) -> float:
        """Keys a second that may be asked for below a prefix."""
        with self._lock:
            return min((pace.rate for pace in self._above(prefix)), default=FULL)

    def pause(self, attempt: int) -> None:
        """Sleep up to 0.1 s, 0.2 s, 0.4 s, ...: a random part, so that many workers do not come back at once."""
        self.sleep(self.chance() * min(LONGEST_PAUSE, FIRST_PAUSE * 2**attempt))

    def _above(self, prefix: str) -> list[_Pace]:
        """The paces of a prefix and of those in which it lies."""
        return [pace for name, pace in self._paces.items() if f"{prefix}/".startswith(f"{name}/")]


BACKOFF: Final = Backoff()  # of all storages of this process

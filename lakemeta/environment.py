"""What a run takes from the machine it runs on: the present, pauses, chance, identifiers (I/O)."""

from __future__ import annotations

import random
import time
import uuid
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import attrs

from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Callable


def utc_now() -> datetime:
    """The present, in UTC."""
    return datetime.now(UTC)


def _new_uuid() -> str:
    return str(uuid.uuid4())


@attrs.frozen(slots=True)
class Environment:
    """The real environment by default; a program or a test may replace what it wants to decide itself.

    ``now`` gives a moment with a time zone, ``sleep`` takes seconds, ``random`` gives a number in [0, 1).
    """

    now: Callable[[], datetime] = utc_now
    sleep: Callable[[float], None] = time.sleep
    random: Callable[[], float] = random.random
    new_uuid: Callable[[], str] = _new_uuid

    def now_ms(self) -> int:
        """The present in ms since the epoch."""
        return epoch_ms(self.now())

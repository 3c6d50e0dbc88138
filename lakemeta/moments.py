"""Moments as the numbers that both formats write: whole ms since 1970-01-01 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def epoch_ms(moment: datetime) -> int:
    """A moment (with a time zone) in whole ms since the epoch, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def utc_moment(text: str) -> datetime:
    """An ISO 8601 time, in UTC unless it names an offset; raises ValueError for anything else."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

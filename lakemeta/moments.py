"""Moments as the numbers that both formats write: whole ms since 1970-01-01 UTC."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Final

from lakemeta.errors import OptionError

_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)


def epoch_ms(moment: datetime) -> int:
    """A moment (with a time zone) in whole ms since the epoch, rounded down."""
    return (moment - _EPOCH) // _MILLISECOND


def date_of(ms: int) -> str:
    """A time in ms since the epoch as ``2026-08-01 10:00:00 UTC``; one that no calendar has stays a number."""
    try:
        return f"{_EPOCH + ms * _MILLISECOND:%Y-%m-%d %H:%M:%S} UTC"
    except OverflowError:
        return f"{ms} ms"


def aware(moment: datetime, name: str = "now") -> datetime:
    """The moment; raises OptionError for one without a time zone, which could mean another moment on every machine."""
    if not isinstance(moment, datetime):
        raise OptionError(f"{name} is {moment!r:.60}, no datetime; give one with a time zone, as datetime.now(UTC)")
    if moment.tzinfo is None or moment.utcoffset() is None:
        raise OptionError(
            f"{name} is {moment.isoformat()} without a time zone; give it one, as {name}.replace(tzinfo=UTC)"
        )
    return moment


def utc_moment(text: str) -> datetime:
    """An ISO 8601 time, in UTC unless it names an offset; raises ValueError for anything else."""
    parsed = datetime.fromisoformat(text)
    return parsed if parsed.tzinfo else parsed.replace(tzinfo=UTC)

"""Instant times, moments and time zones: what the digits of an instant mean.

Instants are local times: in UTC if ``hoodie.table.timeline.timezone`` says so, else in the zone of the machine that
wrote them, which the option ``timezone`` names where it is not this one.
"""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, tzinfo
from itertools import pairwise
from typing import TYPE_CHECKING
from zoneinfo import ZoneInfo

if TYPE_CHECKING:
    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.hudi.options import CleanOptions


def format_instant(moment: datetime, zone: tzinfo) -> str:
    """A moment as an instant time: 17 digits, down to ms, in the timeline's timezone."""
    return moment.astimezone(zone).strftime("%Y%m%d%H%M%S%f")[:17]


def moment_of(instant: str, zone: tzinfo) -> datetime | None:
    """The moment of an instant time, down to ms; None for one that is no time, as writers give what has no time."""
    digits = instant[:17].ljust(17, "0")
    parts = (int(digits[start:end]) for start, end in pairwise((0, 4, 6, 8, 10, 12, 14, 17)))
    year, month, day, hour, minute, second, millis = parts
    try:
        return datetime(year, month, day, hour, minute, second, millis * 1000, zone)
    except ValueError:
        return None


def hours_before(now: datetime, hours: int, zone: tzinfo) -> str:
    """The instant time ``hours`` before ``now``; "", which is before every instant, if that is before all years."""
    try:
        return format_instant(now - timedelta(hours=hours), zone)
    except OverflowError:
        return ""


def timezone(config: TableConfig, options: CleanOptions) -> tzinfo:
    """The timezone of instant times: UTC if the table says so, else the one given, else this machine's."""
    if config.timezone == "UTC":
        return UTC
    if options.timezone is not None:
        return ZoneInfo(options.timezone)
    return _LocalZone()


class _LocalZone(tzinfo):
    """This machine's timezone with its changes of the clock: what was the local time then, not what it would be now."""

    def utcoffset(self, dt: datetime | None) -> timedelta | None:
        return dt.replace(tzinfo=None).astimezone().utcoffset() if dt else None

    def dst(self, _: datetime | None) -> None:
        return None

    def tzname(self, _: datetime | None) -> str:
        return "local"

    def fromutc(self, dt: datetime) -> datetime:
        return dt.replace(tzinfo=UTC).astimezone().replace(tzinfo=self)

"""Instant times of tables whose timeline timezone is LOCAL."""

from __future__ import annotations

import time
from datetime import UTC, datetime, timedelta

import pytest

from lakemeta.hudi.files.properties import TableConfig
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.times import format_instant, hours_before, timezone


def test_local_times_follow_the_changes_of_the_clock(monkeypatch: pytest.MonkeyPatch) -> None:
    """A moment before a change of the clock is written with the offset of then, as Java writes it."""
    monkeypatch.setenv("TZ", "Europe/Berlin")
    time.tzset()
    try:
        zone = timezone(TableConfig({"hoodie.table.timeline.timezone": "LOCAL"}), CleanOptions())
        after = datetime(2026, 3, 29, 3, 0, tzinfo=UTC)
        assert format_instant(after, zone) == "20260329050000000"
        assert hours_before(after, 4, zone) == "20260329000000000"
        assert format_instant(after - timedelta(hours=2, milliseconds=1), zone) == "20260329015959999"
        begun = datetime(2026, 3, 29, 0, 0, tzinfo=zone)
        assert (after - begun) == timedelta(hours=4)
    finally:
        monkeypatch.undo()
        time.tzset()

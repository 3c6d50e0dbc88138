"""Instant times that are no times: of month 13, of the last year there is, of digits that only look like some."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.timeline.instant_writer import next_instant
from lakemeta.hudi.timeline.times import moment_of

NOW = datetime(2026, 1, 1, tzinfo=UTC)


@pytest.mark.parametrize("newest", ["99991231235959999", "20261301000000000", "90000000000000000", "99999999999999"])
def test_nothing_follows_what_is_no_time(newest: str) -> None:
    """A timeline whose newest time has no successor takes no new instant."""
    with pytest.raises(CorruptMetadataError, match=f"no instant can follow {newest}"):
        next_instant(newest, NOW, UTC)


@pytest.mark.parametrize(
    ("newest", "following"),
    [
        ("20270101000000000", "20270101000000001"),
        ("20270101000000", "20270101000001000"),
        ("20270101000000000001", "20270101000000001"),
        ("20251231000000000", "20260101000000000"),
    ],
)
def test_what_follows_the_newest_time(newest: str, following: str) -> None:
    """The present, or a millisecond after what is newer; seconds count whole, a metadata table's suffix not."""
    assert next_instant(newest, NOW, UTC) == following


def test_moments_of_instants() -> None:
    """Milliseconds or seconds; what marks the beginning of all time is none."""
    assert moment_of("20260101000000123", UTC) == datetime(2026, 1, 1, 0, 0, 0, 123_000, UTC)
    assert moment_of("20260101000000", UTC) == NOW
    assert moment_of("00000000000000000", UTC) is None

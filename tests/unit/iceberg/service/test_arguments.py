"""Arguments of procedures as texts."""

from __future__ import annotations

import pytest

from lakemeta.errors import OptionError
from lakemeta.iceberg.service.arguments import ids, texts, timestamp_ms


def test_moments() -> None:
    """ISO 8601 with and without offset, and ms since the epoch; parts of a millisecond are cut off."""
    moment = 1785578400123
    for text in (
        "2026-08-01T10:00:00.123456Z",
        "2026-08-01 12:00:00.123+02:00",
        "2026-08-01T10:00:00.123",
        str(moment),
    ):
        assert timestamp_ms({"older_than": text}, "older_than") == moment
    assert timestamp_ms({}, "older_than") is None
    assert timestamp_ms({"older_than": "1960-01-01"}, "older_than") < 0
    for text in ("yesterday", "", "2026-13-01", "99999999999999999999"):
        with pytest.raises(OptionError, match=r"'older_than' is set to .* but must be an ISO 8601 time"):
            timestamp_ms({"older_than": text}, "older_than")


def test_lists() -> None:
    """Items between commas, without blanks around them; an empty item is refused."""
    assert texts({"a": "x, y,z "}, "a") == ("x", "y", "z")
    assert texts({}, "a") == ()
    assert ids({"a": "1,-2"}, "a") == (1, -2)
    for text in ("", "1,,2", ","):
        with pytest.raises(OptionError, match="must be a list such as a,b"):
            texts({"a": text}, "a")
    with pytest.raises(OptionError, match="'a' is set to x but must be a whole number"):
        ids({"a": "1,x"}, "a")

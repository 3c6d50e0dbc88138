"""Arguments of procedures as texts: timestamps, lists of ids, lists of texts. Plain options are ``spec.options``."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lakemeta import typed_text
from lakemeta.errors import OptionError
from lakemeta.moments import epoch_ms, utc_moment

if TYPE_CHECKING:
    from collections.abc import Mapping

FOREIGN: Final = "foreign-uuid"  # of services that refuse where other tables lie: uuids of dropped ones
_MILLIS: Final = re.compile("[0-9]{11,17}")


def timestamp_ms(options: Mapping[str, str], name: str) -> int | None:
    """A moment in ms since the epoch, None if not given: ISO 8601, UTC unless it names an offset, or such a number.

    Parts of a millisecond are cut off, as Spark's timestamps are when Iceberg takes them. Raises OptionError.
    """
    if name not in options:
        return None
    text = options[name]
    if _MILLIS.fullmatch(text):
        return int(text)
    try:
        return epoch_ms(utc_moment(text))
    except ValueError:
        raise OptionError(
            f"'{name}' is set to {text} but must be an ISO 8601 time such as 2026-08-01T10:00:00Z"
        ) from None


def texts(options: Mapping[str, str], name: str) -> tuple[str, ...]:
    """A list, separated by commas; blanks around its items do not count. Raises OptionError for an empty item."""
    if name not in options:
        return ()
    items = tuple(item.strip() for item in options[name].split(","))
    if not all(items):
        raise OptionError(f"'{name}' is set to {options[name]!r} but must be a list such as a,b")
    return items


def ids(options: Mapping[str, str], name: str) -> tuple[int, ...]:
    """A list of whole numbers, separated by commas."""
    return tuple(typed_text.whole(name, item) for item in texts(options, name))

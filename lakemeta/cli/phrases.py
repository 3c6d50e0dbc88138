"""Names and values in the words of people; JSON keeps the engines' own."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from datetime import datetime
from typing import Any, Final

from lakemeta.moments import date_of
from lakemeta.words import human_bytes, some, spaced

SHOWN: Final = 40  # of a list
_INSTANT: Final = re.compile(r"\b([0-9]{14})(?:[0-9]{3})?\b")
_MILLISECONDS: Final = ("_ms", "_millis")


def name_of(name: str) -> str:
    """The name of a fact or result: ``deleted_data_files_count`` is ``deleted data files``."""
    return spaced(name.removesuffix("_count").removesuffix("_ms").removesuffix("_in_millis"))


def value_of(name: str, value: Any) -> str:
    """The value of a fact or result: bytes in units, times as dates, lists on one line."""
    if isinstance(value, Mapping):
        return ", ".join(f"{key} {number}" for key, number in value.items()) or "none"
    if isinstance(value, Sequence) and not isinstance(value, str):
        return some([dated(str(item)) for item in value[:SHOWN]], SHOWN, total=len(value)) or "none"
    if isinstance(value, int) and not isinstance(value, bool):
        return _number(name, value)
    return "none" if value is None else dated(str(value))


def _number(name: str, value: int) -> str:
    if "bytes" in name:
        return human_bytes(value)
    if name.endswith("_ms"):
        return date_of(value)
    return f"{value:,}" if not name.endswith("_id") and "version" not in name else str(value)


def dated(text: str) -> str:
    """A text that is an instant, or begins with one, with the date that it stands for; others as they are."""
    match = _INSTANT.match(text)
    if match is None:
        return text
    try:
        moment = datetime.strptime(match[1], "%Y%m%d%H%M%S")
    except ValueError:
        return text
    return f"{match[0]} ({moment:%Y-%m-%d %H:%M:%S}){text[match.end() :]}"


def seconds(duration_ms: int) -> str:
    """``0.3 s``, ``12 s``, ``3 min 5 s``."""
    if duration_ms < 10_000:
        return f"{duration_ms / 1000:.{1 if duration_ms >= 100 else 2}f} s"
    minutes, rest = divmod(round(duration_ms / 1000), 60)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"


def middle_cut(path: str, room: int) -> str:
    """A path of at most ``room`` characters: what is too much goes from the middle."""
    if len(path) <= room:
        return path
    end = (room - 1) * 2 // 3
    return f"{path[: room - 1 - end]}…{path[-end:]}"

"""Fields of a document that a person wrote: taken out one by one, each checked; what is left over is refused."""

from __future__ import annotations

import re
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import OptionError
from lakemeta.typed_text import texts, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

_AGE: Final = re.compile(r"([0-9]{1,6}(?:\.[0-9]{1,3})?)([dhm])", re.ASCII)
_MOST: Final = 1e9  # of minutes and hours
_UNIT_MS: Final = {"d": 86_400_000, "h": 3_600_000, "m": 60_000}


class Fields:
    """A table of a document, called ``where`` in sentences."""

    def __init__(self, value: Any, where: str) -> None:
        """Raises OptionError if the value is no table."""
        if not isinstance(value, dict):
            raise OptionError(f"{where} must be a table of names and values")
        self._left: dict[str, Any] = dict(value)
        self.where = where

    def check(self, known: Iterable[str]) -> None:
        """Raise OptionError for a name that is not known, with the nearest one that is."""
        known = list(known)
        for name in self._left:
            if name not in known:
                error = OptionError.unknown(name, known, f"known are {', '.join(known)}")
                raise OptionError(f"{self.where}: {error}")

    def take(self, name: str) -> Any:
        """The value, None if there is none."""
        return self._left.pop(name, None)

    def rest(self) -> dict[str, Any]:
        """What has not been taken."""
        return self._left

    def table(self, name: str) -> Fields:
        """A table in it, empty if there is none."""
        found = self.take(name)
        return Fields({} if found is None else found, f"{self.where}: [{name}]")

    def truth(self, name: str) -> bool | None:
        """A truth value."""
        value = self.take(name)
        if value is not None and not isinstance(value, bool):
            raise self.wrong(name, value, "true or false")
        return value

    def number(self, name: str, least: float = 0.0) -> float | None:
        """A number of at least ``least``."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | float) or not least <= value <= _MOST:
            raise self.wrong(name, value, f"a number from {least:g} to {_MOST:g}")
        return float(value)

    def whole(self, name: str, least: int = 0) -> int | None:
        """A whole number of at least ``least``; a size may have a unit."""
        value = self.take(name)
        if value is None:
            return None
        if isinstance(value, bool) or not isinstance(value, int | str):
            raise self.wrong(name, value, f"a whole number from {least} on")
        return whole(f"{self.where}: {name}", texts({"bytes": value})["bytes"], least)

    def text(self, name: str) -> str | None:
        """A text."""
        value = self.take(name)
        if value is not None and not isinstance(value, str):
            raise self.wrong(name, value, "a text")
        return value

    def texts(self, name: str) -> tuple[str, ...] | None:
        """A list of texts."""
        value = self.take(name)
        if value is None:
            return None
        if not isinstance(value, list) or not all(isinstance(item, str) for item in value):
            raise self.wrong(name, value, "a list of texts")
        return tuple(value)

    def wrong(self, name: str, value: Any, form: str) -> OptionError:
        """The error for a value of another form."""
        return OptionError(f"{self.where}: {name} is {value!r:.80} but must be {form}")


def flat(values: Mapping[str, Any], before: str = "") -> Iterator[tuple[str, Any]]:
    """Names with dots that TOML reads as tables in tables, as they were written."""
    for name, value in values.items():
        if isinstance(value, dict):
            yield from flat(value, f"{before}{name}.")
        else:
            yield before + name, value


def option_text(name: str, value: Any, now_ms: int) -> str:
    """An option's value as text; an age such as ``7d`` of ``older_than`` as the moment (ms) so long ago."""
    if isinstance(value, datetime | date | time):
        value = value.isoformat()
    if isinstance(value, list):
        value = ",".join(texts({name: item})[name] for item in value)
    if name == "older_than" and isinstance(value, str):
        age = _AGE.fullmatch(value)
        return str(moment_ms(float(age[1]) * _UNIT_MS[age[2]], now_ms)) if age else value
    return texts({name: value})[name]


def moment_ms(age_ms: float, now_ms: int) -> int:
    """The moment so long ago, in ms since the epoch."""
    return now_ms - round(age_ms)


def days_ago(days: float, now_ms: int) -> str:
    """The moment so many days ago, as the text of an option."""
    return str(moment_ms(days * _UNIT_MS["d"], now_ms))

"""Globs over the places of tables.

Rules of this module:

1. A path or URL is compared part by part, between slashes; ``**`` stands for any number of parts, also for none.
2. ``*``, ``?`` and ``[...]`` stay within a part, as :mod:`fnmatch` has them, and tell upper from lower case.
3. The full name of a catalog's table is one part: ``catalog://prod/sales.*`` takes nested namespaces too.
4. All spellings of a store's scheme mean the same (:func:`lakemeta.paths.split_scheme`).
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.paths import CATALOG, split_scheme

if TYPE_CHECKING:
    from collections.abc import Iterable

    States = frozenset[int]

_WILD: Final = frozenset("*?[")
_ANY: Final = "**"


@attrs.frozen
class PlaceGlob:
    """A glob; ``parts`` are those of its path, and a state is the index of the part that comes next."""

    text: str
    scheme: str
    parts: tuple[str, ...]

    @classmethod
    def of(cls, text: str) -> PlaceGlob:
        """Raises OptionError for a text that is no path or URL."""
        scheme, parts = _place(text)
        if not text or (scheme and (parts == ("",) or _is_wild(parts[0]))):
            raise OptionError(f"{text!r} names no place; begin it with a path, a bucket or the name of a catalog")
        return cls(text.rstrip("/") or "/", scheme, parts)

    @property
    def is_catalog(self) -> bool:
        """True for a glob over the tables of a catalog."""
        return self.text.startswith(CATALOG)

    @property
    def fixed(self) -> str:
        """The URL of the directory, or beginning of a catalog's URL, above everything that may match."""
        wild = next((place for place, part in enumerate(self.parts) if _is_wild(part)), len(self.parts))
        after = len(self.parts) - wild
        return "/".join(self.text.split("/")[: -after or None]) or "/"

    def start(self) -> States:
        """The states at :attr:`fixed`."""
        wild = next((place for place, part in enumerate(self.parts) if _is_wild(part)), len(self.parts))
        return self._closed({wild})

    def step(self, states: States, part: str) -> States:
        """The states one part further on; none if nothing below can match."""
        stay = {at for at in states if at < len(self.parts) and self.parts[at] == _ANY}
        go = {at + 1 for at in states - stay if at < len(self.parts) and fnmatchcase(part, self.parts[at])}
        return self._closed(stay | go)

    def accepts(self, states: States) -> bool:
        """True if what has been gone through matches."""
        return len(self.parts) in states

    def matches(self, url: str) -> bool:
        """True if the table at a URL is meant."""
        scheme, parts = _place(url)
        states = self._closed({0})
        for part in parts:
            states = self.step(states, part)
        return scheme == self.scheme and self.accepts(states)

    def _closed(self, states: Iterable[int]) -> States:
        found = set(states)
        for at, part in enumerate(self.parts):
            if at in found and part == _ANY:
                found.add(at + 1)
        return frozenset(found)


def _place(url: str) -> tuple[str, tuple[str, ...]]:
    try:
        scheme, path = split_scheme(url)
    except ValueError as error:
        raise OptionError(f"{url!r} names no place: {error}") from None
    return "" if scheme == "file" else scheme, tuple(path.rstrip("/").split("/"))


def _is_wild(part: str) -> bool:
    return not _WILD.isdisjoint(part)

"""Taking keys off a JSON object, so that what was not taken survives as extras."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, TypeVar

from lakemeta.errors import CorruptMetadataError
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Callable

Json = Any
T = TypeVar("T")

_NAMES: Final = {
    int: "a whole number",
    str: "a string",
    bool: "true or false",
    list: "a list",
    dict: "an object",
}


class JsonObject:
    """A JSON object being read; ``what`` says in messages what it describes."""

    def __init__(self, value: Json, what: str) -> None:
        """Raises CorruptMetadataError if ``value`` is not an object."""
        if not isinstance(value, dict):
            raise CorruptMetadataError(f"{what} is not a JSON object")
        self.rest: dict[str, Json] = dict(value)
        self.what = what

    def need(self, key: str, kind: type[T]) -> T:
        """Take a key that must be there."""
        if key not in self.rest:
            raise CorruptMetadataError(f"{self.what} has no {key}")
        return self._checked(key, self.rest.pop(key), kind)

    def take(self, key: str, kind: type[T]) -> T | None:
        """Take a key that may be missing or null."""
        value = self.rest.pop(key, None)
        return None if value is None else self._checked(key, value, kind)

    def items(self, key: str, parse: Callable[[Json], T]) -> tuple[T, ...]:
        """Take a list that may be missing or null, and parse its items."""
        return tuple(parse(item) for item in self.take(key, list) or ())

    def ints(self, key: str) -> tuple[int, ...]:
        """Take a list of whole numbers that may be missing or null."""
        return self.items(key, lambda item: self._checked(key, item, int))

    def texts(self, key: str) -> tuple[str, ...]:
        """Take a list of strings that may be missing or null."""
        return self.items(key, lambda item: self._checked(key, item, str))

    def strings(self, key: str) -> dict[str, str]:
        """Take an object of strings that may be missing or null."""
        return {k: self._checked(k, v, str) for k, v in (self.take(key, dict) or {}).items()}

    def _checked(self, key: str, value: Json, kind: type[T]) -> T:
        if not isinstance(value, kind) or (kind is int and isinstance(value, bool)):
            raise CorruptMetadataError(f"{self.what}: {key} is not {_NAMES[kind]}")
        if isinstance(value, int) and not ~LONG_MAX <= value <= LONG_MAX:
            raise CorruptMetadataError(f"{self.what}: {key} is a number of more than 64 bits")
        return value


def present(**values: Json) -> dict[str, Json]:
    """A JSON object of the values that are not None; ``_`` in a name stands for ``-``."""
    return {name.replace("_", "-"): value for name, value in values.items() if value is not None}

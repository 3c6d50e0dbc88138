"""Options as text: ``--set KEY=VALUE`` under the names of Iceberg's procedures, typed as PropertyUtil types them."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, TypeVar

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

T = TypeVar("T")
_WHOLE = re.compile(r"[+-]?\d+", re.ASCII)  # Java takes no blanks or underscores
_INT_MAX = 2**31 - 1
LONG_MAX = 2**63 - 1


def reject_unknown(options: Mapping[str, str], known: Collection[str]) -> None:
    """Raise OptionError for the first option (by name) that is not in ``known``."""
    for name in sorted(options.keys() - set(known)):
        raise OptionError.unknown(name, known)


def whole(options: Mapping[str, str], name: str, default: T, *, largest: int = LONG_MAX) -> int | T:
    """A whole number of at most ``largest``."""
    text = options.get(name)
    if text is None:
        return default
    if not _WHOLE.fullmatch(text):
        raise OptionError(f"'{name}' is set to {text} but must be a whole number")
    value = int(text)
    if not -largest - 1 <= value <= largest:
        raise OptionError(f"'{name}' is set to {text} but must be at most {largest}")
    return value


def small(options: Mapping[str, str], name: str, default: T) -> int | T:
    """A whole number that Java holds in an int."""
    return whole(options, name, default, largest=_INT_MAX)


def fraction(options: Mapping[str, str], name: str, default: float) -> float:
    """A number with a fraction."""
    try:
        return float(options.get(name, default))
    except ValueError:
        raise OptionError(f"'{name}' is set to {options[name]} but must be a number") from None


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    """True or false; unlike Java, which takes any other text for false, other texts are refused."""
    text = options.get(name, str(default)).lower()
    if text not in ("true", "false"):
        raise OptionError(f"'{name}' is set to {options[name]} but must be true or false")
    return text == "true"


def check(holds: bool, message: str) -> None:
    """Raise OptionError with the engine's own words if a condition on options does not hold."""
    if not holds:
        raise OptionError(message)

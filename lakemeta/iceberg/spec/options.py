"""Options as text: ``--set KEY=VALUE`` under the names of Iceberg's procedures, typed as PropertyUtil types them."""

from __future__ import annotations

from typing import TYPE_CHECKING, TypeVar

from lakemeta import typed_text
from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

T = TypeVar("T")
_INT_MAX = 2**31 - 1


def reject_unknown(options: Mapping[str, str], known: Collection[str], service: str) -> None:
    """Raise OptionError for the first option (by name) of a service that is not in ``known``."""
    for name in sorted(options.keys() - set(known)):
        raise OptionError.unknown(name, known, f"lakemeta options {service} lists all")


def whole(options: Mapping[str, str], name: str, default: T, *, largest: int = typed_text.LONG_MAX) -> int | T:
    """A whole number of at most ``largest``."""
    return typed_text.whole(name, options[name], -largest - 1, largest) if name in options else default


def small(options: Mapping[str, str], name: str, default: T) -> int | T:
    """A whole number that Java holds in an int."""
    return whole(options, name, default, largest=_INT_MAX)


def fraction(options: Mapping[str, str], name: str, default: float) -> float:
    """A number with a fraction."""
    return typed_text.number(name, options[name]) if name in options else default


def truth(options: Mapping[str, str], name: str, default: bool) -> bool:
    """True or false; unlike Java, which takes any other text for false, other texts are refused."""
    return typed_text.truth(name, options[name]) if name in options else default


def check(holds: bool, message: str) -> None:
    """Raise OptionError with the engine's own words if a condition on options does not hold."""
    if not holds:
        raise OptionError(message)

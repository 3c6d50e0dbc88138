"""Options and properties are texts: how these are read as numbers and truth values, and said to be none."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping

Value = str | int | float | bool  # what the value of an option may be given as
LONG_MAX: Final = 2**63 - 1
_SIZE: Final = re.compile(r"([0-9]{1,15}(?:\.[0-9]{1,6})?) ?([KMGTP])(i?)B", re.ASCII | re.IGNORECASE)
_WHOLE: Final = re.compile("[+-]?[0-9]{1,99}")  # Java takes no blanks or underscores


def texts(options: Mapping[str, Value] | None) -> dict[str, str]:
    """Options as texts: numbers and truth values are spelled out; raises OptionError for anything else."""
    return {name: _text(name, value) for name, value in (options or {}).items()}


def _text(name: str, value: Value) -> str:
    if isinstance(value, str):
        return _size(value) if "bytes" in name or "size" in name else value
    if isinstance(value, bool):
        return str(value).lower()
    if isinstance(value, int | float):
        return str(value)
    raise OptionError(f"'{name}' is set to a {type(value).__name__} but must be a string, a number, or true or false")


def _size(text: str) -> str:
    """A size in words (``128MiB``, ``0.5 GB``) in bytes; any other text as it is."""
    match = _SIZE.fullmatch(text.strip())
    if match is None:
        return text
    unit = (1024 if match[3] else 1000) ** (" KMGTP".index(match[2].upper()))
    return str(round(float(match[1]) * unit))


def whole(name: str, text: str, least: int = -LONG_MAX - 1, most: int = LONG_MAX) -> int:
    """A whole number from ``least`` to ``most``; raises OptionError, naming the option, for another text."""
    if not _WHOLE.fullmatch(text):
        size = ", or a size as 128MiB" if "bytes" in name else ""
        raise OptionError(f"'{name}' is set to {text} but must be a whole number{size}")
    value = int(text)
    if not least <= value <= most:
        raise OptionError(f"'{name}' is set to {text} but must be from {least} to {most}")
    return value


def number(name: str, text: str) -> float:
    """A number with a fraction; raises OptionError, naming the option, for another text."""
    try:
        return float(text)
    except ValueError:
        raise OptionError(f"'{name}' is set to {text} but must be a number") from None


def truth(name: str, text: str) -> bool:
    """``true`` or ``false`` in any case; raises OptionError, naming the option, for another text."""
    if text.lower() not in ("true", "false"):
        raise OptionError(f"'{name}' is set to {text} but must be true or false")
    return text.lower() == "true"

"""Options and properties are texts: how these are read as numbers and truth values, and said to be none."""

from __future__ import annotations

import re
from typing import Final

from lakemeta.errors import OptionError

LONG_MAX: Final = 2**63 - 1
_WHOLE: Final = re.compile("[+-]?[0-9]{1,99}")  # Java takes no blanks or underscores


def whole(name: str, text: str, least: int = -LONG_MAX - 1, most: int = LONG_MAX) -> int:
    """A whole number from ``least`` to ``most``; raises OptionError, naming the option, for another text."""
    if not _WHOLE.fullmatch(text):
        raise OptionError(f"'{name}' is set to {text} but must be a whole number")
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

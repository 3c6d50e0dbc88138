"""Typed reading of a table's properties, as Iceberg's PropertyUtil does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Mapping


def int_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """A whole number; raises OptionError naming the property if its text is none."""
    text = properties.get(name)
    if text is None:
        return default
    try:
        return int(text)
    except ValueError:
        raise OptionError(f"table property {name} is {text!r}; set it to a whole number") from None


def bool_property(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """True only for the text "true" in any case, as Java's Boolean.parseBoolean."""
    text = properties.get(name)
    return default if text is None else text.lower() == "true"

"""Typed reading of a table's properties, as Iceberg's PropertyUtil does it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.typed_text import whole

if TYPE_CHECKING:
    from collections.abc import Mapping


def int_property(properties: Mapping[str, str], name: str, default: int) -> int:
    """A whole number; raises OptionError naming the property if its text is none."""
    return whole(name, properties[name]) if name in properties else default


def bool_property(properties: Mapping[str, str], name: str, default: bool) -> bool:
    """True only for the text "true" in any case, as Java's Boolean.parseBoolean."""
    text = properties.get(name)
    return default if text is None else text.lower() == "true"


def check_gc(properties: Mapping[str, str], doing: str) -> None:
    """Raise UnsupportedFeatureError, in the engine's words, if the table is not to lose any file.

    ``doing`` is what would delete files, as in "expire snapshots".
    """
    if not bool_property(properties, "gc.enabled", True):
        raise UnsupportedFeatureError(f"Cannot {doing}: GC is disabled (deleting files may corrupt other tables)")

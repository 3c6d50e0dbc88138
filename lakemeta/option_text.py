"""What is said of an option: in lists, in completions, in the docs."""

from __future__ import annotations

import attrs


@attrs.frozen
class OptionText:
    """An option by its primary name, its default in words, what it means, and its older spelling if it has one.

    ``commas`` says that one value of it may hold commas, as a list does.
    """

    name: str
    default: str
    meaning: str
    older: str | None = None
    commas: bool = False

"""Counts and sizes in words, and tables for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHOWN: Final = 20


def human_bytes(size: int) -> str:
    """A size in words: ``1.5 MiB``; below 1 KiB in bytes."""
    value = float(size)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def count_of(number: int, noun: str, nouns: str | None = None) -> str:
    """``1 file``, ``2 files``; ``nouns`` is the plural where it is no mere ``s``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {nouns or noun + 's'}"


def human_change(before: int, after: int) -> str:
    """Two sizes: ``44.6 -> 11.5 KiB``."""
    old, new = human_bytes(before), human_bytes(after)
    return f"{old.split()[0] if old.split()[1] == new.split()[1] else old} -> {new}"


def some(names: Sequence[object], shown: int, between: str = ", ", *, total: int | None = None) -> str:
    """The first few of some names, and how many more there are: ``a, b and 3 more``.

    ``total`` is how many there are if only the first few are given.
    """
    more = (len(names) if total is None else total) - shown
    return between.join(map(str, names[:shown])) + (f" and {more:,} more" if more > 0 else "")


def facts_html(title: str, facts: Mapping[str, object]) -> str:
    """Facts of a table as an HTML table; bytes in words, lists on one line."""
    return html_table(title, ("fact", "value"), [(spaced(name), _fact(name, value)) for name, value in facts.items()])


def spaced(name: str) -> str:
    """A name in snake case in words."""
    return name.replace("_", " ")


def _fact(name: str, value: object) -> str:
    if isinstance(value, int) and "bytes" in name:
        return human_bytes(value)
    if isinstance(value, dict):
        return ", ".join(f"{key} {number}" for key, number in value.items())
    return ", ".join(map(str, value)) if isinstance(value, list | tuple) else "" if value is None else str(value)


def html_table(title: str, heads: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    """An HTML table with a title, of at most 20 rows."""
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[:_SHOWN])
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    return f"<p>{escape(title)}</p><table><tr>{head}</tr>{body}</table>{more}"

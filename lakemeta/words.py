"""Counts and sizes in words, and tables for notebooks."""

from __future__ import annotations

from html import escape
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

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


def html_table(title: str, heads: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    """An HTML table with a title, of at most 20 rows."""
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[:_SHOWN])
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    return f"<p>{escape(title)}</p><table><tr>{head}</tr>{body}</table>{more}"

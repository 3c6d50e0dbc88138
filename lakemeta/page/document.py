"""A page as HTML: one file with its style, its script and its data.

Rules of this module:

1. What comes from a table is data: JSON in ASCII without ``<``, ``>`` and ``&``, so that it can end no element, and the
   script shows it as text. The title alone stands in the markup, escaped, with what does not show spelled out.
2. The page's own policy (Content-Security-Policy) lets its one style and its one script run, by their hashes, and loads
   nothing.
3. A page begins with ``HEAD``, by which an earlier page is known.
"""

from __future__ import annotations

import base64
import hashlib
import json
from functools import cache
from html import escape
from importlib.resources import files
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

HEAD: Final = "<!doctype html>\n<!-- a page of lakemeta, 1 -->\n"
_ESCAPES: Final = {ord(char): f"\\u{ord(char):04x}" for char in "<>&"}


def document(content: Mapping[str, Any]) -> Iterator[str]:
    """The page, piece by piece, in ASCII but for what stands in style and script."""
    style, script = _asset("page.css"), _asset("page.js")
    title = "".join(c if c.isprintable() else c.encode("unicode_escape").decode() for c in str(content["title"]))
    policy = f"default-src 'none'; base-uri 'none'; style-src {_hash(style)}; script-src {_hash(script)}"
    yield f'{HEAD}<html lang="en">\n<head>\n<meta charset="utf-8">\n'
    yield f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
    yield '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
    yield f'<meta name="color-scheme" content="light dark">\n<title>{escape(title)}</title>\n'
    yield f"<style>{style}</style>\n</head>\n<body>\n<h1>{escape(title)}</h1>\n"
    yield '<main id="main"></main>\n<noscript>This page draws itself with JavaScript.</noscript>\n'
    yield '<script type="application/json" id="data">'
    yield json.dumps(content, separators=(",", ":")).translate(_ESCAPES)
    yield f"</script>\n<script>{script}</script>\n</body>\n</html>\n"


@cache
def _asset(name: str) -> str:
    return files("lakemeta.page").joinpath("assets", name).read_text(encoding="utf-8")


def _hash(text: str) -> str:
    return f"'sha256-{base64.b64encode(hashlib.sha256(text.encode()).digest()).decode()}'"

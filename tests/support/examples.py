"""How many examples hypothesis tries: few in the fast tests, and ``LAKEMETA_EXAMPLES`` times as many on request."""

from __future__ import annotations

import os


def examples(count: int) -> int:
    """``count``, or as many times that as the environment asks for."""
    return count * int(os.environ.get("LAKEMETA_EXAMPLES", "1"))

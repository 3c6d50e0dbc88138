"""Reading JSON of any origin: what the parser takes and others trip over later is refused at once."""

from __future__ import annotations

import json
import math
import re
from typing import Any, Final, NoReturn

MAX_DEPTH: Final = 100  # values within values
_VALUES: Final = 1_000_000
_DENSE: Final = 8  # values a byte of compressed metadata: a value is dozens of times as large in memory as its text
_HALF: Final = re.compile(rb"\\u[dD][89a-fA-F]")
_HALF_TEXT: Final = re.compile(_HALF.pattern.decode())


def parse_json(data: bytes | str, packed: int | None = None) -> Any:
    """The value of a JSON text, which was ``packed`` bytes before it was unpacked.

    Raises ValueError, with the problem in words, also for what is nested more than ``MAX_DEPTH`` deep, numbers that
    JSON does not have (NaN, 1e999), and text that is half a character, for which no UTF-8 exists.
    """
    if packed is not None and isinstance(data, bytes) and _values(data) > _VALUES + _DENSE * packed:
        raise ValueError("it holds more values than a file of its size does")
    try:
        value = json.loads(data, parse_float=_finite, parse_constant=_no_number)
    except RecursionError:
        raise ValueError(_TOO_DEEP) from None
    _check_depth(value)
    if (_HALF.search(data) if isinstance(data, bytes) else _HALF_TEXT.search(data)) is not None:
        json.dumps(value, ensure_ascii=False).encode()
    return value


_TOO_DEEP: Final = f"it is nested more than {MAX_DEPTH} deep"


def _values(data: bytes) -> int:
    """At least as many values as there are."""
    return 1 + sum(map(data.count, (b",", b"[", b"{")))


def _check_depth(value: Any) -> None:
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        nested = [v for v in level if type(v) is dict or type(v) is list]
        if not nested:
            return
        level = [child for v in nested for child in (v.values() if type(v) is dict else v)]
    raise ValueError(_TOO_DEEP)


def _finite(text: str) -> float:
    value = float(text)
    if math.isinf(value):
        raise ValueError(f"{text[:20]} is too large a number")
    return value


def _no_number(text: str) -> NoReturn:
    raise ValueError(f"{text} is no number in JSON")

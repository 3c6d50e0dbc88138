"""Files planted beside those of small Iceberg tables, with ages counted back from a fixed moment."""

from __future__ import annotations

import os
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from support.iceberg_tables import SmallTable

NOW = datetime(2027, 1, 1, tzinfo=UTC)


def age(folder: Path, days: float = 40) -> None:
    for path in folder.rglob("*"):
        if path.is_file() and not path.is_symlink():
            touch(path, days)


def touch(path: Path, days: float) -> None:
    then = (NOW - timedelta(days=days)).timestamp()
    os.utime(path, (then, then), follow_symlinks=False)


def plant(small: SmallTable, name: str, days: float = 40, content: bytes = b"x") -> Path:
    path = Path(small.root) / name
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content)
    touch(path, days)
    return path

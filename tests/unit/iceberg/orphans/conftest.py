"""The table of most tests of orphan files."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.orphan_plans import old_table

if TYPE_CHECKING:
    from pathlib import Path

    from support.iceberg_tables import SmallTable


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """A table of old files, with two data files and one that was replaced."""
    return old_table(tmp_path)

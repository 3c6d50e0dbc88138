"""Not a row is lost: random tables of the real engine, rewritten by lakemeta, hold the same rows for every reader.

``LAKEMETA_INTEROP_TABLES`` tables from seed ``LAKEMETA_INTEROP_SEED`` on; a table that fails names its seed, which
alone makes it again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from interop.iceberg_lives import Life

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

TABLES = int(os.environ.get("LAKEMETA_INTEROP_TABLES", "3"))
SEED = int(os.environ.get("LAKEMETA_INTEROP_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_every_reader_finds_every_row(engine, seed, tmp_path):
    """Rows and lineage are the same before and after rewrites of ours, large and small, and of Spark on top."""
    life = Life(engine, seed, tmp_path)
    troubles = life.live()
    if life.unread:
        pytest.skip(life.unread)
    done = "\n".join(life.grown.steps)
    assert not troubles, "\n".join([*troubles, f"LAKEMETA_INTEROP_SEED={seed} LAKEMETA_INTEROP_TABLES=1", done])

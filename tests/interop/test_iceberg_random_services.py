"""Not a row is lost by any service: random tables of the real engine, maintained by lakemeta, read by the engine.

``LAKEMETA_INTEROP_SERVED`` tables from seed ``LAKEMETA_INTEROP_SEED`` on; a table that fails names its seed, which
alone makes it again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from interop.iceberg_served import ServedLife

if TYPE_CHECKING:
    pass

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

TABLES = int(os.environ.get("LAKEMETA_INTEROP_SERVED", "2"))
SEED = int(os.environ.get("LAKEMETA_INTEROP_SEED", "1"))


@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_the_engine_finds_every_row(engine, seed, tmp_path):
    """Rows, lineage and what tags hold are the same after every service of ours, and after Spark's rewrite on top."""
    life = ServedLife(engine, seed, tmp_path)
    troubles = life.live()
    if life.unread:
        pytest.skip(life.unread)
    done = "\n".join(life.grown.steps)
    assert not troubles, "\n".join([*troubles, f"LAKEMETA_INTEROP_SEED={seed} LAKEMETA_INTEROP_SERVED=1", done])

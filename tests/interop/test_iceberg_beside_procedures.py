"""Services beside Spark's procedures: random tables of the real engine, on which both sides have to do the same.

For each service ``LAKEMETA_INTEROP_BESIDE`` tables from seed ``LAKEMETA_INTEROP_SEED`` on, each served several times;
without the first, one table that is served twice. A table that fails names its seed, which alone makes it again.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest
from interop.engine_process import EngineUnavailableError
from interop.iceberg_beside_calls import SERVICES, compare
from interop.iceberg_engine import IcebergEngine

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

TABLES = int(os.environ.get("LAKEMETA_INTEROP_BESIDE", "1"))
CALLS = 9 if "LAKEMETA_INTEROP_BESIDE" in os.environ else 2
SEED = int(os.environ.get("LAKEMETA_INTEROP_SEED", "1"))


@pytest.fixture(scope="module")
def engine(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergEngine]:
    """The real engine."""
    try:
        started = IcebergEngine(tmp_path_factory.mktemp("iceberg"))
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    with started as engine:
        yield engine


@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("seed", range(SEED, SEED + TABLES))
def test_both_do_the_same(engine, seed, service, tmp_path):
    """Counters, metadata, files that go, entries, deleted positions, statistics and rows at every ref are equal."""
    beside = compare(engine, service, seed, tmp_path, CALLS)
    done = "\n".join(beside.history.steps)
    assert not beside.troubles, "\n".join(
        [*beside.troubles, f"LAKEMETA_INTEROP_SEED={seed} LAKEMETA_INTEROP_BESIDE=1 -k {service}", done]
    )

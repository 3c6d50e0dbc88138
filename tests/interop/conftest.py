"""The real engines for all modules of a process that take turns with them: their JVMs start slowly."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest
from interop.engine_process import EngineUnavailableError
from interop.hudi_engine import HudiEngines
from interop.iceberg_engine import IcebergEngine

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture(scope="session")
def iceberg_session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[IcebergEngine]:
    """The real engine."""
    try:
        started = IcebergEngine(tmp_path_factory.mktemp("iceberg"))
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    with started as engine:
        yield engine


@pytest.fixture(scope="module")
def engine(iceberg_session: IcebergEngine) -> Iterator[IcebergEngine]:
    """The real engine with an empty warehouse; modules about another engine have a fixture of this name themselves."""
    yield iceberg_session
    shutil.rmtree(iceberg_session.warehouse / "db", ignore_errors=True)


@pytest.fixture(scope="session")
def hudi_engines(tmp_path_factory: pytest.TempPathFactory) -> Iterator[HudiEngines]:
    """The real Hudi, of the release that is asked for."""
    engines = HudiEngines(tmp_path_factory)
    yield engines
    engines.close()

"""The recorded tables, once for all executors."""

from __future__ import annotations

import pytest
from contract.golden_tables import Golden


@pytest.fixture(scope="session")
def golden(tmp_path_factory: pytest.TempPathFactory) -> Golden:
    """The recorded tables with the plans that one local thread makes of them."""
    return Golden(tmp_path_factory.mktemp("golden"))

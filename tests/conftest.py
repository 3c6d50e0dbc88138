"""What every test shares: hypothesis finds the same examples on every run."""

from __future__ import annotations

import signal
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, settings

if TYPE_CHECKING:
    from collections.abc import Iterator

pytest.register_assert_rewrite("contract.storage_contract", "contract.executor_contract")

settings.register_profile(
    "repeatable",
    derandomize=True,
    deadline=None,
    database=None,
    suppress_health_check=[HealthCheck.too_slow],
)
settings.load_profile("repeatable")


@pytest.fixture(autouse=True)
def nobody_waits(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Damaged timelines are read again a few times; only tables that a real engine writes get better by waiting."""
    if "engine" in request.keywords:
        return
    monkeypatch.setattr("lakemeta.hudi.load._WAITS", (0.0,), raising=False)


@pytest.fixture
def ctrl_c() -> Iterator[None]:
    """Ctrl-C is heard: a shell switches it off for what it starts in the background, and PySpark puts its own there."""
    before = signal.signal(signal.SIGINT, signal.default_int_handler)
    yield
    signal.signal(signal.SIGINT, before or signal.SIG_DFL)

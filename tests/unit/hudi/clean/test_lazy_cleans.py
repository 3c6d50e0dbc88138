"""Cleans that roll failed writes back first."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import at
from support.hudi_failed_writes import (
    LAZY,
    NOW,
    failed_cow,
    roll_back,
)

from lakemeta.environment import Environment
from lakemeta.errors import StalePlanError
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


def test_a_lazy_plan_survives_its_own_rollback(tmp_path: Path) -> None:
    """A clean was planned as if the failed write were gone, so rolling back just that one makes nothing stale."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    options = {**LAZY, "hoodie.clean.commits.retained": "1"}
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean(options, now=NOW)
    roll_back(table, LAZY)
    report = hudi.apply(plan, env=Environment(lambda: NOW))
    assert report.committed is not None
    assert report.deleted_files == plan.files > 0


def test_a_lazy_plan_does_not_survive_another_rollback(tmp_path: Path) -> None:
    """A rollback of anything else may have taken files that the plan counted on."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean({**LAZY, "hoodie.clean.commits.retained": "1"}, now=NOW)
    table.begin({"p1": "b"})
    roll_back(table, LAZY)
    with pytest.raises(StalePlanError, match="rollback"):
        hudi.apply(plan, env=Environment(lambda: NOW))


def test_a_lazy_clean_rolls_back_even_if_nothing_is_to_be_cleaned(tmp_path: Path) -> None:
    """As in Hudi, failed writes go whether or not a clean is due."""
    table = failed_cow(tmp_path)
    hudi = HudiTable.open(str(tmp_path))
    report = hudi.apply(hudi.plan_clean(LAZY, now=NOW), env=Environment(lambda: NOW))
    assert report.committed is None
    assert report.result["commits_rollback"] == [at(3)]
    assert not list(table.timeline.glob("*.clean*"))


def test_scheduling_rolls_back_first(tmp_path: Path) -> None:
    """A requested clean does not know of failed writes, so they are gone before it is requested."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    hudi = HudiTable.open(str(tmp_path))
    plan = hudi.plan_clean({**LAZY, "hoodie.clean.commits.retained": "1"}, now=NOW)
    requested = hudi.schedule_clean(plan, env=Environment(lambda: NOW))
    (rollback,) = (path.name[:17] for path in table.timeline.glob("*.rollback"))
    assert requested is not None
    assert rollback < requested


def test_a_pending_clean_is_no_news_after_our_rollback(tmp_path: Path) -> None:
    """Where several cleans may be pending, the one that the plan knew of does not make it stale."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "ab"})
    table.commit({"p1": "ab"})
    options = {**LAZY, "hoodie.clean.multiple.enabled": "true", "hoodie.clean.commits.retained": "2"}
    hudi = HudiTable.open(str(tmp_path))
    assert hudi.schedule_clean(hudi.plan_clean(options, now=NOW), env=Environment(lambda: NOW))
    table.commit({"p1": "ab"})
    table.begin({"p1": "b"})
    plan = hudi.plan_clean({**options, "hoodie.clean.commits.retained": "1"}, now=NOW)
    report = hudi.apply(plan, env=Environment(lambda: NOW))
    assert len(report.result["cleans"]) == 2

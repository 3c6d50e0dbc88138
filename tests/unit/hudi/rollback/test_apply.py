"""Rollback plans that are applied late, twice, or after another writer began."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from support.builders import at, base, tree
from support.hudi_failed_writes import (
    LAZY,
    NOW,
    failed_cow,
    heartbeat,
    plan_rollback,
    roll_back,
)

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path


def test_a_plan_is_stale_once_the_write_completed(tmp_path: Path) -> None:
    """A write that was not dead after all must not lose its files."""
    table = failed_cow(tmp_path)
    plan = plan_rollback(table)
    (table.timeline / f"{at(3)}.inflight").unlink()
    (table.timeline / f"{at(3)}.commit.requested").unlink()
    done = next(table.timeline.glob(f"{at(2)}_*.commit")).read_bytes()
    table.put(f"{at(3)}_{at(3.5)}.commit", done)
    before = tree(tmp_path)
    with pytest.raises(StalePlanError, match="is done"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))
    assert tree(tmp_path) == before


def test_a_plan_is_stale_once_the_writer_lives(tmp_path: Path) -> None:
    """A heartbeat that beats again stops a plan that was made without it."""
    table = failed_cow(tmp_path)
    plan = plan_rollback(table, LAZY)
    heartbeat(table, at(3), NOW)
    with pytest.raises(StalePlanError, match="alive again"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))


def test_a_plan_is_stale_once_the_write_has_other_files(tmp_path: Path) -> None:
    """Exactly what was planned is undone, or nothing."""
    table = failed_cow(tmp_path)
    plan = plan_rollback(table)
    table.data("p1", base("z", 3))
    with pytest.raises(StalePlanError, match="other files"):
        HudiTable.open(str(tmp_path)).apply(plan, env=Environment(lambda: NOW))


def test_a_plan_applied_twice_does_nothing_more(tmp_path: Path) -> None:
    """What was rolled back by the plan is done."""
    table = failed_cow(tmp_path)
    plan = plan_rollback(table)
    hudi = HudiTable.open(str(tmp_path))
    hudi.apply(plan, env=Environment(lambda: NOW))
    before = tree(tmp_path)
    assert hudi.apply(plan, env=Environment(lambda: NOW)).deleted_files == 0
    assert tree(tmp_path) == before


def test_a_rollback_by_an_unknown_hand_is_finished_as_it_was_begun(tmp_path: Path) -> None:
    """A pending rollback is executed from its own plan, also after the failed write is gone from the timeline."""
    table = failed_cow(tmp_path)
    roll_back(table)
    (done,) = table.timeline.glob("*.rollback")
    done.unlink()
    table.data("p2", base("c", 3))
    report = roll_back(table)
    assert report.committed == done.name[:17]
    assert "p2/" + base("c", 3) not in table.files()


def test_an_empty_requested_rollback_is_refused(tmp_path: Path) -> None:
    """Without its plan nobody knows what it was."""
    table = failed_cow(tmp_path)
    table.put(f"{at(9)}.rollback.requested", b"")
    with pytest.raises(CorruptMetadataError, match="is empty"):
        plan_rollback(table)

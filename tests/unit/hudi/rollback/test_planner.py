"""Which pending writes have failed, and in which order they are rolled back."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base
from support.hudi_failed_writes import (
    LAZY,
    NOW,
    failed_cow,
    heartbeat,
    plan_rollback,
    roll_back,
    rollback_records,
)

from lakemeta.errors import UnsupportedFeatureError

if TYPE_CHECKING:
    from pathlib import Path


def test_lazy_leaves_a_living_writer_alone(tmp_path: Path) -> None:
    """A fresh heartbeat means that the write goes on; only the other one is rolled back."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    heartbeat(table, at(4), NOW - timedelta(seconds=119))
    plan = plan_rollback(table, LAZY)
    assert plan.header.facts["failed_writes"] == [at(3)]
    assert plan.header.facts["alive_writes"] == [at(4)]
    roll_back(table, LAZY)
    assert list(table.timeline.glob(f"{at(4)}*"))
    assert "p1/" + base("b", 4) in table.files()


def test_an_expired_heartbeat_goes_with_its_write(tmp_path: Path) -> None:
    """The heartbeat is stale after the interval times the tolerable misses, and is removed in the end."""
    table = failed_cow(tmp_path)
    heartbeat(table, at(3), NOW - timedelta(seconds=121))
    roll_back(table, LAZY)
    assert not (tmp_path / ".hoodie/.heartbeat" / at(3)).exists()


def test_eager_refuses_a_fresh_heartbeat(tmp_path: Path) -> None:
    """Who rolls back eagerly takes the place of the only writer; a heartbeat says that there is another."""
    table = failed_cow(tmp_path)
    heartbeat(table, at(3), NOW - timedelta(seconds=5))
    with pytest.raises(UnsupportedFeatureError, match="alive, its heartbeat is 5 s old"):
        plan_rollback(table)


def test_eager_refuses_a_write_that_others_went_past(tmp_path: Path) -> None:
    """Commits after the pending one mean more than one writer."""
    table = failed_cow(tmp_path)
    table.commit({"p1": "b"})
    with pytest.raises(UnsupportedFeatureError, match="more than one writer"):
        plan_rollback(table)
    assert roll_back(table, LAZY).result["commits_rollback"] == [at(3)]


def test_never_rolls_nothing_back(tmp_path: Path) -> None:
    """Under NEVER no write has failed."""
    assert not plan_rollback(failed_cow(tmp_path), {"hoodie.clean.failed.writes.policy": "NEVER"}).header.facts[
        "failed_writes"
    ]


def test_newest_writes_go_first(tmp_path: Path) -> None:
    """Two failed writes make two rollbacks, the newer write's first."""
    table = failed_cow(tmp_path)
    table.begin({"p1": "b"})
    assert roll_back(table).result["commits_rollback"] == [at(4), at(3)]
    assert [record["commitsRollback"] for record in rollback_records(table)] == [[at(4)], [at(3)]]


@pytest.mark.parametrize("version", [6, 9])
def test_clusterings_and_compactions_are_no_failed_writes(tmp_path: Path, version: int) -> None:
    """Table services are run again by whoever runs them."""
    table = TableFiles(tmp_path, version, mor=True)
    table.insert({"p1": "ab"})
    table.delta({"p1": "a"})
    table.schedule_compaction({"p1": "a"}, inflight=True)
    table.schedule_clustering()
    assert not plan_rollback(table).header.facts["failed_writes"]

"""How far a rewrite has come, as listeners hear it."""

from __future__ import annotations

import json
import os
import signal
import threading
from pathlib import Path

import pytest
from support.iceberg_tables import SmallTable, create_table

from lakemeta.cli.progress import ProgressExecutor
from lakemeta.events import Progress
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}


@pytest.fixture
def small(tmp_path) -> SmallTable:
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    return small


class Elsewhere:
    """An executor that shares nothing with the caller, as far as a rewrite can tell."""

    def map_batches(self, fn, items, *, batch_size):
        return LocalExecutor(1).map_batches(fn, items, batch_size=batch_size)


@pytest.mark.parametrize("threads", ["1", "5"])
def test_progress_is_told_file_by_file(small, threads):
    """Bytes grow while a group is under way, groups when one ends, and both end at what was planned."""
    table = IcebergTable.open(small.root)
    plan = table.plan_rewrite_data_files({**ALL, "max-concurrent-file-group-rewrites": threads})
    heard: list[Progress] = []
    table.apply(plan, on_progress=heard.append)
    assert heard[-1] == Progress(2, 2, plan.bytes, plan.bytes)
    assert [p.bytes for p in heard] == sorted(p.bytes for p in heard)
    assert [p.groups for p in heard] == sorted(p.groups for p in heard)
    assert len({p.bytes for p in heard}) == 6
    assert {(p.groups_total, p.bytes_total) for p in heard} == {(2, plan.bytes)}


def test_elsewhere_progress_is_told_group_by_group(small):
    """Workers do not share memory; a group counts once its result is there."""
    table = IcebergTable.open(small.root)
    plan = table.plan_rewrite_data_files(ALL)
    heard: list[Progress] = []
    table.apply(plan, executor=Elsewhere(), on_progress=heard.append)
    assert [p.groups for p in heard] == [1, 2]
    assert heard[-1].bytes == plan.bytes


def test_around_threads_progress_is_told_file_by_file(small):
    """What is around an executor of this process works in this process: its groups tell how far they have come."""
    table = IcebergTable.open(small.root)
    plan = table.plan_rewrite_data_files(ALL)
    heard: list[Progress] = []
    table.apply(plan, executor=ProgressExecutor(LocalExecutor(1), "rewriting"), on_progress=heard.append)
    assert len({p.bytes for p in heard}) == 6


def test_a_group_that_fails_counts_as_ended(small):
    """The bar reaches its end also where a group could not be rewritten."""
    small.storage.delete_many([small.data_files()[0].file_path])
    table = IcebergTable.open(small.root)
    plan = table.plan_rewrite_data_files({**ALL, "partial-progress.enabled": "true"})
    heard: list[Progress] = []
    report = table.apply(plan, on_progress=heard.append)
    assert report.result["failed_data_files_count"] == 3
    assert heard[-1] == Progress(2, 2, plan.bytes, plan.bytes)


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("threads", ["1", "5"])
def test_ctrl_c_stops_groups_under_way_and_leaves_nothing_of_them(small, threads):
    """A person who interrupts does not wait for the end of a big group, and finds no file of it; the next run works."""
    table = IcebergTable.open(small.root)
    plan = table.plan_rewrite_data_files({**ALL, "max-concurrent-file-group-rewrites": threads})
    before = [path for path in sorted(Path(small.root).rglob("*")) if path.suffix == ".parquet"]
    begun = threading.Event()

    def interrupt(progress: Progress) -> None:
        if progress.bytes and not begun.is_set():
            begun.set()
            if threads == "1":
                raise KeyboardInterrupt
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt):
        table.apply(plan, on_progress=interrupt)
    assert [path for path in sorted(Path(small.root).rglob("*")) if path.suffix == ".parquet"] == before
    report = table.apply(plan)
    assert report.complete
    assert report.notes == ()


def test_what_others_left_is_no_failure(small):
    """An earlier rewrite's files are told in the notes of a rewrite that is complete."""
    uuid = "11111111-2222-4333-8444-555555555555"
    mark = Path(small.root, "metadata", f".lakemeta-rewrite-{uuid}.json")
    mark.write_text(json.dumps({"rewrite": uuid, "begun_ms": 0, "snapshot_id": 1, "commits": []}))
    Path(small.root, "data", f"00000-0-{uuid}-00001.parquet").touch()
    table = IcebergTable.open(small.root)
    report = table.apply(table.plan_rewrite_data_files(ALL))
    assert report.complete
    assert "did not end; once it surely runs no more, delete its files" in report.notes[0]

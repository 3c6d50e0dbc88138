from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pyarrow.parquet as pq
from support.builders import tree
from support.checker import Retention, must_be_readable, read_timeline, required_files

from lakemeta.hudi import HudiTable
from lakemeta.hudi.sample import SampleTable, write_sample_table

if TYPE_CHECKING:
    from pathlib import Path

START = datetime(2026, 8, 1, tzinfo=UTC)
ROWS = [{"id": f"r{n}", "ts": n, "fare": 1.5} for n in range(3)]


def test_the_same_calls_write_the_same_table(tmp_path: Path) -> None:
    """Names, instants and contents are counted, not drawn."""
    for name in ("a", "b"):
        write_sample_table(str(tmp_path / name), START)
    assert tree(tmp_path / "a") == tree(tmp_path / "b")


def test_what_is_written_is_a_table(tmp_path: Path) -> None:
    """Timeline, base files with Hudi's columns, an update of one group, an overwrite, and a savepoint on real files."""
    table = SampleTable(str(tmp_path / "t"), START)
    table.insert({"lima": ROWS})
    second = table.upsert({"lima": [{"id": "r1", "ts": 9, "fare": 2.5}]})
    table.savepoint(second)
    table.insert_overwrite("lima", ROWS[:1])
    actions = [(e.action, bool(e.completed)) for e in sorted(read_timeline(tmp_path / "t"), key=lambda e: e.path.name)]
    assert sorted({action for action, completed in actions if completed}) == ["commit", "replacecommit", "savepoint"]
    files = sorted((tmp_path / "t/lima").glob("*.parquet"), key=lambda path: path.name.rpartition("_")[2])
    rows = [pq.read_table(file).to_pylist() for file in files]
    assert [len(found) for found in rows] == [3, 3, 1]
    assert {row["fare"] for row in rows[1]} == {1.5, 2.5}
    assert {row["_hoodie_commit_time"] for row in rows[1]} == {second}
    assert rows[1][0]["_hoodie_file_name"] == files[1].name
    required = required_files(tmp_path / "t", Retention(commits=1))
    must_be_readable(tmp_path / "t", required)
    assert f"lima/{files[1].name}" in required


def test_it_can_be_cleaned(tmp_path: Path) -> None:
    """The demo's table has something of everything, and what a reader needs survives."""
    write_sample_table(str(tmp_path / "t"), START)
    required = required_files(tmp_path / "t", Retention(commits=1))
    table = HudiTable.open(str(tmp_path / "t"))
    plan = table.plan_clean({"hoodie.clean.commits.retained": "1"}, explain=True)
    reasons = {op.reason for op in plan.operations}
    assert {"superseded", "replaced", "pinned_by_savepoint", "latest_slice"} <= reasons
    assert table.apply(plan).deleted_files == plan.files
    must_be_readable(tmp_path / "t", required)

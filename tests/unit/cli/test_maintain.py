"""``lakemeta maintain``: what is due, in order; nothing without --yes."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, tree
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.iceberg.duties import DUTIES
from lakemeta.iceberg.services import SERVICES
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., "Result"]
    from conftest import Result

EAGER = ("--set", "rewrite-data-files.rewrite-all=true")


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    """Six files in three commits, one with a delete, and an orphan."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    small.delete_positions(small.data_files()[0], [0])
    orphan = Path(small.root) / "data" / "orphan.parquet"
    orphan.write_bytes(b"left")
    os.utime(orphan, (1e9, 1e9))
    return small


def lines(out: str) -> dict[str, dict[str, object]]:
    return {line["service"]: line for line in map(json.loads, out.splitlines())}


def test_every_duty_is_a_service() -> None:
    """Maintenance does what the command line does."""
    assert {duty.service for duty in DUTIES} <= SERVICES.keys()


def test_nothing_is_done_without_yes(run: Run, small: SmallTable) -> None:
    """Plans of all services in their order, the table as it was."""
    before = tree(Path(small.root))
    result = run("maintain", small.root, *EAGER)
    assert result.code == 0
    assert tree(Path(small.root)) == before
    heads = [line.removeprefix("== ") for line in result.out.splitlines() if line.startswith("== ")]
    assert [head.partition(":")[0] for head in heads] == [duty.service for duty in DUTIES]
    assert heads[0] == "rewrite-data-files: 6 files, due"
    assert heads[3] == "expire-snapshots: 3 snapshots, due"
    assert result.out.endswith("Nothing was changed: --yes does what is due.\n")


def test_what_is_due_is_done_in_order(run: Run, small: SmallTable) -> None:
    """Each service finds the table as the one before left it; rows stay, and a second run finds nothing due."""
    rows = TableState.local(small.root).rows()
    result = run("maintain", small.root, *EAGER, "--yes", "--output", "jsonl")
    assert result.code == 0
    done = lines(result.out)
    assert done["rewrite-data-files"]["report"]["added_data_files_count"] == 2
    assert done["expire-snapshots"]["report"]["deleted_data_files_count"] == 6
    assert done["remove-orphan-files"]["report"]["deleted_files"] == 1
    state = TableState.local(small.root)
    assert state.rows() == rows
    assert len(state.metadata["snapshots"]) == 2  # the rewrite, and that of manifests on top
    there = {str(path) for path in (Path(small.root) / "data").rglob("*.parquet")}
    assert there == state.referenced() & there
    again = lines(run("maintain", small.root, "--yes", "--output", "jsonl").out)
    assert not any(line["due"] for line in again.values())


def test_thresholds_and_services_left_out(run: Run, small: SmallTable) -> None:
    """A service that gains too little is named and not done; one that is skipped does not come."""
    asked = ("--at-least", "rewrite-data-files=7", "--skip", "expire-snapshots", "--skip", "remove-orphan-files")
    result = run("maintain", small.root, *EAGER, *asked, "--yes", "--output", "json")
    steps = {step["service"]: step for step in json.loads(result.out)["steps"]}
    assert steps["rewrite-data-files"] | {"bytes": 0} == {
        "service": "rewrite-data-files",
        "due": False,
        "gain": 6,
        "files": 6,
        "bytes": 0,
        "report": None,
    }
    assert "expire-snapshots" not in steps
    assert run("maintain", small.root, "--at-least", "vacuum=1").code == 2
    assert run("maintain", small.root, "--assume-single-writer").code == 2


def test_hudi_tables(run: Run, table: TableFiles) -> None:
    """A clean; a rollback only if it is said which writes have failed."""
    one = ("--set", "clean.hoodie.clean.commits.retained=1")
    found = lines(run("maintain", table.root, *one, "--output", "jsonl").out)
    assert list(found) == ["clean"]
    policy = ("--set", "rollback.hoodie.clean.failed.writes.policy=EAGER")
    found = lines(run("maintain", table.root, *one, *policy, "--yes", "--output", "jsonl").out)
    assert [(line["service"], line["due"]) for line in found.values()] == [("rollback", False), ("clean", True)]
    assert found["clean"]["report"]["total_files_deleted"] == found["clean"]["gain"] > 0

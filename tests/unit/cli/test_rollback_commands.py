"""The rollback commands, from the outside: exit codes, one sentence on stderr, results on stdout."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, tree
from support.hudi_failed_writes import heartbeat, server_markers

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., "Result"]
    from support.commands import Result


@pytest.fixture
def table(tmp_path: Path) -> TableFiles:
    """A commit, and one that died."""
    table = TableFiles(tmp_path / "t")
    table.insert({"p1": "a"})
    table.begin({"p1": "a", "p2": "c"})
    server_markers(table, at(2), [("p1/" + base("a", 2), "MERGE"), ("p2/" + base("c", 2), "CREATE")])
    return table


def test_plan_changes_nothing(run: Run, table: TableFiles) -> None:
    """The plan names the write and its files."""
    before = tree(table.root)
    result = run("plan", "rollback", table.root, "--output", "jsonl")
    header, *operations, end = map(json.loads, result.out.splitlines())
    assert (result.code, header["failed_writes"]) == (0, [at(2)])
    assert [op["path"] for op in operations] == ["p1/" + base("a", 2), "p2/" + base("c", 2)]
    assert end["files"] == 2
    assert tree(table.root) == before


def test_rollback(run: Run, table: TableFiles) -> None:
    """The failed write's files go; a second run has nothing to do."""
    result = run("rollback", table.root, "--yes", "--output", "json")
    report = json.loads(result.out)
    assert (result.code, report["commits_rollback"], report["deleted_files"]) == (0, [at(2)], 2)
    assert table.files() == {"p1/" + base("a", 1)}
    again = run("rollback", table.root, "--yes")
    assert (again.code, again.out.splitlines()[-1]) == (0, "Nothing to do.")


def test_saved_plans_are_applied(run: Run, table: TableFiles, tmp_path: Path) -> None:
    """``apply`` does what ``plan rollback --out`` saved."""
    plan = tmp_path / "plan.jsonl"
    assert run("plan", "rollback", table.root, "--out", plan, "-q").code == 0
    assert run("apply", plan).code == 0
    assert table.files() == {"p1/" + base("a", 1)}


def test_dry_run(run: Run, table: TableFiles) -> None:
    """``--dry-run`` only shows the plan."""
    before = tree(table.root)
    assert "failed write" in run("rollback", table.root, "--dry-run").out
    assert tree(table.root) == before


def test_a_living_writer_is_refused(run: Run, table: TableFiles) -> None:
    """A fresh heartbeat is a safety check: exit code 3 and one sentence."""
    heartbeat(table, at(2), datetime.now(UTC))
    before = tree(table.root)
    result = run("rollback", table.root, "--yes")
    assert (result.code, result.out) == (3, "")
    assert "is alive" in result.sentence
    assert tree(table.root) == before


def test_nothing_without_an_answer(run: Run, table: TableFiles) -> None:
    """Without a terminal to ask on nothing is changed unless ``--yes`` says so."""
    before = tree(table.root)
    assert run("rollback", table.root, "-q").code == 2
    assert tree(table.root) == before


def test_a_lock_that_cannot_be_taken_needs_a_word(run: Run, table: TableFiles) -> None:
    """``--assume-single-writer`` goes ahead without the lock."""
    lock = ("--set", "hoodie.write.lock.provider=org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider")
    result = run("rollback", table.root, "--yes", "-q", *lock)
    assert result.code == 3
    assert "--assume-single-writer" in result.sentence
    assert run("rollback", table.root, "--yes", "-q", "--assume-single-writer", *lock).code == 0
    assert table.files() == {"p1/" + base("a", 1)}

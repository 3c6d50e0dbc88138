"""Two compactors and two appenders, each in a process of its own, on one Hadoop table."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table

from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.slow

TESTS = Path(__file__).parents[1]
ROUNDS = {"append": 12, "compact": 4}


def start(role: str, root: str, seed: int) -> subprocess.Popen[str]:
    command = [sys.executable, str(TESTS / "model" / "iceberg_writers.py"), role, root, str(seed), str(ROUNDS[role])]
    path = os.pathsep.join([str(TESTS), str(TESTS.parent)])
    return subprocess.Popen(command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONPATH": path})


def test_no_row_and_no_update_is_lost(tmp_path):
    """Every appended row is there once, every commit is a snapshot in one line of history, versions have no gap."""
    properties = {"commit.retry.num-retries": "50", "commit.retry.max-wait-ms": "300"}
    table = create_table(LocalStorage(), str(tmp_path / "t"), properties=properties)
    table.append([(1, "a", 0.5)], [(2, "a", 0.5)])
    roles = [("append", 11), ("compact", 12), ("append", 13), ("compact", 14)]
    running = [start(role, table.root, seed) for role, seed in roles]
    outputs = [process.communicate(timeout=300)[0] for process in running]
    assert [process.returncode for process in running] == [0, 0, 0, 0]
    state = TableState.local(table.root)
    ids = sorted(json.loads(row)["id"] for row in state.rows())
    assert ids == sorted([1, 2, *(seed * 1000 + i for seed in (11, 13) for i in range(ROUNDS["append"]))])
    snapshots = state.metadata["snapshots"]
    replaces = [s for s in snapshots if s["summary"]["operation"] == "replace"]
    assert len(replaces) == sum(
        int(output) for output, (role, _) in zip(outputs, roles, strict=True) if role == "compact"
    )
    assert len(snapshots) == 1 + 2 * ROUNDS["append"] + len(replaces)
    assert [s["sequence-number"] for s in snapshots] == list(range(1, len(snapshots) + 1))
    parents = [s.get("parent-snapshot-id") for s in snapshots]
    assert parents == [None, *(s["snapshot-id"] for s in snapshots[:-1])]
    assert len(list((tmp_path / "t" / "metadata").glob("v*.metadata.json"))) == len(snapshots) + 1

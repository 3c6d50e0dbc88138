"""A rollback, and a LAZY clean, that dies at any write to storage: a second run ends where an unbroken one does."""

from __future__ import annotations

import re
import shutil
from itertools import count
from typing import TYPE_CHECKING, Any, Literal

import attrs
import pytest
from support.builders import TableFiles, at, base, log, moment, tree
from support.faults import Crash, FaultyStorage
from support.hudi_cases import read_avro
from support.hudi_failed_writes import heartbeat, inflight_updates, log_name, server_markers

from lakemeta.environment import Environment
from lakemeta.errors import StorageError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.storage import Storage

pytestmark = pytest.mark.slow

NOW = moment(100)
LAZY = {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.clean.commits.retained": "1"}
WHEN = ("before", "half", "after")
_LATER = re.compile(r"202601050[4-9]\d+(_\d+)?")  # the times of what is done at NOW


def make(root: Path, version: int, mor: bool) -> None:
    """A table with superseded files and a write that died, its heartbeat long cold."""
    table = TableFiles(root, version, mor=mor)
    table.insert({"p1": "ab", "p2": "c"})
    if not mor:
        table.commit({"p1": "a"})
        table.commit({"p1": "ab"})
        table.begin({"p1": "ab", "p3": "d"})
        files = [("p1/" + base("a", 4), "MERGE"), ("p1/" + base("b", 4), "MERGE"), ("p3/" + base("d", 4), "CREATE")]
    else:
        table.delta({"p1": "a"})
        table.delta({"p2": "c"})
        instant = table.begin({"p1": "ab"}, "deltacommit", logs=True)
        table.data("p3", base("d", 4))
        if version < 8:
            inflight_updates(table, instant, {"p1": {"a": at(1), "b": at(1)}, "p3": {"d": None}})
            logs = [("p1/" + log_name("a", 1, 2), "APPEND"), ("p1/" + log_name("b", 1, 1), "APPEND")]
        else:
            logs = [("p1/" + log("a", 4), "CREATE"), ("p1/" + log("b", 4), "CREATE")]
        files = [*logs, ("p3/" + base("d", 4), "CREATE")]
    server_markers(table, at(4), files)
    heartbeat(table, at(4), moment(4))


def run(root: Path, work: Literal["rollback", "clean"], storage: Storage) -> None:
    table = HudiTable.open(str(root))
    table = attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))
    executor = LocalExecutor(threads=1)
    plan_of = table.plan_rollback if work == "rollback" else table.plan_clean
    table.apply(plan_of(LAZY, now=NOW, executor=executor), executor=executor, env=Environment(lambda: NOW))


def outcome(root: Path) -> dict[str, Any]:
    """What is left: every file but ledgers, and what completed actions say; times of the runs aside."""
    left: dict[str, Any] = {}
    for name, content in tree(root).items():
        if ".lakemeta" in name:
            continue
        shape = _LATER.sub("T", name)
        if name.endswith((".rollback", ".clean")):
            record = read_avro(content)
            for field in ("startRollbackTime", "startCleanTime", "timeTakenInMillis"):
                record.pop(field, None)
            left[shape] = _LATER.sub("T", str(record))
        else:
            left[shape] = None if _LATER.search(name) else content
    return left


@pytest.mark.parametrize("when", WHEN)
@pytest.mark.parametrize(("version", "mor"), [(6, False), (6, True), (9, False), (9, True)])
@pytest.mark.parametrize("work", ["rollback", "clean"])
def test_a_second_run_ends_where_an_unbroken_one_does(
    work: Literal["rollback", "clean"],
    version: int,
    mor: bool,
    when: Literal["before", "half", "after"],
    tmp_path: Path,
) -> None:
    """Files, timeline, markers and heartbeats are the same, whichever write to storage was the last one."""
    whole, root = tmp_path / "whole", tmp_path / "t"
    make(root, version, mor)
    shutil.copytree(root, whole)
    run(root, work, LocalStorage())
    expected = outcome(root)
    for n in count(1):
        shutil.rmtree(root)
        shutil.copytree(whole, root)
        storage = FaultyStorage(LocalStorage(), n, when)
        try:
            run(root, work, storage)
        except Crash:
            run(root, work, LocalStorage())
        assert outcome(root) == expected, n
        if not storage.crashed:
            break
    assert n > 6


def test_a_file_that_cannot_be_deleted_keeps_the_rollback_pending(tmp_path: Path) -> None:
    """A rolled back write must leave nothing: the rollback stays pending, no clean begins, the next run finishes."""
    root = tmp_path / "t"
    make(root, 9, mor=False)
    stuck = root / "p3" / base("d", 4)
    stuck.unlink()
    stuck.mkdir()  # a directory is no file that could be deleted
    table = HudiTable.open(str(root))
    report = table.apply(table.plan_clean(LAZY, now=NOW), env=Environment(lambda: NOW))
    assert [outcome.path for outcome in report.failed] == [str(stuck)]
    assert report.committed is None
    assert "stays pending" in report.notes[-1]
    timeline = root / ".hoodie/timeline"
    assert not list(timeline.glob("*.clean*"))
    assert list(timeline.glob(f"{at(4)}*"))
    with pytest.raises(StorageError, match="no clean was requested"):
        table.schedule_clean(table.plan_clean(LAZY, now=NOW), env=Environment(lambda: NOW))
    stuck.rmdir()
    run(root, "clean", LocalStorage())
    assert not list(timeline.glob(f"{at(4)}*"))
    assert list(timeline.glob("*.clean"))

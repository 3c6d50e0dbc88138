"""The crash loop: a clean is crashed one storage operation later each time, until none crashes it any more."""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Literal

import attrs
import pytest
from support.builders import TableFiles, base, moment, tree
from support.checker import Retention, cleans, must_be_readable, pending_cleans, required_files
from support.faults import Crash, FaultyStorage

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.report import Report
    from lakemeta.storage import Storage

pytestmark = pytest.mark.slow

OPTIONS = {"hoodie.clean.commits.retained": "2"}
RETENTION = Retention(commits=2)
When = Literal["before", "after", "half"]


def make_table(root: Path, version: int, mor: bool, **properties: str) -> TableFiles:
    """Superseded slices with and without logs, a savepoint, a pending compaction and a dropped partition."""
    table = TableFiles(root, version, mor=mor, **properties)
    table.insert({"p3": "d"})
    table.insert({"p1": "ab", "p2": "c"})
    for _ in range(2):
        table.commit({"p1": "ab", "p3": "d"})
        if mor:
            table.delta({"p1": "a", "p3": "d"})
    table.savepoint(1, {"p3": [base("d", 1)]})
    table.delete_partition("p2")
    (root / "p2/somebody's notes.txt").write_text("goes with its partition")
    for _ in range(2):
        table.commit({"p1": "a"})
    if mor:
        # Scheduled last, so that it holds nothing back.
        table.schedule_compaction({"p1": "b"})
    return table


def clean(root: Path, storage: Storage, drop_metadata: bool = False) -> Report:
    """Plan and apply, on one thread."""
    table = HudiTable.open(str(root))
    table = attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))
    executor = LocalExecutor(1)
    plan = table.plan_clean(OPTIONS, now=moment(40), executor=executor)
    return table.apply(plan, executor=executor, env=Environment(lambda: moment(40)), drop_metadata_table=drop_metadata)


def without_ledgers(root: Path) -> dict[str, bytes]:
    return {path: content for path, content in tree(root).items() if ".lakemeta" not in path}


def data(root: Path) -> dict[str, bytes]:
    return {path: content for path, content in tree(root).items() if not path.startswith(".hoodie/")}


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize(("version", "mor"), [(6, False), (6, True), (9, False), (9, True)])
def test_a_crash_anywhere_is_completed_by_the_next_run(version: int, mor: bool, when: When, tmp_path: Path) -> None:
    """At every crash point readers have their files; a second run ends where an undisturbed one does, in one clean."""
    make_table(tmp_path / "start", version, mor)
    required = required_files(tmp_path / "start", RETENTION)
    undisturbed = shutil.copytree(tmp_path / "start", tmp_path / "undisturbed")
    assert clean(undisturbed, LocalStorage()).deleted_directories == 1
    assert len(data(undisturbed)) < len(data(tmp_path / "start"))
    must_be_readable(undisturbed, required)
    for at in count(1):
        root = shutil.copytree(tmp_path / "start", tmp_path / str(at))
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            clean(root, storage)
        must_be_readable(root, required)
        if not storage.crashed:
            break
        clean(root, LocalStorage())
        assert data(root) == data(undisturbed)
        assert len(cleans(root)) == 1
        assert not pending_cleans(root)
        assert HudiTable.open(str(root)).plan_clean(OPTIONS, now=moment(41)).is_empty
    assert at == 11  # ledger, request, begin, intent, files, intent, those in the directory, itself, complete, ledger


@pytest.mark.parametrize("version", [6, 9])
def test_a_crash_while_reading_changes_nothing(version: int, tmp_path: Path) -> None:
    """Until the plan is requested, no operation leaves a trace but the first line of a ledger."""
    make_table(tmp_path / "t", version, mor=True)
    before = tree(tmp_path / "t")
    for at in count(1):
        storage = FaultyStorage(LocalStorage(), at, counted="all")
        with suppress(Crash):
            clean(tmp_path / "t", storage)
        if without_ledgers(tmp_path / "t") != before:
            break
    assert at > 20
    assert len(pending_cleans(tmp_path / "t")) == 1


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("version", [6, 9])
def test_a_crash_while_the_metadata_table_is_dropped(version: int, when: When, tmp_path: Path) -> None:
    """Properties are whole at every crash point, and a second run drops the metadata table and cleans."""
    make_table(tmp_path / "start", version, False, **{"hoodie.table.metadata.partitions": "files"})
    folder = tmp_path / "start/.hoodie/metadata/files"
    folder.mkdir(parents=True)
    for number in range(4):
        (folder / f"files-0000_{number}").write_text("x")
    required = required_files(tmp_path / "start", RETENTION)
    undisturbed = shutil.copytree(tmp_path / "start", tmp_path / "undisturbed")
    clean(undisturbed, LocalStorage(), drop_metadata=True)
    for at in count(1):
        root = shutil.copytree(tmp_path / "start", tmp_path / str(at))
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            clean(root, storage, drop_metadata=True)
        must_be_readable(root, required)
        served = bool(HudiTable.open(str(root)).config.metadata_partitions)
        assert not served or len(list((root / ".hoodie/metadata/files").iterdir())) == 4
        if not storage.crashed:
            break
        clean(root, LocalStorage(), drop_metadata=True)
        assert data(root) == data(undisturbed)
        assert len(cleans(root)) == 1
        assert not HudiTable.open(str(root)).config.has_metadata_table
    assert at == 17  # backup, properties, backup gone, intent, metadata table gone, and what a clean does
    assert not (root / ".hoodie/metadata").exists()

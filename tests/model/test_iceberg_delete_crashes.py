"""Services on delete files that crash at any storage operation: the rows stay, and a second run finishes the work.

Every seventh operation is tried; ``LAKEMETA_CRASH_STEP=1`` tries every one.
The checker knows nothing of lakemeta: it reads the table as any other engine would.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

import attrs
import pytest
from support.faults import Crash, FaultyStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env

from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.report import Report
from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.slow

STEP = int(os.environ.get("LAKEMETA_CRASH_STEP", "7"))
ONE = {"max-concurrent-file-group-rewrites": "1"}
SERVICES = {
    "rewrite-position-deletes": {"rewrite-all": "true", **ONE},
    "partial progress": {"rewrite-all": "true", "partial-progress.enabled": "true", **ONE},
    "convert-equality-deletes": ONE,
    "remove-dangling-deletes": {},
}


def make(root: Path, version: int) -> Path:
    """Two partitions with deletes of every kind, some of them without use; version 3 comes by an upgrade."""
    table = create_table(LocalStorage(), str(root), partitioned=True)
    for start in (0, 10):
        table.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    for file in table.data_files():
        table.delete_positions(file, [1])
    table.delete_positions(table.data_files()[0], [0, 1], scoped=False)
    table.delete_ids(7, 12, partition=("b",))
    table.delete_ids(2, partition=("a",))
    table.delete_ids(1, partition=("c",))
    if version == 3:
        base = table.operations.refresh()
        table.operations.commit(base, attrs.evolve(base.metadata, format_version=3, next_row_id=0))
        table.append([(99, "a", 0.5)])
    return root


def run(root: Path, storage, service: str, seed: int) -> Report:
    table, options = IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root)))), SERVICES[service]
    executor = LocalExecutor(1)  # so that the n-th operation is the same one on every run
    name = "rewrite-position-deletes" if service == "partial progress" else service
    return table.apply(table.plan(name, options, executor=executor), executor=executor, env=still_env(seed))


def names(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")}


def left_over(root: Path) -> set[str]:
    """The delete files, manifests and lists that no snapshot names."""
    endings = (".parquet", ".puffin", ".avro")
    return {path for path in names(root) - TableState.local(root).referenced() if path.endswith(endings)}


def crashes(root: Path, tmp_path: Path, service: str, when: str, step: int) -> None:
    rows, untouched = TableState.local(root).rows(), left_over(root)
    for at in count(1, step):
        saved = tmp_path / "saved"
        shutil.copytree(root, saved)
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            run(root, storage, service, seed=1)
        check(root, rows)
        if storage.crashed:
            left = left_over(root) - untouched
            report = run(root, LocalStorage(), service, seed=2)
            check(root, rows)
            if service != "remove-dangling-deletes":  # has no files of its own but manifests, which are orphans then
                assert [path for path in sorted(left) if not any(path in note for note in report.notes)] == []
            again = run(root, LocalStorage(), service, seed=3)
            assert not any(again.result.values()) or "rewrite-all" in SERVICES[service]
        shutil.rmtree(root)
        saved.rename(root)
        if not storage.crashed:
            break
    assert at > 5


def check(root: Path, rows: list[str]) -> None:
    state = TableState.local(root)
    assert state.rows() == rows
    assert state.referenced() <= names(root)
    vectors = [e["data_file"] for e in state.live(1) if e["data_file"]["file_format"] == "PUFFIN"]
    assert len({file["referenced_data_file"] for file in vectors}) == len(vectors)


@pytest.mark.slow
@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize("service", SERVICES)
def test_a_crash_anywhere(tmp_path, service, version, when):
    """At any point all rows are there and nothing referenced is missing; the next run names what is left over."""
    crashes(make(tmp_path / "t", version), tmp_path, service, when, STEP)


@pytest.mark.parametrize("service", ["rewrite-position-deletes", "convert-equality-deletes"])
def test_a_crash_here_and_there(tmp_path, service):
    """The same at every eleventh operation."""
    crashes(make(tmp_path / "t", 2), tmp_path, service, "half", 11)

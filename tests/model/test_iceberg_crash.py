"""A rewrite that crashes at every storage operation leaves the old or the new rows, and a second run finishes it.

Every third operation is tried; ``LAKEMETA_CRASH_STEP=1`` tries every one. The checker knows nothing of lakemeta:
it reads the table as any other engine would.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path

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

STEP = int(os.environ.get("LAKEMETA_CRASH_STEP", "3"))

OPTIONS = {
    "one commit": {"rewrite-all": "true", "max-concurrent-file-group-rewrites": "1"},
    "partial progress": {
        "rewrite-all": "true",
        "max-concurrent-file-group-rewrites": "1",
        "partial-progress.enabled": "true",
        "partial-progress.max-commits": "2",
    },
    "two commits": {
        "rewrite-all": "true",
        "max-concurrent-file-group-rewrites": "1",
        "remove-dangling-deletes": "true",
    },
}


@pytest.fixture(scope="module")
def original(tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("crash") / "t"
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "3",
        "commit.manifest.min-count-to-merge": "3",
    }
    table = create_table(LocalStorage(), str(root), partitioned=True, properties=properties)
    for start in (0, 10, 20):
        table.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    table.delete_positions(table.data_files()[0], [1])
    table.delete_ids(7, partition=("b",))
    return root


def opened(root: Path, storage, seed: int) -> tuple[IcebergTable, object]:
    table = IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root))))
    return table, still_env(seed)


def run(root: Path, storage, options: dict[str, str], seed: int) -> Report:
    table, env = opened(root, storage, seed)
    # One thread, so that the n-th operation is the same one on every run.
    executor = LocalExecutor(1)
    return table.apply(table.plan_rewrite_data_files(options, executor=executor), executor=executor, env=env)


def names(root: Path) -> set[str]:
    return {str(path) for path in root.rglob("*") if path.is_file() and not path.name.startswith(".")}


@pytest.mark.parametrize("when", ["before", "half", "after"])
@pytest.mark.parametrize("options", OPTIONS)
def test_a_crash_anywhere(original, tmp_path, options, when):
    """At every point all rows are there and nothing referenced is missing; the next run names what is left over."""
    rows = TableState.local(original).rows()
    for at in count(1, STEP):
        root = original  # the table's own place: its metadata names it
        saved = tmp_path / "saved"
        shutil.copytree(root, saved)
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            run(root, storage, OPTIONS[options], seed=1)
        check(root, rows)
        if storage.crashed:
            left = left_over(root)
            report = run(root, LocalStorage(), OPTIONS[options], seed=2)
            check(root, rows)
            assert left_over(root) == left
            assert [path for path in sorted(left) if not any(path in note for note in report.notes)] == []
            assert bool(list(root.glob("metadata/.lakemeta-rewrite-*"))) == bool(left)
            assert len(TableState.local(root).live(0)) == 2
        shutil.rmtree(root)
        saved.rename(root)
        if not storage.crashed:
            break
    assert at > 5


def left_over(root: Path) -> set[str]:
    """The data files, manifests and lists that no snapshot names."""
    return {path for path in names(root) - TableState.local(root).referenced() if path.endswith((".parquet", ".avro"))}


def check(root: Path, rows: list[str]) -> None:
    state = TableState.local(root)
    assert state.rows() == rows
    present = names(root)
    assert state.referenced() <= present
    allowed = {"version-hint.text"} | {Path(e["metadata-file"]).name for e in state.metadata["metadata-log"]}
    for path in present - state.referenced():
        name = Path(path).name
        assert name.endswith((".parquet", ".avro")) or name in allowed or name.startswith("v"), name


def test_a_run_without_a_crash_leaves_nothing_over(original, tmp_path):
    """Every file of the table is referenced after a whole run, metadata files aside."""
    saved = tmp_path / "saved"
    shutil.copytree(original, saved)
    run(original, LocalStorage(), OPTIONS["partial progress"], seed=1)
    state = TableState.local(original)
    left = {path for path in names(original) - state.referenced() if "metadata.json" not in path}
    assert left == {str(original / "metadata" / "version-hint.text")}
    shutil.rmtree(original)
    saved.rename(original)


def test_a_second_run_finds_nothing_to_do(original, tmp_path):
    """Running again after success changes nothing."""
    saved = tmp_path / "saved"
    shutil.copytree(original, saved)
    options = {k: v for k, v in OPTIONS["one commit"].items() if k != "rewrite-all"}
    run(original, LocalStorage(), {**options, "min-input-files": "2"}, seed=1)
    before = names(original)
    run(original, LocalStorage(), {**options, "min-input-files": "2"}, seed=2)
    assert names(original) == before
    shutil.rmtree(original)
    saved.rename(original)

"""Removals of orphan files that crash at every storage operation, and beside others that write.

The checker knows nothing of lakemeta: every file of every snapshot is there, whatever happened.
"""

from __future__ import annotations

import shutil
import threading
from contextlib import suppress
from datetime import timedelta
from itertools import count
from pathlib import Path

import pytest
from support.faults import Crash, FaultyStorage, RecordingStorage, WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env
from support.planted import NOW, age

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.orphans import apply
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.slow

ORPHANS = ("data/p=a/x.parquet", "data/y.parquet", "metadata/lost-m0.avro", "z")


@pytest.fixture(scope="module", params=[1, 3])
def original(request, tmp_path_factory) -> Path:
    root = tmp_path_factory.mktemp("crash") / "t"
    table = create_table(LocalStorage(), str(root), version=request.param, partitioned=True)
    table.append([(0, "a", 0.5)], [(5, "b", 1.5)])
    table.overwrite(table.data_files()[0], [(1, "a", 0.5)])
    for name in ORPHANS:
        (root / name).parent.mkdir(exist_ok=True, parents=True)
        (root / name).write_text("x")
    age(root)
    return root


def opened(root: Path, storage) -> IcebergTable:
    return IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root))))


def run(root: Path, storage) -> None:
    table = opened(root, storage)
    one = LocalExecutor(1)  # so that the n-th operation is the same one on every run
    plan = table.plan("remove-orphan-files", now=NOW, executor=one)
    table.apply(plan, executor=one, env=Environment(now=lambda: NOW))


def whole(root: Path) -> bool:
    return all(Path(path).exists() for path in TableState.local(root).referenced())


def left(root: Path) -> list[str]:
    return [name for name in ORPHANS if (root / name).exists()]


@pytest.mark.parametrize("when", ["half", *(pytest.param(w, marks=pytest.mark.slow) for w in ("before", "after"))])
def test_a_crash_anywhere(original, tmp_path, monkeypatch, when):
    """At every change of the storage the table is whole, and another removal takes the rest."""
    monkeypatch.setattr(apply, "_ROUND", 2)
    rows = TableState.local(original).rows()
    for at in count(1):
        saved = tmp_path / "saved"
        shutil.copytree(original, saved)
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            run(original, storage)
        assert (whole(original), TableState.local(original).rows()) == (True, rows)
        if storage.crashed:
            run(original, LocalStorage())
        assert (whole(original), left(original)) == (True, [])
        shutil.rmtree(original)
        saved.rename(original)
        if not storage.crashed:
            break
    assert at == 7  # the ledger's begin and end, two rounds with their intents, and one run that nothing stops


class FailsAt(WrappedStorage):
    """Raises an ordinary error at one operation."""

    def __init__(self, at: int) -> None:
        super().__init__(LocalStorage())
        self.at, self.seen = at, 0

    def operation(self, name, paths, effect, half=None):
        self.seen += 1
        if self.seen == self.at:
            raise LakemetaError(f"{name} failed")
        return effect()


@pytest.mark.slow
def test_an_error_anywhere(original, tmp_path):
    """An operation that fails stops the removal with nothing but orphans deleted."""
    for at in count(1):
        saved = tmp_path / "saved"
        shutil.copytree(original, saved)
        storage = FailsAt(at)
        with suppress(LakemetaError):
            run(original, storage)
        assert whole(original)
        shutil.rmtree(original)
        saved.rename(original)
        if storage.seen < at:
            break
    assert at > 20


def test_beside_a_rewrite_that_runs(tmp_path):
    """The files of a running rewrite are aged and swept at each of its steps: its mark keeps them, and it commits."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        table.append([(start, "a", 0.5)], [(start + 5, "b", 1.5)])
    root = Path(table.root)
    rows = TableState.local(root).rows()
    sweeps = []

    class Swept(WrappedStorage):
        """Before each change by the rewrite all files are old, and a removal of orphans runs from beginning to end."""

        busy = threading.Lock()

        def operation(self, name, paths, effect, half=None):
            if name in ("create", "replace", "open_output") and self.busy.acquire(blocking=False):
                with suppress(FileNotFoundError):
                    age(root)
                run(root, LocalStorage())
                sweeps.append(name)
                self.busy.release()
            return effect()

    (root / "data" / "orphan").write_text("x")
    swept = opened(root, Swept(LocalStorage()))
    plan = swept.plan("rewrite-data-files", {"rewrite-all": "true"}, executor=LocalExecutor(1))
    swept.apply(plan, executor=LocalExecutor(1), env=still_env(3))
    assert len(sweeps) > 4
    assert not (root / "data" / "orphan").exists()
    assert whole(root)
    assert TableState.local(root).rows() == rows


def test_the_same_plan_goes_on(original, tmp_path, monkeypatch):
    """What the ledger has on record as gone is not looked at again, and nothing is listed for orphans."""
    monkeypatch.setattr(apply, "_ROUND", 2)
    shutil.copytree(original, tmp_path / "saved")
    one, env = LocalExecutor(1), Environment(now=lambda: NOW)
    plan = opened(original, LocalStorage()).plan("remove-orphan-files", now=NOW, executor=one)
    with suppress(Crash):  # the ledger begins, an intent, a round, its outcome with the next intent, and no more
        opened(original, FaultyStorage(LocalStorage(), 5)).apply(plan, executor=one, env=env)
    gone = set(ORPHANS) - set(left(original))
    assert len(gone) == 2
    storage = RecordingStorage(LocalStorage())
    table = opened(original, storage)
    report = table.apply(plan, executor=one, env=Environment(now=lambda: NOW + timedelta(seconds=1)))
    assert not [path for _, path in storage.calls if any(path.endswith(f"/{name}") for name in gone)]
    assert not [path for name, path in storage.calls if name == "walk"]
    assert (report.deleted_files, left(original)) == (2, [])
    first, second = table.undo().history().runs
    assert (first.state, second.state, second.opening.of) == ("interrupted", "done", (first.opening.run,))
    shutil.rmtree(original)
    (tmp_path / "saved").rename(original)

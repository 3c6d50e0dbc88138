"""Runs that quarantine, restore and purge, crashed one storage operation later each time.

The checker knows nothing of lakemeta: the bytes of every data file lie in the table or, by their name, below it.
"""

from __future__ import annotations

import shutil
from contextlib import suppress
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Literal

import attrs
import pytest
from support.builders import TableFiles, moment
from support.faults import Crash, FaultyStorage
from support.iceberg_expire import build
from support.iceberg_expire import opened as opened_iceberg

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.iceberg.table import IcebergTable
    from lakemeta.storage import Storage

pytestmark = pytest.mark.slow

When = Literal["before", "half", "after"]
WAYS = [("hudi", "half"), *((f, w) for f in ("hudi", "iceberg") for w in ("before", "half", "after"))]
ways = pytest.mark.parametrize(
    ("case", "when"),
    [pytest.param(*way, marks=() if way == ("hudi", "half") else pytest.mark.slow) for way in dict.fromkeys(WAYS)],
    indirect=["case"],
)
ONE = LocalExecutor(1)  # so that the n-th operation is the same one on every run


def env(second: int) -> Environment:
    """Runs of different seconds, so that their names sort."""
    return Environment(now=lambda: moment(40 + second))


def open_hudi(root: Path, storage: Storage) -> HudiTable:
    table = HudiTable.open(str(root))
    return attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))


def run_hudi(root: Path, storage: Storage, second: int = 0) -> None:
    table = open_hudi(root, storage)
    plan = table.plan_clean({"hoodie.clean.commits.retained": "1"}, now=moment(40 + second), executor=ONE)
    table.apply(plan, executor=ONE, env=env(second), quarantine=True)


def open_iceberg(root: Path, storage: Storage) -> IcebergTable:
    return opened_iceberg(root, storage)


def run_iceberg(root: Path, storage: Storage, second: int = 0) -> None:
    table = opened_iceberg(root, storage)
    plan = table.plan("expire-snapshots", {"older_than": "2100-01-01T00:00:00"}, now=moment(40), executor=ONE)
    table.apply(plan, executor=ONE, env=env(second), quarantine=True)


@attrs.frozen
class Case:
    """A table of one format, which is made anew for each crash at the place that its metadata names."""

    root: Path
    saved: Path
    open: Callable[[Path, Storage], HudiTable | IcebergTable]
    run: Callable[..., None]

    def fresh(self) -> None:
        shutil.rmtree(self.root, ignore_errors=True)
        shutil.copytree(self.saved, self.root)

    def save(self) -> None:
        shutil.rmtree(self.saved)
        shutil.copytree(self.root, self.saved)


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    root = tmp_path / "t"
    if request.param == "hudi":
        table = TableFiles(root, 6)
        table.insert({"p1": "ab", "p2": "c"})
        for _ in range(3):
            table.commit({"p1": "ab"})
        table.delete_partition("p2")
        for _ in range(2):
            table.commit({"p1": "a"})
    else:
        build(root)
    shutil.copytree(root, tmp_path / "saved")
    open_table, run = (open_hudi, run_hudi) if request.param == "hudi" else (open_iceberg, run_iceberg)
    return Case(root, tmp_path / "saved", open_table, run)


def data(root: Path) -> dict[str, bytes]:
    """The data files in their places: the bytes of each by its path."""
    found = {}
    for path in root.rglob("*.parquet"):
        name = str(path.relative_to(root))
        if ".lakemeta" not in name:
            found[name] = path.read_bytes()
    return found


def anywhere(root: Path) -> dict[str, set[bytes]]:
    """The contents of all files below a table, by their names."""
    found: dict[str, set[bytes]] = {}
    for path in root.rglob("*.parquet"):
        found.setdefault(path.name, set()).add(path.read_bytes())
    return found


def none_is_lost(root: Path, before: dict[str, bytes]) -> None:
    assert all(content in anywhere(root)[Path(name).name] for name, content in before.items())


def restore_all(case: Case, storage: Storage, second: int) -> None:
    """Bring back all runs that quarantined, newest first."""
    undo = case.open(case.root, storage).undo()
    for run in reversed(undo.history().runs):
        if run.opening.mode == "quarantine":
            assert undo.restore(run.ledger, executor=ONE, env=env(second)).complete


@ways
def test_a_crash_while_files_are_moved_away(case: Case, when: When) -> None:
    """No byte is lost; a second run does the rest; both runs together come back."""
    before = data(case.root)
    case.run(case.root, LocalStorage())
    after = data(case.root)
    assert len(after) < len(before)
    for at in count(1):
        case.fresh()
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            case.run(case.root, storage)
        none_is_lost(case.root, before)
        if not storage.crashed:
            break
        case.run(case.root, LocalStorage(), 1)
        assert data(case.root) == after
        none_is_lost(case.root, before)
        restore_all(case, LocalStorage(), 2)
        assert data(case.root) == before
    assert at > 5


@ways
def test_a_crash_while_files_come_back(case: Case, when: When) -> None:
    """No byte is lost; a second restore brings the rest."""
    before = data(case.root)
    case.run(case.root, LocalStorage())
    case.save()
    for at in count(1):
        case.fresh()
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            restore_all(case, storage, 1)
        none_is_lost(case.root, before)
        if not storage.crashed:
            break
        restore_all(case, LocalStorage(), 2)
        assert data(case.root) == before
    assert at > 3


@ways
def test_a_crash_while_files_go_for_good(case: Case, when: When) -> None:
    """The table stays as it is, and a second purge ends it."""
    case.run(case.root, LocalStorage())
    after = data(case.root)
    case.save()

    def purge(storage: Storage, second: int) -> None:
        undo = case.open(case.root, storage).undo()
        undo.purge(undo.quarantined(), executor=ONE, env=env(second))

    for at in count(1):
        case.fresh()
        storage = FaultyStorage(LocalStorage(), at, when)
        with suppress(Crash):
            purge(storage, 1)
        assert data(case.root) == after
        if not storage.crashed:
            break
        purge(LocalStorage(), 2)
        assert data(case.root) == after
        assert not [path for path in case.root.rglob("*quarantine/*/*") if path.is_file()]
        assert case.open(case.root, LocalStorage()).undo().quarantined() == []
    assert at > 3

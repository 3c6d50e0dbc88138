"""Somebody else at the same table at the same time."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import pytest
from support.builders import TableFiles, at, base, clean_plan, moment, tree
from support.checker import Retention, cleans, must_be_readable, pending_cleans, required_files
from support.faults import WrappedStorage

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

    from lakemeta.report import Outcome, Report
    from lakemeta.storage import Storage

pytestmark = pytest.mark.slow

ONE = {"hoodie.clean.commits.retained": "1"}


class Meanwhile(WrappedStorage):
    """Lets something happen once, right before the first write of a name that ends so, or before the first delete."""

    def __init__(self, inner: Storage, before: str, happens: Callable[[], object]) -> None:
        super().__init__(inner)
        self.before, self.happens, self.happened = before, happens, False

    def create(self, path: str, data: bytes) -> None:
        self._perhaps(path.endswith(self.before))
        self.inner.create(path, data)

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        self._perhaps(self.before == "delete")
        return self.inner.delete_many(paths)

    def _perhaps(self, now: bool) -> None:
        if now and not self.happened:
            self.happened = True
            self.happens()


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of group a in p1, and p2 dropped."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a", "p2": "b"})
    table.commit({"p1": "a"})
    table.delete_partition("p2")
    table.commit({"p1": "a"})
    return table


def clean(table: TableFiles, storage: Storage | None = None, hour: float = 30) -> Report:
    opened = HudiTable.open(str(table.root))
    opened = attrs.evolve(opened, place=attrs.evolve(opened.place, storage=storage or LocalStorage()))
    plan = opened.plan_clean(ONE, now=moment(hour), executor=LocalExecutor(1))
    return opened.apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(hour)))


def test_of_two_cleans_at_one_instant_one_goes_on(table: TableFiles) -> None:
    """The request is created, never replaced: the other clean is refused before it deletes anything."""
    before = table.files()
    taken = clean_plan({"p1": [f"{table.root}/p1/{base('a', 1)}"]})
    storage = Meanwhile(LocalStorage(), "requested", lambda: table.put(f"{at(30)}.clean.requested", taken))
    with pytest.raises(StalePlanError, match="was written by another writer meanwhile"):
        clean(table, storage)
    assert table.files() == before
    assert pending_cleans(table.root) == [at(30)]


def test_another_writer_begins_our_clean(table: TableFiles) -> None:
    """Of two that execute one requested clean, one marks it as begun, and the other leaves it to that one."""
    before = table.files()
    storage = Meanwhile(LocalStorage(), "inflight", lambda: table.put(f"{at(30)}.clean.inflight", b""))
    with pytest.raises(StalePlanError, match="was written by another writer meanwhile"):
        clean(table, storage)
    assert table.files() == before
    clean(table)
    assert cleans(table.root) == [at(30)]


def test_another_writer_deletes_the_files(table: TableFiles) -> None:
    """A file that is gone already counts as done, and is told apart in the report."""
    storage = Meanwhile(LocalStorage(), "delete", (table.root / "p1" / base("a", 1)).unlink)
    report = clean(table, storage)
    assert (report.deleted_files, report.absent_files, report.complete) == (1, 1, True)
    assert report.result["total_files_deleted"] == 2


def test_a_commit_while_files_are_deleted(table: TableFiles) -> None:
    """A writer that goes on meanwhile loses nothing."""
    required = required_files(table.root, Retention(commits=1))
    clean(table, Meanwhile(LocalStorage(), "delete", lambda: table.commit({"p1": "ac", "p3": "d"})))
    must_be_readable(table.root, required)
    assert {f"p1/{base('a', 5)}", f"p1/{base('c', 5)}", f"p3/{base('d', 5)}"} <= table.files()


def test_a_dropped_partition_comes_to_life_while_files_are_deleted(table: TableFiles) -> None:
    """The directory is looked at right before it would go."""
    report = clean(table, Meanwhile(LocalStorage(), "delete", lambda: table.insert({"p2": "z"})))
    assert report.deleted_directories == 0
    assert report.notes == (f"the directory of p2 stays: {base('z', 5)} is in no replaced file group",)
    assert f"p2/{base('z', 5)}" in table.files()


def test_a_savepoint_before_the_clean_begins(table: TableFiles) -> None:
    """A savepoint that came between the request and the first delete is not broken."""
    names = {"p1": [base("a", 1)]}
    storage = Meanwhile(LocalStorage(), "requested", lambda: table.savepoint(1, names))
    before = table.files()
    with pytest.raises(CorruptMetadataError, match=f"savepoint {at(1)} needs"):
        clean(table, storage)
    assert table.files() == before


def test_a_savepoint_in_a_partition_that_a_pending_clean_drops(table: TableFiles) -> None:
    """Its directory stays, whoever planned to remove it, unless one asks for Hudi's way."""
    table.savepoint(1, {"p2": [base("b", 1)]})
    table.put(f"{at(9)}.clean.requested", clean_plan({}, ["p2"]))
    report = clean(table)
    assert report.notes == (f"the directory of p2 stays: a savepoint names {base('b', 1)}",)
    assert f"p2/{base('b', 1)}" in table.files()


def test_a_pending_clean_that_cannot_be_executed_is_found_before_anything_is_written(table: TableFiles) -> None:
    """No new clean is requested beside it, where several may be pending, and nothing is deleted."""
    table.put(f"{at(9)}.clean.requested", clean_plan({"p1": [f"file:{table.root}/../other/p1/{base('a', 1)}"]}))
    before = tree(table.root)
    options = {**ONE, "hoodie.clean.multiple.enabled": "true"}
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(options, now=moment(30), executor=LocalExecutor(1))
    assert plan.files
    with pytest.raises(CorruptMetadataError, match="inside the table"):
        opened.apply(plan, executor=LocalExecutor(1), env=Environment(lambda: moment(30)))
    assert tree(table.root) == before

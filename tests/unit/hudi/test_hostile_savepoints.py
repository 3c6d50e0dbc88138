"""Savepoints that were damaged: what they named once must not go because they do not name it any more."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, base, clean_plan, moment

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path

ONE = {"hoodie.clean.commits.retained": "1"}
LOST = base("x", 1)


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Three versions of groups a in p1 and b in p2, and a group c in p3 that a commit replaced."""
    table = TableFiles(tmp_path / "t", request.param)
    table.insert({"p1": "a", "p2": "b", "p3": "c"})
    for _ in range(2):
        table.commit({"p1": "a", "p2": "b"})
    table.delete_partition("p3")
    for _ in range(2):
        table.commit({"p1": "a", "p2": "b"})
    return table


def clean(table: TableFiles, **options: str) -> Any:
    opened, executor = HudiTable.open(str(table.root)), LocalExecutor(1)
    plan = opened.plan_clean({**ONE, **options}, now=moment(30), executor=executor)
    return opened.apply(plan, executor=executor, env=Environment(lambda: moment(30)))


def pend(table: TableFiles, deletes: dict[str, list[str]], drops: list[str]) -> None:
    """Leave a pending clean that retains the commit at hour 5."""
    table.put(f"{at(table.hour)}.clean.requested", clean_plan(deletes, drops, earliest=5))
    table.hour += 1


@pytest.mark.parametrize("names", [{}, {"p1": [], "p2": [], "p3": []}])
def test_a_savepoint_that_names_nothing(table: TableFiles, names: dict[str, list[str]]) -> None:
    """Files of its time are there, so its list was lost: nothing goes, and plan and doctor name the way out."""
    table.savepoint(1, names)
    before = table.files()
    report = clean(table)
    assert (table.files(), report.deleted_directories) == (before, 0)
    assert len(report.notes) == 3
    assert all(f"CALL delete_savepoint(table => '...', instant_time => '{at(1)}')" in note for note in report.notes)
    found = HudiTable.open(str(table.root)).doctor(ONE, now=moment(30), executor=LocalExecutor(1))
    assert len([f for f in found if f.kind == "savepoint_lost"]) == 3


def test_a_savepoint_of_some_partitions(table: TableFiles) -> None:
    """Each partition is judged on its own, by the files of the savepoint's time that no commit had replaced then."""
    table.savepoint(4, {"p1": [base("a", 3)]})
    clean(table)
    left = table.files()
    assert {f"p1/{base('a', 3)}", f"p2/{base('b', 1)}", f"p2/{base('b', 2)}"} <= left
    assert left.isdisjoint({f"p1/{base('a', 1)}", f"p1/{base('a', 2)}", f"p3/{base('c', 1)}"})


def test_a_savepoint_of_a_table_without_files(tmp_path: Path) -> None:
    """Hudi names nothing where there was nothing yet."""
    table = TableFiles(tmp_path / "t", 9)
    table.commit({})
    for _ in range(3):
        table.commit({"p1": "a"})
    table.savepoint(1, {})
    assert clean(table).deleted_files == 1


def test_a_pending_clean_where_a_savepoint_lost_a_file(table: TableFiles) -> None:
    """What is planned may be what the savepoint means, so the clean is refused as one of ours would leave it out."""
    table.savepoint(2, {"p1": [LOST], "p2": [base("b", 2)], "p3": [base("c", 1)]})
    pend(table, {"p1": [str(table.root / "p1" / base("a", 2))]}, [])
    before = table.files()
    with pytest.raises(CorruptMetadataError, match=f"names {LOST}, which is not there"):
        clean(table)
    assert table.files() == before


@pytest.mark.parametrize("names", [[LOST], []])
def test_a_pending_drop_where_a_savepoint_lost_a_file(table: TableFiles, names: list[str]) -> None:
    """The directory stays: what is left in it may be what the savepoint means."""
    table.savepoint(2, {"p1": [base("a", 2)], "p2": [base("b", 2)], "p3": names})
    pend(table, {}, ["p3"])
    before = table.files()
    (note,) = clean(table).notes
    assert note.startswith(f"the directory of p3 stays: savepoint {at(2)} names")
    assert table.files() == before


def test_a_partition_of_which_a_savepoint_lost_all(table: TableFiles) -> None:
    """No clean drops the directory, unless told to drop what savepoints name."""
    table.savepoint(2, {"p1": [base("a", 2)], "p2": [base("b", 2)], "p3": [base("c", 1)]})
    (table.root / "p3" / base("c", 1)).rename(table.root / "p3" / "precious")
    full = {"hoodie.clean.incremental.enabled": "false"}
    (note,) = clean(table, **full).notes
    assert note.startswith(f"nothing of p3 is deleted: savepoint {at(2)} names {base('c', 1)}")
    assert (table.root / "p3/precious").exists()
    table.commit({"p1": "a"})
    clean(table, **full, **{"lakemeta.clean.drop-savepointed-partitions": "true"})
    assert not (table.root / "p3").exists()

"""Rollbacks by lakemeta of writes by the real Hudi, for every Hudi release that lakemeta writes for.

The engine writes and dies, lakemeta rolls back, and the engine is the judge: it reads the rows of before, goes on
writing, cleans, lists files through its metadata table, and finishes a rollback that we left unfinished.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs
import pytest
from interop.hudi_engine import VERSIONS, Engine, HudiEngines, HudiEngineTable
from support.faults import Crash, FaultyStorage

from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

ROWS = [("a", "p1"), ("b", "p1"), ("c", "p2")]
LAZY = {"hoodie.clean.failed.writes.policy": "LAZY", "hoodie.clean.commits.retained": "1"}


@pytest.fixture(scope="module", params=list(VERSIONS))
def engine(request: pytest.FixtureRequest, hudi_engines: HudiEngines) -> Engine:
    """The real engine, one release after the other."""
    return hudi_engines.of(request.param)


@pytest.fixture(scope="module", params=["cow", "mor", "cow with metadata table", "mor with metadata table"])
def original(
    request: pytest.FixtureRequest, engine: Engine, tmp_path_factory: pytest.TempPathFactory
) -> tuple[HudiEngineTable, list[list[Any]]]:
    """A table of three commits and a fourth that died, after updates and a new partition, and the rows of before."""
    mor, metadata = "mor" in request.param, "metadata" in request.param
    table = HudiEngineTable(engine, tmp_path_factory.mktemp("original") / "t", mor=mor, metadata=metadata)
    table.write("insert", ROWS)
    table.write("upsert", ROWS[:1])
    table.write("upsert", ROWS[1:])
    kept = table.rows()
    table.crash_write([*ROWS[:2], ("x", "p9")])
    return table, kept


@pytest.fixture
def table(original: tuple[HudiEngineTable, list[list[Any]]], tmp_path: Path) -> HudiEngineTable:
    """A copy of that table; ``kept`` are the rows from before the failed write."""
    written, kept = original
    table = written.twin(tmp_path / "t")
    table.kept = kept
    return table


def data_files(base: Path) -> set[str]:
    """The data files of a table that lie there, relative."""
    found = (p.relative_to(base) for p in base.rglob("*") if p.is_file() and p.suffix != ".crc")
    return {str(p) for p in found if p.parts[0] != ".hoodie" and not p.name.startswith(".hoodie")}


def assert_in_order(table: HudiEngineTable) -> None:
    """The engine reads what was there before the failed write, lists what is there, and goes on."""
    assert table.rows() == table.kept
    if table.options["hoodie.metadata.enable"] == "true":
        listed = {name for p in ("p1", "p2", "p9") for name in listing(table, p)}
        assert listed == {file.rpartition("/")[2] for file in data_files(table.base)}
    table.write("upsert", [*ROWS, ("y", "p9")])
    after = table.rows()
    assert [row[0] for row in after] == ["a", "b", "c", "y"]
    assert all(str(row[2]).endswith(f"@{table.clock}") for row in after)
    if table.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        table.compact("schedule")
        table.compact("run")
        assert table.rows() == after


def listing(table: HudiEngineTable, partition: str) -> list[str]:
    rows = table.procedure_by_name("show_metadata_table_files", f"partition => '{partition}'")
    return [str(row[0]) for row in rows]


def test_the_engine_reads_on_after_our_rollback(table: HudiEngineTable) -> None:
    """Nothing of the failed write is seen, in base files, log files or the metadata table."""
    lakemeta = HudiTable.open(str(table.base))
    report = lakemeta.apply(lakemeta.plan_rollback())
    assert report.committed
    assert report.complete
    assert_in_order(table)


def test_the_engine_reads_on_after_our_lazy_clean(table: HudiEngineTable) -> None:
    """A LAZY clean rolls back and cleans in one go."""
    lakemeta = HudiTable.open(str(table.base))
    report = lakemeta.apply(lakemeta.plan_clean(LAZY))
    assert len(report.result["commits_rollback"]) == 1
    assert_in_order(table)


@pytest.mark.parametrize("writes", [1, 3])
def test_the_engine_finishes_what_we_left(table: HudiEngineTable, writes: int) -> None:
    """A rollback of ours that died is pending, and the engine's next write executes it."""
    lakemeta = HudiTable.open(str(table.base))
    storage = FaultyStorage(lakemeta.place.storage, writes + 1)
    dying = attrs.evolve(lakemeta, place=attrs.evolve(lakemeta.place, storage=storage))
    executor = LocalExecutor(threads=1)
    with pytest.raises(Crash):
        dying.apply(dying.plan_rollback(executor=executor), executor=executor)
    table.write("upsert", [("z", "p1")])
    assert not lakemeta.plan_rollback().header.facts["failed_writes"]
    assert [row for row in table.rows() if row[0] != "z"] == table.kept

"""Orphan files and the real Iceberg: both find the same, and the engine goes on with what lakemeta leaves.

The engine writes, with a branch, a tag and deletes; files are planted and all are made old. Then it lists the orphans
in a dry run, lakemeta removes them, and the engine reads every ref, finds nothing left, and writes on.
"""

from __future__ import annotations

import os
import threading
import time
from typing import TYPE_CHECKING

import pytest
from interop.iceberg_engine import IcebergEngine
from support.iceberg_checker import TableState

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.engine

PLANTED = (
    "data/x.parquet",
    "data/p=p1/enc%2Fo#d e?d.parquet",
    "data/_p=1/hidden",
    "data/_h=h1/shown.parquet",
    "metadata/lost-m0.avro",
    "metadata/00000-dead.metadata.json",
    "top",
)


def written(engine: IcebergEngine, name: str, version: int) -> Path:
    """A table with history on a branch, a tag, deletes, a rewrite, and a metadata log that is short."""
    properties = {"format-version": str(version), "write.metadata.previous-versions-max": "2"}
    if version > 1:
        properties["write.delete.mode"] = "merge-on-read"
    listed = ", ".join(f"'{key}'='{value}'" for key, value in properties.items())
    columns = "id bigint, p string, _h string"
    engine.sql(f"CREATE TABLE ice.db.{name} ({columns}) USING iceberg PARTITIONED BY (p, _h) TBLPROPERTIES ({listed})")
    append(engine, f"ice.db.{name}", 0, 20)
    engine.sql(f"ALTER TABLE ice.db.{name} CREATE TAG before")
    engine.sql(f"ALTER TABLE ice.db.{name} CREATE BRANCH aside")
    append(engine, f"ice.db.{name}.branch_aside", 100, 110)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id % 7 = 0")
    append(engine, f"ice.db.{name}", 20, 30)
    engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    return engine.path(name)


def append(engine: IcebergEngine, table: str, start: int, end: int) -> None:
    rows = f"SELECT id, concat('p', id % 2), concat('h', id % 3) FROM range({start}, {end}, 1, 1)"
    engine.sql(f"INSERT INTO {table} {rows}")


def make_old(root: Path) -> None:
    then = time.time() - 40 * 86_400
    for path in root.rglob("*"):
        if path.is_file():
            os.utime(path, (then, then))


def listed(engine: IcebergEngine, name: str) -> list[str]:
    rows = engine.sql(f"CALL ice.system.remove_orphan_files(table => 'db.{name}', dry_run => true)")
    return sorted(row["orphan_file_location"] for row in rows)


def everything(engine: IcebergEngine, name: str) -> dict[str, list[str]]:
    """The rows of every ref."""
    refs = [row["name"] for row in engine.sql(f"SELECT name FROM ice.db.{name}.refs")]
    return {r: sorted(map(str, engine.sql(f"SELECT * FROM ice.db.{name} VERSION AS OF '{r}'"))) for r in sorted(refs)}


@pytest.mark.parametrize("version", [1, 3])
def test_both_find_the_same_and_the_engine_goes_on(engine: IcebergEngine, version: int) -> None:
    """The same files, to the letter; afterwards every ref reads as before, and writes and services go on."""
    name = f"orphans_{version}"
    root = written(engine, name, version)
    for planted in PLANTED:
        (root / planted).parent.mkdir(parents=True, exist_ok=True)
        (root / planted).write_text("x")
    make_old(root)
    rows = everything(engine, name)
    table = IcebergTable.open(str(root))
    plan = table.plan("remove-orphan-files")
    assert sorted(f"file:{root}/{op.path}" for op in plan.operations) == listed(engine, name)
    assert len(plan.operations) >= len(PLANTED)  # one is hidden, and old metadata files have left the log
    assert table.apply(plan).deleted_files == len(plan.operations)
    engine.sql(f"REFRESH TABLE ice.db.{name}")
    assert everything(engine, name) == rows
    assert listed(engine, name) == []
    append(engine, f"ice.db.{name}", 200, 205)
    engine.sql(f"CALL ice.system.expire_snapshots(table => 'db.{name}', older_than => TIMESTAMP '2100-01-01 00:00:00')")
    assert len(everything(engine, name)["main"]) == len(rows["main"]) + 5


def test_beside_the_engine_that_writes(engine: IcebergEngine) -> None:
    """Removals that run all the time while the engine appends take nothing of it."""
    engine.sql("CREATE TABLE ice.db.beside (id bigint, p string, _h string) USING iceberg PARTITIONED BY (p)")
    append(engine, "ice.db.beside", 0, 20)
    root = engine.path("beside")
    make_old(root)
    stop, removed, failures = threading.Event(), [], []

    def remove() -> None:
        while not stop.is_set():
            (root / "data" / "again").write_text("x")
            os.utime(root / "data" / "again", (1, 1))
            try:
                table = IcebergTable.open(str(root))
                removed.append(table.apply(table.plan("remove-orphan-files")).deleted_files)
            except Exception as error:
                failures.append(error)

    before = len(everything(engine, "beside")["main"])
    remover = threading.Thread(target=remove)
    remover.start()
    try:
        for start in range(300, 330, 10):
            append(engine, "ice.db.beside", start, start + 10)
    finally:
        stop.set()
        remover.join()
    assert not failures
    assert sum(removed) > 1
    assert len(everything(engine, "beside")["main"]) == before + 30
    assert TableState.local(root).referenced() <= {str(path) for path in root.rglob("*")}

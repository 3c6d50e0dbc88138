"""lakemeta and the real engines take turns on tables in HDFS: they over Hadoop's own client, we over WebHDFS."""

from __future__ import annotations

from datetime import UTC, datetime
from typing import TYPE_CHECKING

import pytest
from contract.hdfs_server import HdfsServer
from interop.engine_process import EngineUnavailableError
from interop.hudi_engine import Engine, HudiEngineTable
from interop.iceberg_engine import IcebergEngine

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from lakemeta.storage.hdfs import HdfsStorage

pytestmark = pytest.mark.engine

COMMITS_2 = {"hoodie.clean.commits.retained": "2"}
LATER = datetime(2100, 1, 1, tzinfo=UTC)


@pytest.fixture
def storage(hdfs: HdfsServer) -> HdfsStorage:
    return open_storage(hdfs.url("/t"), hdfs.options)[0]


def data_files(storage: HdfsStorage, root: str) -> set[str]:
    found = (entry.path.removeprefix(f"{root}/") for entry in storage.walk(root))
    return {path for path in found if not path.startswith(".hoodie")}


@pytest.mark.parametrize(("version", "mor"), [("0.15.0", True), ("1.2.0", False)])
def test_hudi(
    version: str, mor: bool, hdfs: HdfsServer, storage: HdfsStorage, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Our cleans and rollbacks of tables that Hudi wrote: it reads the same rows, reads our cleans, and goes on."""
    try:
        engine = Engine(version, tmp_path_factory.mktemp("engine"))
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    with engine:
        take_turns(HudiEngineTable(engine, hdfs.url(f"/hudi/{version}/turns"), mor=mor), hdfs, storage)
        # Appending to its metadata table, the release 0.15 asks for a second DataNode.
        metadata = version == "1.2.0"
        leave_a_clean(HudiEngineTable(engine, hdfs.url(f"/hudi/{version}/left"), metadata=metadata), hdfs, storage)


def take_turns(written: HudiEngineTable, hdfs: HdfsServer, storage: HdfsStorage) -> None:
    root = written.base.removeprefix(hdfs.url(""))
    written.write("insert", [(f"{p}-{n}", p) for p in ("p1", "p2") for n in range(2)])
    written.write("insert_overwrite", [("p2-9", "p2")])
    for _ in range(3):
        update(written)
    rows, before = written.rows(), data_files(storage, root)
    table = HudiTable.open(f"webhdfs://{hdfs.web}{root}")
    plan = table.plan_clean(COMMITS_2)
    report = table.apply(plan)
    assert report.deleted_files == len(list(plan.deletes())) > 0
    assert before - data_files(storage, root) == {op.path for op in plan.deletes()}
    assert written.rows() == rows
    assert [clean["startCleanTime"] for clean in written.cleans()] == [report.committed]
    update(written)
    rows = written.rows()
    assert written.clean({"hoodie.cleaner.commits.retained": "2"}) is not None
    assert written.rows() == rows

    written.write("upsert", [("p1-0", "p1"), ("p2-9", "p2")])  # and dies before its commit
    instant = written.commits()[-1]
    done = [e.path for e in storage.walk(f"{root}/.hoodie") if e.name.startswith(instant)]
    for path in done:
        if path.endswith((".commit", ".deltacommit")):
            storage.delete_many([path])
    table = HudiTable.open(hdfs.url(root), hdfs.options)
    assert table.apply(table.plan_rollback({"hoodie.cleaner.policy.failed.writes": "EAGER"})).complete
    assert written.rows() == rows
    update(written)
    assert len(written.rows()) == len(rows)


def update(written: HudiEngineTable) -> None:
    written.write("upsert", [("p1-0", "p1"), ("p2-9", "p2")])
    if written.options["hoodie.datasource.write.table.type"] == "MERGE_ON_READ":
        written.compact("schedule")
        written.compact("run")


def leave_a_clean(written: HudiEngineTable, hdfs: HdfsServer, storage: HdfsStorage) -> None:
    """A table with a metadata table, and a clean that we only plan: Hudi executes it."""
    root = written.base.removeprefix(hdfs.url(""))
    written.write("insert", [("p1-0", "p1"), ("p2-9", "p2")])
    for _ in range(3):
        written.write("upsert", [("p1-0", "p1")])
    table = HudiTable.open(f"hdfs://{root}", hdfs.options)
    assert table.apply(table.plan_clean(COMMITS_2)).deleted_files == 1
    written.write("upsert", [("p1-0", "p1")])
    rows, before = written.rows(), data_files(storage, root)
    plan = table.plan_clean(COMMITS_2)
    table.schedule_clean(plan)
    written.clean({"hoodie.cleaner.commits.retained": "2"})
    assert before - data_files(storage, root) == {op.path for op in plan.deletes()}
    assert written.rows() == rows


def test_iceberg(hdfs: HdfsServer, storage: HdfsStorage, tmp_path_factory: pytest.TempPathFactory) -> None:
    """Rewrites, expires and orphans of a table that Spark wrote: it reads the same rows, and goes on."""
    warehouse = hdfs.url("/warehouse")
    try:
        engine = IcebergEngine(tmp_path_factory.mktemp("engine"), warehouse)
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    with engine:
        for version in (2, 3):
            iceberg_turns(engine, f"t{version}", version, hdfs, storage)


def iceberg_turns(engine: IcebergEngine, name: str, version: int, hdfs: HdfsServer, storage: HdfsStorage) -> None:
    root, table = f"/warehouse/db/{name}", f"ice.db.{name}"
    merge = "'write.delete.mode'='merge-on-read', 'write.update.mode'='merge-on-read'"
    engine.sql(
        f"CREATE TABLE {table} (id BIGINT, p STRING) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('format-version'='{version}', {merge})"
    )
    for n in range(4):
        engine.sql(f"INSERT INTO {table} VALUES ({n}, 'a'), ({n + 10}, 'a'), ({n + 100}, 'b=c d')")
    engine.sql(f"DELETE FROM {table} WHERE id IN (0, 102)")
    rows = engine.rows(name)
    assert len(rows) == 10
    live = len(engine.sql(f"SELECT file_path FROM {table}.data_files"))
    ours = IcebergTable.open(f"webhdfs://{hdfs.web}{root}")
    report = ours.apply(ours.plan_rewrite_data_files({"rewrite-all": "true", "remove-dangling-deletes": "true"}))
    assert report.result["rewritten_data_files_count"] == live
    assert engine.rows(name) == rows
    engine.sql(f"UPDATE {table} SET id = id + 1000 WHERE p = 'a'")
    rows = engine.rows(name)
    ours = IcebergTable.open(f"hdfs://{root}", hdfs.options)
    assert ours.apply(ours.plan("rewrite-manifests", {})).committed
    assert ours.apply(ours.plan("expire-snapshots", {"older_than": "2100-01-01"})).complete
    storage.replace(f"{root}/data/p=a/orphan.parquet", b"x")
    removed = ours.apply(ours.plan("remove-orphan-files", {}, now=LATER), env=Environment(now=lambda: LATER))
    assert removed.result["orphan_file_location"] == [hdfs.url(f"{root}/data/p=a/orphan.parquet")]
    assert engine.rows(name) == rows
    engine.sql(f"INSERT INTO {table} VALUES (7, 'a')")
    engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    engine.sql(f"CALL ice.system.remove_orphan_files(table => 'db.{name}')")
    assert len(engine.rows(name)) == len(rows) + 1
    listed = engine.sql(f"SELECT file_path FROM {table}.all_files")
    assert all(storage.exists(row["file_path"].removeprefix(hdfs.url(""))) for row in listed)

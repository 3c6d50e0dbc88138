"""Services that change metadata alone, and the real Iceberg: each reads what the other wrote, and goes on."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
import pytest
from interop.iceberg_engine import IcebergEngine

from lakemeta.iceberg import IcebergTable

if TYPE_CHECKING:
    from lakemeta.report import Report

pytestmark = pytest.mark.engine

MERGE_ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
LATER = "TIMESTAMP '2100-01-01 00:00:00'"


def create(engine: IcebergEngine, name: str, version: int, *, evolves: bool = True) -> None:
    """Four appends over three partitions, deletes, a tag, and two more appends with another partition field."""
    options = {"format-version": str(version), "commit.manifest-merge.enabled": "false"}
    options |= MERGE_ON_READ if version > 1 else {}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    columns = "id bigint, p string, d date, v double"
    engine.sql(f"CREATE TABLE ice.db.{name} ({columns}) USING iceberg PARTITIONED BY (p, d) TBLPROPERTIES ({listed})")
    for start in range(0, 80, 20):
        append(engine, name, start)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id % 9 = 0")
    engine.sql(f"ALTER TABLE ice.db.{name} CREATE TAG before")
    if evolves:
        engine.sql(f"ALTER TABLE ice.db.{name} REPLACE PARTITION FIELD d WITH bucket(2, id)")
    append(engine, name, 80)
    append(engine, name, 100)


def append(engine: IcebergEngine, name: str, start: int) -> None:
    engine.sql(
        f"INSERT INTO ice.db.{name} SELECT id, IF(id % 3 = 0, NULL, concat('p', id % 3)), "
        f"date_add(DATE '2026-01-01', cast(id % 2 AS int)), id * 0.5 FROM range({start}, {start + 20}, 1, 1)"
    )


def serve(engine: IcebergEngine, name: str, service: str, **options: str) -> Report:
    table = IcebergTable.open(str(engine.path(name)))
    return table.apply(table.plan(service, options))


def rows(engine: IcebergEngine, name: str, version: int) -> list[list[str]]:
    """What the engine reads at the newest snapshot and at the tag, with row ids where there are any."""
    columns = "*, _row_id, _last_updated_sequence_number" if version > 2 else "*"
    found = []
    for at in ("", " VERSION AS OF 'before'"):
        read = engine.sql(f"SELECT {columns} FROM ice.db.{name}{at}")
        found.append(sorted(json.dumps(row, sort_keys=True) for row in read))
    return found


@pytest.mark.parametrize("version", [1, 3])
def test_the_engine_goes_on_after_manifests_were_rewritten(engine, version):
    """The same rows and row ids before and after; then it deletes, rewrites manifests and expires on top."""
    name = f"manifests_{version}"
    create(engine, name, version)
    before = rows(engine, name, version)
    report = serve(engine, name, "rewrite-manifests", spec_id="0")
    assert report.result["rewritten_manifests_count"] >= 4
    assert rows(engine, name, version) == before
    engine.sql(f"ALTER TABLE ice.db.{name} SET TBLPROPERTIES ('commit.manifest.target-size-bytes'='3000')")
    assert (
        serve(engine, name, "rewrite-manifests", **{"lakemeta.all-specs": "true"}).result["added_manifests_count"] > 2
    )
    assert rows(engine, name, version) == before
    manifests = engine.sql(f"SELECT sum(added_data_files_count) AS added FROM ice.db.{name}.manifests")
    assert manifests == [{"added": 0}]
    append(engine, name, 200)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id IN (1, 81, 201)")
    after = rows(engine, name, version)
    assert len(after[0]) == len(before[0]) + 20 - 3
    engine.sql(f"ALTER TABLE ice.db.{name} SET TBLPROPERTIES ('commit.manifest.target-size-bytes'='8388608')")
    (theirs,) = engine.sql(f"CALL ice.system.rewrite_manifests('db.{name}')")
    assert theirs["rewritten_manifests_count"] > 1
    engine.sql(f"CALL ice.system.expire_snapshots(table => 'db.{name}', older_than => {LATER})")
    assert rows(engine, name, version) == after
    assert serve(engine, name, "rewrite-manifests").committed is None


@pytest.mark.parametrize("version", [1, 3])
def test_partition_statistics_go_from_hand_to_hand(engine, version):
    """The engine brings ours up to date, and we bring the engine's up to date: both come to the same."""
    name = f"pstats_{version}"
    create(engine, name, version, evolves=False)
    ours = statistics(serve(engine, name, "compute-partition-stats").result)
    assert statistics(*engine.sql(f"CALL ice.system.compute_partition_stats(table => 'db.{name}')")) == ours
    append(engine, name, 300)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id IN (1, 81, 301)")
    engine.sql(f"CALL ice.system.compute_partition_stats(table => 'db.{name}')")
    engine.sql(f"DELETE FROM ice.db.{name} WHERE p = 'p1'")
    incremental = statistics(serve(engine, name, "compute-partition-stats").result)
    snapshot = engine.metadata(name)["current-snapshot-id"]
    scanned = engine.call("partition_statistics", table=f"ice.db.{name}", snapshot_id=snapshot)
    assert sum(files for _, _, files in scanned) == len(engine.sql(f"SELECT file_path FROM ice.db.{name}.data_files"))
    engine.call("remove_partition_statistics", table=f"ice.db.{name}", snapshot_id=snapshot)
    assert statistics(*engine.sql(f"CALL ice.system.compute_partition_stats(table => 'db.{name}')")) == incremental


def test_partition_statistics_of_two_specs(engine):
    """Counted in full, the engine's rows are ours; brought up to date, ours stay right (the engine's do not)."""
    create(engine, "specs", 2)
    first = serve(engine, "specs", "compute-partition-stats").result
    engine.sql("DELETE FROM ice.db.specs WHERE p = 'p1'")
    incremental = statistics(serve(engine, "specs", "compute-partition-stats").result)
    for snapshot in engine.metadata("specs")["partition-statistics"]:
        engine.call("remove_partition_statistics", table="ice.db.specs", snapshot_id=snapshot["snapshot-id"])
    full = statistics(*engine.sql("CALL ice.system.compute_partition_stats(table => 'db.specs')"))
    assert len(statistics(first)) == len(full) == len(incremental)
    assert full == incremental


def statistics(result: Any) -> list[str]:
    """The rows of a file, in an order of their own."""
    data = pq.read_table(result["partition_statistics_file"].removeprefix("file:"))
    return sorted(json.dumps(row, sort_keys=True, default=str) for row in data.to_pylist())


def test_the_engine_reads_sketches(engine):
    """Its Puffin reader takes our file, its sketches hold the very hashes of ours, and both count the same."""
    name = "sketches"
    columns = (
        "i int, l bigint, f float, d double, s string, b boolean, dt date, ts timestamp, dc decimal(12, 3), bin binary"
    )
    engine.sql(f"CREATE TABLE ice.db.{name} ({columns}, n struct<a: int>, none string) USING iceberg")
    engine.sql(
        f"INSERT INTO ice.db.{name} SELECT id % 9, id, id % 7 / 2, id / 3, concat('text', id), id % 2 = 0, "
        f"date_add(DATE '2026-01-01', cast(id % 30 AS int)), timestamp_seconds(id), id - 2500.5, "
        f"cast(concat(id % 11) AS binary), named_struct('a', 5), NULL FROM range(0, 6000, 1, 2)"
    )
    engine.sql(f"DELETE FROM ice.db.{name} WHERE l % 10 = 3")
    asked = ("i", "l", "f", "d", "s", "b", "dt", "ts", "dc", "bin", "n.a", "none")
    serve(engine, name, "compute-table-stats", columns=",".join(asked))
    ours = engine.call("table_statistics", table=f"ice.db.{name}")
    listed = ", ".join(f"'{column}'" for column in asked)
    engine.sql(f"CALL ice.system.compute_table_stats(table => 'db.{name}', columns => array({listed}))")
    theirs = engine.call("table_statistics", table=f"ice.db.{name}")
    for column, mine, their in zip(asked, ours, theirs, strict=True):
        (exact,) = engine.sql(f"SELECT count(DISTINCT {column}) AS n FROM ice.db.{name}")
        if exact["n"] < 4096:
            assert (column, mine) == (column, their)
            assert mine[1] == exact["n"]
        assert mine[0] == their[0]
        assert abs(mine[1] - exact["n"]) < 0.05 * exact["n"] + 1

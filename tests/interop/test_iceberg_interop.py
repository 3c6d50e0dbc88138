"""lakemeta and the real Iceberg take turns on one table: each reads what the other wrote, and goes on.

The engine writes, lakemeta rewrites, and the engine is the judge: same rows, then appends, deletes, a rewrite of its
own, rewritten manifests and expired snapshots on top of our commit.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest
from interop.iceberg_engine import IcebergEngine
from support.faults import WrappedStorage
from support.iceberg_tables import create_table
from support.sampling import some_of

from lakemeta.errors import CommitConflictError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    pass

pytestmark = pytest.mark.engine

MERGE_ON_READ = {f"write.{kind}.mode": "merge-on-read" for kind in ("delete", "update", "merge")}
LATER = "TIMESTAMP '2100-01-01 00:00:00'"
LINEAGE = "*, _row_id, _last_updated_sequence_number"


def create(engine: IcebergEngine, name: str, version: int, partitioned: str = "", **properties: str) -> None:
    """A table of five appends of twenty rows."""
    options = {"format-version": str(version), **(MERGE_ON_READ if version > 1 else {}), **properties}
    listed = ", ".join(f"'{key}'='{value}'" for key, value in options.items())
    clause = f"PARTITIONED BY ({partitioned})" if partitioned else ""
    columns = "id bigint, p string, ts timestamp, v double, s struct<a: int, b: string>, l array<int>"
    engine.sql(f"CREATE TABLE ice.db.{name} ({columns}) USING iceberg {clause} TBLPROPERTIES ({listed})")
    for start in range(0, 100, 20):
        append(engine, name, start, start + 20)


def append(engine: IcebergEngine, name: str, start: int, end: int) -> None:
    engine.sql(
        f"INSERT INTO ice.db.{name} SELECT id, concat('p', id % 3), timestamp_seconds(id * 86400), id * 0.5, "
        f"named_struct('a', cast(id AS int), 'b', cast(id AS string)), array(cast(id AS int), 1) "
        f"FROM range({start}, {end}, 1, 1)"
    )


def rewrite(engine: IcebergEngine, name: str, **options: str):
    table = IcebergTable.open(str(engine.path(name)))
    return table.apply(table.plan_rewrite_data_files({k.replace("_", "-"): v for k, v in options.items()}))


def goes_on(engine: IcebergEngine, name: str) -> None:
    """The engine writes and maintains the table on top of what lakemeta committed; rows stay right all along."""
    append(engine, name, 100, 110)
    before = engine.rows(name)
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id IN (1, 105)")
    rows = engine.rows(name)
    assert rows == [row for row in before if not any(f'"id": {gone},' in row for gone in (1, 105))]
    engine.sql(f"CALL ice.system.rewrite_data_files(table => 'db.{name}', options => map('rewrite-all', 'true'))")
    engine.sql(f"CALL ice.system.rewrite_manifests('db.{name}')")
    assert engine.rows(name) == rows
    append(engine, name, 200, 205)
    rows = engine.rows(name)
    rewrite(engine, name, rewrite_all="true", remove_dangling_deletes="true")
    assert engine.rows(name) == rows
    engine.sql(f"CALL ice.system.expire_snapshots(table => 'db.{name}', older_than => {LATER})")
    assert engine.rows(name) == rows
    assert engine.sql(f"SELECT count(*) AS n FROM ice.db.{name}.all_entries")[0]["n"] > 0


_SHAPES = [(version, parts) for version in (1, 2, 3) for parts in ("", "p", "bucket(4, id), days(ts)")]


@pytest.mark.parametrize(("version", "partitioned"), some_of(_SHAPES, (2, 3, 4, 8)))
def test_the_engine_reads_and_goes_on_after_a_rewrite(engine, version, partitioned):
    """The same rows before and after, in every format version; then the engine carries on."""
    name = f"plain_{version}_{len(partitioned)}"
    create(engine, name, version, partitioned)
    rows = engine.rows(name)
    report = rewrite(engine, name, rewrite_all="true")
    assert report.result["rewritten_data_files_count"] > 0
    assert engine.rows(name) == rows
    goes_on(engine, name)


@pytest.mark.parametrize("granularity", ["file", "partition"])
def test_position_deletes_are_applied(engine, granularity):
    """Rows deleted by position stay deleted, and the engine finds nothing dangling left."""
    name = f"positions_{granularity}"
    create(engine, name, 2, "p", **{"write.delete.granularity": granularity})
    engine.sql(f"DELETE FROM ice.db.{name} WHERE id % 7 = 0")
    engine.sql(f"UPDATE ice.db.{name} SET v = -1 WHERE id % 5 = 0")
    rows = engine.rows(name)
    rewrite(engine, name, rewrite_all="true", remove_dangling_deletes="true")
    assert engine.rows(name) == rows
    goes_on(engine, name)


def test_deletion_vectors_and_row_lineage_are_kept(engine):
    """In version 3 every row keeps its id and the number of its last update."""
    create(engine, "vectors", 3, "p")
    engine.sql("DELETE FROM ice.db.vectors WHERE id % 7 = 0")
    engine.sql("UPDATE ice.db.vectors SET v = -1 WHERE id % 5 = 0")
    rows = engine.rows("vectors", LINEAGE)
    report = rewrite(engine, "vectors", rewrite_all="true")
    assert report.result["removed_delete_files_count"] > 0
    assert engine.rows("vectors", LINEAGE) == rows
    assert engine.sql("SELECT count(*) AS n FROM ice.db.vectors.delete_files") == [{"n": 0}]
    goes_on(engine, "vectors")


def test_evolved_schemas_and_specs_are_read_back(engine):
    """Columns added, renamed, promoted, dropped and added again, and a new partitioning."""
    create(engine, "evolved", 2, "p")
    for change in (
        "ADD COLUMN extra int",
        "RENAME COLUMN v TO w",
        "DROP COLUMN ts",
        "ADD COLUMN ts string",
        "ALTER COLUMN extra TYPE bigint",
        "ADD COLUMN s.c double",
        "REPLACE PARTITION FIELD p WITH bucket(2, id)",
        "WRITE ORDERED BY id DESC",
    ):
        engine.sql(f"ALTER TABLE ice.db.evolved {change}")
    engine.sql(
        "INSERT INTO ice.db.evolved VALUES (900, 'x', 1.5D, named_struct('a', 1, 'b', 'b', 'c', 2D), array(), 7, 'ts')"
    )
    rows = engine.rows("evolved")
    rewrite(engine, "evolved", rewrite_all="true")
    assert engine.rows("evolved") == rows
    assert engine.rows("evolved", "id") == sorted(engine.rows("evolved", "id"))


def test_a_partition_filter_finds_the_rewritten_files(engine):
    """Partition values and bounds of our manifests let the engine prune without losing rows."""
    create(engine, "pruned", 2, "p, days(ts)")
    rewrite(engine, "pruned", rewrite_all="true")
    for condition, count in (("p = 'p1'", 33), ("ts < timestamp '1970-01-11'", 10), ("id = 42", 1), ("v > 49.0", 1)):
        found = engine.sql(f"SELECT count(*) AS n FROM ice.db.pruned WHERE {condition}")
        assert found == [{"n": count}], condition


def test_a_reader_skips_pages_by_our_page_index(engine):
    """Spark's own Parquet reader, which believes the page index, finds the rows of a filter in a file of many pages."""
    create(engine, "pages", 2, **{"write.parquet.page-row-limit": "7"})
    rewrite(engine, "pages", rewrite_all="true")
    (file,) = engine.sql("SELECT file_path FROM ice.db.pages.files")
    found = engine.sql(
        f"SELECT id, p, s.b FROM parquet.`{file['file_path']}` WHERE id BETWEEN 33 AND 36 AND v > 16.5 ORDER BY id"
    )
    assert [(row["id"], row["p"], row["b"]) for row in found] == [(n, f"p{n % 3}", str(n)) for n in (34, 35, 36)]


def test_partial_progress_makes_one_snapshot_a_commit(engine):
    """Each commit of partial progress is a snapshot of its own that the engine can travel to."""
    create(engine, "partial", 2, "p")
    rows = engine.rows("partial")
    rewrite(engine, "partial", **{"partial-progress.enabled": "true", "partial-progress.max-commits": "3"})
    snapshots = engine.sql("SELECT snapshot_id, operation FROM ice.db.partial.snapshots ORDER BY committed_at")
    assert [s["operation"] for s in snapshots[-3:]] == ["replace"] * 3
    for snapshot in snapshots[-4:]:
        travel = engine.sql(f"SELECT count(*) AS n FROM ice.db.partial VERSION AS OF {snapshot['snapshot_id']}")
        assert travel == [{"n": 100}]
    assert engine.rows("partial") == rows


@pytest.mark.parametrize("version", [1, 2])
def test_the_engine_takes_tables_that_lakemeta_made(engine, version):
    """A table written from its first version on without a JVM is a table like any other."""
    name = f"ours_{version}"
    table = create_table(LocalStorage(), str(engine.path(name)), version=version, partitioned=True)
    for start in range(6):
        table.append([(start, "a", 0.5)], [(start + 10, "b", 1.5)])
    if version > 1:
        table.delete_positions(table.data_files()[0], [0])
        table.delete_ids(13, partition=("b",))
    rows = engine.rows(name)
    assert len(rows) == (10 if version > 1 else 12)
    rewrite(engine, name)
    assert engine.rows(name) == rows
    engine.sql(f"INSERT INTO ice.db.{name} VALUES (99, 'c', 9.5D)")
    assert len(engine.rows(name)) == len(rows) + 1


class Meanwhile(WrappedStorage):
    """Lets the engine run a statement at the moment when the first new data file is written."""

    def __init__(self, engine: IcebergEngine, statement: str) -> None:
        super().__init__(LocalStorage())
        self.engine, self.todo = engine, [statement]

    def open_output(self, path):
        if self.todo:
            self.engine.sql(self.todo.pop())
        return super().open_output(path)


def rewrite_meanwhile(engine: IcebergEngine, name: str, statement: str):
    root = str(engine.path(name))
    table = IcebergTable(Place(root, HadoopTableOperations(Meanwhile(engine, statement.format(t=name)), root)))
    options = {"rewrite-all": "true", "max-concurrent-file-group-rewrites": "1"}
    return table.apply(table.plan_rewrite_data_files(options))


APPEND = "INSERT INTO ice.db.{t} VALUES (500, 'p1', now(), 1D, null, null)"


@pytest.mark.parametrize("version", [2, 3])
def test_an_append_of_the_engine_in_between_is_kept(engine, version):
    """The rewrite is committed on top of it, and the engine sees both."""
    name = f"append_between_{version}"
    create(engine, name, version, "p")
    before = engine.rows(name, "id")
    rewrite_meanwhile(engine, name, APPEND)
    assert engine.rows(name, "id") == sorted([*before, '{"id": 500}'])
    operations = engine.sql(f"SELECT operation FROM ice.db.{name}.snapshots ORDER BY committed_at")
    assert [row["operation"] for row in operations[-2:]] == ["append", "replace"]


@pytest.mark.parametrize("version", [2, 3])
@pytest.mark.parametrize(
    "statement",
    [
        "DELETE FROM ice.db.{t} WHERE id IN (3, 50)",
        "CALL ice.system.rewrite_data_files(table => 'db.{t}', options => map('rewrite-all', 'true'))",
    ],
    ids=["delete", "compaction"],
)
def test_what_the_engine_does_to_the_same_files_wins(engine, version, statement):
    """A delete or a compaction of the engine on planned files fails our commit; the table is the engine's."""
    name = f"lost_{version}_{statement[:4].lower()}"
    create(engine, name, version, "p")
    with pytest.raises(CommitConflictError):
        rewrite_meanwhile(engine, name, statement)
    rows = engine.rows(name)
    assert len(rows) == (98 if statement.startswith("DELETE") else 100)
    rewrite(engine, name, rewrite_all="true")
    assert engine.rows(name) == rows
    engine.sql(f"CALL ice.system.remove_orphan_files(table => 'db.{name}', dry_run => true)")

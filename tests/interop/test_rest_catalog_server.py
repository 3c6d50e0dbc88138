"""Tables of Iceberg's own REST catalog server: lakemeta serves them, Spark and pyiceberg go on with them.

The server and its clients are real; between them stands, where answers are to be lost, a proxy on this machine.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

import attrs
import pyarrow as pa
import pytest
from interop.engine_process import EngineUnavailableError
from interop.iceberg_engine import IcebergEngine
from interop.rest_server import rest_server
from pyiceberg.catalog import load_catalog
from pyiceberg.exceptions import CommitFailedException
from support.iceberg_tables import still_env
from support.rest_catalog import answered, cut_off, lost, repeated, rest_catalog
from support.served_tables import rows_at_refs, served, served_table

from lakemeta.errors import CommitStateUnknownError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations
from lakemeta.iceberg.spec.table_metadata import SnapshotRef

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = [pytest.mark.engine, pytest.mark.filterwarnings("default")]

ALL = {"rewrite-all": "true"}
MERGE_ON_READ = ", ".join(f"'write.{kind}.mode'='merge-on-read'" for kind in ("delete", "update", "merge"))


@pytest.fixture(scope="module")
def uri(tmp_path_factory) -> Iterator[str]:
    """The address of the server, with a namespace db."""
    try:
        with rest_server(tmp_path_factory.mktemp("rest")) as uri:
            load_catalog("rest", type="rest", uri=uri).create_namespace("db")
            yield uri
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="module")
def spark(uri, tmp_path_factory) -> Iterator[IcebergEngine]:
    """The real engine, with the server's catalog as ``rest``."""
    try:
        started = IcebergEngine(tmp_path_factory.mktemp("iceberg"))
    except EngineUnavailableError as reason:
        pytest.skip(str(reason))
    with started as engine:
        name = "spark.sql.catalog.rest"
        for key, value in {"": "org.apache.iceberg.spark.SparkCatalog", ".type": "rest", ".uri": uri}.items():
            engine.sql(f"SET {name}{key} = {value}")
        engine.sql(f"SET `{name}.cache-enabled` = false")
        yield engine


def opened(uri: str, name: str) -> IcebergTable:
    return IcebergTable.open(f"catalog://rest/db.{name}", {"type": "rest", "uri": uri})


def grow(spark: IcebergEngine, name: str, version: int) -> None:
    """Appends, deletes and a new column, with a tag and a branch on the way."""
    spark.sql(
        f"CREATE TABLE rest.db.{name} (id bigint, p string) USING iceberg PARTITIONED BY (p) "
        f"TBLPROPERTIES ('format-version'='{version}', {MERGE_ON_READ})"
    )
    insert = f"INSERT INTO rest.db.{name} SELECT id, concat('p', id % 2)"
    spark.sql(f"{insert} FROM range(0, 20, 1, 1)")
    spark.sql(f"{insert} FROM range(20, 40, 1, 1)")
    spark.sql(f"ALTER TABLE rest.db.{name} CREATE TAG kept")
    spark.sql(f"{insert} FROM range(40, 60, 1, 1)")
    spark.sql(f"ALTER TABLE rest.db.{name} CREATE BRANCH side")
    spark.sql(f"DELETE FROM rest.db.{name} WHERE id % 5 = 0")
    spark.sql(f"ALTER TABLE rest.db.{name} ADD COLUMN more int")
    spark.sql(f"ALTER TABLE rest.db.{name} ADD COLUMN most int")
    spark.sql(f"{insert}, 1, 2 FROM range(60, 80, 1, 1)")
    spark.sql(f"DELETE FROM rest.db.{name} WHERE id % 7 = 0")


def seen(spark: IcebergEngine, name: str, version: int) -> list[str]:
    """The rows at every ref, of version 3 with their lineage, in the engine's eyes."""
    lineage = ", _row_id, _last_updated_sequence_number" if version > 2 else ""
    parts = [
        f"SELECT '{ref}' AS ref, id, p{lineage} FROM rest.db.{name} VERSION AS OF '{ref}'"
        for ref in ("main", "kept", "side")
    ]
    return sorted(json.dumps(row, sort_keys=True) for row in spark.sql(" UNION ALL ".join(parts)))


@pytest.mark.parametrize("version", [2, 3])
def test_spark_reads_the_same_rows_after_every_service(uri, spark, version):
    """At every ref, of version 2 after all; then Spark writes, and expires what we left, through the same catalog."""
    name = f"served_{version}"
    grow(spark, name, version)
    before = seen(spark, name, version)
    ours = opened(uri, name)
    done = []
    for service, plan in served(ours):
        assert version == 2 or seen(spark, name, version) == before, service
        done += [service] if plan.operations else []
    assert seen(spark, name, version) == before
    assert {"rewrite-data-files", "expire-snapshots", "compute-partition-stats"} <= set(done)
    metadata = ours.place.operations.refresh().metadata
    assert {s.snapshot_id for s in metadata.snapshots} == {ref.snapshot_id for ref in metadata.refs.values()}
    spark.sql(f"INSERT INTO rest.db.{name} VALUES (1000, 'p0', 3, 4)")
    spark.sql(f"DELETE FROM rest.db.{name} WHERE id = 1")
    spark.sql(
        f"CALL rest.system.expire_snapshots(table => 'db.{name}', retain_last => 1, "
        f"older_than => TIMESTAMP '2100-01-01')"
    )
    after = [json.loads(row) for row in seen(spark, name, version)]
    kept = [row for row in map(json.loads, before) if row["ref"] != "main"]
    assert [row for row in after if row["ref"] != "main"] == kept
    assert {row["id"] for row in after if row["ref"] == "main"} ^ {
        row["id"] for row in map(json.loads, before) if row["ref"] == "main"
    } == {1, 1000}


def test_a_registered_table_with_equality_deletes_is_served(uri, tmp_path):
    """What Spark does not write: read without any engine after each service."""
    small = served_table(tmp_path / "t")
    table = load_catalog("rest", type="rest", uri=uri).register_table("db.small", small.operations.refresh().location)
    first = table.snapshots()[1]
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").commit()
    before = rows_at_refs(table.refresh().metadata_location)
    for name, _ in served(opened(uri, "small")):
        assert rows_at_refs(table.refresh().metadata_location) == before, name


def appended(uri: str, name: str):
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = load_catalog("rest", type="rest", uri=uri).create_table(f"db.{name}", rows.schema)
    for _ in range(3):
        table.append(rows)
    return table


def test_lost_answers_of_the_real_server(uri):
    """What has happened is found by reading again, also where a request is repeated; what has not stays unknown."""
    happened = [answered(code, after=True) for code in (500, 502, 503, 504)] + [lost(after=True), cut_off, repeated]
    not_so = [answered(code, after=False) for code in (500, 502, 503, 504)] + [lost(after=False)]
    table = appended(uri, "lost")
    with rest_catalog(uri) as proxy:
        ours = opened(proxy.uri, "lost")
        for seed, fault in enumerate([*happened, *not_so]):
            proxy.faults = [fault]
            plan = ours.plan_rewrite_data_files(ALL)
            if fault in not_so:
                with pytest.raises(CommitStateUnknownError):
                    ours.apply(plan, env=still_env(seed))
            else:
                report = ours.apply(plan, env=still_env(seed))
                assert report.committed == str(table.refresh().current_snapshot().snapshot_id)
            assert len(table.refresh().scan().to_arrow()) == 9
    assert len(table.snapshots()) == 3 + len(happened)


def test_the_server_refuses_to_expire_what_a_ref_was_moved_to(uri):
    """Without the requirement, which Iceberg's client does not send, it removes the ref with its snapshot, silently."""
    table = appended(uri, "moved")
    catalog = load_catalog("rest", type="rest", uri=uri)
    first, second, _ = (s.snapshot_id for s in table.snapshots())
    table.manage_snapshots().create_tag(second, "kept").commit()
    operations = CatalogTableOperations(catalog, "db.moved")
    base = operations.refresh()
    new = attrs.evolve(base.metadata, snapshots=base.metadata.snapshots[1:])
    requirements, updates = operations._models(base.metadata, new)
    moved = attrs.evolve(base.metadata, refs={**base.metadata.refs, "kept": SnapshotRef(first, "tag")})
    operations.commit(base, moved)
    with pytest.raises(CommitFailedException, match="kept has changed"):
        catalog.commit_table(table, requirements, updates)
    catalog.commit_table(table, requirements[:1], updates)
    assert set(table.refresh().refs()) == {"main"}


def test_a_table_nested_in_another_refuses_the_removal_of_orphans(uri, tmp_path):
    """The server is asked for all of its tables; one that keeps its metadata elsewhere is found by its location."""
    catalog = load_catalog("rest", type="rest", uri=uri)
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    catalog.create_table("db.outer", rows.schema, location=f"file://{tmp_path}/outer").append(rows)
    (tmp_path / "outer" / "data" / "orphan.parquet").write_bytes(b"x")
    catalog.create_namespace_if_not_exists("db.deep")
    inner = catalog.create_table(
        "db.deep.inner",
        rows.schema,
        location=f"file://{tmp_path}/outer/inner",
        properties={"write.metadata.path": f"file://{tmp_path}/away"},
    )
    inner.append(rows)
    for path in tmp_path.rglob("*"):
        os.utime(path, (1_600_000_000, 1_600_000_000))
    ours = opened(uri, "outer")
    with pytest.raises(UnsupportedFeatureError, match=rf"db\.deep\.inner, at .*{inner.metadata.table_uuid}"):
        ours.plan("remove-orphan-files")
    catalog.drop_table("db.deep.inner")
    paths = [op.path for op in ours.plan("remove-orphan-files").deletes()]
    assert "data/orphan.parquet" in paths
    assert any(path.startswith("inner/data/") for path in paths)

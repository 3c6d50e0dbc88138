"""Every service on one table through every kind of catalog: a Hadoop table, a SQL catalog, a REST catalog."""

from __future__ import annotations

import pyarrow as pa
import pytest
from contract.s3_server import s3_server
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from support.rest_catalog import rest_catalog
from support.served_tables import OPTIONS, rows_at_refs, served, served_table

from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.services import SERVICES

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]


def registered(tmp_path, small):
    """The table in a SQL catalog, with a tag and a branch."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    table = catalog.register_table("db.t", small.operations.refresh().location)
    first, second = table.snapshots()[1:3]
    table.manage_snapshots().create_tag(first.snapshot_id, "kept").create_branch(second.snapshot_id, "side").commit()
    return catalog, table


@pytest.mark.slow
@pytest.mark.parametrize("kind", ["hadoop", "sql", "rest"])
def test_every_service_keeps_the_rows_at_every_ref(tmp_path, kind):
    """Each finds work; after each every file of every snapshot is there, and rows at branches and tags are equal."""
    small = served_table(tmp_path / "t")
    if kind == "hadoop":
        ours = IcebergTable.open(small.root)
        check(ours, lambda: small.operations.refresh().location)
        return
    catalog, table = registered(tmp_path, small)
    if kind == "sql":
        check(IcebergTable.of(table), lambda: table.refresh().metadata_location)
        return
    with rest_catalog(catalog) as server:
        ours = IcebergTable.open("catalog://rest/db.t", {"type": "rest", "uri": server.uri})
        check(ours, lambda: table.refresh().metadata_location)
        assert len(server.commits) >= len(SERVICES) - 1


def check(ours: IcebergTable, newest) -> None:
    before = rows_at_refs(newest())
    for name, plan in served(ours):
        assert plan.operations or name not in OPTIONS, name
        assert rows_at_refs(newest()) == before, name
    assert not ours.plan("expire-snapshots", OPTIONS["expire-snapshots"]).operations


@pytest.mark.slow
def test_tables_of_glue_are_served():
    """A stand-in for AWS: Glue keeps the table, S3 its files; pyiceberg writes the rows and reads them after each."""
    with s3_server("lake") as store:
        properties = {**store.options, "glue.endpoint": store.options["s3.endpoint"], "glue.region": "us-east-1"}
        keys = {"client.access-key-id": "access", "client.secret-access-key": "very-secret"}
        options = {"type": "glue", "warehouse": "s3://lake/w", **properties, **keys}
        catalog = load_catalog("glue", **options)
        catalog.create_namespace("db")
        rows = pa.table({"id": pa.array(range(6), pa.int64()), "p": ["a", "b", "c"] * 2})
        table = catalog.create_table("db.t", rows.schema)
        table.update_spec().add_identity("p").commit()
        for _ in range(3):
            table.append(rows)
        table.delete("id = 3")
        before = sorted(table.scan().to_arrow().to_pylist(), key=str)
        for name, _ in served(IcebergTable.open("catalog://glue/db.t", options)):
            found = table.refresh().scan().to_arrow().to_pylist()
            assert sorted(found, key=str) == before, name
        assert len(table.snapshots()) == 1

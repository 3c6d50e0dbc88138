"""Removing orphans where other tables of the catalog lie whose metadata is elsewhere, so that no file says so."""

from __future__ import annotations

import os
from datetime import UTC, datetime
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.rest_catalog import error, rest_catalog

from lakemeta.errors import CatalogError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.plan import Plan

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ROWS = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC).timestamp()


@pytest.fixture
def kept(tmp_path) -> SqlCatalog:
    """A catalog with the table db.t, an old orphan in it, and a table that lies elsewhere."""
    catalog = SqlCatalog("kept", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/w")
    for namespace in ("db", "old", "db.deep"):
        catalog.create_namespace(namespace)
    table = catalog.create_table("db.t", ROWS.schema, location=f"file://{tmp_path}/w/db/t")
    table.append(ROWS)
    catalog.create_table("old.far", ROWS.schema).append(ROWS)
    orphan = tmp_path / "w" / "db" / "t" / "data" / "orphan.parquet"
    orphan.write_bytes(b"x")
    age(tmp_path)
    return catalog


@pytest.fixture(params=["sql", pytest.param("rest", marks=pytest.mark.slow)])
def ours(request, kept):
    """db.t through the SQL catalog itself, and through a REST server before it."""
    if request.param == "sql":
        yield IcebergTable.of(kept.load_table("db.t"))
        return
    with rest_catalog(kept) as server:
        yield IcebergTable.open("catalog://rest/db.t", {"type": "rest", "uri": server.uri})


def age(folder: Path) -> None:
    for path in folder.rglob("*"):
        os.utime(path, (LONG_AGO, LONG_AGO))


def beside(kept: SqlCatalog, tmp_path: Path, name: str, location: str, **properties: str) -> str:
    """Another table, whose metadata lies where nobody looks; its uuid."""
    away = {"write.metadata.path": f"file://{tmp_path}/away/{name}"}
    where = {key.replace("_", "."): f"file://{tmp_path}/{value}" for key, value in properties.items()}
    made = kept.create_table(name, ROWS.schema, location=location, properties={**away, **where})
    made.append(ROWS)
    age(tmp_path)
    return str(made.metadata.table_uuid)


def found(table: IcebergTable, **options: str) -> Plan:
    return table.plan("remove-orphan-files", {name.replace("__", "-"): value for name, value in options.items()})


def test_tables_that_lie_elsewhere_do_not_matter(ours, kept, tmp_path):
    """One beside it whose name begins alike, one around it that writes elsewhere, and the table by another name."""
    beside(kept, tmp_path, "db.t2", f"file://{tmp_path}/w/db/t2")
    beside(kept, tmp_path, "db.around", f"file://{tmp_path}/w/db")
    kept.register_table("old.alias", kept.load_table("db.t").metadata_location)
    plan = found(ours)
    assert [op.path for op in plan.deletes()] == ["data/orphan.parquet"]
    assert ours.apply(plan).deleted_files == 1


@pytest.mark.parametrize(
    ("location", "properties", "match"),
    [
        ("{}/w/db/t/nested", {}, r"db\.other, at file://.*/w/db/t/nested, uuid"),
        ("{}/w/db/t", {}, r"db\.other, at file:"),
        ("{}/w/db//t/./x", {}, r"db\.other, at file:"),
        ("{}/link/db/t/x", {}, r"db\.other, at file:"),
        ("{}/w/far", {"write_data_path": "w/db/t/theirs"}, r"db\.other, which writes to .*/w/db/t/theirs, uuid"),
        ("{}/w/far", {"write_data_path": "w/db"}, r"db\.other, which writes to .*/w/db, uuid"),
    ],
    ids=["nested", "same", "spelled", "linked", "writes into", "writes around"],
)
def test_a_table_that_lies_there_refuses_by_name(ours, kept, tmp_path, location, properties, match):
    """However its location is spelled; a plan from before is refused too, and its uuid may be said to be dropped."""
    (tmp_path / "link").symlink_to(tmp_path / "w")
    before = found(ours)
    uuid = beside(kept, tmp_path, "db.other", "file://" + location.format(tmp_path), **properties)
    for attempt in (lambda: found(ours), lambda: ours.apply(before)):
        with pytest.raises(UnsupportedFeatureError, match=match) as raised:
            attempt()
        assert uuid in str(raised.value)
        assert "db.t2" not in str(raised.value)
    assert (tmp_path / "w/db/t/data/orphan.parquet").exists()
    assert "data/orphan.parquet" in [op.path for op in found(ours, foreign__uuid=uuid).deletes()]
    unrelated = {"lakemeta.unrelated-tables": "old.*, db.o*"}
    assert ours.plan("remove-orphan-files", unrelated).operations


def test_a_deep_namespace_is_looked_at(ours, kept, tmp_path):
    """Namespaces have namespaces."""
    beside(kept, tmp_path, "db.deep.one", f"file://{tmp_path}/w/db/t/one")
    with pytest.raises(UnsupportedFeatureError, match=r"db\.deep\.one, at"):
        found(ours)


def test_nothing_is_asked_where_nothing_is_found(ours, kept, tmp_path, monkeypatch):
    """Without an orphan the catalog's other tables do not matter, nor if the caller vouches for all of them."""
    monkeypatch.setattr(type(ours.place.operations._catalog), "list_namespaces", None)
    with pytest.raises(CatalogError, match="cannot say which tables it has"):
        found(ours)
    plan = ours.plan("remove-orphan-files", {"lakemeta.unrelated-tables": "*"})
    assert ours.apply(plan).deleted_files == 1
    assert not found(ours).operations


def test_a_table_that_cannot_be_loaded_is_named(ours, kept, tmp_path):
    """Where it lies is unknown; the caller may know it."""
    broken = kept.load_table("old.far")
    Path(broken.metadata_location.removeprefix("file://")).unlink()
    with pytest.raises(CatalogError, match=r"old\.far \(.*lakemeta\.unrelated-tables=") as raised:
        found(ours)
    assert str(raised.value).count("\n") == 0
    assert ours.plan("remove-orphan-files", {"lakemeta.unrelated-tables": "old.far"}).operations


@pytest.mark.parametrize("path", ["/v1/namespaces", "/v1/namespaces/db/tables"])
def test_a_catalog_that_cannot_list_refuses(kept, path):
    """A part of the tables is no answer."""
    with rest_catalog(kept) as server:
        server.refused[path] = error(403, "not for you")
        ours = IcebergTable.open("catalog://rest/db.t", {"type": "rest", "uri": server.uri})
        with pytest.raises(CatalogError, match=r"cannot say which tables it has .*not for you"):
            found(ours)


def test_a_table_that_vanishes_is_none(kept, tmp_path):
    """Dropped between its listing and its turn."""
    beside(kept, tmp_path, "db.gone", f"file://{tmp_path}/w/db/t/gone")
    with rest_catalog(kept) as server:
        for path in ("/v1/namespaces/db/tables/gone", "/v1/namespaces/old/tables"):
            server.refused[path] = error(404, "no such thing")
        ours = IcebergTable.open("catalog://rest/db.t", {"type": "rest", "uri": server.uri})
        assert found(ours).operations

"""pyiceberg reads what lakemeta rewrote, and lakemeta commits through pyiceberg's catalogs."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from pyiceberg.table import StaticTable
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table

from lakemeta.errors import CommitConflictError, OptionError, TableNotFoundError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations
from lakemeta.storage import LocalStorage

pytestmark = pytest.mark.filterwarnings("default")

ALL = {"rewrite-all": "true"}


def lines(table: pa.Table) -> list[str]:
    return sorted(json.dumps(row, sort_keys=True) for row in table.to_pylist())


@pytest.mark.parametrize("partitioned", [False, True])
def test_pyiceberg_reads_a_rewritten_table(tmp_path, partitioned):
    """Rows, position deletes that were applied, and snapshots, read from the metadata file alone."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=partitioned)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)])
    small.delete_positions(small.data_files()[0], [1])
    table = IcebergTable.open(small.root)
    table.apply(table.plan_rewrite_data_files(ALL))
    small.append([(99, "a", 1.0)])
    read = StaticTable.from_metadata(small.operations.refresh().location)
    assert lines(read.scan().to_arrow()) == TableState.local(small.root).rows()
    assert len(read.scan(row_filter="id = 99").to_arrow()) == 1
    assert sorted(read.inspect.files()["content"].to_pylist()) == [0, 0, 1]


@pytest.fixture
def catalog(tmp_path: Path) -> SqlCatalog:
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    return catalog


def filled(catalog: SqlCatalog, name: str = "db.t"):
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "c"]})
    table = catalog.create_table(name, rows.schema)
    for _ in range(3):
        table.append(rows)
    return table


def opened(catalog: SqlCatalog, name: str = "db.t") -> IcebergTable:
    return IcebergTable(Place(name, CatalogTableOperations(catalog, name)))


def test_commits_go_through_the_catalog(catalog):
    """The catalog's table has the rewrite as its current snapshot, and pyiceberg goes on appending."""
    table = filled(catalog)
    before = lines(table.scan().to_arrow())
    ours = opened(catalog)
    report = ours.apply(ours.plan_rewrite_data_files(ALL))
    table.refresh()
    assert table.current_snapshot().snapshot_id == int(report.committed)
    assert table.current_snapshot().summary.operation.value == "replace"
    assert lines(table.scan().to_arrow()) == before
    table.append(pa.table({"id": pa.array([4], pa.int64()), "p": ["d"]}))
    assert len(table.scan().to_arrow()) == 10
    assert ours.inspect().data_files == 2


def test_a_commit_in_between_is_retried_through_the_catalog(catalog):
    """An append after planning is no conflict: both are in the table."""
    table = filled(catalog)
    ours = opened(catalog)
    plan = ours.plan_rewrite_data_files(ALL)
    table.append(pa.table({"id": pa.array([4], pa.int64()), "p": ["d"]}))
    ours.apply(plan)
    table.refresh()
    assert len(table.scan().to_arrow()) == 10
    assert [s.summary.operation.value for s in table.snapshots()[-2:]] == ["append", "replace"]


def test_the_catalog_refuses_what_is_based_on_an_older_version(catalog):
    """Of two commits on one version the second is a conflict."""
    filled(catalog)
    first, second = CatalogTableOperations(catalog, "db.t"), CatalogTableOperations(catalog, "db.t")
    stale = second.current()
    ours = IcebergTable(Place("db.t", first))
    ours.apply(ours.plan_rewrite_data_files(ALL))
    with pytest.raises(CommitConflictError, match="newer version"):
        second.commit(stale, stale.metadata)


def test_catalog_urls(catalog, tmp_path):
    """catalog://NAME/namespace.table with pyiceberg's own properties."""
    filled(catalog)
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    table = IcebergTable.open("catalog://lake/db.t", options)
    assert table.plan_rewrite_data_files(ALL).files == 3
    with pytest.raises(TableNotFoundError, match=r"db\.nope"):
        IcebergTable.open("catalog://lake/db.nope", options)
    with pytest.raises(OptionError, match="names no table"):
        IcebergTable.open("catalog://lake", options)


def test_a_table_of_pyiceberg_is_taken_as_it_is(catalog):
    """Its catalog takes the commit and its name is what `open` would take."""
    table = filled(catalog)
    ours = IcebergTable.of(table)
    assert ours.url == "catalog://lake/db.t"
    ours.apply(ours.plan_rewrite_data_files(ALL))
    table.refresh()
    assert table.current_snapshot().summary.operation.value == "replace"
    assert len(table.scan().to_arrow()) == 9
    catalog.drop_table("db.t")
    with pytest.raises(TableNotFoundError, match=r"the catalog lake has no table db\.t"):
        IcebergTable.of(table)


def test_manifests_of_several_writers_are_rewritten_together(catalog):
    """Those in our own layout are copied as bytes, those of pyiceberg decoded: entries are the same all the same."""
    table = filled(catalog)
    ours = opened(catalog)
    ours.apply(ours.plan("rewrite-manifests"))
    table.refresh().append(pa.table({"id": pa.array([4], pa.int64()), "p": ["d"]}))
    files = table.inspect.files().to_pylist()
    ours.apply(ours.plan("rewrite-manifests"))
    table.refresh()
    assert len(table.inspect.manifests()) == 1
    assert sorted(table.inspect.files().to_pylist(), key=str) == sorted(files, key=str)
    assert len(table.scan().to_arrow()) == 10


def test_a_static_table_of_pyiceberg_can_be_planned_only(catalog):
    """It is a metadata file without a catalog."""
    static = StaticTable.from_metadata(filled(catalog).metadata_location)
    ours = IcebergTable.of(static)
    assert ours.url == static.metadata_location
    plan = ours.plan_rewrite_data_files(ALL)
    with pytest.raises(UnsupportedFeatureError, match="kept by a catalog"):
        ours.apply(plan)


def test_metadata_that_pyiceberg_cannot_write_is_refused_before_any_work(catalog):
    """A catalog that pyiceberg runs itself takes no table of version 3; nothing is written."""
    table = filled(catalog)
    ours = opened(catalog)
    plan = ours.plan_rewrite_data_files(ALL)
    v3 = Path(table.metadata_location.removeprefix("file://"))
    document = json.loads(v3.read_text())
    v3.write_text(json.dumps({**document, "format-version": 3, "next-row-id": 0}))
    before = sorted(v3.parents[1].rglob("*"))
    with pytest.raises(UnsupportedFeatureError, match=r"cannot write it: .*V3.*REST"):
        ours.apply(plan)
    assert sorted(v3.parents[1].rglob("*")) == before


def test_the_command_line_takes_catalog_urls(catalog, tmp_path, monkeypatch, capsys):
    """inspect, rewrite and why on a table of a catalog; pyiceberg's properties come as storage options."""
    import sys

    from lakemeta.cli.main import main

    table = filled(catalog)
    options = {"type": "sql", "uri": f"sqlite:///{tmp_path}/catalog.db", "warehouse": f"file://{tmp_path}/warehouse"}
    given = [word for key, value in options.items() for word in ("--storage-option", f"{key}={value}")]
    for command in (["inspect"], ["rewrite-data-files", "--yes", "--set", "rewrite-all=true"]):
        arguments = ["lakemeta", *command, "catalog://lake/db.t", *given, "--output", "json"]
        monkeypatch.setattr(sys, "argv", arguments)
        with pytest.raises(SystemExit) as exited:
            main()
        assert exited.value.code == 0, capsys.readouterr().err
    table.refresh()
    assert table.current_snapshot().summary.operation.value == "replace"
    assert len(table.scan().to_arrow()) == 9

"""Refs are looked at after a commit that removes snapshots, before any file goes."""

from __future__ import annotations

import attrs
import pytest
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.catalogs.operations import LoadedTable
from lakemeta.iceberg.catalogs.refs import check_refs_intact
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.table_metadata import MetadataLogEntry, SnapshotRef, TableMetadata
from lakemeta.storage import LocalStorage


class Catalog:
    """Operations whose newest version a test sets; versions are files of the table."""

    def __init__(self, table: SmallTable) -> None:
        self.storage, self.root = table.storage, table.root
        self.newest = table.operations.refresh()

    def refresh(self) -> LoadedTable:
        return self.newest

    def put(self, metadata: TableMetadata, name: str) -> TableMetadata:
        """Make this the next version."""
        entry = MetadataLogEntry(self.newest.metadata.last_updated_ms, self.newest.location)
        metadata = attrs.evolve(metadata, metadata_log=(*self.newest.metadata.metadata_log, entry))
        path = f"{self.root}/metadata/{name}.metadata.json"
        self.storage.create(path, dump_metadata(metadata))
        self.newest = LoadedTable(metadata, path, 0)
        return metadata


@pytest.fixture
def catalog(tmp_path) -> Catalog:
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    for i in range(3):
        table.append([(i, "a", 0.5)])
    return Catalog(table)


def with_tag(metadata: TableMetadata, name: str) -> TableMetadata:
    return attrs.evolve(metadata, refs={**metadata.refs, name: SnapshotRef(metadata.snapshots[0].snapshot_id, "tag")})


def test_intact_refs_give_the_newest_version(catalog):
    """Branches may have moved on and new refs come after the commit."""
    committed = catalog.put(catalog.newest.metadata, "a")
    catalog.put(with_tag(committed, "later"), "b")
    assert check_refs_intact(catalog, committed) is catalog.newest


def test_a_ref_that_is_gone_is_named(catalog):
    """A catalog that takes the commit and drops a ref that it was to keep."""
    committed = catalog.put(with_tag(catalog.newest.metadata, "kept"), "a")
    catalog.newest = attrs.evolve(
        catalog.newest, metadata=attrs.evolve(committed, refs={"main": committed.refs["main"]})
    )
    with pytest.raises(
        CorruptMetadataError, match=r"lost its ref kept .*no file was deleted; .* is the last version that has it"
    ):
        check_refs_intact(catalog, committed)


def test_a_table_that_was_emptied_is_found(catalog):
    """Without its main branch a table reads as empty."""
    committed = catalog.put(catalog.newest.metadata, "a")
    emptied = attrs.evolve(committed, refs={}, current_snapshot_id=None)
    catalog.newest = attrs.evolve(catalog.newest, metadata=emptied)
    with pytest.raises(CorruptMetadataError, match="lost its ref main"):
        check_refs_intact(catalog, committed)


def test_a_ref_made_between_base_and_commit_is_found(catalog):
    """It was not known, so it was not asserted; the catalog removed it with its snapshot."""
    base = catalog.newest
    drafted = attrs.evolve(base.metadata, metadata_log=(MetadataLogEntry(1, base.location),))
    catalog.put(with_tag(base.metadata, "new"), "a")
    catalog.put(base.metadata, "b")
    with pytest.raises(CorruptMetadataError, match=r"lost its ref new .*/a\.metadata\.json is the last version that"):
        check_refs_intact(catalog, drafted)


@pytest.mark.parametrize(("log", "believed"), [((), True), ((MetadataLogEntry(1, "/t/metadata/other"),), False)])
def test_what_came_between_must_be_seen(catalog, log, believed):
    """A catalog that keeps no log is believed; a log that no longer reaches back is not."""
    committed = catalog.put(catalog.newest.metadata, "a")
    catalog.newest = attrs.evolve(catalog.newest, metadata=attrs.evolve(committed, metadata_log=log))
    if believed:
        assert check_refs_intact(catalog, committed) is catalog.newest
        return
    with pytest.raises(CorruptMetadataError, match=r"does not name .*no file was deleted"):
        check_refs_intact(catalog, committed)

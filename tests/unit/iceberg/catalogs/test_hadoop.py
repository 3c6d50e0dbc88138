from __future__ import annotations

import gzip
import json

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    StorageError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.table_metadata import MetadataLogEntry
from lakemeta.storage import LocalStorage


@pytest.fixture
def table(tmp_path) -> SmallTable:
    return create_table(LocalStorage(), str(tmp_path / "t"))


def hint(table: SmallTable, data: bytes | None = None) -> bytes:
    path = f"{table.root}/metadata/version-hint.text"
    if data is not None:
        table.storage.replace(path, data)
    return table.storage.read(path)


def opened(table: SmallTable) -> HadoopTableOperations:
    return HadoopTableOperations(table.storage, table.root)


def test_the_hint_is_plain_digits(table):
    """After a commit the hint holds the version without a newline."""
    table.append([(1, "a", 0.5)])
    assert hint(table) == b"2"


@pytest.mark.parametrize("data", [b"1", b"2\n", b"what", b"", b"9" * 400, b"-1"])
def test_hints_that_are_behind_or_unreadable_are_survived(table, data):
    """The newest version is found by looking for the next one."""
    table.append([(1, "a", 0.5)])
    table.append([(2, "a", 0.5)])
    hint(table, data)
    assert opened(table).current().version == 3


def test_a_missing_hint_is_survived(table):
    """Without a hint the directory is listed for the highest version."""
    table.append([(1, "a", 0.5)])
    table.storage.delete_many([f"{table.root}/metadata/version-hint.text"])
    assert opened(table).current().version == 2


def test_a_hint_that_is_ahead_is_an_error(table):
    """A hint at a version that is not there is refused, as Iceberg refuses it."""
    hint(table, b"99")
    with pytest.raises(CorruptMetadataError, match="metadata file for version 99 is missing under"):
        opened(table).current()


def test_a_garbage_next_version_is_refused(table):
    """A version that does not parse fails the load; it is not skipped."""
    table.storage.create(f"{table.root}/metadata/v2.metadata.json", b'{"not": "metadata"}')
    with pytest.raises(CorruptMetadataError, match=r"v2\.metadata\.json"):
        opened(table).current()


def test_no_table_is_not_found(tmp_path):
    """A directory without metadata is no table."""
    with pytest.raises(TableNotFoundError):
        HadoopTableOperations(LocalStorage(), str(tmp_path)).current()


def test_another_writers_version_is_a_conflict(table):
    """Of two commits on one version the second changes nothing."""
    first, second = opened(table), opened(table)
    base, stale = first.current(), second.current()
    first.commit(base, base.metadata)
    before = hint(table)
    with pytest.raises(CommitConflictError, match="version 2"):
        second.commit(stale, stale.metadata)
    assert hint(table) == before
    assert opened(table).current().version == 2


def test_a_commit_based_on_an_older_load_is_a_conflict(table):
    """What was loaded before the last refresh can't be committed."""
    operations = opened(table)
    base = operations.current()
    table.append([(1, "a", 0.5)])
    operations.refresh()
    with pytest.raises(CommitConflictError, match="older version"):
        operations.commit(base, base.metadata)


@pytest.mark.parametrize("name", ["v2.gz.metadata.json", "v2.metadata.json.gz"])
def test_a_version_under_a_compressed_name_counts(table, name):
    """A next version takes the number, whatever its compression; the old spelling of the name is read as well."""
    data = table.storage.read(f"{table.root}/metadata/v1.metadata.json")
    operations = opened(table)
    base = operations.current()
    table.storage.create(f"{table.root}/metadata/{name}", gzip.compress(data))
    with pytest.raises(CommitConflictError):
        operations.commit(base, base.metadata)
    assert operations.refresh().version == 2


def test_gzip_metadata_gets_the_gzip_name(tmp_path):
    """write.metadata.compression-codec=gzip writes vN.gz.metadata.json."""
    properties = {"write.metadata.compression-codec": "gzip"}
    table = create_table(LocalStorage(), str(tmp_path / "t"), properties=properties)
    table.append([(1, "a", 0.5)])
    data = table.storage.read(f"{table.root}/metadata/v2.gz.metadata.json")
    assert json.loads(gzip.decompress(data))["last-sequence-number"] == 1
    assert opened(table).current().version == 2


def test_an_unknown_codec_is_refused(table):
    """A codec nobody knows is named before anything is written."""
    base = table.operations.current()
    unknown = {"write.metadata.compression-codec": "zip"}
    with pytest.raises(UnsupportedFeatureError, match="zip"):
        table.operations.commit(base, type(base.metadata)(**{**_fields(base.metadata), "properties": unknown}))
    assert opened(table).current().version == 1


def _fields(metadata):
    import attrs

    return attrs.asdict(metadata, recurse=False)


def test_old_metadata_files_go_if_the_table_says_so(tmp_path):
    """With delete-after-commit only previous-versions-max files and the current one stay."""
    properties = {
        "write.metadata.delete-after-commit.enabled": "true",
        "write.metadata.previous-versions-max": "2",
    }
    table = create_table(LocalStorage(), str(tmp_path / "t"), properties=properties)
    for i in range(5):
        table.append([(i, "a", 0.5)])
    names = sorted(p.name for p in (tmp_path / "t" / "metadata").glob("v*.json"))
    assert names == ["v4.metadata.json", "v5.metadata.json", "v6.metadata.json"]


@pytest.mark.parametrize(
    "named",
    [
        "/etc/precious.json",
        "{root}/../precious/v1.metadata.json",
        "{root}/metadata/../data/v1.metadata.json",
        "{root}/metadata/deep/v1.metadata.json",
        "{root}/metadata/snap-1-1-x.avro",
        "{root}/metadata/version-hint.text",
        "{root}/metadata/v2.metadata.json",
        "{root}/metadata/v3.metadata.json",
        "{root}/metadata/vx.metadata.json",
        "{root}/metadata/",
        "s3://bucket/t/metadata/v1.metadata.json",
        "",
    ],
)
def test_a_metadata_log_of_other_files_is_refused(tmp_path, named):
    """Only earlier metadata files of the table itself can be deleted: any other name refuses the commit, early too."""
    table = create_table(LocalStorage(), str(tmp_path / "t"))
    base = table.operations.current()
    log = (MetadataLogEntry(1, named.format(root=base.metadata.location)), *base.metadata.metadata_log)
    properties = {"write.metadata.delete-after-commit.enabled": "true"}
    table.operations.commit(base, attrs.evolve(base.metadata, metadata_log=log))
    base = table.operations.refresh()
    table.operations.check_writable()
    asking = attrs.evolve(base.metadata, metadata_log=(), properties=properties)
    before = {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()}
    with pytest.raises(CorruptMetadataError, match=r"no earlier metadata file of it.*set that property to false"):
        table.operations.commit(base, asking)
    assert {path: path.read_bytes() for path in tmp_path.rglob("*") if path.is_file()} == before
    (tmp_path / "t/metadata/v3.metadata.json").write_bytes(
        dump_metadata(attrs.evolve(base.metadata, properties=properties))
    )
    table.operations.refresh()
    if named != "{root}/metadata/v2.metadata.json":  # which is an earlier one by now
        with pytest.raises(CorruptMetadataError, match="no earlier metadata file"):
            table.operations.check_writable()


def test_metadata_files_from_a_catalog_may_go(tmp_path):
    """A table that a catalog once kept has names of its own in its log, in any spelling of the table's place."""
    root = tmp_path / "t"
    table = create_table(LocalStorage(), str(root))
    old = root / "metadata" / "00003-0b0b0b0b-0000-4000-8000-000000000000.gz.metadata.json"
    old.write_text("{}")
    base = table.operations.current()
    properties = {"write.metadata.delete-after-commit.enabled": "true"}
    new = attrs.evolve(base.metadata, metadata_log=(MetadataLogEntry(1, f"file://{old}"),), properties=properties)
    table.operations.commit(base, new)
    base = table.operations.refresh()
    table.operations.commit(base, attrs.evolve(base.metadata, metadata_log=()))
    assert not old.exists()


def test_a_moved_table_takes_no_commits(tmp_path):
    """A table whose metadata names another place can be read, and refuses to be written there."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), location="/elsewhere/t")
    assert table.operations.current().metadata.location == "/elsewhere/t"
    with pytest.raises(UnsupportedFeatureError, match="/elsewhere/t"):
        table.operations.check_writable()


def test_a_replaced_table_is_noticed(table):
    """A new table under an old handle is not taken for the next version."""
    import attrs

    operations = opened(table)
    base = operations.current()
    other = attrs.evolve(base.metadata, table_uuid="another")
    opened_too = opened(table)
    opened_too.commit(opened_too.current(), other)
    with pytest.raises(CorruptMetadataError, match="replaced by another"):
        operations.refresh()


class Unreliable(WrappedStorage):
    """Creates metadata and then says that it failed, or fails and does nothing."""

    def __init__(self, inner, *, arrives: bool, scheme: str = "s3") -> None:
        super().__init__(inner)
        self.arrives, self._scheme = arrives, scheme

    @property
    def scheme(self) -> str:
        return self._scheme

    def create(self, path, data) -> None:
        if self.arrives:
            self.inner.create(path, data)
        raise StorageError("the connection broke")


def unreliable(table, **how) -> HadoopTableOperations:
    return HadoopTableOperations(Unreliable(table.storage, **how), table.root)


def test_a_lost_answer_is_made_up_for_by_reading_back(table):
    """If the version is there with our content, the commit happened."""
    operations = unreliable(table, arrives=True)
    base = operations.current()
    operations.commit(base, base.metadata)
    assert opened(table).current().version == 2


def test_a_distant_store_that_failed_leaves_the_state_unknown(table):
    """A request to a distant store may still arrive after it failed."""
    operations = unreliable(table, arrives=False)
    base = operations.current()
    with pytest.raises(CommitStateUnknownError, match="may still appear"):
        operations.commit(base, base.metadata)


def test_a_local_failure_is_a_sure_one(table):
    """On a local disk nothing is under way once a call has failed."""
    operations = unreliable(table, arrives=False, scheme="file")
    base = operations.current()
    with pytest.raises(StorageError, match="connection"):
        operations.commit(base, base.metadata)


def test_a_hint_that_cannot_be_moved_does_not_undo_the_commit(table, caplog):
    """The version is there; the next reader finds it by looking for it."""

    class NoHints(WrappedStorage):
        def replace(self, path, data):
            raise StorageError("read-only")

    operations = HadoopTableOperations(NoHints(table.storage), table.root)
    base = operations.current()
    operations.commit(base, base.metadata)
    assert "version 2 is committed, but version-hint.text could not be moved" in caplog.text
    assert hint(table) == b"1"
    assert opened(table).current().version == 2


def test_a_metadata_path_needs_a_catalog(tmp_path):
    """A table whose metadata lies elsewhere can't be found by its directory, so it is not written by it."""
    table = create_table(LocalStorage(), str(tmp_path / "t"), properties={"write.metadata.path": "/m"})
    with pytest.raises(UnsupportedFeatureError, match=r"write\.metadata\.path"):
        table.operations.check_writable()

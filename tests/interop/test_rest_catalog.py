"""Commits through pyiceberg's REST client, whose answers are lost, cut off or errors: known, refused or unknown."""

from __future__ import annotations

import os
import pickle
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from types import SimpleNamespace

import attrs
import pyarrow as pa
import pytest
from contract.s3_server import S3Server, s3_server
from contract.s3_server import error as s3_error
from pyiceberg.catalog import load_catalog
from pyiceberg.catalog.sql import SqlCatalog
from requests.adapters import HTTPAdapter
from support.iceberg_checker import TableState
from support.iceberg_tables import still_env
from support.rest_catalog import RestCatalogServer, answered, cut_off, lost, repeated, rest_catalog

from lakemeta.errors import (
    CatalogError,
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    OptionError,
    TableNotFoundError,
    UnsupportedFeatureError,
)
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.pyiceberg_catalog import CatalogTableOperations
from lakemeta.iceberg.catalogs.vended import Vended, storage_options
from lakemeta.iceberg.spec.table_metadata import SnapshotRef
from lakemeta.storage import open_storage

pytestmark = [pytest.mark.slow, pytest.mark.filterwarnings("default")]

ALL = {"rewrite-all": "true"}


@pytest.fixture(scope="module")
def warehouse(tmp_path_factory):
    return tmp_path_factory.mktemp("rest")


@pytest.fixture(scope="module")
def kept(warehouse) -> SqlCatalog:
    """The catalog behind the server, with a table of three files."""
    catalog = SqlCatalog("kept", uri=f"sqlite:///{warehouse}/catalog.db", warehouse=f"file://{warehouse}/warehouse")
    catalog.create_namespace("db")
    return catalog


@pytest.fixture(scope="module")
def running(kept):
    with rest_catalog(kept) as server:
        yield server


@pytest.fixture
def server(running) -> RestCatalogServer:
    running.faults, running.commits, running.config = [], [], {}
    return running


@pytest.fixture
def table(kept):
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64()), "p": ["a", "b", "c"]})
    table = kept.create_table(f"db.t{len(kept.list_tables('db'))}", rows.schema)
    for _ in range(2):
        table.append(rows)
    return table


def opened(server: RestCatalogServer, table) -> IcebergTable:
    return IcebergTable.open(f"catalog://rest/{'.'.join(table.name())}", {"type": "rest", "uri": server.uri})


def state(table) -> TableState:
    return TableState(table.refresh().metadata_location)


AFTER = {
    **{f"{code} after the commit": answered(code, after=True) for code in (500, 503, 408)},
    "a lost answer": lost(after=True),
    "half an answer": cut_off,
}
BEFORE = {
    **{f"{code} before the commit": answered(code, after=False) for code in (502, 504, 499)},
    "a lost request": lost(after=False),
}
REFUSED = {code: answered(code, after=False) for code in (400, 403, 404)}
CONFLICTS = {code: answered(code, after=False) for code in (409, 429)}


def test_what_an_error_of_a_commit_means(server, table):
    """5xx, time-outs, broken connections and unreadable answers are unknown, 409 and 429 conflicts, else refused."""
    operations = CatalogTableOperations(load_catalog("rest", type="rest", uri=server.uri), table.name())
    faults = [(name, fault, CommitStateUnknownError) for name, fault in {**AFTER, **BEFORE}.items()]
    faults += [(str(code), fault, CatalogError) for code, fault in REFUSED.items()]
    faults += [(str(code), fault, CommitConflictError) for code, fault in CONFLICTS.items()]
    for name, fault, expected in faults:
        base = operations.refresh()
        tag = SnapshotRef(base.metadata.snapshots[0].snapshot_id, "tag")
        server.faults = [fault]
        with pytest.raises(expected) as raised:
            operations.commit(base, attrs.evolve(base.metadata, refs={**base.metadata.refs, name: tag}))
        assert type(raised.value) is expected
        assert str(raised.value).count("\n") == 0
        assert len(str(raised.value)) < 500
        assert (name in operations.refresh().metadata.refs) == (name in AFTER), name


def files(warehouse) -> set[str]:
    return {str(path) for path in warehouse.rglob("*") if path.suffix in (".parquet", ".avro")}


@pytest.mark.parametrize("fault", [lost(after=True), cut_off, repeated], ids=["lost", "cut off", "repeated"])
def test_a_commit_whose_answer_was_lost_is_found_by_reading_again(server, table, fault):
    """The rewrite has happened: it is reported so, is tried no second time, and none of its files is removed."""
    before = state(table).rows()
    server.faults = [fault]
    ours = opened(server, table)
    report = ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env())
    assert report.committed == str(table.refresh().current_snapshot().snapshot_id)
    assert len(server.commits) == 1
    assert state(table).rows() == before


def test_a_commit_that_nobody_knows_of_removes_nothing(server, table, warehouse):
    """The request may still be on its way to the catalog, so every file stays; a next run works."""
    rows, before = state(table).rows(), files(warehouse)
    server.faults = [lost(after=False)]
    ours = opened(server, table)
    with pytest.raises(CommitStateUnknownError, match=r"did not say whether .* look at the table"):
        ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env())
    assert {name.rpartition(".")[2] for name in files(warehouse) - before} == {"parquet", "avro"}
    ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env(1))
    assert state(table).rows() == rows


def test_a_refused_commit_leaves_no_file(server, table, warehouse):
    """Another try would be refused again, so there is one; what was written is removed."""
    before = files(warehouse)
    server.faults = [REFUSED[403]]
    ours = opened(server, table)
    with pytest.raises(CatalogError, match=r"refused the commit to db\.t\d+, and nothing was changed: .*proxy"):
        ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env())
    assert files(warehouse) == before
    assert len(server.commits) == 1


def test_a_conflict_is_tried_again(server, table):
    """Throttled, then in conflict: the third attempt is taken."""
    server.faults = [CONFLICTS[429], CONFLICTS[409]]
    ours = opened(server, table)
    ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env())
    assert len(server.commits) == 3
    assert table.refresh().current_snapshot().summary.operation.value == "replace"


EXPIRE = {"older_than": "2100-01-01T00:00:00Z", "retain_last": "1"}


def test_a_tag_made_while_its_snapshot_expires_keeps_the_files(server, kept, table, warehouse):
    """No requirement of the commit knows it, and the catalog removes it silently; so nothing is deleted."""
    first = table.snapshots()[0].snapshot_id
    before = files(warehouse)

    def tagged_first(proceed):
        kept.load_table(table.name()).manage_snapshots().create_tag(first, "new").commit()
        return proceed()

    server.faults = [tagged_first]
    ours = opened(server, table)
    report = ours.apply(ours.plan("expire-snapshots", EXPIRE), env=still_env())
    assert "lost its ref new" in report.notes[0]
    assert "no file was deleted" in report.notes[0]
    assert files(warehouse) >= before
    assert set(table.refresh().refs()) == {"main"}


def test_no_request_waits_for_ever(server, table, monkeypatch):
    """pyiceberg gives no time-out to its HTTP client, so a server that hangs would hang lakemeta."""
    waits = []
    send = HTTPAdapter.send

    def seen(self, *args, **options):
        waits.append(options["timeout"])
        return send(self, *args, **options)

    monkeypatch.setattr(HTTPAdapter, "send", seen)
    ours = opened(server, table)
    waits.clear()  # the catalog's configuration is asked for by a client that nobody can reach
    ours.inspect()
    assert waits == [(30.0, 600.0)] * len(waits) != []


def test_an_expiration_beside_an_append_is_tried_again(server, kept, table):
    """main has moved since it was read, which the commit requires not to be; on the newer version it is fine."""

    def appended_first(proceed):
        kept.load_table(table.name()).append(pa.table({"id": pa.array([9], pa.int64()), "p": ["z"]}))
        return proceed()

    server.faults = [appended_first]
    ours = opened(server, table)
    ours.apply(ours.plan("expire-snapshots", EXPIRE), env=still_env())
    assert len(server.commits) == 2
    assert len(table.refresh().snapshots()) == 2
    assert len(state(table).rows()) == 7


def test_another_table_of_the_same_name_is_not_changed(server, kept, table):
    """Dropped and made anew while it was open: the uuid is another one."""
    ours = opened(server, table)
    plan = ours.plan_rewrite_data_files(ALL)
    kept.drop_table(table.name())
    kept.create_table(table.name(), table.schema()).append(pa.table({"id": pa.array([9], pa.int64()), "p": ["z"]}))
    with pytest.raises(CorruptMetadataError, match="was replaced by another one while it was open"):
        ours.apply(plan)
    assert server.commits == []


def test_a_catalog_without_metadata_files_is_refused(kept, table, monkeypatch):
    """The metadata is read from its file, so there must be one."""
    table.metadata_location = None
    monkeypatch.setattr(kept, "load_table", lambda _: table)
    with pytest.raises(UnsupportedFeatureError, match=r"names no metadata file of db\.t"):
        IcebergTable.of(table)


def test_an_expiration_whose_answer_was_lost_deletes_as_planned(server, table, warehouse):
    """It has no snapshot to be known by: that nothing is left of what was to go says that it has happened."""
    before = files(warehouse)
    server.faults = [lost(after=True)]
    ours = opened(server, table)
    report = ours.apply(ours.plan("expire-snapshots", EXPIRE), env=still_env())
    assert report.deleted_files == len(before - files(warehouse)) == 1
    assert len(table.refresh().snapshots()) == 1
    assert len(state(table).rows()) == 6


@pytest.mark.parametrize(
    ("url", "options", "kind", "message"),
    [
        ("catalog://rest/db.nope", {}, TableNotFoundError, r"the catalog rest has no table db\.nope"),
        ("catalog://rest/t", {}, OptionError, "write catalog://NAME/namespace.table"),
        (
            "catalog://rest/db.t",
            {"uri": "http://127.0.0.1:9"},
            CatalogError,
            r"no connection to http://127\.0\.0\.1:9/.*",
        ),
        ("catalog://rest/db.t", {"type": "none"}, OptionError, "the catalog rest is not configured: 'none' is not a"),
        (
            "catalog://rest/db.t",
            {"type": "sql", "uri": "sqlite:////none/c.db"},
            CatalogError,
            "unable to open database",
        ),
        ("catalog://rest/db.t", {"type": "sql", "uri": "nosql://x"}, CatalogError, "nosql"),
        ("catalog://rest/db.t", {"type": "hive", "uri": "thrift://127.0.0.1:9"}, OptionError, "pyiceberg.hive."),
    ],
)
def test_a_catalog_that_cannot_be_asked_is_one_sentence(server, url, options, kind, message):
    """What is wrong and where, without pages of instructions of the libraries in between."""
    with pytest.raises(kind, match=message) as raised:
        IcebergTable.open(url, {"type": "rest", "uri": server.uri, **options})
    assert type(raised.value) is kind
    assert len(str(raised.value)) < 300


def test_a_package_that_pyiceberg_misses_is_named(tmp_path, monkeypatch):
    """SQL catalogs need SQLAlchemy, which pyiceberg does not install by itself."""
    monkeypatch.setitem(sys.modules, "pyiceberg.catalog.sql", None)
    with pytest.raises(
        OptionError, match="the catalog lake needs a package that is not installed: SQLAlchemy support not"
    ):
        IcebergTable.open("catalog://lake/db.t", {"type": "sql", "uri": f"sqlite:///{tmp_path}/c.db"})


@pytest.mark.slow
def test_a_configuration_that_cannot_be_read_is_named(tmp_path):
    """pyiceberg reads .pyiceberg.yaml when it is imported, and fails then."""
    Path(tmp_path, ".pyiceberg.yaml").write_text("catalog: [")
    done = subprocess.run(
        [sys.executable, "-m", "lakemeta", "inspect", "catalog://lake/db.t"],
        env={**os.environ, "PYICEBERG_HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 2
    assert f"correct {tmp_path}/.pyiceberg.yaml" in done.stderr
    assert "Traceback" not in done.stderr


class Vending:
    """A catalog that vends credentials for an hour, and a store that takes those that are ``good``."""

    def __init__(self, catalog: RestCatalogServer, store: S3Server) -> None:
        self.catalog, self.store, self.now = catalog, store, 1_800_000_000.0
        self.good = ""
        store.faults.append(self._refuse_others)

    def vend(self, key: str) -> None:
        """Give these keys from now on, and take no others."""
        self.good = key
        expires = str(int(self.now * 1000) + 3_600_000)
        vended = {"s3.access-key-id": key, "s3.session-token-expires-at-ms": expires}
        self.catalog.config = {**self.store.options, **vended}

    def _refuse_others(self, request):
        used = request.headers["authorization"].split("Credential=")[1].split("/")[0]
        return None if used == self.good else s3_error(400, "ExpiredToken")


def moment(seconds):
    return datetime.fromtimestamp(seconds, UTC)


@pytest.fixture
def vending(server, monkeypatch):
    with s3_server("lake") as store:
        vending = Vending(server, store)
        monkeypatch.setattr("lakemeta.iceberg.catalogs.vended.utc_now", lambda: moment(vending.now))
        yield vending


@pytest.mark.slow
def test_vended_credentials_are_renewed_before_they_end(server, table, vending):
    """The catalog is asked for others, the store is reached with them, and a copy for a worker has them, too."""
    catalog = load_catalog("rest", type="rest", uri=server.uri)
    vending.vend("first")
    vended = Vended(lambda: catalog.load_table(table.name()), catalog.load_table(table.name()))
    storage, path = open_storage("s3://lake/t/x", vended.options, vended.renewed)
    storage.create(path, b"one")
    vending.now += 3_400
    vending.vend("second")
    assert storage.read(path) == b"one"
    assert pickle.loads(pickle.dumps(storage)).read(path) == b"one"
    assert "second" not in repr(storage)


def test_credentials_that_are_not_renewed_are_used_as_long_as_they_are_good(monkeypatch):
    """Asked for five minutes before they end; after no answer again half a minute later, not before every request."""
    now = [1_800_000_000.0]
    monkeypatch.setattr("lakemeta.iceberg.catalogs.vended.utc_now", lambda: moment(now[0]))
    answers = [CatalogError("it does not answer"), "second"]

    def given(key):
        expires = str(int(now[0] * 1000) + 3_600_000)
        properties = {"s3.access-key-id": key, "s3.session-token-expires-at-ms": expires}
        return SimpleNamespace(io=SimpleNamespace(properties=properties))

    def load():
        found = answers.pop(0)
        if isinstance(found, Exception):
            raise found
        return given(found)

    vended = Vended(load, given("first"))
    seen = []
    for seconds in (0, 3_299, 1, 29, 1, 3_000):
        now[0] += seconds
        seen += [vended.renewed()["s3.access-key-id"] for _ in range(2)]
    assert seen == ["first"] * 8 + ["second"] * 4
    assert not answers


@pytest.mark.slow
def test_a_table_on_s3_is_rewritten_with_what_the_catalog_vends(server, kept, vending, warehouse):
    """The caller gives no option of the store; the catalog's own keys never get out."""
    keys = {**vending.store.options, "s3.access-key-id": "own"}
    vending.good = "own"
    uri = f"sqlite:///{warehouse}/s3.db"
    own = SqlCatalog("own", uri=uri, warehouse="s3://lake/w", **keys)
    own.create_namespace("db")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = own.create_table("db.t", rows.schema)
    for _ in range(3):
        table.append(rows)
    taken = {"own", "vended"}
    vending.store.faults[:] = [
        lambda r: None if any(k in r.headers["authorization"] for k in taken) else s3_error(403, "x")
    ]
    with rest_catalog(own) as server:
        server.config = {**keys, "s3.access-key-id": "vended"}
        ours = opened(server, table)
        ours.apply(ours.plan_rewrite_data_files(ALL), env=still_env())
    assert len(table.refresh().scan().to_arrow()) == 9
    assert table.current_snapshot().summary.operation.value == "replace"


@pytest.mark.parametrize(
    ("properties", "options"),
    [
        ({"client.region": "eu", "s3.access-key-id": "a", "other": "x"}, {"s3.region": "eu", "s3.access-key-id": "a"}),
        ({"client.region": "eu", "s3.region": "us"}, {"s3.region": "us"}),
        ({"s3.endpoint": "http://e"}, {"s3.endpoint": "http://e", "s3.path-style-access": "true"}),
        ({"s3.endpoint": "http://e", "s3.force-virtual-addressing": "true"}, {"s3.endpoint": "http://e"}),
        (
            {"s3.endpoint": "http://e", "s3.path-style-access": False},
            {"s3.endpoint": "http://e", "s3.path-style-access": "false"},
        ),
        ({"s3.profile-name": "p", "s3.signer": "X", "s3.session-token": None}, {"s3.profile-name": "p"}),
    ],
)
def test_options_of_the_store_have_names_of_pyiceberg(properties, options):
    """Names of s3.* win over client.*, and what lakemeta does not use is left out; each is an option of the store."""
    assert storage_options(properties) == options
    open_storage("s3://lake/t", options)


def test_a_catalog_that_signs_requests_is_refused_by_name():
    """Without credentials nothing but the catalog can reach the files."""
    with pytest.raises(UnsupportedFeatureError, match=r"signs requests to S3 .* have it vend"):
        storage_options({"s3.signer": "S3V4RestSigner", "s3.region": "eu"})

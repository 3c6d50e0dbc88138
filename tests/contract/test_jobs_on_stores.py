"""Recorded tables and whole lives of small ones on servers of every object store, and what they cost in requests."""

from __future__ import annotations

import itertools
import math
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from contract.store_servers import SERVERS, StoreServer
from support.hudi_cases import load_cases
from support.iceberg_cases import DATA, relocate, unpack
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env
from support.served_tables import fill, served

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.storage import Storage

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()
HUDI = (
    "0.15.0__cow__versions2",
    "1.2.0__mor__commits2",
    "1.2.0__delete_partition__versions1",
    "1.2.0__replace_overwrite__table_commits1",
)
ICEBERG = {
    "pos_deletes_v2": {"rewrite-all": "true", "remove-dangling-deletes": "true"},
    "v3_dv_lineage": {"rewrite-all": "true"},
    "sort_order_v2": {"rewrite-all": "true", "strategy": "sort"},
}
EXPIRE = "expire_dv_a"
LATER = datetime(2030, 1, 1, tzinfo=UTC)


@pytest.fixture(scope="module", params=sorted(SERVERS))
def server(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[StoreServer]:
    with SERVERS[request.param](tmp_path_factory.mktemp(request.param)) as running:
        yield running


@pytest.fixture
def name() -> str:
    return f"{next(_NUMBERS)}/t"


def upload(storage: Storage, root: str, folder: Path) -> None:
    for path in sorted(folder.rglob("*")):
        if path.is_file():
            storage.replace(f"{root}/{path.relative_to(folder).as_posix()}", path.read_bytes())


def state(storage: Storage, root: str) -> TableState:
    """The newest version, read with nothing of ours but the requests."""
    names = [e.path for e in storage.list_dir(f"{root}/metadata") if e.name.endswith(".metadata.json")]
    newest = max(names, key=lambda path: int(path.rpartition("/v")[2].partition(".")[0]))
    return TableState(storage.url(newest), lambda path: storage.read(store_path(storage.scheme, path)))


@pytest.mark.parametrize("case", HUDI)
def test_recorded_cleans(server: StoreServer, name: str, case: str, tmp_path: Path) -> None:
    """What Hudi left of a table on a disk is what we leave of it here; another spelling opens it."""
    recorded = load_cases()[case]
    recorded.unpack(tmp_path)
    storage, root = server.open(name)
    upload(storage, root, tmp_path)
    table = HudiTable.open(f"{server.spellings[0]}/{name}", server.options)
    plan = table.plan_clean(recorded.options, now=recorded.now)
    report = table.apply(plan, env=Environment(lambda: recorded.now))
    assert report.complete
    left = {entry.path[len(root) + 1 :] for entry in storage.walk(root)}
    assert {path for path in left if not path.startswith(".hoodie/")} == recorded.left_files()
    assert table.plan_clean(recorded.options, now=recorded.now).is_empty


@pytest.mark.parametrize("case", ICEBERG)
def test_recorded_rewrites(server: StoreServer, name: str, case: str, tmp_path: Path) -> None:
    """A table that the engine wrote is rewritten: its rows stay, and another spelling of its URL opens it."""
    folder = unpack(case, tmp_path).table
    relocate(folder, f"{server.url}/{name}")
    storage, root = server.open(name)
    upload(storage, root, folder)
    rows = state(storage, root).rows()
    table = IcebergTable.open(f"{server.spellings[0]}/{name}", server.options)
    report = table.apply(table.plan_rewrite_data_files(ICEBERG[case]), env=still_env(1))
    assert report.result["rewritten_data_files_count"] > 0
    assert state(storage, root).rows() == rows


def test_recorded_expire(server: StoreServer, name: str, tmp_path: Path) -> None:
    """Old snapshots of a table that the engine wrote go, with their files; nothing that is needed does."""
    folder = unpack(EXPIRE, tmp_path, DATA.with_name("iceberg_expire")).table
    relocate(folder, f"{server.url}/{name}")
    storage, root = server.open(name)
    upload(storage, root, folder)
    rows = state(storage, root).rows()
    table = IcebergTable.open(f"{server.url}/{name}", server.options)
    options = {"older_than": "2100-01-01", "clean_expired_metadata": "true"}
    report = table.apply(table.plan("expire-snapshots", options, now=LATER), env=still_env(1), now=LATER)
    assert report.complete
    assert report.deleted_files > 0
    assert state(storage, root).rows() == rows


@pytest.mark.parametrize("version", [2, 3])
def test_every_service(server: StoreServer, name: str, version: int) -> None:
    """All services of a table, each with work to do: the rows stay the same."""
    storage, root = server.open(name)
    small = create_table(storage, root, location=f"{server.url}/{name}", version=version, partitioned=True)
    fill(small)
    rows = state(storage, root).rows()
    table = IcebergTable.open(f"{server.spellings[-1]}/{name}", server.options)
    assert [service for service, plan in served(table) if plan.header.table]
    assert state(storage, root).rows() == rows


def test_orphans(server: StoreServer, name: str) -> None:
    """What no metadata names goes, whichever spelling opened the table; the rest stays."""
    storage, root = server.open(name)
    small = create_table(storage, root, location=f"{server.url}/{name}")
    small.append([(1, "a", 0.5)])
    gone = [f"{root}/data/x", f"{root}/data/a b#c?d", f"{root}/data/p=a/y"]
    for path in gone:
        storage.replace(path, b"x")
    rows = state(storage, root).rows()
    later = datetime.now(UTC) + timedelta(days=5)
    for url in server.spellings:
        table = IcebergTable.open(f"{url}/{name}", server.options)
        plan = table.plan("remove-orphan-files", {}, now=later)
        assert {op.path for op in plan.operations} == {path.removeprefix(f"{root}/") for path in gone}
    assert table.apply(plan, env=Environment(now=lambda: later)).deleted_files == len(gone)
    assert not any(map(storage.exists, gone))
    assert state(storage, root).rows() == rows


def test_an_expire_is_as_many_deletions_as_keys_need(server: StoreServer, name: str) -> None:
    """n files take n / (keys a request) deletions, and what is listed does not grow with them."""
    storage, root = server.open(name)
    small = create_table(storage, root, location=f"{server.url}/{name}")
    lists = []
    for count in (3, 12):
        for _ in range(count):
            small.append([(1, "a", 0.5)])
            small.remove(small.data_files()[0])
        small.append([(1, "a", 0.5)])
        table = IcebergTable.open(f"{server.url}/{name}", server.options)
        report = table.apply(table.plan("expire-snapshots", {"older_than": "2100-01-01"}))
        assert report.deleted_files > 3 * count
        assert report.requests["DELETE"] <= math.ceil(report.deleted_files / storage.keys_a_request) + 4  # a door each
        lists.append(report.requests["LIST"])
    assert lists[1] <= lists[0]

"""Hadoop tables on S3: the conditional put is the commit, so writers that meet lose nothing."""

from __future__ import annotations

import itertools
import threading
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from contract.s3_server import S3Server, s3_server
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.environment import Environment
from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.doors import LEDGERS
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.store

_NUMBERS = itertools.count()


@pytest.fixture(scope="module")
def running() -> Iterator[S3Server]:
    with s3_server("lake") as server:
        yield server


@pytest.fixture
def server(running: S3Server) -> Iterator[S3Server]:
    running.reset()
    yield running
    running.reset()


@pytest.fixture
def url() -> str:
    return f"s3://lake/{next(_NUMBERS)}/t"


@pytest.fixture
def small(server: S3Server, url: str) -> SmallTable:
    storage, root = open_storage(url, server.options)
    return create_table(storage, root, location=url)


def state(small: SmallTable) -> TableState:
    version = small.operations.refresh().version
    return TableState(
        f"s3://{small.root}/metadata/v{version}.metadata.json",
        lambda path: small.storage.read(path.removeprefix("s3://")),
    )


def test_a_table_is_rewritten(small, server, url):
    """Plan, rewrite and commit over HTTP; s3a paths in the metadata mean the same bucket."""
    for start in range(3):
        small.append([(start, "a", 0.5)])
    small.delete_positions(small.data_files()[0], [0])
    rows = state(small).rows()
    table = IcebergTable.open(url.replace("s3:", "s3a:"), server.options)
    report = table.apply(table.plan_rewrite_data_files({"rewrite-all": "true"}))
    assert report.result["rewritten_data_files_count"] == 3
    assert state(small).rows() == rows
    assert len(state(small).live(0)) == 1


def test_snapshots_expire(small, server, url):
    """What no snapshot names is gone from the bucket, and nothing else; s3a paths mean the same bucket."""
    for start in range(3):
        small.append([(start, "a", 0.5)])
    small.remove(small.data_files()[0])
    small.overwrite(small.data_files()[0], [(7, "a", 7.5)])
    rows = state(small).rows()
    table = IcebergTable.open(url.replace("s3:", "s3a:"), server.options)
    report = table.apply(table.plan("expire-snapshots", {"older_than": "2100-01-01"}))
    assert report.complete
    assert report.result["deleted_data_files_count"] == 2
    assert state(small).rows() == rows
    present = {f"s3://{entry.path}" for entry in small.storage.walk(small.root)}
    others = {path for path in present if path.endswith((".metadata.json", "version-hint.text")) or LEDGERS in path}
    assert present - others == state(small).needed()


def test_writers_that_meet(small, server, url):
    """Appenders and a compactor at once: every append is there, once."""
    small.append([(1, "a", 0.5)], [(2, "a", 0.5)])

    def append(seed: int) -> None:
        writer = SmallTable(small.storage, small.root, seed=seed)
        for i in range(4):
            writer.append([(seed * 100 + i, "a", 0.5)])

    def compact() -> None:
        table = IcebergTable.open(url, server.options)
        for _ in range(2):
            try:
                table.apply(table.plan_rewrite_data_files({"rewrite-all": "true"}))
            except (CommitConflictError, StalePlanError):
                continue

    threads = [threading.Thread(target=append, args=(seed,)) for seed in (5, 6)] + [threading.Thread(target=compact)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(state(small).rows()) == 10


def test_orphan_files_on_s3(small, server, url):
    """Keys with empty parts are names of their own and stay; other tables' prefixes are not this one's."""
    small.append([(1, "a", 0.5)])
    storage, root = small.storage, small.root
    kept = [f"{root}//data/x", f"{root}/data//x", f"{root}2/data/x", f"{root}/data/_tmp/x"]
    gone = [f"{root}/data/x", f"{root}/data/a%2Fb", f"{root}/data/a b#c?d", f"{root}/data/p=a/y"]
    for path in (*kept, *gone):
        storage.replace(path, b"x")
    rows = state(small).rows()
    later = datetime.now(UTC) + timedelta(days=5)
    table = IcebergTable.open(url.replace("s3:", "s3a:"), server.options)
    plans = [
        table.plan("remove-orphan-files", {"prefix_listing": flat}, now=later, executor=LocalExecutor(threads))
        for flat, threads in (("true", 1), ("false", 1), ("false", 4))
    ]
    assert plans[0].operations == plans[1].operations
    assert plans[1] == plans[2]
    assert {op.path for op in plans[0].operations} == {path.removeprefix(f"{root}/") for path in gone}
    assert plans[0].header.facts["notes"] == [
        "2 files that no metadata names: each has a name that no plan can hold and stays"
    ]
    report = table.apply(plans[1], env=Environment(now=lambda: later))
    assert report.deleted_files == 4
    assert set(report.result["orphan_file_location"]) == {f"s3://{path}" for path in gone}
    assert not any(map(storage.exists, gone))
    assert all(map(storage.exists, kept))
    assert state(small).rows() == rows

"""Hadoop tables on S3: the conditional put is the commit, so writers that meet lose nothing."""

from __future__ import annotations

import itertools
import threading
from typing import TYPE_CHECKING

import pytest
from contract.s3_server import S3Server, s3_server
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.slow

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

"""A clean from end to end on an S3 server, over HTTP."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING

import pytest
from contract.s3_server import S3Server, s3_server

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable, sample
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator

pytestmark = pytest.mark.store

START = datetime(2026, 8, 1, tzinfo=UTC)
ONE = {"hoodie.clean.commits.retained": "1"}


@pytest.fixture(scope="module")
def server() -> Iterator[S3Server]:
    with s3_server("lake") as server:
        yield server


def write(server: S3Server, url: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The sample table takes a URL without options, so it is told where the server is."""
    monkeypatch.setattr(sample, "open_storage", lambda place: open_storage(place, server.options))
    table = sample.SampleTable(url, START)
    rows = [{"id": f"r{n}", "ts": n, "fare": 1.5} for n in range(3)]
    table.insert({"lima": rows, "lagos": rows})
    for _ in range(3):
        table.upsert({"lima": rows})
    table.insert_overwrite("lagos", rows)
    table.upsert({"lima": rows})


@pytest.mark.parametrize("scheme", ["s3", "s3a"])
def test_plan_clean_plan(server: S3Server, scheme: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Plan, apply, and the next plan is empty; the deletes are one bulk request a batch."""
    url = f"{scheme}://lake/{scheme}-trips"
    write(server, url, monkeypatch)
    table = HudiTable.open(url, server.options)
    plan = table.plan_clean(ONE, now=START + timedelta(days=1))
    assert (plan.header.table, plan.files) == (url, 4)
    server.requests.clear()
    report = table.apply(plan, env=Environment(lambda: START + timedelta(days=1)))
    assert report.complete
    assert report.result["total_files_deleted"] == 4
    assert sum(method == "POST" and "delete" in query for method, _, query in server.requests) == 1
    storage, root = open_storage(url, server.options)
    left = {entry.path for entry in storage.walk(root)}
    assert not left & {f"{root}/{op.path}" for op in plan.deletes()}
    again = table.plan_clean(ONE, now=START + timedelta(days=1))
    assert again.is_empty
    assert table.inspect().actions["clean"] == 1


def test_a_crash_before_the_deletes_is_completed(server: S3Server, monkeypatch: pytest.MonkeyPatch) -> None:
    """A scheduled clean is executed by the next run."""
    write(server, "s3://lake/scheduled", monkeypatch)
    table = HudiTable.open("s3://lake/scheduled", server.options)
    instant = table.schedule_clean(table.plan_clean(ONE), env=Environment(lambda: START + timedelta(days=1)))
    report = table.apply(table.plan_clean(ONE), env=Environment(lambda: START + timedelta(days=1)))
    assert report.result["cleans"] == [instant]
    assert report.deleted_files == 4

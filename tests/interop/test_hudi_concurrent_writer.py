"""The real Hudi writes a table while lakemeta cleans it, both under the shared lock file.

The engine upserts and reads in its own process, one after the other without a pause; lakemeta plans and cleans in a
loop, keeping as little as it may. A refusal of lakemeta's is fine if the next try heals it; an error of the engine's,
a row that is lost, or a metadata table that lists something else than storage has, is not. On a merge-on-read table
the engine compacts log files every other commit.
"""

from __future__ import annotations

import time
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from interop.hudi_engine import Engine, HudiEngines, HudiEngineTable
from support.sampling import some_of

from lakemeta.errors import CommitConflictError, LakemetaError, StalePlanError
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from lakemeta.report import Report

pytestmark = pytest.mark.engine

PAUSE = 0.2  # seconds between cleans: whoever waits for a lock file looks 20 times a second, in no order
COMMITS = {"COW": 8, "MOR": 6}
KEYS = [(f"{p}-{n}", p) for p in ("p1", "p2", "p3") for n in range(2)]
LOCK = {
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.write.lock.client.num_retries": "1200",
    "hoodie.write.lock.client.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.wait_time_ms_between_retry": "50",
    "hoodie.write.lock.num_retries": "1200",
}
ENGINE = {
    **LOCK,
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.archive.automatic": "true",
    "hoodie.keep.min.commits": "4",
    "hoodie.keep.max.commits": "6",
    "hoodie.metadata.compact.max.delta.commits": "5",
}
COMPACTION = {"hoodie.compact.inline": "true", "hoodie.compact.inline.max.delta.commits": "2"}
OURS = {
    **LOCK,
    "hoodie.clean.policy": "KEEP_LATEST_COMMITS",
    "hoodie.clean.commits.retained": "1",
    "hoodie.clean.failed.writes.policy": "LAZY",
}


RELEASES = ("1.2.0", "0.15.0")


@pytest.fixture(scope="module", params=RELEASES)
def engine(request: pytest.FixtureRequest, hudi_engines: HudiEngines) -> Engine:
    """The newest release of the newest table version, and the one of the oldest."""
    return hudi_engines.of(request.param)


def write_and_read(table: HudiEngineTable, commits: int) -> list[list[object]]:
    """Upsert a part of the keys again and again; after each, every row is as last written. The rows at the end."""
    last = {row[0]: row for row in table.rows()}
    for n in range(commits):
        keys = [key for i, key in enumerate(KEYS) if (i + n) % 3]
        table.write("upsert", keys)
        last |= {key: [key, p, f"{key}@{table.clock}", table.clock] for key, p in keys}
        assert table.rows() == sorted(last.values())
    return sorted(last.values())


def clean_until(writing: Future[list[list[object]]], root: str) -> tuple[list[Report], list[LakemetaError]]:
    """Clean in a loop until the writer is done: the reports of cleans that were made, and what was refused."""
    reports: list[Report] = []
    refusals: list[LakemetaError] = []
    while not writing.done():
        time.sleep(PAUSE)
        try:
            table = HudiTable.open(root)
            report = table.apply(table.plan_clean(OURS))
        except LakemetaError as refusal:
            refusals.append(refusal)
            continue
        if report.committed:
            reports.append(report)
    return reports, refusals


def on_storage(root: Path) -> dict[str, set[str]]:
    folders = {mark.parent for mark in root.rglob(".hoodie_partition_metadata*")} - {root / ".hoodie"}
    return {
        folder.name: {f.name for f in folder.iterdir() if f.suffix != ".crc" and "partition_metadata" not in f.name}
        for folder in folders
        if ".hoodie" not in folder.parts
    }


def listed(table: HudiEngineTable) -> dict[str, set[str]]:
    """What the engine's metadata table lists."""
    partitions = [row[0] for row in table.procedure_by_name("show_metadata_table_partitions")]
    return {
        p: {row[0] for row in table.procedure_by_name("show_metadata_table_files", f"partition => '{p}'")}
        for p in partitions
    }


_SHAPES = [(v, kind, metadata) for v in RELEASES for kind, metadata in (("COW", False), ("COW", True), ("MOR", True))]


@pytest.mark.parametrize(("engine", "kind", "metadata"), some_of(_SHAPES, (1, 2, 3, 5)), indirect=["engine"])
def test_a_writer_and_a_cleaner_at_once(engine: Engine, tmp_path: Path, kind: str, metadata: bool) -> None:
    """No row and no file is lost, neither side fails, and the metadata table says what storage says."""
    mor = kind == "MOR"
    options = ENGINE | COMPACTION if mor else ENGINE
    table = HudiEngineTable(engine, tmp_path / "t", mor=mor, metadata=metadata, **options)
    table.write("insert", KEYS)
    root = str(table.base)
    with ThreadPoolExecutor(1) as pool:
        writing = pool.submit(write_and_read, table, COMMITS[kind])
        reports, refusals = clean_until(writing, root)
        rows = writing.result()
    assert [r for r in refusals if not isinstance(r, StalePlanError | CommitConflictError)] == []
    assert all(report.complete for report in reports)
    assert sum(report.deleted_files for report in reports) > COMMITS[kind] // 2
    assert table.rows() == rows

    last = HudiTable.open(root)
    last.apply(last.plan_clean(OURS))
    assert last.plan_clean(OURS).is_empty
    assert table.rows() == rows
    if metadata:
        assert listed(table) == on_storage(table.base)
    assert not (table.base / ".hoodie/lock").exists()
    table.write("upsert", KEYS)
    assert len(table.rows()) == len(KEYS)

"""Partition statistics of recorded tables: rows and columns as real Iceberg 1.12 on Spark computed them."""

from __future__ import annotations

import json
from datetime import date, datetime
from typing import Any

import attrs
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from support.iceberg_cases import METADATA, Case, metadata_chains, recorded_actions, unpack
from support.iceberg_checker import TableState
from support.sampling import one_in

from lakemeta.errors import OptionError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.storage import LocalStorage

PARTITION_STATS = "compute-partition-stats"
CHAINS = metadata_chains("pstats_", ("compute_partition_stats", "expire_snapshots"))


@pytest.mark.parametrize(
    ("case", "names"), one_in(4, CHAINS, of=2), ids=[f"{case}-{names[0]}" for case, names in CHAINS]
)
def test_recorded_partition_stats(case, names, tmp_path):
    """Rows, columns with their ids, and which snapshots have statistics are the engine's; incremental ones too."""
    unpacked = unpack(case, tmp_path, METADATA)
    for name in names:
        expected = recorded_actions(case, METADATA)[name]
        if expected["action"]["procedure"] == "expire_snapshots":
            expire(unpacked, set(expected["diff"]["removed_snapshot_ids"]))
        else:
            check(unpacked, expected)


def expire(case: Case, gone: set[int]) -> None:
    """Take snapshots out of the metadata, as an expiration does."""

    def left(items: tuple) -> tuple:
        return tuple(item for item in items if item.snapshot_id not in gone)

    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    base = operations.refresh()
    names = ("snapshots", "snapshot_log", "statistics", "partition_statistics")
    changed = {name: left(getattr(base.metadata, name)) for name in names}
    operations.commit(base, attrs.evolve(base.metadata, **changed))


def check(case: Case, expected: dict) -> None:
    for step in expected["action"].get("setup") or []:
        operations = HadoopTableOperations(LocalStorage(), str(case.table))
        base = operations.refresh()
        kept = tuple(f for f in base.metadata.partition_statistics if f.snapshot_id != step["id"])
        operations.commit(base, attrs.evolve(base.metadata, partition_statistics=kept))
    options = {name: str(value) for name, value in expected["action"]["args"].items()}
    table, before = IcebergTable.open(str(case.table)), TableState.local(case.table).metadata
    if "error" in expected:
        with pytest.raises(OptionError) as refusal:
            table.plan(PARTITION_STATS, options)
        assert refusal.value.args[0] == expected["error"]["message"]
        return
    report = table.apply(table.plan(PARTITION_STATS, options))
    after = TableState.local(case.table).metadata
    path = report.result["partition_statistics_file"]
    theirs = expected["partition_statistics"]
    mine = after["partition-statistics"]
    assert {s["snapshot-id"] for s in mine} == {s["snapshot-id"] for s in theirs}
    assert all(case.local(s["statistics-path"]).stat().st_size == s["file-size-in-bytes"] for s in mine)
    assert path in {s["statistics-path"] for s in mine}
    if not expected.get("partition_stats_rows"):
        assert (report.committed, after) == (None, before)
        return
    data = pq.read_table(case.local(path))
    assert columns(data.schema) == expected["partition_stats_schema"]
    assert spread(data.to_pylist()) == spread(expected["partition_stats_rows"])


def columns(fields: Any) -> list[dict]:
    found = []
    for field in fields:
        parts = columns(field.type) if pa.types.is_struct(field.type) else str(field.type)
        found.append({"name": field.name, "id": int(field.metadata[b"PARQUET:field_id"]), "type": parts})
    return found


def spread(rows: list[dict]) -> list[str]:
    """Rows in an order of their own: partitions that differ in their spec alone have none in the engine."""
    return sorted(json.dumps(row, sort_keys=True, default=_text) for row in rows)


def _text(value: Any) -> str:
    return value.isoformat() if isinstance(value, date | datetime) else str(value)

"""Measure planning a rewrite of Iceberg tables with many files, from process start to written plan.

    python benchmarks/iceberg_plan.py [--files 100000 1000000] [--columns 4] [--runs 3] [--scratch DIR]

Tables are metadata alone: 2000 files a manifest in 200 partitions with metrics of every column, sizes between
64 KiB and 1 GiB; nine files in ten are candidates. Prints a Markdown table of wall seconds, CPU seconds and peak MiB.
"""

from __future__ import annotations

import argparse
import os
import random
import struct
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from lakemeta.iceberg.manifests.codec import write_manifest, write_manifest_list
from lakemeta.iceberg.manifests.entries import DataFile, EntryStatus, FileContent, ManifestContent, ManifestEntry
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import Snapshot, SnapshotRef, TableMetadata
from lakemeta.iceberg.spec.transforms import IDENTITY
from lakemeta.iceberg.spec.types import LONG, STRING, NestedField

ROOT = Path(__file__).resolve().parents[1]
PER_MANIFEST = 2000
PARTITIONS = 200


def fabricate(folder: Path, files: int, columns: int, per_manifest: int = PER_MANIFEST) -> None:
    """Write the metadata of a table with so many data files, which do not exist."""
    numbers = random.Random(1)
    fields = [NestedField(1, "p", STRING), *(NestedField(i, f"c{i}", LONG) for i in range(2, columns + 1))]
    metadata = TableMetadata(
        format_version=2,
        table_uuid="00000000-0000-4000-8000-000000000000",
        location=str(folder),
        last_updated_ms=1,
        last_column_id=columns,
        schemas=(Schema(tuple(fields)),),
        current_schema_id=0,
        partition_specs=(PartitionSpec(0, (PartitionField(1, 1000, "p", IDENTITY),)),),
        default_spec_id=0,
        last_partition_id=1000,
        sort_orders=(SortOrder(0),),
        default_sort_order_id=0,
        last_sequence_number=1,
    )
    (folder / "metadata").mkdir(parents=True)
    manifests = []
    for first in range(0, files, per_manifest):
        path = folder / "metadata" / f"{first}-m0.avro"
        entries = [entry(folder, i, columns, numbers) for i in range(first, min(first + per_manifest, files))]
        content = ManifestContent.DATA
        data, line = write_manifest(metadata, 0, entries, path=str(path), content=content, snapshot_id=1)
        path.write_bytes(data)
        manifests.append(line)
    data, _ = write_manifest_list(
        manifests, format_version=2, snapshot_id=1, parent_snapshot_id=None, sequence_number=1
    )
    listed = folder / "metadata" / "snap-1.avro"
    listed.write_bytes(data)
    snapshot = Snapshot(1, 1, str(listed), sequence_number=1, summary={"operation": "append"}, schema_id=0)
    whole = attrs.evolve(
        metadata, snapshots=(snapshot,), current_snapshot_id=1, refs={"main": SnapshotRef(1, "branch")}
    )
    (folder / "metadata" / "v1.metadata.json").write_bytes(dump_metadata(whole))
    (folder / "metadata" / "version-hint.text").write_text("1")


def entry(folder: Path, number: int, columns: int, numbers: random.Random) -> ManifestEntry:
    """One added file."""
    partition = f"p{numbers.randrange(PARTITIONS):05}"
    size = int(2 ** numbers.uniform(16, 30))
    rows, ids = size // 100, range(1, columns + 1)
    low, high = (struct.pack("<q", v) for v in (number * 1000, number * 1000 + 999))
    text = partition.encode()
    file = DataFile(
        content=FileContent.DATA,
        file_path=f"{folder}/data/p={partition}/{number:05}-{numbers.getrandbits(128):032x}-0-00001.parquet",
        file_format="PARQUET",
        spec_id=0,
        partition=(partition,),
        record_count=rows,
        file_size_in_bytes=size,
        column_sizes=dict.fromkeys(ids, size // columns),
        value_counts=dict.fromkeys(ids, rows),
        null_value_counts=dict.fromkeys(ids, 0),
        nan_value_counts={},
        lower_bounds={1: text} | dict.fromkeys(ids[1:], low),
        upper_bounds={1: text} | dict.fromkeys(ids[1:], high),
        split_offsets=(4,),
        sort_order_id=0,
    )
    return ManifestEntry(EntryStatus.ADDED, 1, None, None, file)


def measure(table: Path, out: Path) -> tuple[float, float, float]:
    """Wall seconds, CPU seconds and peak MiB of one cold process that plans."""
    out.unlink(missing_ok=True)
    words = [sys.executable, "-m", "lakemeta", "plan", "rewrite-data-files", str(table), "--out", str(out)]
    started = time.perf_counter()
    process = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"planning failed with exit code {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def main() -> None:
    """Fabricate each table once, plan it some times, print the least of each figure."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, nargs="+", default=[100_000])
    parser.add_argument("--columns", type=int, default=4)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args()
    print("| files | columns | wall s | CPU s | peak MiB |\n| --- | --- | --- | --- | --- |")
    for files in given.files:
        with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
            table = Path(scratch).resolve() / "table"
            fabricate(table, files, given.columns)
            runs = [measure(table, Path(scratch) / "plan.jsonl") for _ in range(given.runs)]
            wall, cpu, peak = (min(figures) for figures in zip(*runs, strict=True))
            print(f"| {files} | {given.columns} | {wall:.2f} | {cpu:.2f} | {peak:.0f} |", flush=True)


if __name__ == "__main__":
    main()

"""Measure the ways to decode a manifest of Iceberg, and a commit that touches every manifest of a large table.

    python benchmarks/iceberg_manifests.py decoders [--runs 5]
    python benchmarks/iceberg_manifests.py commit [--files 100000]

``decoders`` reads one manifest of 2000 files with metrics of four columns, with pyiceberg and polars too, and prints
CPU microseconds an entry. ``commit`` replaces the files of one of 200 partitions, which lie in all 100 manifests, as a
cold process: it looks for the files, writes the manifests anew, merges them, and commits. Prints its CPU seconds and
peak MiB, imports included.
"""

from __future__ import annotations

import argparse
import io
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

import iceberg_plan

from lakemeta.environment import Environment
from lakemeta.iceberg.commit.committer import commit, new_snapshot_id
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.codec import read_manifest, read_manifest_list
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakemeta.iceberg.manifests.entries import ManifestEntry, ManifestFile


def decoders(folder: Path) -> Iterator[tuple[str, Callable[[], Any]]]:
    """Name and call of every way to read the table's first manifest."""
    table = IcebergTable.open(str(folder))
    metadata = table.place.operations.refresh().metadata
    listed = (folder / "metadata" / "snap-1.avro").read_bytes()
    manifest = read_manifest_list(listed, "snap-1.avro")[0]
    spec, data = metadata.specs_by_id[0], Path(manifest.manifest_path).read_bytes()
    yield "lakemeta, what planning needs", lambda: scan_manifest(data, manifest, spec, frozenset())
    yield "lakemeta, everything", lambda: read_manifest(data, manifest, spec)
    yield "fastavro, to dictionaries", lambda: _fastavro(data)
    yield "pyiceberg", lambda: _pyiceberg(manifest)
    yield "polars.read_avro, to columns", lambda: _polars(data)


def _fastavro(data: bytes) -> list[Any]:
    import fastavro

    return list(fastavro.reader(io.BytesIO(data)))


def _polars(data: bytes) -> Any:
    import polars as pl

    return pl.read_avro(io.BytesIO(data))


def _pyiceberg(manifest: ManifestFile) -> list[Any]:
    from pyiceberg.io.pyarrow import PyArrowFileIO
    from pyiceberg.manifest import ManifestFile as Theirs

    names = ("manifest_path", "manifest_length", "partition_spec_id", "content", "sequence_number")
    more = {name: getattr(manifest, name) for name in (*names, "min_sequence_number", "added_snapshot_id")}
    theirs = Theirs.from_args(_table_format_version=2, **more)
    return theirs.fetch_manifest_entry(PyArrowFileIO(), discard_deleted=False)


def replace_one_partition(url: str) -> None:
    """Commit a replacement of all files of one partition by a file that does not exist."""
    table = IcebergTable.open(url)
    operations = table.place.operations
    metadata = operations.refresh().metadata
    head = metadata.current_snapshot
    assert head is not None
    seen: set[str] = set()

    def keep(manifest: ManifestFile, entry: ManifestEntry) -> bool:
        found = entry.data_file.partition == ("p00001",)
        if found:
            seen.add(manifest.manifest_path)
        return found

    removed = tuple(task.data_file for task in scan(operations.storage, metadata, head, keep=keep))
    records = sum(file.record_count for file in removed)
    new_file = attrs.evolve(removed[0], file_path=f"{removed[0].file_path}-new", record_count=records)
    update = SnapshotUpdate(
        added=(new_file,),
        removed=removed,
        starting_snapshot_id=head.snapshot_id,
        data_sequence_number=head.sequence_number,
        hints=frozenset(seen),
    )
    env = Environment()
    new = NewManifests(operations.metadata_location, env.new_uuid(), new_snapshot_id(env, {}))
    stored = StoredManifests(operations.storage, metadata.specs_by_id)
    commit(operations, lambda base: next_snapshot(update, base, stored, new), env)


def measure_decoders(folder: Path, runs: int) -> None:
    """Print CPU microseconds an entry, the least of some runs."""
    iceberg_plan.fabricate(folder, iceberg_plan.PER_MANIFEST, 4)
    print("| decoder | CPU us an entry |\n| --- | --- |")
    for name, read in decoders(folder):
        try:
            read()
        except Exception as error:  # noqa: BLE001  # not installed, or it cannot read manifests
            print(f"| {name} | {type(error).__name__}: {error} |")
            continue
        print(f"| {name} | {min(_cpu_of(read) for _ in range(runs)) * 1e6 / iceberg_plan.PER_MANIFEST:.1f} |")


def _cpu_of(read: Callable[[], Any]) -> float:
    started = time.process_time()
    read()
    return time.process_time() - started


def measure_commit(folder: Path, files: int) -> None:
    """Print CPU seconds and peak MiB of a process that commits."""
    iceberg_plan.PER_MANIFEST = files // 100
    iceberg_plan.fabricate(folder, files, 4)
    process = subprocess.Popen([sys.executable, __file__, "replace", "--table", str(folder)])
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"the commit failed with exit code {process.returncode}")
    print(f"{files} files: {usage.ru_utime + usage.ru_stime:.2f} CPU s, {usage.ru_maxrss / 1024:.0f} MiB")


def main() -> None:
    """Fabricate a table and measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=("decoders", "commit", "replace"))
    parser.add_argument("--runs", type=int, default=5)
    parser.add_argument("--files", type=int, default=100_000)
    parser.add_argument("--table", help="for replace, which commit runs in a process of its own")
    given = parser.parse_args()
    if given.what == "replace":
        replace_one_partition(given.table)
        return
    with tempfile.TemporaryDirectory() as scratch:
        folder = Path(scratch).resolve() / "table"
        if given.what == "decoders":
            measure_decoders(folder, given.runs)
        else:
            measure_commit(folder, given.files)


if __name__ == "__main__":
    main()

"""Measure rewrite-data-files on a table of small files beside other tools that compact Iceberg tables.

    python benchmarks/iceberg_rewrite.py [--files 200] [--runs 3] [--peers-python PYTHON] [--scratch DIR]

Every run has a fresh copy of one fabricated table: files of 44 000 rows in ten columns of mixed types, zstd,
about 2 MB each, to be made one file. Tools take turns within a run, so that noise hits all of them. lakemeta is
timed twice: as a whole cold process (command line) and, like its peers, without imports. ``--peers-python`` is a
Python that has pyiceberg[sql-sqlite], iceberg-zamboni, iceberg-compaction, polars and duckdb; those that are missing
are left out. Prints a Markdown table; ratios are the point, seconds are this machine's.
"""

from __future__ import annotations

import argparse
import io
import json
import os
import random
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import attrs
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.iceberg_tables import EPOCH_MS, SmallTable

from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.rows.arrow import arrow_schema
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.metadata_json import dump_metadata
from lakemeta.iceberg.spec.partitioning import PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.storage import LocalStorage

ROOT = Path(__file__).resolve().parents[1]
ROWS = 44_000
WORDS = 5000
COLUMNS = {
    "id": t.LONG,
    "k": t.INT,
    "v": t.DOUBLE,
    "p": t.DOUBLE,
    "ts": t.TIMESTAMPTZ,
    "d": t.DATE,
    "name": t.STRING,
    "cat": t.STRING,
    "ok": t.BOOLEAN,
    "note": t.STRING,
}
SCHEMA = Schema(tuple(t.NestedField(i, name, kind) for i, (name, kind) in enumerate(COLUMNS.items(), 1)))
IN_PROCESS = """
import sys, time, json
from lakemeta.iceberg.table import IcebergTable
table = IcebergTable.open(sys.argv[1])
started = time.perf_counter()
report = table.apply(table.plan_rewrite_data_files({"rewrite-all": "true"}))
print(json.dumps({"seconds": time.perf_counter() - started}))
"""


@attrs.frozen
class Usage:
    """What one process took: seconds of the rewrite, CPU seconds and peak MiB of all of it."""

    seconds: float
    cpu: float
    rss: float


def rows(number: int, words: pa.Array) -> pa.Table:
    """The rows of one file; the same for the same number."""

    def uniform(salt: int) -> pa.Array:
        return pc.random(ROWS, initializer=number * 16 + salt)

    def below(limit: int, salt: int) -> pa.Array:
        return pc.multiply(uniform(salt), limit).cast(pa.int64(), safe=False)

    ids = pc.cumulative_sum(pa.repeat(pa.scalar(1, pa.int64()), ROWS), start=number * ROWS - 1)
    digits = pa.array([f"{n:04x}" for n in range(65536)])
    hexadecimal = pc.binary_join_element_wise(*(digits.take(below(65536, salt)) for salt in range(4)), "")
    micros = pc.add(pc.add(pc.multiply(ids, 1_000_000), 1_700_000_000_000_000), below(1_000_000, 5))
    columns = [
        ids,
        below(1000, 6).cast(pa.int32()),
        pc.ln(pc.add(uniform(7), 1e-9)),
        pc.round(pc.multiply(uniform(8), 1000), ndigits=2),
        micros.cast(pa.timestamp("us", tz="UTC")),
        pc.add(below(365, 9), 19_000).cast(pa.int32()).cast(pa.date32()),
        words.take(below(WORDS, 10)),
        pc.if_else(pc.less(uniform(11), 0.05), None, words.take(below(20, 12))),
        pc.less(uniform(13), 0.5),
        hexadecimal,
    ]
    return pa.table(columns, schema=arrow_schema(SCHEMA.fields))


def make_files(folder: Path, count: int) -> None:
    """Write the data files that all copies of the table share."""
    folder.mkdir(parents=True)
    chance = random.Random(7)
    letters = "abcdefghijklmnopqrstuvwxyz"
    words = pa.array(["".join(chance.choices(letters, k=4 + n % 9)) for n in range(WORDS)])
    for number in range(count):
        out = io.BytesIO()
        pq.write_table(rows(number, words), out, compression="zstd", compression_level=3, store_schema=False)
        (folder / f"part-{number:05d}.parquet").write_bytes(out.getvalue())


def make_table(root: Path, files: Path) -> None:
    """A Hadoop table of hard links to the data files, in one append."""
    metadata = TableMetadata(
        format_version=2,
        table_uuid="00000000-0000-4000-8000-000000000001",
        location=str(root),
        last_updated_ms=EPOCH_MS,
        last_column_id=len(COLUMNS),
        schemas=(SCHEMA,),
        current_schema_id=0,
        partition_specs=(PartitionSpec(0),),
        default_spec_id=0,
        last_partition_id=999,
        sort_orders=(SortOrder(0),),
        default_sort_order_id=0,
        properties={"write.parquet.compression-codec": "zstd"},
    )
    storage = LocalStorage()
    storage.create(f"{root}/metadata/v1.metadata.json", dump_metadata(metadata))
    storage.replace(f"{root}/metadata/version-hint.text", b"1")
    (root / "data").mkdir()
    added = []
    for file in sorted(files.iterdir()):
        path = root / "data" / file.name
        path.hardlink_to(file)
        added.append(DataFile(FileContent.DATA, str(path), "PARQUET", 0, (), ROWS, path.stat().st_size))
    SmallTable(storage, str(root)).update(SnapshotUpdate("append", tuple(added)))


def run(words: list[str]) -> Usage | None:
    """Run a cold process; its own word for the seconds if it has one. None if a module is missing."""
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output, tempfile.TemporaryFile() as errors:
        process = subprocess.Popen(words, stdout=output, stderr=errors, cwd=ROOT)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        output.seek(0)
        errors.seek(0)
        said, complaint = output.read().decode(), errors.read().decode()
    if process.returncode:
        if "ModuleNotFoundError" in complaint:
            return None
        raise SystemExit(f"{' '.join(words)} failed:\n{said}\n{complaint[-3000:]}")
    if said.startswith('{"seconds"'):
        seconds = json.loads(said.splitlines()[-1])["seconds"]
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def tools(peers: str | None) -> dict[str, list[str]]:
    """The command of every tool; the table's directory comes last."""
    found = {
        "lakemeta": [sys.executable, "-c", IN_PROCESS],
        "lakemeta, cold command line": [
            *(sys.executable, "-m", "lakemeta", "rewrite-data-files", "--yes", "--set", "rewrite-all=true"),
        ],
    }
    script = str(ROOT / "benchmarks" / "iceberg_peers.py")
    ways = ("iceberg-compaction", "zamboni-in-memory", "zamboni", "pyiceberg", "polars", "duckdb")
    return found | {way: [peers, script, way] for way in ways if peers}


def output_of(root: Path, before: set[Path]) -> tuple[int, float, int]:
    """New data files, their MB, and their rows."""
    files = [p for p in (root / "data").rglob("*") if p.is_file() and p not in before]
    size = sum(p.stat().st_size for p in files) / 1e6
    return len(files), size, sum(pq.read_metadata(p).num_rows for p in files)


def measure(args: argparse.Namespace, scratch: Path) -> None:
    """Run everything and print the table."""
    files = scratch / "files"
    make_files(files, args.files)
    found: dict[str, list[Usage]] = {}
    outputs: dict[str, str] = {}
    for number in range(args.runs):
        for name, command in tools(args.peers_python).items():
            root = scratch / f"t{number}"
            make_table(root, files)
            before = set((root / "data").iterdir())
            usage = run([*command, str(root)])
            if usage is not None:
                count, size, written = output_of(root, before)
                assert written == args.files * ROWS, f"{name} wrote {written} rows"
                outputs[name] = f"{count} x {size / count:.0f} MB"
                found.setdefault(name, []).append(usage)
            shutil.rmtree(root)
            root.with_suffix(".db").unlink(missing_ok=True)
    report(found, outputs)


def report(found: dict[str, list[Usage]], outputs: dict[str, str]) -> None:
    best = {name: min(u.seconds for u in usages) for name, usages in found.items()}
    print("| tool | best s | median s | x lakemeta | CPU s | peak MiB | output |")
    print("|---|---|---|---|---|---|---|")
    for name, usages in found.items():
        middle = statistics.median(u.seconds for u in usages)
        cpu, rss = min(u.cpu for u in usages), max(u.rss for u in usages)
        ratio = best[name] / best["lakemeta"]
        print(f"| {name} | {best[name]:.2f} | {middle:.2f} | {ratio:.2f} | {cpu:.1f} | {rss:.0f} | {outputs[name]} |")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--peers-python", help="a Python that has the peers installed")
    parser.add_argument("--scratch", type=Path, help="where to put the tables (default: the system's place)")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="lakemeta-bench-", dir=args.scratch) as scratch:
        measure(args, Path(scratch))


if __name__ == "__main__":
    main()

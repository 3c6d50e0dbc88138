"""Measure maintenance services of Iceberg tables beside Spark's own procedures, on equal tables, in the same run.

    python benchmarks/iceberg_services.py [expire orphans manifests deletes] [--scale 1.0] [--runs 2] [--scratch DIR]

Needs Java and PySpark 3.5; the Iceberg runtime comes by Maven coordinate. Starting Spark is not counted, and each
procedure has run once on a small table before; starting lakemeta's process is counted. At scale 1: 1,000 snapshots of
100,000 files, 1,000,000 listed files, manifests of 1,000,000 files, 1,000 position delete files. Prints a Markdown
table of seconds, of CPU seconds, which others on the machine change less, and of peak MiB of lakemeta.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fabricate_iceberg import FabricatedTable
from printing import header, row, spread, times
from spark_sessions import THREADS, use_this_spark, with_iceberg

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).resolve().parents[1]
NOW = "2026-01-01T00:00:00Z"
OLD = "2025-12-01T00:00:00Z"
SPARK_OLD = "TIMESTAMP '2025-12-01 00:00:00'"


def many_snapshots(root: Path, scale: float) -> None:
    """A snapshot adds 100 files and keeps the newest half of all manifests."""
    table, snapshots = FabricatedTable(root), max(10, int(1000 * scale))
    for number in range(snapshots):
        files = [table.data_file(number * 100 + n, 1000) for n in range(100)]
        table.commit([files], keep=snapshots // 2)
    table.save()


def many_orphans(root: Path, scale: float) -> None:
    """One file in a hundred is named by the table."""
    table, files = FabricatedTable(root), max(4000, int(1_000_000 * scale))
    named = files // 100
    table.commit([[table.data_file(n, 1000) for n in range(named)]])
    table.save()
    for number in range(files - named):
        (root / "data" / f"p=p{number % 20:03}" / f"{number:08}-orphan.parquet").write_bytes(b"")
    _age(root)


def many_manifests(root: Path, scale: float) -> None:
    """Manifests of 2,000 files of all partitions each."""
    table, files = FabricatedTable(root, partitions=200), max(4000, int(1_000_000 * scale))
    for first in range(0, files, 2000):
        table.commit([[table.data_file(n, 1000, exists=False) for n in range(first, first + 2000)]])
    table.save()


def many_deletes(root: Path, scale: float) -> None:
    """Ten position delete files of 100 rows for each data file."""
    table, files = FabricatedTable(root), max(2, int(100 * scale))
    data = [table.data_file(n, 1_000_000, rows=10_000) for n in range(files)]
    table.commit([data])
    for first in range(0, 1000, 100):
        table.commit([[table.position_delete(file, range(first, first + 100)) for file in data]])
    table.save()


def _age(root: Path) -> None:
    when = 1_700_000_000
    for folder, _, names in os.walk(root):
        for name in names:
            os.utime(os.path.join(folder, name), (when, when))


@attrs.frozen
class Service:
    """What is made, what lakemeta is told, and what Spark is."""

    name: str
    make: Callable[[Path, float], None]
    words: tuple[str, ...]
    call: str


SERVICES = {
    "expire": Service(
        "expire 1,000 snapshots of 100,000 files",
        many_snapshots,
        ("expire-snapshots", "--set", f"older_than={OLD}", "--set", "retain_last=1"),
        f"expire_snapshots(table => 'db.%s', older_than => {SPARK_OLD}, retain_last => 1)",
    ),
    "orphans": Service(
        "orphans among 1,000,000 listed files",
        many_orphans,
        ("remove-orphan-files", "--set", f"older_than={OLD}"),
        f"remove_orphan_files(table => 'db.%s', older_than => {SPARK_OLD})",
    ),
    "manifests": Service(
        "rewrite 500 manifests of 1,000,000 files",
        many_manifests,
        ("rewrite-manifests",),
        "rewrite_manifests(table => 'db.%s')",
    ),
    "deletes": Service(
        "rewrite 1,000 position delete files",
        many_deletes,
        ("rewrite-position-deletes", "--set", "rewrite-all=true"),
        "rewrite_position_delete_files(table => 'db.%s', options => map('rewrite-all', 'true'))",
    ),
}


def ours(table: Path, service: Service) -> tuple[float, float, float]:
    """Seconds, CPU seconds and peak MiB of one cold process that plans and applies, from a synced disk."""
    os.sync()
    words = [sys.executable, "-m", "lakemeta", *service.words[:1], str(table), *service.words[1:], "--yes", "-q"]
    started = time.perf_counter()
    process = subprocess.Popen([*words, "--now", NOW, "--output", "json"], stdout=subprocess.DEVNULL, cwd=ROOT)
    _, status, usage = os.wait4(process.pid, 0)
    process.returncode = os.waitstatus_to_exitcode(status)
    if process.returncode:
        raise SystemExit(f"{service.name} failed with exit code {process.returncode}")
    return time.perf_counter() - started, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024


def theirs(spark: Any, name: str, service: Service) -> tuple[float, float]:
    """Seconds and CPU seconds of the procedure in a running session."""
    os.sync()
    started, used = time.perf_counter(), jvm_seconds(spark)
    spark.sql(f"CALL ice.system.{service.call % name}").collect()
    return time.perf_counter() - started, jvm_seconds(spark) - used


def jvm_seconds(spark: Any) -> float:
    """CPU seconds of the session's JVM so far, all threads, as Linux counts them."""
    pid = spark._jvm.java.lang.ProcessHandle.current().pid()
    fields = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


def measure(chosen: list[str], scale: float, runs: int, scratch: Path) -> None:
    """Print a row for each service; the two take turns."""
    use_this_spark()
    header("what", "lakemeta s", "Spark s", "ratio", "lakemeta CPU s", "Spark CPU s", "ratio", "peak MiB")
    with with_iceberg(THREADS, scratch / "warehouse") as spark:
        for service in map(SERVICES.__getitem__, chosen):
            service.make(scratch / "warehouse" / "db" / "warm", 0.001)
            theirs(spark, "warm", service)
            shutil.rmtree(scratch / "warehouse" / "db" / "warm")
            mine, spent = [], []
            for number in range(runs):
                for who in ("ours", "theirs"):
                    service.make(scratch / "warehouse" / "db" / f"{who}{number}", scale)
                mine.append(ours(scratch / "warehouse" / "db" / f"ours{number}", service))
                spent.append(theirs(spark, f"theirs{number}", service))
                for who in ("ours", "theirs"):
                    shutil.rmtree(scratch / "warehouse" / "db" / f"{who}{number}")
            (wall, cpu, peak), (their_wall, their_cpu) = (list(zip(*side, strict=True)) for side in (mine, spent))
            row(
                [
                    service.name,
                    *(spread(wall), spread(their_wall), times(their_wall, wall)),
                    *(spread(cpu), spread(their_cpu), times(their_cpu, cpu)),
                    f"{max(peak):.0f}",
                ]
            )


def main() -> None:
    """Measure what was asked for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("services", nargs="*", choices=[*SERVICES, []], default=list(SERVICES))
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        measure(given.services or list(SERVICES), given.scale, given.runs, Path(scratch).resolve())


if __name__ == "__main__":
    main()

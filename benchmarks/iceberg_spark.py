"""Measure a rewrite of data files beside Spark's own procedure, on copies of one table, in the same run.

    python benchmarks/iceberg_spark.py [--files 200] [--runs 2] [--target 134217728]

Needs Java and PySpark 3.5; the Iceberg runtime comes by Maven coordinate. Starting Spark is not counted, starting
lakemeta's process is. The table is that of ``iceberg_rewrite.py``; every run has a fresh copy for each of the two.
"""

from __future__ import annotations

import argparse
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from iceberg_rewrite import make_files, make_table
from printing import header, row, spread, times
from spark_sessions import THREADS, use_this_spark, with_iceberg


def measure(scratch: Path, files: int, runs: int, target: int) -> tuple[list[float], list[float]]:
    """Seconds of lakemeta's whole command and of Spark's procedure, run by run."""
    make_files(scratch / "files", files)
    use_this_spark()
    ours, theirs = [], []
    with with_iceberg(THREADS, scratch / "warehouse") as spark:
        for number in range(runs):
            table, other = (scratch / "warehouse" / "db" / f"{who}{number}" for who in ("ours", "theirs"))
            make_table(table, scratch / "files")
            make_table(other, scratch / "files")
            options = ["--set", "rewrite-all=true", "--set", f"target-file-size-bytes={target}"]
            started = time.perf_counter()
            command = [sys.executable, "-m", "lakemeta", "rewrite-data-files", str(table), *options, "--yes", "-q"]
            subprocess.run(command, check=True, capture_output=True, cwd=Path(__file__).resolve().parents[1])
            ours.append(time.perf_counter() - started)
            started = time.perf_counter()
            spark.sql(
                f"CALL ice.system.rewrite_data_files(table => 'db.theirs{number}', options => "
                f"map('rewrite-all', 'true', 'target-file-size-bytes', '{target}'))"
            ).collect()
            theirs.append(time.perf_counter() - started)
    return ours, theirs


def main() -> None:
    """Print one Markdown row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--target", type=int, default=128 * 1024 * 1024, help="bytes of a new file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = measure(Path(scratch).resolve(), given.files, given.runs, given.target)
    header("target", "lakemeta s (min / median)", "Spark s (min / median)", "ratio of medians")
    row([f"{given.target >> 20} MiB", spread(ours), spread(theirs), times(theirs, ours)])


if __name__ == "__main__":
    main()

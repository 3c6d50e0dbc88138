"""Measure a rewrite of data files beside Spark's own procedure, on copies of one table, in the same run.

    python benchmarks/iceberg_spark.py [--files 200] [--runs 2] [--target 134217728]

Needs Java and PySpark 3.5; the Iceberg runtime comes by Maven coordinate. Starting Spark is not counted, starting
lakemeta's process is. The table is that of ``iceberg_rewrite.py``; every run has a fresh copy for each of the two.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

sys.path.append(str(Path(__file__).resolve().parents[1]))
sys.path.append(str(Path(__file__).resolve().parents[1] / "tests"))

from iceberg_rewrite import make_files, make_table
from interop.engine_process import resolve_jar
from interop.iceberg_engine import RUNTIME
from pyspark.sql import SparkSession

TIMES = "{:.2f} / {:.2f}"


def session(warehouse: Path) -> SparkSession:
    """A local session with a Hadoop catalog called ice."""
    catalog = "spark.sql.catalog.ice"
    settings = {
        "spark.jars": resolve_jar(*RUNTIME),
        "spark.driver.memory": "2g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.ui.enabled": "false",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        catalog: "org.apache.iceberg.spark.SparkCatalog",
        f"{catalog}.type": "hadoop",
        f"{catalog}.warehouse": str(warehouse),
    }
    builder = SparkSession.builder.master("local[2]").appName("benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    made.sparkContext.setLogLevel("ERROR")
    made.sql("select 1").collect()
    return made


def measure(scratch: Path, files: int, runs: int, target: int) -> tuple[list[float], list[float]]:
    """Seconds of lakemeta's whole command and of Spark's procedure, run by run."""
    make_files(scratch / "files", files)
    spark = session(scratch / "warehouse")
    ours, theirs = [], []
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
    spark.stop()
    return ours, theirs


def main() -> None:
    """Print one Markdown row."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--files", type=int, default=200)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--target", type=int, default=128 * 1024 * 1024, help="bytes of a new file")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        ours, theirs = measure(Path(scratch), given.files, given.runs, given.target)
    cells = [TIMES.format(min(found), statistics.median(found)) for found in (ours, theirs)]
    print(
        "| target | lakemeta s (min / median) | Spark s (min / median) | ratio of medians |\n| --- | --- | --- | --- |"
    )
    ratio = statistics.median(theirs) / statistics.median(ours)
    print(f"| {given.target >> 20} MiB | {' | '.join(cells)} | {ratio:.1f}x |")


if __name__ == "__main__":
    main()

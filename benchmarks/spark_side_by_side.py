"""Measure lakemeta on Spark beside the real engines on the same Spark: Hudi's cleaner, Iceberg's rewrite of data files.

    python benchmarks/spark_side_by_side.py hudi [--table-version 9] [--cluster] [--runs 3]
    python benchmarks/spark_side_by_side.py iceberg [--target 512 64] [--cluster] [--runs 3]

One session serves all: lakemeta's SparkExecutor uses it as it is, the engine's own client or procedure runs in it, and
lakemeta on threads of the driver stands beside them. Spark is two threads, or with ``--cluster`` a standalone master
and two workers with a core each. Tools take turns, each with a fresh copy of the table in every round; the order
moves on with every round. The first round is not counted, so the JVM, its executors and the Python workers are warm
for all. Prints Markdown tables: least and median seconds; x are ratios of medians to lakemeta on Spark.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fabricate_hudi import Shape, fabricate
from hudi_clean import OPTIONS, RELEASES
from iceberg_rewrite import ROWS, make_files, make_table
from interop.hudi_worker import Worker
from printing import header, row, spread, times
from spark_sessions import master, with_hudi, with_iceberg

from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.iceberg.table import IcebergTable
from lakemeta_spark import SparkExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

    from lakemeta.executor import Executor

    Tool = Callable[[Path], tuple[float, float]]  # seconds to plan, and seconds of all

ON_SPARK = "lakemeta on Spark"
ON_THREADS = "lakemeta on threads"
A_TASK_A_CORE = {"hoodie.cleaner.parallelism": "2", "hoodie.clean.parallelism": "2"}  # instead of Hudi's 200 tasks


def take_turns(
    tools: Mapping[str, Tool], make: Callable[[Path], None], folder: Path, runs: int, state: Callable[[Path], Any]
) -> dict[str, list[tuple[float, float]]]:
    """Seconds of each counted round by tool. Raises SystemExit if tools leave tables in different ``state``."""
    found: dict[str, list[tuple[float, float]]] = {name: [] for name in tools}
    names = list(tools)
    for number in range(runs + 1):
        states = {}
        for name in names[number % len(names) :] + names[: number % len(names)]:
            table = folder / f"t{number}_{names.index(name)}"
            make(table)
            os.sync()  # or whoever goes first waits for the table to be written
            seconds = tools[name](table)
            states[name] = state(table)
            shutil.rmtree(table)
            if number:
                found[name].append(seconds)
        if any(left != states[ON_SPARK] for left in states.values()):
            raise SystemExit(f"{' and '.join(names)} left different tables")
    return found


def report(found: Mapping[str, list[tuple[float, float]]], what: str) -> None:
    """A row for each tool: planning, the rest, and all of it, each with its ratio to lakemeta on Spark."""
    parts: tuple[Callable[[tuple[float, float]], float], ...] = (
        lambda seconds: seconds[0],
        lambda seconds: seconds[1] - seconds[0],
        lambda seconds: seconds[1],
    )
    for tool, seconds in found.items():
        cells = []
        for part in parts:
            mine, ours = [part(one) for one in seconds], [part(one) for one in found[ON_SPARK]]
            cells += [spread(mine), times(mine, ours)]
        row([what, tool, *cells])


def columns() -> None:
    header("what", "tool", "plan s", "x", "apply s", "x", "all s", "x")


def clean(executor: Executor, table: Path) -> tuple[float, float]:
    """lakemeta's clean of a Hudi table, from opening it."""
    started = time.perf_counter()
    opened = HudiTable.open(str(table))
    plan = opened.plan_clean(OPTIONS, executor=executor)
    planned = time.perf_counter()
    done = opened.apply(plan, executor=executor)
    seconds = planned - started, time.perf_counter() - started
    assert done.deleted_files == plan.files > 0
    return seconds


def clean_by_hudi(worker: Worker, more: Mapping[str, str], table: Path) -> tuple[float, float]:
    """Schedule a clean, then have ``clean()`` run what is scheduled and plan nothing more."""
    options = {**OPTIONS, "hoodie.table.name": "t", "hoodie.metadata.enable": "false", **more}
    started = time.perf_counter()
    instant = worker.schedule_clean(str(table), options)
    planned = time.perf_counter()
    done = worker.clean(str(table), {**options, "hoodie.clean.allow.multiple": "false"})
    seconds = planned - started, time.perf_counter() - started
    if done is None or done["startCleanTime"] != instant:
        raise SystemExit(f"Hudi did not run the clean {instant} that it had scheduled, but {done}")
    return seconds


def data_files(table: Path) -> set[str]:
    return {str(path.relative_to(table)) for path in table.glob("*/*.parquet")}


def hudi(url: str, scratch: Path, given: argparse.Namespace) -> None:
    """Cleans of a copy-on-write table without a metadata table."""
    shape = Shape(given.partitions, 50, 4, given.table_version)
    engine = f"Hudi {RELEASES[given.table_version]}"
    with with_hudi(url, RELEASES[given.table_version]) as spark:
        tools = {
            ON_SPARK: partial(clean, SparkExecutor(spark)),
            ON_THREADS: partial(clean, LocalExecutor()),
            engine: partial(clean_by_hudi, Worker(spark), {}),
            f"{engine}, a task a core": partial(clean_by_hudi, Worker(spark), A_TASK_A_CORE),
        }
        found = take_turns(tools, partial(fabricate, shape=shape), scratch, given.runs, data_files)
    columns()
    report(found, f"v{given.table_version}, {shape.files} files, {shape.files // 2} deleted")


def rewrite(executor: Executor, options: Mapping[str, str], table: Path) -> tuple[float, float]:
    """lakemeta's rewrite of an Iceberg table, from opening it."""
    started = time.perf_counter()
    opened = IcebergTable.open(str(table))
    plan = opened.plan_rewrite_data_files(options, executor=executor)
    planned = time.perf_counter()
    opened.apply(plan, executor=executor)
    return planned - started, time.perf_counter() - started


def rewrite_by_iceberg(spark: SparkSession, options: Mapping[str, str], table: Path) -> tuple[float, float]:
    """The engine's planner on its own, as the procedure uses it; then the procedure, which plans for itself."""
    iceberg: Any = spark._jvm.org.apache.iceberg
    name = f"{table.parent.name}.{table.name}"
    started = time.perf_counter()
    loaded = iceberg.spark.Spark3Util.loadIcebergTable(spark._jsparkSession, f"ice.{name}")
    planner = iceberg.actions.BinPackRewriteFilePlanner(loaded)
    planner.init({key: value for key, value in options.items() if key in planner.validOptions()})
    assert planner.plan().totalGroupCount() > 0
    planned = time.perf_counter() - started
    pairs = ", ".join(f"'{key}', '{value}'" for key, value in options.items())
    started = time.perf_counter()
    spark.sql(f"CALL ice.system.rewrite_data_files(table => '{name}', options => map({pairs}))").collect()
    return planned, time.perf_counter() - started


def iceberg(url: str, scratch: Path, given: argparse.Namespace) -> None:
    """Rewrites of small files; every target makes a group of files for each new one."""
    engine = "Iceberg"
    make_files(scratch / "files", given.files)
    with with_iceberg(url, scratch / "warehouse") as spark:

        def rows(table: Path) -> int:
            counted = spark.sql(f"SELECT count(*) FROM ice.{table.parent.name}.{table.name}").collect()[0][0]
            assert counted == given.files * ROWS, f"{counted} rows are left"
            return int(counted)

        columns()
        for target in given.target:
            size = str(target << 20)
            sizes = {"target-file-size-bytes": size, "max-file-group-size-bytes": size}
            options = {"rewrite-all": "true", **sizes}
            tools = {
                ON_SPARK: partial(rewrite, SparkExecutor(spark), options),
                ON_THREADS: partial(rewrite, LocalExecutor(), options),
                engine: partial(rewrite_by_iceberg, spark, options),
            }
            make = partial(make_table, files=scratch / "files")
            found = take_turns(tools, make, scratch / "warehouse" / f"to{target}", given.runs, rows)
            report(found, f"{given.files} files to {target} MiB")


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("engine", choices=["hudi", "iceberg"])
    parser.add_argument("--runs", type=int, default=3, help="rounds that are counted")
    parser.add_argument("--cluster", action="store_true", help="a standalone cluster of processes, not two threads")
    parser.add_argument("--table-version", type=int, choices=list(RELEASES), default=9, help="of the Hudi table")
    parser.add_argument("--partitions", type=int, default=200, help="of the Hudi table; 200 files each")
    parser.add_argument("--files", type=int, default=200, help="of the Iceberg table")
    parser.add_argument("--target", type=int, nargs="+", default=[512, 64], help="MiB of a new Iceberg file")
    parser.add_argument("--scratch", type=Path, help="where tables are made; a disk, not a memory file system")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        folder = Path(scratch).resolve()
        with master(folder, cluster=given.cluster) as url:
            (hudi if given.engine == "hudi" else iceberg)(url, folder, given)


if __name__ == "__main__":
    main()

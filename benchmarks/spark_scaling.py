"""Measure planning and deleting over Spark executors, on a store that is far away; and what Spark costs a small table.

    python benchmarks/spark_scaling.py [--executors 1 2 4] [--partitions 240] [--ms 20] [--ms-a-file 2] [--scratch DIR]

Every call of the store waits ``--ms``, and a delete ``--ms-a-file`` more for each file, as stores without bulk deletes
do. The cluster is one of real processes with one core each (``local-cluster``); it has worked once before it is timed.
Prints Markdown tables: ratios are the point, seconds are this machine's.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pyspark

ROOT = Path(__file__).resolve().parents[1]
sys.path[:0] = [str(ROOT), str(ROOT / "tests"), str(ROOT / "benchmarks")]

from fabricate_hudi import Shape, fabricate  # noqa: E402
from faults import LatencyStorage  # noqa: E402

from lakemeta.executor import LocalExecutor  # noqa: E402
from lakemeta.hudi import HudiTable  # noqa: E402
from lakemeta_spark import SparkExecutor  # noqa: E402

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakemeta.executor import Executor
    from lakemeta.report import Outcome

OPTIONS = {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS", "hoodie.cleaner.commits.retained": "1"}
CONF = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(sys.path[:3]),
}


class DistantStorage(LatencyStorage):
    """A store whose every call takes a while, and whose deletes take a while for each file."""

    def __init__(self, inner: Any, ms: float, ms_a_file: float) -> None:
        super().__init__(inner, ms)
        self.ms_a_file = ms_a_file

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        time.sleep(len(paths) * self.ms_a_file / 1000)
        return super().delete_many(paths)


def measure(original: Path, executor: Executor, ms: float, ms_a_file: float) -> tuple[float, float]:
    """Seconds to plan and to apply a clean of a fresh copy of a table."""
    copy = original.with_name("copy")
    shutil.copytree(original, copy)
    table = HudiTable.open(str(copy))
    if ms:
        distant: Any = DistantStorage(table.place.storage, ms, ms_a_file)
        table = attrs.evolve(table, place=attrs.evolve(table.place, storage=distant))
    started = time.perf_counter()
    plan = table.plan_clean(OPTIONS, executor=executor)
    planned = time.perf_counter()
    report = table.apply(plan, executor=executor)
    applied = time.perf_counter()
    assert report.deleted_files == plan.files > 0
    shutil.rmtree(copy)
    return planned - started, applied - planned


def first_of_each(batch: Iterable[int]) -> list[int]:
    """Nothing much, to start the workers."""
    time.sleep(0.2)
    return list(batch)


def warm(executor: Executor, tasks: int) -> None:
    """Have every executor do something, so that none is still starting."""
    for _ in range(3):
        list(executor.map_batches(first_of_each, range(4 * tasks), batch_size=1))


def row(*cells: object) -> None:
    """One row of a Markdown table."""
    print("| " + " | ".join(str(cell) for cell in cells) + " |", flush=True)


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--partitions", type=int, default=240)
    parser.add_argument("--ms", type=float, default=20, help="latency of a call")
    parser.add_argument("--ms-a-file", type=float, default=2, help="time to delete a file")
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args()
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        big, small = Path(scratch, "big"), Path(scratch, "small")
        fabricate(big, Shape(given.partitions, 10, 5, 6, empty=True))
        fabricate(small, Shape(8, 10, 5, 6, empty=True))
        row("where", "plan s", "apply s", "plan ratio", "apply ratio", "small table, near: plan s", "apply s")
        row(*["---"] * 7)
        for threads in (1, LocalExecutor().threads):
            local = LocalExecutor(threads)
            seconds = [*measure(big, local, given.ms, given.ms_a_file), "", "", *measure(small, local, 0, 0)]
            row(f"{threads} local threads", *(f"{s:.2f}" if s else "" for s in seconds))
        first = None
        for executors in given.executors:
            with SparkExecutor.start(f"local-cluster[{executors},1,512]", CONF) as spark:
                warm(spark, executors)
                plan, apply = measure(big, spark, given.ms, given.ms_a_file)
                first = first or (plan, apply)
                near = [f"{s:.2f}" for s in measure(small, spark, 0, 0)]
                ratios = [f"{first[0] / plan:.2f}x", f"{first[1] / apply:.2f}x"]
                row(f"{executors} executors", f"{plan:.2f}", f"{apply:.2f}", *ratios, *near)


if __name__ == "__main__":
    main()

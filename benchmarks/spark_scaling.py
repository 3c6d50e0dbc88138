"""Measure lakemeta over Spark executors beside threads of one machine, on a store that is far away.

    python benchmarks/spark_scaling.py hudi [--executors 1 2 4] [--threads 1 8 32] [--partitions 400]
    python benchmarks/spark_scaling.py iceberg [--executors 1 2 4] [--manifests 160] [--groups 48]
    python benchmarks/spark_scaling.py break-even [--cores 16] [--sizes 32 64 128 256 512 1024] [--runs 2]

Every call of the store waits ``--ms``, and a delete ``--ms-a-file`` more for each file, as stores without bulk deletes
do. The cluster is one of real processes (``local-cluster``), which have worked before they are timed.
``hudi`` and ``iceberg`` print the seconds of planning and applying over executors of one core, how many times faster
that is than one executor and than threads, and what a small table takes that is near (best of three; once before that
and not counted, so that workers have imported what they need). ``break-even`` looks for the number of partitions from
which Spark is faster than eight threads: it measures both at growing sizes and interpolates.
"""

from __future__ import annotations

import argparse
import shutil
import sys
import tempfile
import time
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fabricate_hudi import Shape, fabricate
from hudi_clean import OPTIONS
from iceberg_plan import fabricate as fabricate_manifests
from printing import header, row
from spark_sessions import HERE, use_this_spark
from support.faults import LatencyStorage
from support.iceberg_tables import create_table

from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage
from lakemeta_spark import SparkExecutor

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.report import Outcome

    Measure = Callable[[Executor], tuple[float, float]]  # seconds to plan and to apply

SMALL = 8  # partitions
RIVAL = 8  # threads that Spark has to beat


class DistantStorage(LatencyStorage):
    """A store whose every call takes a while, and whose deletes take a while for each file."""

    def __init__(self, inner: Any, ms: float, ms_a_file: float) -> None:
        super().__init__(inner, ms)
        self.ms_a_file = ms_a_file

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        time.sleep(len(paths) * self.ms_a_file / 1000)
        return super().delete_many(paths)


def clean(original: Path, ms: float, ms_a_file: float, executor: Executor) -> tuple[float, float]:
    """Plan and apply a clean of a fresh copy of a Hudi table."""
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


def distant_iceberg(root: Path, ms: float) -> IcebergTable:
    storage: Any = DistantStorage(LocalStorage(), ms, 0) if ms else LocalStorage()
    return IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root))))


def rewrite(many_manifests: Path, many_groups: Path, ms: float, executor: Executor) -> tuple[float, float]:
    """Plan a rewrite of one table, and apply one to a fresh copy of another, which is where its metadata says."""
    started = time.perf_counter()
    plan = distant_iceberg(many_manifests, ms).plan_rewrite_data_files({"rewrite-all": "true"}, executor=executor)
    planned = time.perf_counter() - started
    assert not plan.is_empty
    original = many_groups.with_name("original")
    shutil.copytree(many_groups, original)
    options = {"rewrite-all": "true"}
    if isinstance(executor, LocalExecutor):
        options["max-concurrent-file-group-rewrites"] = str(executor.threads)
    table = distant_iceberg(many_groups, ms)
    plan = table.plan_rewrite_data_files(options, executor=executor)
    started = time.perf_counter()
    report = table.apply(plan, executor=executor)
    applied = time.perf_counter() - started
    assert report.result["rewritten_data_files_count"] > 0
    shutil.rmtree(many_groups)
    original.rename(many_groups)
    return planned, applied


def make_groups(root: Path, groups: int) -> Path:
    """An Iceberg table with four tiny files in each partition."""
    table = create_table(LocalStorage(), str(root), partitioned=True)
    table.append(*([(n, f"p{group:05}", 0.5)] for group in range(groups) for n in range(4)))
    return root


def first_of_each(batch: Iterable[int]) -> list[int]:
    """Nothing much, to start the workers."""
    time.sleep(0.2)
    return list(batch)


@contextmanager
def cluster(executors: int, cores: int = 1) -> Iterator[SparkExecutor]:
    """An executor on a cluster in which nothing is still starting."""
    memory = 512 + 128 * cores
    conf = {**HERE, "spark.driver.memory": "512m", "spark.executor.memory": f"{memory}m"}
    with SparkExecutor.start(f"local-cluster[{executors},{cores},{memory}]", conf) as spark:
        for _ in range(3):
            list(spark.map_batches(first_of_each, range(4 * executors * cores), batch_size=1))
        yield spark


def scaling(given: argparse.Namespace, measure: Measure, small: Measure, what: str) -> None:
    """Measure a big distant table and a small near one in every place, and print them with their ratios."""
    threads = {f"{n} threads": LocalExecutor(n) for n in given.threads}
    found = {name: far_and_near(measure, small, executor) for name, executor in threads.items()}
    executors = [f"{n} executors" for n in given.executors]
    for name, number in zip(executors, given.executors, strict=True):
        with cluster(number) as spark:
            found[name] = far_and_near(measure, small, spark)
    references = [executors[0], *threads]
    print(f"{what}; times as fast as others: plan / apply\n")
    header("where", "plan s", "apply s", *(f"x {name}" for name in references), "small and near: plan s", "apply s")
    for name, (far, near) in found.items():
        ratios = (
            " / ".join(f"{theirs / mine:.1f}" for theirs, mine in zip(found[other][0], far, strict=True))
            for other in references
        )
        row([name, *(f"{s:.2f}" for s in far), *ratios, *(f"{s:.3f}" for s in near)])


def far_and_near(measure: Measure, small: Measure, executor: Executor) -> tuple[tuple[float, float], ...]:
    """Seconds of the big table and of the small one, once everything is warm."""
    small(executor)
    return measure(executor), best(small, executor, 3)


def hudi(scratch: Path, given: argparse.Namespace) -> None:
    """Cleans: a call a partition, and deletes."""
    shape, small = Shape(given.partitions, 10, 5, 6, empty=True), Shape(SMALL, 10, 5, 6, empty=True)
    fabricate(scratch / "big", shape)
    fabricate(scratch / "small", small)
    measure = partial(clean, scratch / "big", given.ms, given.ms_a_file)
    what = f"clean of {shape.partitions} partitions with {shape.files} files, {given.ms:g} ms a call"
    scaling(given, measure, partial(clean, scratch / "small", 0, 0), what)


def iceberg(scratch: Path, given: argparse.Namespace) -> None:
    """Rewrites: manifests to read, and small groups that are mostly waiting."""
    fabricate_manifests(scratch / "manifests", given.manifests * 10, 4, per_manifest=10)
    fabricate_manifests(scratch / "few", SMALL * 10, 4, per_manifest=10)
    many, few = make_groups(scratch / "groups", given.groups), make_groups(scratch / "little", SMALL)
    measure = partial(rewrite, scratch / "manifests", many, given.ms)
    what = f"plan of {given.manifests} manifests, rewrite of {given.groups} small groups, {given.ms:g} ms a call"
    scaling(given, measure, partial(rewrite, scratch / "few", few, 0), what)


def break_even(scratch: Path, given: argparse.Namespace) -> None:
    """Grow a table until Spark is faster than threads, in planning and in applying."""
    print(f"{given.cores} cores of Spark against {RIVAL} threads, {given.ms:g} ms a call\n")
    header("partitions", "threads: plan s", "apply s", "Spark: plan s", "apply s")
    behind: dict[str, list[tuple[int, float]]] = {"plan": [], "apply": [], "both": []}
    fabricate(scratch / "small", Shape(given.cores * SMALL, 10, 5, 6, empty=True))
    with cluster(2, given.cores // 2) as spark:
        clean(scratch / "small", given.ms, 0, spark)  # workers import what they need
        for size in sorted(given.sizes):
            table = scratch / "table"
            fabricate(table, Shape(size, 10, 5, 6, empty=True))
            measure = partial(clean, table, given.ms, given.ms_a_file)
            local, far = (best(measure, executor, given.runs) for executor in (LocalExecutor(RIVAL), spark))
            shutil.rmtree(table)
            row([size, *(f"{s:.2f}" for s in (*local, *far))])
            late = [theirs - mine for theirs, mine in zip(far, local, strict=True)]
            for name, seconds in zip(behind, (*late, sum(late)), strict=True):
                behind[name].append((size, seconds))
            if max(late) < 0:
                break
    for name, measured in behind.items():
        print(f"\nbreak-even, {name}: {crossing(measured)}")


def best(measure: Measure, executor: Executor, runs: int) -> tuple[float, float]:
    """The least seconds of some runs to plan, and to apply."""
    seconds = [measure(executor) for _ in range(runs)]
    return min(plan for plan, _ in seconds), min(apply for _, apply in seconds)


def crossing(measured: Sequence[tuple[int, float]]) -> str:
    """Where the seconds by which Spark is behind become none: after the last size at which it was behind."""
    slower = [number for number, (_, seconds) in enumerate(measured) if seconds >= 0]
    if not slower:
        return f"below {measured[0][0]} partitions"
    last = slower[-1]
    if last == len(measured) - 1:
        return f"above {measured[last][0]} partitions"
    (small, behind), (big, ahead) = measured[last], measured[last + 1]
    return f"about {small + (big - small) * behind / (behind - ahead):.0f} partitions"


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["hudi", "iceberg", "break-even"])
    parser.add_argument("--executors", type=int, nargs="+", default=[1, 2, 4])
    parser.add_argument("--threads", type=int, nargs="+", default=[1, 8, 32])
    parser.add_argument("--partitions", type=int, default=400, help="of the Hudi table, with 50 files each")
    parser.add_argument("--manifests", type=int, default=160, help="of the Iceberg table that is planned")
    parser.add_argument("--groups", type=int, default=48, help="of the Iceberg table that is rewritten")
    parser.add_argument("--cores", type=int, default=16, help="of Spark at the break-even, in two executors")
    parser.add_argument("--sizes", type=int, nargs="+", default=[32, 64, 128, 256, 512, 1024], help="partitions")
    parser.add_argument("--runs", type=int, default=2, help="at each size; the best counts")
    parser.add_argument("--ms", type=float, default=20, help="latency of a call")
    parser.add_argument("--ms-a-file", type=float, default=2, help="time to delete a file")
    parser.add_argument("--scratch", type=Path)
    given = parser.parse_args()
    use_this_spark()
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        {"hudi": hudi, "iceberg": iceberg, "break-even": break_even}[given.what](Path(scratch).resolve(), given)


if __name__ == "__main__":
    main()

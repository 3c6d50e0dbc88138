"""Plans and tables on a cluster of processes that loses executors and has slow tasks: the same as on local threads."""

from __future__ import annotations

import os
import signal
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pytest
from contract.spark_cluster import LEAKS_OF_PYSPARK, needs_spark, spark, standalone_cluster
from support.faults import WrappedStorage
from support.hudi_cases import data_files, load_cases
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.storage import Storage
    from lakemeta_spark import SparkExecutor

pytestmark = [pytest.mark.spark, needs_spark, *LEAKS_OF_PYSPARK]
T = TypeVar("T")
SPECULATION = {
    "spark.speculation": "true",
    "spark.speculation.interval": "100ms",
    "spark.speculation.minTaskRuntime": "500ms",
    "spark.speculation.task.duration.threshold": "2s",  # for jobs of one task
}


@pytest.fixture(scope="module")
def executor(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkExecutor]:
    with standalone_cluster(tmp_path_factory.mktemp("spark")) as url:
        yield from spark(url, SPECULATION)


class TroubledStorage(WrappedStorage):
    """Does half of the first ``operation`` of a kind on a worker, then ``kill``s the worker's executor or is ``slow``.

    ``mark`` is a file that says that it has happened; the processes of a cluster share it.
    """

    def __init__(self, inner: Storage, kind: str, mark: Path, trouble: str) -> None:
        super().__init__(inner)
        self.kind, self.mark, self.trouble = kind, mark, trouble
        self.driver = os.getpid()

    def operation(
        self,
        name: str,
        paths: Sequence[str],
        effect: Callable[[], T],
        half: Callable[[], object] | None = None,
    ) -> T:
        if name == self.kind and os.getpid() != self.driver and _first(self.mark):
            if half is not None:
                half()
            if self.trouble == "kill":
                os.kill(_executor_process(), signal.SIGKILL)
            time.sleep(600)
        return effect()


def _first(mark: Path) -> bool:
    try:
        mark.touch(exist_ok=False)
    except FileExistsError:
        return False
    return True


def _executor_process() -> int:
    """The JVM of this worker: the parent of the daemon that this process was forked from."""
    status = Path(f"/proc/{os.getppid()}/stat").read_text()
    return int(status.rpartition(")")[2].split()[1])


def slow_the_first_time(folder: str, batch: Sequence[int]) -> list[int]:
    if batch[0] == 5 and _first(Path(folder, "slow")):
        time.sleep(600)
    return list(batch)


def troubled(table: HudiTable, kind: str, mark: Path, trouble: str) -> HudiTable:
    storage = TroubledStorage(LocalStorage(), kind, mark, trouble)
    return attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))


@pytest.mark.parametrize("trouble", ["kill", "slow"])
def test_a_deletion_whose_worker_is_lost(trouble: str, executor: SparkExecutor, tmp_path: Path) -> None:
    """Every planned file is gone and accounted for, one clean is complete, and there is nothing left to plan."""
    case = load_cases()["1.2.0__cow__commits1"]
    root = tmp_path / "t"
    table = troubled(HudiTable.open(case.unpack(root)), "delete_many", tmp_path / "mark", trouble)
    plan = table.plan_clean(case.options, now=case.now, executor=executor)
    report = table.apply(plan, executor=executor, env=Environment(lambda: case.now))
    assert (tmp_path / "mark").exists()
    assert report.complete
    assert report.deleted_files + report.absent_files == len(case.planned_files()) > 1
    assert data_files(root) == case.left_files()
    assert len(list(root.glob(".hoodie/timeline/*.clean"))) == len([f for f in case.hoodie if f.endswith(".clean")]) + 1
    assert HudiTable.open(str(root)).plan_clean(case.options, now=case.now).is_empty


def test_planning_whose_worker_is_lost(executor: SparkExecutor, tmp_path: Path) -> None:
    """The plan is the one of local threads."""
    case = load_cases()["1.2.0__delete_partition__versions1"]
    table = HudiTable.open(case.unpack(tmp_path / "t"))
    planned = table.plan_clean(case.options, now=case.now)
    table = troubled(table, "list_dir", tmp_path / "mark", "kill")
    assert table.plan_clean(case.options, now=case.now, executor=executor).dumps() == planned.dumps()
    assert (tmp_path / "mark").exists()


def test_a_slow_task_is_overtaken(executor: SparkExecutor, tmp_path: Path) -> None:
    """With speculation another worker does it again; every result is there once."""
    work = partial(slow_the_first_time, str(tmp_path))
    assert list(executor.map_batches(work, range(12), batch_size=1)) == list(range(12))


@pytest.mark.parametrize("trouble", ["kill", "slow"])
def test_an_iceberg_rewrite_whose_worker_is_lost(trouble: str, executor: SparkExecutor, tmp_path: Path) -> None:
    """All rows are there once, one snapshot was committed, and what the lost attempt wrote is gone."""
    root = tmp_path / "t"
    made = create_table(LocalStorage(), str(root), partitioned=True)
    for start in (0, 10, 20):
        made.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    made.delete_ids(7, partition=("b",))
    before = TableState.local(root).rows()
    snapshots = len(made.metadata.snapshots)
    storage: Any = TroubledStorage(LocalStorage(), "open_output", tmp_path / "mark", trouble)
    table = IcebergTable(Place(str(root), HadoopTableOperations(storage, str(root))))
    plan = table.plan_rewrite_data_files({"rewrite-all": "true"}, executor=executor)
    report = table.apply(plan, executor=executor, env=still_env(1))
    assert (tmp_path / "mark").exists()
    assert report.result["rewritten_data_files_count"] == 6
    after = TableState.local(root)
    assert after.rows() == before
    assert len(after.live(0)) == 2
    assert len(made.metadata.snapshots) == snapshots + 1
    assert {str(path) for path in root.glob("data/**/*.parquet")} == {
        path for path in after.referenced() if path.endswith(".parquet")
    }

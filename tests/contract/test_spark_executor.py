"""SparkExecutor against the contract of executors, on threads of this process and on a cluster of processes."""

from __future__ import annotations

import importlib.util
import os
import pickle
import signal
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from contract.executor_contract import ExecutorContract, size_of, squares
from contract.spark_cluster import LEAKS_OF_PYSPARK, PROCESSES, TESTS, THREADS, home, needs_spark, spark
from support.hudi_cases import data_files, load_cases

from lakemeta import __version__
from lakemeta.errors import (
    ExecutorError,
    LakemetaError,
    OptionError,
    PathNotFoundError,
    StorageError,
    TableNotFoundError,
)
from lakemeta.executor import hearing_of_batches, working_on

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

if importlib.util.find_spec("pyspark"):
    from lakemeta_spark import SparkExecutor, make_executor
    from lakemeta_spark.worker import Task

pytestmark = [pytest.mark.spark, needs_spark, *LEAKS_OF_PYSPARK]


def process_ids(batch: Sequence[int]) -> list[tuple[int, int]]:
    return [(os.getpid(), os.getppid())]


def raises(error: Exception, batch: Sequence[int]) -> list[int]:
    raise error


def marks_and_sleeps(folder: str, seconds: float, batch: Sequence[int]) -> list[int]:
    Path(folder, str(batch[0])).touch()
    if batch[0] > 2:
        time.sleep(seconds)
    return list(batch)


def waits_for(sign: str, batch: Sequence[int]) -> list[int]:
    """The second batch ends once somebody has heard of the first."""
    while 1 in batch and not Path(sign).exists():
        time.sleep(0.02)
    return list(batch)


def fails_until(folder: str, times: int, how: str, batch: Sequence[int]) -> list[int]:
    """Fails the first ``times`` times: by an exception, or with its whole process."""
    for attempt in range(times):
        try:
            Path(folder, f"{batch[0]}-{attempt}").touch(exist_ok=False)
        except FileExistsError:
            continue
        if how == "exit":
            os._exit(3)
        raise OSError("a bad disk")
    return list(batch)


def dies(bad: int, batch: Sequence[int]) -> list[int]:
    if bad in batch:
        os._exit(3)
    return list(batch)


class OddError(LakemetaError):
    """An error that pickle can't make again."""

    def __init__(self, path: str, problem: str) -> None:
        super().__init__(f"{path}: {problem}")


def raises_an_odd_one(batch: Sequence[int]) -> list[int]:
    raise OddError("x", "broken")


def until_no_job_is_active(executor: SparkExecutor) -> None:
    """Spark learns of the end of a job a moment after the driver."""
    while executor._context.statusTracker().getActiveJobsIds():
        time.sleep(0.05)


@pytest.fixture(scope="class")
def executor(request: pytest.FixtureRequest) -> Iterator[SparkExecutor]:
    yield from spark(request.cls.master)


class TestThreads(ExecutorContract):
    master = THREADS

    def test_items_are_taken_as_they_are_needed(self, executor: SparkExecutor) -> None:
        """A bounded number of items is taken ahead of the consumer, so endless input is fine."""
        taken = 0

        def endless() -> Iterator[int]:
            nonlocal taken
            while True:
                taken += 1
                yield taken

        results = executor.map_batches(squares, endless(), batch_size=10)
        assert taken == 0
        assert [next(results) for _ in range(25)] == [n * n for n in range(1, 26)]
        assert taken <= 10 * 4 * 2 * 16
        results.close()
        after = taken
        with pytest.raises(StopIteration):
            next(results)
        assert taken == after

    def test_functions_of_a_notebook(self, executor: SparkExecutor) -> None:
        """Lambdas and closures run too, though plain pickle can't ship them."""
        add = 3
        assert list(executor.map_batches(lambda batch: [n + add for n in batch], [1, 2], batch_size=1)) == [4, 5]

    def test_what_cannot_be_shipped_is_named(self, executor: SparkExecutor) -> None:
        """A function that holds a lock, and results that hold one, are refused in words."""
        with pytest.raises(ExecutorError, match=r"squares cannot be shipped to workers.*lock"):
            list(executor.map_batches(partial(squares, threading.Lock()), [1], batch_size=1))
        with pytest.raises(ExecutorError, match=r"cannot be shipped.*lock"):
            list(executor.map_batches(lambda batch: [threading.Lock()], [1], batch_size=1))

    @pytest.mark.parametrize("error", [TableNotFoundError("no table"), PathNotFoundError("no x"), StorageError("slow")])
    def test_our_errors_come_back_as_they_are(self, executor: SparkExecutor, error: LakemetaError) -> None:
        """Also those that are errors of Python's own at the same time."""
        with pytest.raises(type(error)) as caught:
            list(executor.map_batches(partial(raises, error), [1], batch_size=1))
        assert type(caught.value) is type(error)
        assert str(caught.value) == str(error)

    def test_an_error_that_pickle_cannot_make_again(self, executor: SparkExecutor) -> None:
        """Its class is lost, its name and its sentence are not."""
        with pytest.raises(ExecutorError, match="OddError: x: broken"):
            list(executor.map_batches(raises_an_odd_one, [1], batch_size=1))

    def test_the_note_shows_where_on_the_worker(self, executor: SparkExecutor) -> None:
        """The worker's own traceback is kept, and no Java is in it."""
        with pytest.raises(ExecutorError) as caught:
            list(executor.map_batches(partial(raises, ValueError("odd")), [1], batch_size=1))
        assert "in raises" in "".join(caught.value.__notes__)
        assert "py4j" not in "".join([str(caught.value), *caught.value.__notes__]).lower()

    def test_a_worker_that_dies_for_good(self, executor: SparkExecutor) -> None:
        """A task whose process dies again and again ends the run; the message names its batch, without a trace."""
        with pytest.raises(ExecutorError, match=r"work on 6 and the item after it failed on Spark.*crashed") as caught:
            list(executor.map_batches(partial(dies, 7), range(10), batch_size=2))
        assert "\n" not in str(caught.value)
        assert list(executor.map_batches(squares, [3], batch_size=1)) == [9]

    def test_another_version_does_no_work(self, executor: SparkExecutor) -> None:
        """A worker whose lakemeta is not the driver's says so."""
        context = executor._context
        task = Task(context.broadcast(squares), "0.0.1", 1)
        (answer,) = context.parallelize([[pickle.dumps([3])]], 1).mapPartitions(task).collect()
        error, _, results = pickle.loads(answer)
        assert str(error) == f"the driver has lakemeta 0.0.1, a worker has {__version__}; ship the driver's to both"
        assert not results

    def test_closing_cancels_the_jobs(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """Once the iterator is closed no further batch starts, and Spark runs nothing of it any more."""
        work = partial(marks_and_sleeps, str(tmp_path), 600)
        results = SparkExecutor(executor._context, 1).map_batches(work, range(1000), batch_size=1)
        assert [next(results), next(results)] == [0, 1]
        while not Path(tmp_path, "3").exists():
            time.sleep(0.05)
        results.close()
        until_no_job_is_active(executor)
        assert len(list(tmp_path.iterdir())) <= 3 + 2  # one slow batch a core

    def test_ctrl_c_cancels_the_jobs(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """An interrupt while results are awaited ends the run at once, and the executor goes on working."""

        def interrupt() -> None:
            while not Path(tmp_path, "3").exists():
                time.sleep(0.05)
            os.kill(os.getpid(), signal.SIGINT)

        threading.Thread(target=interrupt, daemon=True).start()
        work = partial(marks_and_sleeps, str(tmp_path), 600)
        with pytest.raises(KeyboardInterrupt):
            list(executor.map_batches(work, range(1000), batch_size=1))
        until_no_job_is_active(executor)
        assert list(executor.map_batches(squares, [3], batch_size=1)) == [9]

    def test_batches_are_heard_of_as_they_end(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """A listener hears the number of every batch, and of a batch that ended before its job did."""
        sign, heard = tmp_path / "heard", []

        def hear(number: int) -> None:
            heard.append(number)
            if number == 0:
                sign.touch()

        two = SparkExecutor(executor._context, 2)
        with hearing_of_batches(hear):
            results = two.map_batches(partial(waits_for, str(sign)), range(7), batch_size=1)
        assert list(results) == list(range(7))
        assert set(heard) == set(range(7))

    def test_jobs_are_named_and_the_callers_names_stay(self, executor: SparkExecutor) -> None:
        """The job's description says phase and table; the caller's own group and description are untouched."""
        context = executor._context
        context.setJobGroup("mine", "my own work")
        seen: list[tuple[str, str]] = []

        def look() -> Iterator[int]:
            yield 1
            store = context._jsc.sc().statusStore()
            jobs = store.jobsList(None)
            for number in range(jobs.size()):
                job = jobs.apply(number)
                if job.jobGroup().isDefined():
                    seen.append((job.jobGroup().get(), job.description().get()))

        with working_on("plan clean of /t"):
            results = executor.map_batches(squares, [1], batch_size=1)
        assert list(results) == [1]
        list(look())
        groups = [group for group, description in seen if description == "plan clean of /t: squares (batches 1 to 1)"]
        assert len(groups) == 1
        assert groups[0].startswith("lakemeta plan clean of /t: squares")
        assert context.getLocalProperty("spark.jobGroup.id") == "mine"
        assert context.getLocalProperty("spark.job.description") == "my own work"

    def test_two_calls_at_once(self, executor: SparkExecutor) -> None:
        """Calls of one executor may be consumed in turns."""
        one = executor.map_batches(squares, range(20), batch_size=3)
        other = executor.map_batches(size_of, range(20), batch_size=10)
        assert [next(one), next(other), next(one), next(other)] == [0, 10, 1, 10]
        assert list(one) == [n * n for n in range(2, 20)]
        assert list(other) == []

    def test_the_example_for_notebooks(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """The documented code cleans a table in a session that it is given; plan and report are tables for Jupyter."""
        from pyspark.sql import SparkSession

        case = load_cases()["1.2.0__cow__commits1"]
        page = (TESTS.parent / "docs" / "spark.md").read_text(encoding="utf-8")
        code = page.partition("```python\n")[2].partition("```")[0]
        code = code.replace("s3://bucket/table", case.unpack(tmp_path)).replace(': "10"', ': "1"')
        names: dict[str, Any] = {"spark": SparkSession(executor._context)}
        exec(compile(code, "spark.md", "exec"), names)
        assert names["report"].deleted_files == names["plan"].files == len(case.planned_files())
        assert data_files(tmp_path) == case.left_files()
        assert "<td>p1</td>" in names["plan"]._repr_html_()
        assert "<td>deleted_files</td>" in names["report"]._repr_html_()


class TestProcesses(ExecutorContract):
    master = PROCESSES
    every = 8

    def test_the_work_is_spread(self, executor: SparkExecutor) -> None:
        """Batches run in processes that are not this one, on both executors."""

        def slow(batch: Sequence[int]) -> list[tuple[int, int]]:
            time.sleep(0.3)
            return process_ids(batch)

        seen = set(executor.map_batches(slow, range(8), batch_size=1))
        assert os.getpid() not in {pid for pid, _ in seen}
        assert len({parent for _, parent in seen}) == 2

    @pytest.mark.parametrize("how", ["raise", "exit"])
    def test_a_task_that_fails_twice(self, executor: SparkExecutor, tmp_path: Path, how: str) -> None:
        """Spark tries again; results are whole and none is there twice."""
        work = partial(fails_until, str(tmp_path), 2, how)
        assert list(executor.map_batches(work, range(6), batch_size=3)) == list(range(6))
        assert len(list(tmp_path.iterdir())) == 4

    def test_a_refusal_is_not_tried_again(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """What no other machine would do better ends the run at once."""

        def refuses(batch: Sequence[int]) -> list[int]:
            Path(tmp_path, str(time.monotonic_ns())).touch()
            raise TableNotFoundError("no table")

        with pytest.raises(TableNotFoundError, match="no table"):
            list(executor.map_batches(refuses, [1], batch_size=1))
        assert len(list(tmp_path.iterdir())) == 1

    def test_a_failure_is_tried_as_often_as_spark_says(self, executor: SparkExecutor, tmp_path: Path) -> None:
        """The error of the last attempt is the one that comes back, as itself."""

        def fails(batch: Sequence[int]) -> list[int]:
            Path(tmp_path, str(time.monotonic_ns())).touch()
            raise StorageError("the store is down")

        with pytest.raises(StorageError, match=r"^the store is down$"):
            list(executor.map_batches(fails, [1], batch_size=1))
        assert len(list(tmp_path.iterdir())) == 4


def test_a_session_of_the_caller_is_never_stopped() -> None:
    """Only what an executor has started it stops; a session, its context and a second executor share one Spark."""
    from pyspark.sql import SparkSession

    interrupt = signal.getsignal(signal.SIGINT)
    for owner in spark(THREADS):
        assert signal.getsignal(signal.SIGINT) is not interrupt
        session = SparkSession(owner._context)
        for given in (session, owner._context):
            with SparkExecutor(given) as guest:
                assert list(guest.map_batches(squares, [2], batch_size=1)) == [4]
        with make_executor(THREADS) as second:
            assert list(second.map_batches(squares, [3], batch_size=1)) == [9]
        with pytest.raises(OptionError, match=r"with another spark\.master"):
            make_executor("local[7]")
        assert list(owner.map_batches(squares, [4], batch_size=1)) == [16]
    assert signal.getsignal(signal.SIGINT) is interrupt
    with pytest.raises(ExecutorError, match="has been stopped"):
        list(guest.map_batches(squares, [2], batch_size=1))


def test_spark_connect_is_refused() -> None:
    """A session without RDDs is refused, by its class or by its URL, and the message says what to use."""
    remote: Any = type("SparkSession", (), {"__module__": "pyspark.sql.connect.session"})
    with pytest.raises(OptionError, match=r"Spark Connect has no RDDs.*spark-submit"):
        SparkExecutor(remote())
    with pytest.raises(OptionError, match="Spark Connect has no RDDs"):
        make_executor("sc://somewhere:15002")
    with pytest.raises(OptionError, match="not a str"):
        SparkExecutor("local[2]")


@pytest.mark.skipif(
    importlib.util.find_spec("grpc_status") is None or not list(home().glob("jars/spark-connect_*.jar")),
    reason="this PySpark is without Connect: version 4, installed as pyspark[connect], has it",
)
def test_a_live_session_of_spark_connect_is_refused() -> None:
    """A session of a Connect server, by its class; its server in this machine's Spark is none of our business."""
    script = (
        "from pyspark.sql import SparkSession\nfrom lakemeta.errors import OptionError\n"
        "from lakemeta_spark import SparkExecutor\n"
        "session = SparkSession.builder.remote('local[1]').getOrCreate()\nprint(session.range(3).count())\n"
        "try:\n    SparkExecutor(session)\nexcept OptionError as error:\n    print(error)\n"
    )
    environment = {**os.environ, "SPARK_LOCAL_IP": "127.0.0.1", "PYTHONPATH": str(TESTS.parent)}
    environment.pop("SPARK_HOME", None)
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False, timeout=300
    )
    count, said = done.stdout.splitlines()[-2:]
    assert count == "3", done.stderr[-3000:]
    assert said.startswith("Spark Connect has no RDDs")


def test_spark_that_does_not_start() -> None:
    """Said in one sentence."""
    with pytest.raises(ExecutorError, match=r"^Spark does not start: .*nonsense://x") as caught:
        make_executor("nonsense://x", {"spark.driver.host": "127.0.0.1"})
    assert "\n" not in str(caught.value)

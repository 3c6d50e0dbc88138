"""The executor that runs batches as Spark tasks.

Rules of this module:

1. Batches go to Spark in waves, one job each. A few waves run ahead of the consumer, so a slow task holds up the order
   of results but not the cluster, and the driver holds a bounded amount of results.
2. The function is pickled once a call and broadcast. Items and results travel as pickled bytes.
3. When the consumer stops, by an error, by Ctrl-C or by closing the iterator, the call's jobs are cancelled.
   Spark cannot promise that tasks have ended by then, so work must bear being done again or late: that is the
   contract of executors.
4. Jobs run in threads of their own, in the caller's scheduler pool; the caller's job group and description stay as
   they are.
"""

from __future__ import annotations

import pickle
import signal
import threading
import time
import uuid
from collections import deque
from concurrent.futures import Future, ThreadPoolExecutor, wait
from functools import partial
from typing import TYPE_CHECKING, Any, Self, TypeVar

import attrs

from lakemeta.errors import ExecutorError, OptionError
from lakemeta.executor import LocalExecutor, batch_listener, batched, current_work
from lakemeta.version import __version__
from lakemeta_spark.ended import ended_tasks
from lakemeta_spark.failure import job_failed
from lakemeta_spark.session import attempts, context_of, find_or_start
from lakemeta_spark.waves import Wave, Waves

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark import Broadcast, SparkContext

T = TypeVar("T")
R = TypeVar("R")

WAVES_AHEAD = 3
_POOL = "spark.scheduler.pool"
_LOOK_AGAIN_AFTER = 0.005  # seconds
_CANCEL_AGAIN_AFTER = 0.2  # seconds


class SparkExecutor:
    """Runs batches on the workers of a Spark cluster (a :class:`lakemeta.executor.LocatedExecutor`).

    ``spark_or_sc`` is a classic SparkSession or SparkContext, which is used and never stopped. ``parallelism`` is the
    number of tasks in one job; by default as many as Spark has cores at that moment. Many calls may run at once.

    Raises:
        OptionError: the session is one of Spark Connect, or ``parallelism`` is not positive.
    """

    def __init__(self, spark_or_sc: Any, parallelism: int | None = None) -> None:
        if parallelism is not None and parallelism < 1:
            raise OptionError(f"a parallelism of {parallelism} does no work; give at least 1")
        self._context = context_of(spark_or_sc)
        self._parallelism = parallelism
        self._owned = False
        self._interrupt: Any = None  # who handled Ctrl-C before Spark started
        self._nearby = LocalExecutor()  # for what is not worth a job, such as reading a timeline

    @classmethod
    def start(
        cls, master: str | None = None, conf: Mapping[str, str] | None = None, parallelism: int | None = None
    ) -> Self:
        """An executor on the context of this process, or on one that is started here and stopped by :meth:`close`."""
        interrupt = signal.getsignal(signal.SIGINT)
        context, owned = find_or_start(master, conf or {})
        executor = cls(context, parallelism)
        executor._owned, executor._interrupt = owned, interrupt
        return executor

    def close(self) -> None:
        """Stop Spark if this executor has started it."""
        if self._owned:
            self._owned = False
            self._context.stop()
            if self._interrupt is not None and threading.current_thread() is threading.main_thread():
                signal.signal(signal.SIGINT, self._interrupt)  # PySpark's would fail for want of a running Spark

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        return f"SparkExecutor({self._context.master}, parallelism={self._parallelism})"

    @property
    def ships(self) -> bool:
        """True: workers are processes of their own, also on a local master."""
        return True

    @property
    def nearby(self) -> LocalExecutor:
        """Threads of the driver."""
        return self._nearby

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the results of ``fn`` over consecutive batches of ``items``, in input order."""
        if batch_size < 1:
            raise OptionError(f"the batch size is {batch_size}; it must be at least 1")
        waves = Waves(batched(items, batch_size), self._width)
        return _results(self._context, fn, waves, current_work(), batch_listener())

    def _width(self) -> int:
        if self._context._jsc is None:  # noqa: SLF001 - None once the context is stopped
            raise ExecutorError("the Spark session has been stopped; start a new one")
        return self._parallelism or max(1, self._context.defaultParallelism)


def make_executor(master: str | None = None, conf: Mapping[str, str] | None = None) -> SparkExecutor:
    """The executor of ``--executor spark``; close it, or use it as a context manager."""
    return SparkExecutor.start(master, conf)


def _results(
    context: SparkContext,
    fn: Callable[[Sequence[T]], Iterable[R]],
    waves: Waves,
    work: str,
    listener: Callable[[int], None] | None,
) -> Iterator[R]:
    call: _Call | None = None
    pending: deque[_Job] = deque()
    with ThreadPoolExecutor(WAVES_AHEAD, thread_name_prefix="lakemeta-spark") as threads:
        try:
            for wave in waves:
                call = call or _Call(context, fn, work, listener)
                pending.append(call.submit(threads, wave, pending[-1] if pending else None))
                if len(pending) == WAVES_AHEAD:
                    yield from _unpacked(pending.popleft().answers.result(), waves)
            while pending:
                yield from _unpacked(pending.popleft().answers.result(), waves)
        finally:
            if call is not None:
                call.end(pending)


def _unpacked(answers: deque[bytes], waves: Waves) -> Iterator[Any]:
    while answers:
        answer = answers.popleft()
        error, seconds, results = pickle.loads(answer)  # noqa: S301 - made by our own worker
        if error is not None:
            raise error
        waves.saw(len(answer), seconds)
        yield from results


@attrs.frozen
class _Job:
    """The job of one wave: its group in Spark, which is its own, and the answers to come."""

    group: str
    answers: Future[deque[bytes]]


class _Call:
    """One call of ``map_batches``: the name of its jobs, and its broadcast function."""

    def __init__(
        self, context: SparkContext, fn: Callable[..., Any], work: str, listener: Callable[[int], None] | None
    ) -> None:
        self.listener = listener
        self.name = f"{work}: {_name_of(fn)}"
        self.group = f"lakemeta {self.name} {uuid.uuid4().hex[:8]}"
        self.context = context
        self.stopped = threading.Event()
        self.broadcast = _broadcast(context, fn)
        self.attempts = attempts(context)

    def submit(self, threads: ThreadPoolExecutor, wave: Wave, before: _Job | None) -> _Job:
        """Start the job of a wave on a thread, after the job before and in the scheduler pool of this thread."""
        group = f"{self.group}/{wave.first}"
        pool = self.context.getLocalProperty(_POOL)
        return _Job(group, threads.submit(self._collect, wave, group, pool, before))

    def _collect(self, wave: Wave, group: str, scheduler_pool: str | None, before: _Job | None) -> deque[bytes]:
        from lakemeta_spark.worker import Task

        try:
            ended = ended_tasks(self.context, wave, self.listener)
            task = Task(self.broadcast, __version__, self.attempts, ended)
            tasks = self.context.parallelize(wave.tasks, len(wave.tasks)).mapPartitions(task)
            self._await_start(before)
            if self.stopped.is_set():
                return deque()
            self.context.setLocalProperty(_POOL, scheduler_pool)  # type: ignore[arg-type]
            description = f"{self.name} (batches {wave.first} to {wave.last})"
            self.context.setJobGroup(group, description, interruptOnCancel=True)
            return deque(tasks.collect())
        except Exception as error:  # noqa: BLE001 - errors of the work are answers; this is Spark's own
            raise job_failed(error, wave.heads) from None

    def _await_start(self, before: _Job | None) -> None:
        """Spark serves jobs as they come, and the consumer waits for the first of them."""
        tracker = self.context.statusTracker()
        while before is not None and not before.answers.done() and not self.stopped.is_set():
            if tracker.getJobIdsForGroup(before.group):
                return
            time.sleep(_LOOK_AGAIN_AFTER)

    def end(self, pending: Iterable[_Job]) -> None:
        """Cancel the jobs that run, wait until Spark has given them up, and drop the broadcast."""
        self.stopped.set()
        running = [job for job in pending if not job.answers.done()]
        while running:
            for job in running:
                self.context.cancelJobGroup(job.group)  # again and again: a job may be just about to start
            wait([job.answers for job in running], timeout=_CANCEL_AGAIN_AFTER)
            running = [job for job in running if not job.answers.done()]
        if self.context._jsc is not None:  # noqa: SLF001 - as above
            self.broadcast.destroy()


class _AsCloudpickle:
    """Is unpickled as ``fn``, which may be a lambda or live in a notebook: a broadcast uses plain pickle."""

    def __init__(self, fn: Callable[..., Any]) -> None:
        from pyspark import cloudpickle

        pickler: Any = cloudpickle
        self._parts = pickler.loads, (pickler.dumps(fn),)

    def __reduce__(self) -> tuple[Any, tuple[bytes]]:
        return self._parts


def _broadcast(context: SparkContext, fn: Callable[..., Any]) -> Broadcast[Any]:
    try:
        return context.broadcast(_AsCloudpickle(fn))
    except Exception as error:
        raise ExecutorError(f"{_name_of(fn)} cannot be shipped to workers: {type(error).__name__}: {error}") from error


def _name_of(fn: Any) -> str:
    """The name of a function, of the one inside a partial, or of a callable object's class, in words."""
    while isinstance(fn, partial):
        fn = fn.func
    name = getattr(fn, "__name__", type(fn).__name__)
    return str(name).strip("_<>").replace("_", " ")

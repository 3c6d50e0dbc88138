"""What runs on Spark's workers: a task is some batches; the answer to a batch is its results or its error.

Rules of this module:

1. An error that Spark may overcome on another machine (anything unexpected, or a storage that failed) is raised as
   long as Spark tries the task again. A refusal, or the error of the last attempt, is an answer: it reaches the driver
   as the object it is, not as text in a Java exception. Batches after it are not begun.
2. A worker with another version of lakemeta does no work.
3. PySpark calls ``importlib.invalidate_caches`` before every task, for which Python 3.11 reads the directories of all
   zip files on its path anew: PySpark's own and the jar of Spark's core, 0.06 s of CPU. So a task forgets their
   importers when it ends; the next import finds them again.
"""

from __future__ import annotations

import pickle
import sys
import traceback
from itertools import chain
from time import perf_counter
from typing import TYPE_CHECKING, Any
from zipimport import zipimporter

import attrs
from pyspark import TaskContext

from lakemeta.errors import ExecutorError, LakemetaError, PathExistsError, PathNotFoundError, StorageError
from lakemeta.executor import run_batch
from lakemeta.version import __version__
from lakemeta_spark.failure import lacks

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from pyspark import Accumulator, Broadcast


@attrs.frozen
class Task:
    """The work of every task of a wave: the broadcast function, the driver's version, how often Spark tries.

    ``ended`` takes the numbers of tasks that have ended, if the driver listens to them.
    """

    fn: Broadcast[Any]
    version: str
    attempts: int
    ended: Accumulator[tuple[int, ...]] | None = None

    def __call__(self, tasks: Iterable[Sequence[bytes]]) -> Iterator[bytes]:
        """The answers to the pickled batches of a task: (error or None, seconds, results), pickled."""
        try:
            for batch in chain.from_iterable(tasks):
                failed, answer = self._answer(batch)
                yield answer
                if failed:
                    return
            if self.ended is not None and (context := TaskContext.get()) is not None:
                self.ended.add((context.partitionId(),))
        finally:
            _forget_zip_files()

    def _answer(self, batch: bytes) -> tuple[bool, bytes]:
        started = perf_counter()
        try:
            _check_version(self.version)
            items = pickle.loads(batch)  # noqa: S301 - made by our own driver
            results = run_batch(self.fn.value, items)
            return False, pickle.dumps((None, perf_counter() - started, results))
        except LakemetaError as error:
            failure = error
        except ModuleNotFoundError as error:
            failure = ExecutorError(lacks(str(error.name)))
            failure.__cause__ = error
        except Exception as error:  # noqa: BLE001 - pickle raises what it likes
            failure = ExecutorError(f"items or results cannot be shipped: {type(error).__name__}: {error}")
            failure.__cause__ = error
        if _worth_another_try(failure) and _attempt() + 1 < self.attempts:
            raise failure
        return True, _shipped(failure)


def _forget_zip_files() -> None:
    """Drop the importers of zip files (rule 3)."""
    for path, finder in list(sys.path_importer_cache.items()):
        if isinstance(finder, zipimporter):
            del sys.path_importer_cache[path]


def _check_version(version: str) -> None:
    if version != __version__:
        raise ExecutorError(f"the driver has lakemeta {version}, a worker has {__version__}; ship the driver's to both")


def _worth_another_try(failure: LakemetaError) -> bool:
    return isinstance(failure, (ExecutorError, StorageError)) and not isinstance(
        failure, (PathExistsError, PathNotFoundError)
    )


def _attempt() -> int:
    context = TaskContext.get()
    return context.attemptNumber() if context else 0


def _shipped(failure: LakemetaError) -> bytes:
    """The answer that raises ``failure`` on the driver, with the worker's traceback as a note."""
    if failure.__cause__ is not None:
        failure.add_note("on a Spark worker:\n" + "".join(traceback.format_exception(failure.__cause__)))
    try:
        answer = pickle.dumps((failure, 0.0, ()))
        pickle.loads(answer)  # noqa: S301 - made just now
    except Exception:  # noqa: BLE001 - an error class with an __init__ of its own may do anything
        answer = pickle.dumps((ExecutorError(f"{type(failure).__name__}: {failure}"), 0.0, ()))
    return answer

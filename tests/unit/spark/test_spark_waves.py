from __future__ import annotations

import pickle
from itertools import count

import pytest

from lakemeta_spark.failure import job_failed, reason
from lakemeta_spark.waves import BATCHES_A_TASK, Waves


def test_a_task_a_core_at_first_then_more_batches_where_they_are_quick() -> None:
    """Batches that take a moment share tasks, up to a limit, in input order; slow ones do not."""
    waves = Waves(([n] for n in count()), lambda: 3)
    cut = iter(waves)
    assert [len(task) for task in next(cut).tasks] == [1, 1, 1]
    for _ in range(20):
        waves.saw(100, 0.001)
    wave = next(cut)
    assert (wave.first, wave.last) == (4, 3 + 3 * BATCHES_A_TASK)
    assert [pickle.loads(batch) for task in wave.tasks for batch in task] == [[n] for n in range(3, wave.last)]
    for _ in range(20):
        waves.saw(100, 60)
    assert [len(task) for task in next(cut).tasks] == [1, 1, 1]


def test_few_batches_are_spread_evenly() -> None:
    """What is left at the end goes to as many tasks as there are cores."""
    waves = Waves([[n] for n in range(7)], lambda: 3)
    for _ in range(20):
        waves.saw(100, 0.001)
    assert [len(task) for wave in waves for task in wave.tasks] == [2, 2, 3]
    assert list(Waves([], lambda: 3)) == []


def test_big_batches_and_big_results_make_small_waves() -> None:
    """Neither what goes out nor what is expected back passes the limit, unless one batch alone does."""
    big = Waves([["x" * 600], ["x" * 600], ["x" * 600]], lambda: 3, limit=1000)
    assert [len(wave.tasks) for wave in big] == [2, 1]
    waves = Waves([[n] for n in range(4)], lambda: 4, limit=1000)
    waves.saw(400, 1)
    assert [len(wave.tasks) for wave in waves] == [2, 2]
    waves = Waves([[n] for n in range(2)], lambda: 4, limit=1000)
    waves.saw(5000, 1)
    assert [len(wave.tasks) for wave in waves] == [1, 1]


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        (
            "An error occurred while calling z:o.\n: org.apache.spark.SparkException: Job 3 cancelled\n\tat o.a.B(C)",
            "Job 3 cancelled",
        ),
        (
            "x PythonException: Traceback (most recent call last):\n  File y\nValueError: odd\n\n\tat org.apache.Z(Z)",
            "ValueError: odd",
        ),
        (
            "Traceback (most recent call last):\n  File y\nModuleNotFoundError: No module named 'fastavro'\n",
            "a worker has no module fastavro; docs/spark.md lists three ways to install packages on workers",
        ),
        ("", "RuntimeError"),
    ],
)
def test_one_sentence_of_a_page(text: str, sentence: str) -> None:
    """The Python error if there is one, else what Java says, without classes and stack."""
    assert reason(RuntimeError(text)) == sentence


def test_the_failed_task_names_its_batch() -> None:
    """Spark tells which task failed; the message names what that task had to do."""
    error = RuntimeError("Job aborted due to stage failure: Task 1 in stage 4.0 failed 4 times")
    assert str(job_failed(error, ["a", "b"])).startswith("work on b failed on Spark: Job aborted")
    assert str(job_failed(RuntimeError("gone"), ["a", "b"])) == "work on a failed on Spark: gone"

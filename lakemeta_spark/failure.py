"""Says in one sentence what Spark says in a page."""

from __future__ import annotations

import re

from lakemeta.errors import ExecutorError

_PYTHON_TRACEBACK = re.compile(r"Traceback \(most recent call last\):\n(?:[ ].*\n)*((?:\S.*\n?)+?)(?=\n|\s+at |\Z)")
_FAILED_TASK = re.compile(r"Task (\d+)(?:\.\d+)? in stage")
_MISSING = re.compile(r"ModuleNotFoundError: No module named '([\w.]+)'")
_JAVA_CLASS = re.compile(r"^(?:: )?(?:[a-z]\w*\.)+[A-Z]\w*(?:Exception|Error): ")


def reason(error: BaseException) -> str:
    """What went wrong: the last line of a Python traceback in the text, else the first line of the Java message."""
    text = str(error)
    if missing := _MISSING.search(text):
        return lacks(missing[1])
    if python := _PYTHON_TRACEBACK.search(text):
        return python[1].strip().splitlines()[-1]
    lines = [line for line in text.splitlines() if line.strip()]
    said = next((line for line in lines if _JAVA_CLASS.match(line)), lines[0] if lines else type(error).__name__)
    while match := _JAVA_CLASS.match(said):
        said = said[match.end() :]
    return said


def lacks(module: str) -> str:
    """What to say of a module that a worker does not have."""
    return f"a worker has no module {module}; docs/spark.md lists three ways to install packages on workers"


def job_failed(error: BaseException, heads: list[str]) -> ExecutorError:
    """The error for a job that Spark gave up; it names the batch of the task that failed, if Spark does."""
    task = _FAILED_TASK.search(str(error))
    number = int(task[1]) if task else 0
    what = heads[number] if number < len(heads) else heads[0]
    return ExecutorError(f"work on {what} failed on Spark: {reason(error)}")

"""Finds or starts the SparkContext that work runs on."""

from __future__ import annotations

import os
import re
import socket
import sys
from typing import TYPE_CHECKING, Any

from lakemeta.errors import ExecutorError, OptionError
from lakemeta_spark.failure import reason

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark import SparkContext

_STANDALONE = "spark://"
_ANSWER_WITHIN = 5.0  # seconds
_LOCAL_WITH_RETRIES = re.compile(r"local\[[^,]+,\s*(\d+)\]")


def context_of(spark_or_sc: Any) -> SparkContext:
    """The SparkContext of a session, or the context itself.

    Raises:
        OptionError: it is a Spark Connect session, which has no RDDs, or nothing of Spark's.
    """
    if type(spark_or_sc).__module__.startswith("pyspark.sql.connect"):
        raise _no_connect()
    try:
        from pyspark import SparkContext
    except ImportError:
        raise _no_pyspark() from None
    context = getattr(spark_or_sc, "sparkContext", spark_or_sc)
    if not isinstance(context, SparkContext):
        raise OptionError(f"a SparkExecutor needs a SparkSession or SparkContext, not a {type(spark_or_sc).__name__}")
    return context


def find_or_start(master: str | None, conf: Mapping[str, str]) -> tuple[SparkContext, bool]:
    """The context of this process, and True if there was none, so that it was started here and is ours to stop.

    Raises:
        OptionError: PySpark is missing, ``master`` is a Spark Connect URL, or the running context has other settings.
        ExecutorError: Spark does not start.
    """
    wanted = {**conf, **({"spark.master": master} if master else {})}
    if wanted.get("spark.master", "").startswith("sc://") or "spark.remote" in wanted:
        raise _no_connect()
    try:
        from pyspark import SparkConf, SparkContext
    except ImportError:
        raise _no_pyspark() from None
    running = SparkContext._active_spark_context  # noqa: SLF001 - getOrCreate would start one
    if running is not None:
        _check_settings(running, wanted)
        return running, False
    _reach(wanted.get("spark.master", ""))
    settings = {"spark.app.name": "lakemeta", "spark.ui.showConsoleProgress": "false", **wanted}
    try:
        context = SparkContext(conf=SparkConf().setAll(list(settings.items())))
    except Exception as error:
        raise ExecutorError(f"Spark does not start: {reason(error)}") from error
    if (context.master or "").startswith("local") and "PYSPARK_PYTHON" not in os.environ:
        context.pythonExec = sys.executable  # PySpark would take the first python3 of the PATH, which may lack lakemeta
    return context, True


def _reach(master: str) -> None:
    """Raise ExecutorError if no address of a standalone cluster answers; Spark itself would try for minutes."""
    if not master.startswith(_STANDALONE):
        return
    for address in master.removeprefix(_STANDALONE).split(","):
        host, _, port = address.rpartition(":")
        try:
            socket.create_connection((host, int(port)), _ANSWER_WITHIN).close()
        except (OSError, ValueError, OverflowError):
            continue
        return
    raise ExecutorError(f"no Spark master answers at {master}; is it running, and is that its address?")


def attempts(context: SparkContext) -> int:
    """How often Spark tries a task before it gives up the job: once with master local and local[N]."""
    master = context.master or ""
    if retries := _LOCAL_WITH_RETRIES.fullmatch(master):
        return int(retries[1])
    if master.partition("[")[0] == "local":
        return 1
    return int(context.getConf().get("spark.task.maxFailures") or 4)


def _check_settings(running: SparkContext, wanted: Mapping[str, str]) -> None:
    has = running.getConf()
    for key, value in wanted.items():
        if has.get(key) != value:
            raise OptionError(f"Spark runs already with another {key}; stop it, or leave {key} out")


def _no_connect() -> OptionError:
    return OptionError(
        "Spark Connect has no RDDs, which a SparkExecutor needs; give it a classic session (on the cluster's own "
        "driver, by spark-submit or with a master URL), or use the local executor"
    )


def _no_pyspark() -> OptionError:
    return OptionError("the Spark executor needs the classic PySpark: pip install 'lakemeta[spark]'")

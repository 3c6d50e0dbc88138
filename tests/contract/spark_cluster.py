"""Spark for tests: in this process, and as a cluster of real processes. Tests skip, with a reason, without Java."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta_spark import SparkExecutor

TESTS = Path(__file__).resolve().parents[1]
THREADS = "local[2]"
PROCESSES = "local-cluster[2,1,512]"  # two executors of one core: JVMs of their own, each with its Python workers
SMALL = {
    "spark.driver.memory": "512m",
    "spark.executor.memory": "512m",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.executor.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.log.level": "OFF",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join([str(TESTS.parent), str(TESTS)]),
}

# PySpark leaves the sockets of its results and of finished threads to the garbage collector.
LEAKS_OF_PYSPARK = [
    pytest.mark.filterwarnings("ignore::ResourceWarning"),
    pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning"),
]


def why_no_spark() -> str | None:
    """Why Spark can't run here; None if it can."""
    if importlib.util.find_spec("pyspark") is None:
        return "PySpark is not installed"
    return None if shutil.which("java") or "JAVA_HOME" in os.environ else "there is no java"


needs_spark = pytest.mark.skipif(why_no_spark() is not None, reason=str(why_no_spark()))


def spark(master: str, **conf: str) -> Iterator[SparkExecutor]:
    """An executor that owns a small Spark; the body of a fixture. ``a__b`` in a name stands for ``a.b``."""
    import pyspark

    from lakemeta_spark import SparkExecutor

    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)  # local-cluster starts its processes from there
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    settings = {**SMALL, **{name.replace("__", "."): value for name, value in conf.items()}}
    with SparkExecutor.start(master, settings) as executor:
        yield executor
    gc.collect()

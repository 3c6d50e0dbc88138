"""Spark for tests: in this process, and as a cluster of real processes. Tests skip, with a reason, without Java."""

from __future__ import annotations

import gc
import importlib.util
import os
import shutil
import socket
import subprocess
import sys
import time
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta_spark import SparkExecutor

TESTS = Path(__file__).resolve().parents[1]
THREADS = "local[2]"
PROCESSES = "local-cluster[2,1,512]"  # two executors of one core: JVMs of their own, each with its Python workers
HOSTS = ("127.0.0.2", "127.0.0.3")
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


def spark(master: str, conf: Mapping[str, str] | None = None) -> Iterator[SparkExecutor]:
    """An executor that owns a small Spark; the body of a fixture."""
    from lakemeta_spark import SparkExecutor

    os.environ["SPARK_HOME"] = str(home())  # local-cluster starts its processes from there
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    with SparkExecutor.start(master, {**SMALL, **(conf or {})}) as executor:
        yield executor
    gc.collect()


@contextmanager
def standalone_cluster(folder: Path, memory: str = "512m") -> Iterator[str]:
    """A master and two workers of one core, each with so much memory and an address of its own; its URL.

    Speculation never gives a second attempt to the host of the first, so ``local-cluster`` will not do for it.
    """
    with socket.socket() as free:
        free.bind(("127.0.0.1", 0))
        port = free.getsockname()[1]
    url = f"spark://127.0.0.1:{port}"
    master = ["master.Master", "--host", "127.0.0.1", "--port", str(port), "--webui-port", "0"]
    size = ["--cores", "1", "--memory", memory, "--webui-port", "0"]
    workers = [["worker.Worker", "--host", host, *size, "--work-dir", str(folder / host), url] for host in HOSTS]
    processes = [_daemon(arguments, folder) for arguments in (master, *workers)]
    try:
        _wait_for(port)
        yield url
    finally:
        for process in reversed(processes):
            process.kill()
            process.wait()


def _daemon(arguments: list[str], folder: Path) -> subprocess.Popen[bytes]:
    command = [str(home() / "bin" / "spark-class"), f"org.apache.spark.deploy.{arguments[0]}", *arguments[1:]]
    environment = {**os.environ, "SPARK_DAEMON_MEMORY": "256m", "PYSPARK_PYTHON": sys.executable}
    environment.pop("SPARK_LOCAL_IP", None)
    with (folder / f"{arguments[0]}.log").open("ab") as log:
        return subprocess.Popen(command, env=environment, stdout=log, stderr=log)


def home() -> Path:
    """The directory of the installed PySpark, which is a whole Spark; any directory if there is none."""
    found = importlib.util.find_spec("pyspark")
    return Path(found.origin).parent if found and found.origin else TESTS


def _wait_for(port: int) -> None:
    """Until something listens there; TimeoutError after a minute."""
    for _ in range(600):
        with socket.socket() as tried:
            if tried.connect_ex(("127.0.0.1", port)) == 0:
                return
        time.sleep(0.1)
    raise TimeoutError(f"nothing listens on port {port}")

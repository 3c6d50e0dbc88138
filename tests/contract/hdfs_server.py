"""A real NameNode and DataNode on this machine, from Hadoop's Maven artifacts, in one process.

Its listings have several pages already of small directories.
"""

from __future__ import annotations

import json
import os
import socket
import subprocess
import time
from contextlib import contextmanager
from typing import TYPE_CHECKING

import attrs
from interop.engine_process import EngineUnavailableError, java, resolve_jar, spark_jar

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

HADOOP = "3.3.4"  # of which PySpark 3.5 ships the client
NAMES_AT_ONCE = 3  # in a listing
_READY_WITHIN = 120.0
_JVM = ["--add-opens=java.base/java.lang=ALL-UNNAMED", "-Xmx512m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"]


@attrs.frozen
class HdfsServer:
    """``authority`` is what ``hdfs://`` URLs name, ``web`` what ``webhdfs://`` URLs do."""

    authority: str
    web: str
    process: subprocess.Popen[bytes]

    @property
    def options(self) -> dict[str, str]:
        """Storage options that lead here."""
        return {"hdfs.webhdfs-url": f"http://{self.web}"}

    def url(self, path: str) -> str:
        return f"hdfs://{self.authority}{path}"


@contextmanager
def hdfs_server(folder: Path) -> Iterator[HdfsServer]:
    """A cluster that runs as long as the ``with`` block; raises EngineUnavailableError where it cannot be had."""
    jars = [spark_jar("hadoop-client-api"), spark_jar("hadoop-client-runtime")]
    jars += [resolve_jar("org.apache.hadoop", "hadoop-client-minicluster", HADOOP)]
    jars += [resolve_jar("junit", "junit", "4.13.2"), resolve_jar("org.hamcrest", "hamcrest-core", "1.3")]
    class_path = os.pathsep.join([*map(str, jars), str(spark_jar("slf4j-api").with_name("*"))])
    folder.mkdir(parents=True, exist_ok=True)
    details, port = folder / "details.json", _free_port()
    command = [java(), *_JVM, "-cp", class_path, "org.apache.hadoop.test.MiniDFSClusterManager", "-format"]
    command += ["-datanodes", "1", "-httpport", str(port), "-writeDetails", str(details)]
    settings = {"dfs.replication": "1", "dfs.ls.limit": str(NAMES_AT_ONCE), "hadoop.tmp.dir": str(folder / "tmp")}
    command += [part for name, value in settings.items() for part in ("-D", f"{name}={value}")]
    with (folder / "log").open("wb") as log:
        process = subprocess.Popen(command, cwd=folder, stdout=log, stderr=log)
    try:
        yield HdfsServer(f"localhost:{_rpc_port(process, folder)}", f"127.0.0.1:{port}", process)
    finally:
        process.terminate()
        process.wait(60)


def _rpc_port(process: subprocess.Popen[bytes], folder: Path) -> int:
    details, end = folder / "details.json", time.monotonic() + _READY_WITHIN
    while time.monotonic() < end and process.poll() is None:
        if details.exists() and (text := details.read_text()).endswith("}"):
            return int(json.loads(text)["namenode_port"])
        time.sleep(0.1)
    lines = (folder / "log").read_text(errors="replace").splitlines()[-5:]
    raise EngineUnavailableError(f"no HDFS here: {' '.join(lines)}")


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])

"""Iceberg's own REST catalog server, of its tests, in a process of its own: a JDBC catalog in SQLite behind HTTP."""

from __future__ import annotations

import os
import socket
import subprocess
import time
import urllib.error
import urllib.request
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

from interop.engine_process import EngineError, java, resolve_class_path, spark_jar

if TYPE_CHECKING:
    from collections.abc import Iterator

_HADOOP = ("hadoop-client-api", "hadoop-client-runtime", "commons-logging")
_STARTS_WITHIN = 60.0  # seconds


@contextmanager
def rest_server(scratch: Path) -> Iterator[str]:
    """The address of a server whose warehouse is ``scratch/warehouse``; raises EngineUnavailableError."""
    jars = [resolve_class_path(str(Path(__file__).with_name("rest_server.xml"))), *map(str, map(spark_jar, _HADOOP))]
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port = taken.getsockname()[1]
    settings = {
        "CATALOG_REST_PORT": str(port),
        "CATALOG_WAREHOUSE": str(scratch / "warehouse"),
        "CATALOG_URI": f"jdbc:sqlite:{scratch}/catalog.db",
    }
    log = scratch / "rest-server.log"
    options = ["-Xmx256m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1", "-Djava.net.preferIPv4Stack=true"]
    with log.open("wb") as output:
        process = subprocess.Popen(
            [java(), *options, "-cp", os.pathsep.join(jars), "org.apache.iceberg.rest.RESTCatalogServer"],
            env={**os.environ, **settings},
            stdout=output,
            stderr=output,
        )
        try:
            uri = f"http://127.0.0.1:{port}"
            _wait(process, uri, log)
            yield uri
        finally:
            process.terminate()
            process.wait(30)


def _wait(process: subprocess.Popen[bytes], uri: str, log: Path) -> None:
    started = time.monotonic()
    while process.poll() is None and time.monotonic() - started < _STARTS_WITHIN:
        try:
            urllib.request.urlopen(f"{uri}/v1/config", timeout=5).close()
        except urllib.error.URLError:
            time.sleep(0.1)
        else:
            return
    raise EngineError(
        f"the REST catalog server did not start; its log ends:\n{log.read_text(errors='replace')[-3000:]}"
    )

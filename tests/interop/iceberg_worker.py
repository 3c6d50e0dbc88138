"""The side of the real engine: PySpark with Iceberg, answering JSON lines on its standard output.

Started by ``iceberg_engine.IcebergEngine`` as ``iceberg_worker.py JAR WAREHOUSE SCRATCH``; ends with its input.
A request is a statement in SQL, or an object that names a function of ``iceberg_java``, ``iceberg_java_rows`` or
``iceberg_java_history`` and its arguments.
"""

from __future__ import annotations

import json
import os
import sys
from typing import Any

import iceberg_java
import iceberg_java_history
import iceberg_java_rows
from pyspark.sql import SparkSession

JAVA_OPTIONS = (
    "-XX:+UseSerialGC",
    "-XX:TieredStopAtLevel=1",
    "-Duser.timezone=UTC",
    "-Diceberg.scan.plan-in-worker-pool=false",  # with one thread, every plan of a table meets files in one order
)

CALLS = iceberg_java.CALLS | iceberg_java_rows.CALLS | iceberg_java_history.CALLS


def start(jar: str, warehouse: str, scratch: str) -> SparkSession:
    """A small local session with a Hadoop catalog called ice."""
    settings = {
        "spark.jars": jar,
        "spark.driver.memory": "1g",
        "spark.driver.extraJavaOptions": " ".join(JAVA_OPTIONS),
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": warehouse,
        "spark.sql.catalog.ice.cache-enabled": "false",
    }
    builder = SparkSession.builder.master("local[2]").appName("lakemeta-interop")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


def answer(session: SparkSession, request: Any) -> Any:
    """The rows of a statement as JSON values, in the order in which they come; or what a function returns."""
    if isinstance(request, dict):
        return CALLS[request.pop("call")](session, **request)
    return [json.loads(row) for row in session.sql(request).toJSON().collect()]


def told(error: Exception) -> str:
    """The message of an exception, and what caused it in the JVM."""
    said = f"{type(error).__name__}: {error}"
    causes = [line for line in said[4000:].splitlines() if line.startswith("Caused by")]
    return "\n".join((said[:4000], *causes))


def main() -> None:
    """Answer requests until the input ends. Standard output is for answers: what the JVM prints goes to the log."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    session = start(*sys.argv[1:4])
    print(json.dumps({"result": session.version}), file=answers, flush=True)
    for line in sys.stdin:
        try:
            reply = {"result": answer(session, json.loads(line))}
        except Exception as error:
            reply = {"error": told(error)}
        print(json.dumps(reply), file=answers, flush=True)
    session.stop()


if __name__ == "__main__":
    main()

"""The side of the real engine: PySpark with one Hudi bundle, answering JSON lines on its standard output.

Started by ``hudi_engine.Engine`` as ``hudi_worker.py BUNDLE_JAR SCRATCH MEMORY JAVA_OPTIONS``; ends with its input.
The bundle goes on the driver's class path: loaded by Spark's class loader for ``--jars``, Hudi 1.0.2 can't
read delete blocks.
"""

from __future__ import annotations

import json
import os
import sys
from typing import TYPE_CHECKING, Any

from pyspark.sql import SparkSession

if TYPE_CHECKING:
    from collections.abc import Callable

Json = Any


def start(jar: str, scratch: str, memory: str, java_options: str) -> SparkSession:
    """A small local session with Hudi's extensions."""
    settings = {
        "spark.driver.extraClassPath": jar,
        "spark.driver.memory": memory,
        "spark.driver.extraJavaOptions": java_options,
        "spark.driver.host": "127.0.0.1",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.local.dir": scratch,
        "spark.sql.warehouse.dir": f"{scratch}/warehouse",
        "spark.ui.enabled": "false",
        "spark.sql.shuffle.partitions": "1",
        "spark.default.parallelism": "2",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
        "spark.sql.session.timeZone": "UTC",
    }
    builder = SparkSession.builder.master("local[2]").appName("lakemeta-interop")
    for key, value in settings.items():
        builder = builder.config(key, value)
    session = builder.getOrCreate()
    session.sparkContext.setLogLevel("ERROR")
    return session


class Worker:
    """The operations; every public method is one."""

    def __init__(self, session: SparkSession) -> None:
        self.spark = session
        self.jvm = session._jvm

    def ready(self) -> str:
        """Spark's version; answered once the session runs."""
        return self.spark.version

    def write(self, base: str, rows: list[Json], options: dict[str, str]) -> None:
        """Append ``rows`` with the write operation that ``options`` name."""
        frame = self.spark.createDataFrame(rows, "id string, p string, val string, ts long")
        frame.coalesce(1).write.format("hudi").options(**options).mode("append").save(base)

    def rows(self, base: str, options: dict[str, str]) -> list[Json]:
        """Every row, sorted."""
        frame = self.spark.read.format("hudi").options(**options).load(base).select("id", "p", "val", "ts")
        return sorted([list(row) for row in frame.collect()], key=json.dumps)

    def sql(self, statement: str, options: dict[str, str]) -> list[Json]:
        """The rows of one statement, with ``options`` set in the session."""
        for key, value in options.items():
            self.spark.conf.set(key, value)
        return [[str(value) for value in row] for row in self.spark.sql(statement).collect()]

    def clean(self, base: str, options: dict[str, str]) -> Json:
        """``SparkRDDWriteClient.clean()``."""
        metadata = self._with_client(base, options, lambda client: client.clean())
        return None if metadata is None else json.loads(metadata.toString())

    def schedule_clean(self, base: str, options: dict[str, str]) -> str | None:
        """``SparkRDDWriteClient.scheduleTableService(CLEAN)``."""
        empty = self.jvm.org.apache.hudi.common.util.Option.empty()
        kind = self.jvm.org.apache.hudi.common.model.TableServiceType.CLEAN
        instant = self._with_client(base, options, lambda client: client.scheduleTableService(empty, kind))
        return instant.get() if instant.isPresent() else None

    def cleans(self, base: str) -> list[Json]:
        """The completed cleans, decoded by Hudi's CleanerUtils."""
        meta = self._meta_client(base)
        timeline = meta.getActiveTimeline().getCleanerTimeline().filterCompletedInstants()
        decode = self.jvm.org.apache.hudi.common.util.CleanerUtils.getCleanerMetadata
        return [json.loads(decode(meta, instant).toString()) for instant in timeline.getInstants()]

    def commits(self, base: str) -> list[str]:
        """The requested times of the completed writes."""
        timeline = self._meta_client(base).getActiveTimeline().getCommitsTimeline().filterCompletedInstants()
        return [_requested_time(instant) for instant in timeline.getInstants()]

    def _meta_client(self, base: str) -> Any:
        builder = self.jvm.org.apache.hudi.common.table.HoodieTableMetaClient.builder()
        conf = self.spark.sparkContext._jsc.hadoopConfiguration()
        storage = self.jvm.org.apache.hudi.storage.hadoop.HadoopStorageConfiguration(conf)
        return builder.setConf(storage).setBasePath(base).build()

    def _with_client(self, base: str, options: dict[str, str], use: Callable[[Any], Any]) -> Any:
        hudi = self.jvm.org.apache.hudi
        config = hudi.config.HoodieWriteConfig.newBuilder().withPath(base).withProps(options).build()
        context = hudi.client.common.HoodieSparkEngineContext(self.spark.sparkContext._jsc)
        client = hudi.client.SparkRDDWriteClient(context, config)
        try:
            return use(client)
        finally:
            client.close()


def _requested_time(instant: Any) -> str:
    """An instant's requested time; 0.15 calls it its timestamp."""
    try:
        return str(instant.requestedTime())
    except Exception:
        return str(instant.getTimestamp())


def serve(*session: str) -> None:
    """Answer requests until the input ends; only answers go to the real standard output."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    worker = Worker(start(*session))
    _say(answers, {"result": worker.ready()})
    for line in sys.stdin:
        request = json.loads(line)
        operation = getattr(worker, request.pop("op"))
        try:
            answer = {"result": operation(**request)}
        except Exception as error:
            answer = {"error": f"{type(error).__name__}: {error}"[:4000]}
        _say(answers, answer)
    worker.spark.stop()


def _say(answers: Any, answer: Json) -> None:
    answers.write(json.dumps(answer) + "\n")
    answers.flush()


if __name__ == "__main__":
    serve(*sys.argv[1:])

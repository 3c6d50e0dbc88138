"""Spark for benchmarks: a session on two threads or on a small cluster of real processes, with the jar of an engine.

Workers and executors find lakemeta, the tests' storages and the benchmarks in this clone. Needs Java, PySpark and
what the tests need (``lakemeta[test]``); jars come from Maven Central.
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING

import pyspark
from pyspark.sql import SparkSession

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from contract.spark_cluster import standalone_cluster
from interop.engine_process import resolve_jar
from interop.hudi_engine import bundle_jar
from interop.iceberg_engine import RUNTIME

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping
    from contextlib import AbstractContextManager

ROOT = Path(__file__).resolve().parents[1]
THREADS = "local[2]"
HERE = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.log.level": "OFF",
    "spark.executorEnv.PYTHONPATH": os.pathsep.join(str(ROOT / folder) for folder in ("", "tests", "benchmarks")),
}


def use_this_spark() -> None:
    """Have every process of Spark use the PySpark and the Python of this one."""
    os.environ["SPARK_HOME"] = str(Path(pyspark.__file__).parent)
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    os.environ["PYSPARK_PYTHON"] = sys.executable


@contextmanager
def master(scratch: Path, *, cluster: bool) -> Iterator[str]:
    """The URL of Spark on two threads, or of a standalone cluster of two workers with a core and 2 GiB each."""
    use_this_spark()
    if not cluster:
        yield THREADS
        return
    del os.environ["SPARK_LOCAL_IP"]  # each worker has an address of its own
    with standalone_cluster(scratch, memory="2g") as url:
        yield url


@contextmanager
def session(url: str, jar: str, more: Mapping[str, str]) -> Iterator[SparkSession]:
    """A session with a jar on every class path, which has run something already."""
    settings = {
        **HERE,
        "spark.driver.extraClassPath": jar,
        "spark.executor.extraClassPath": jar,
        "spark.driver.memory": "2g",
        "spark.executor.memory": "2g",
        **more,
    }
    builder = SparkSession.builder.master(url).appName("benchmark")
    for key, value in settings.items():
        builder = builder.config(key, value)
    made = builder.getOrCreate()
    try:
        made.sql("select 1").collect()
        yield made
    finally:
        made.stop()


def with_hudi(url: str, release: str) -> AbstractContextManager[SparkSession]:
    """A session with a release of Hudi, configured as Hudi's documentation says."""
    settings = {
        "spark.driver.extraJavaOptions": "-Duser.timezone=UTC",
        "spark.serializer": "org.apache.spark.serializer.KryoSerializer",
        "spark.kryo.registrator": "org.apache.spark.HoodieSparkKryoRegistrar",
        "spark.sql.extensions": "org.apache.spark.sql.hudi.HoodieSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.hudi.catalog.HoodieCatalog",
    }
    return session(url, bundle_jar(release), settings)


def with_iceberg(url: str, warehouse: Path) -> AbstractContextManager[SparkSession]:
    """A session with Iceberg and a Hadoop catalog called ice."""
    settings = {
        "spark.sql.extensions": "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions",
        "spark.sql.catalog.ice": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.ice.type": "hadoop",
        "spark.sql.catalog.ice.warehouse": str(warehouse),
    }
    return session(url, resolve_jar(*RUNTIME), settings)

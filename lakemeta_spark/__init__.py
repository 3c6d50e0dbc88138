"""Runs lakemeta's batches on a Spark cluster; ``docs/spark.md`` says how to set one up."""

from lakemeta_spark.executor import SparkExecutor, make_executor

__all__ = ["SparkExecutor", "make_executor"]

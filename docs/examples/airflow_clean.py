"""A DAG that cleans a Hudi table on a Spark cluster every night.

It needs apache-airflow 3 with apache-airflow-providers-apache-spark, and beside ``spark-submit`` on Airflow's workers
the two files that it names. A failed or partly done clean fails the task; running it again goes on where it stopped.
"""

from datetime import datetime, timedelta

from airflow.providers.apache.spark.operators.spark_submit import SparkSubmitOperator
from airflow.sdk import DAG

with DAG(
    "lakemeta_clean",
    schedule="@daily",
    start_date=datetime(2026, 1, 1),
    catchup=False,
    max_active_runs=1,
    default_args={"retries": 2, "retry_delay": timedelta(minutes=5)},
):
    SparkSubmitOperator(
        task_id="clean",
        conn_id="spark_default",
        application="/opt/lakemeta_submit.py",
        py_files="/opt/lakemeta.zip",
        application_args=[
            "clean",
            "s3://bucket/table",
            "--set",
            "hoodie.clean.commits.retained=10",
            "--yes",
            "--executor",
            "spark",
        ],
    )

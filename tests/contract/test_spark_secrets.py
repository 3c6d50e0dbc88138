"""Credentials go to the workers and nowhere else: not into logs, messages, plans, reports, events or job pages."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING

import pytest
from contract.s3_server import S3Server, error
from contract.spark_cluster import SMALL, TESTS, home, needs_spark
from support.hudi_cases import load_cases
from support.iceberg_tables import create_table

from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

pytestmark = [pytest.mark.spark, needs_spark]
MARK = "hush5f3a9c"
# Everything is logged, also what Spark's Python side tells its Java side; tasks are tried twice.
SCRIPT = """
import json, logging, sys, traceback
logging.basicConfig(level=logging.DEBUG, stream=sys.stderr)
from datetime import datetime
from lakemeta.errors import LakemetaError
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta_spark import SparkExecutor

given = json.load(sys.stdin)
def told(event):
    print(event.to_json_line())
with SparkExecutor.start("local[2,2]", given["conf"]) as spark:
    iceberg = IcebergTable.open("s3://hidden/iceberg", given["storage"], on_event=told)
    plan = iceberg.plan_rewrite_data_files({"rewrite-all": "true"}, executor=spark)
    print(plan.dumps(), plan._repr_html_(), repr(plan))
    report = iceberg.apply(plan, executor=spark)
    print("rewritten", report.result["rewritten_data_files_count"], report, report._repr_html_())
    hudi = HudiTable.open("s3://hidden/hudi", given["storage"], on_event=told)
    print(repr(hudi), repr(iceberg), repr(spark))
    plan = hudi.plan_clean(given["options"], now=datetime.fromisoformat(given["now"]), executor=spark)
    print("planned", plan.files, plan.dumps())
    denied = HudiTable.open("s3://hidden/denied", given["storage"], on_event=told)
    try:
        denied.plan_clean(given["options"], now=datetime.fromisoformat(given["now"]), executor=spark)
    except LakemetaError as error:
        print("failed:", error)
        traceback.print_exc()
    def fails(storage, batch):
        raise ValueError("unforeseen")
    from functools import partial
    try:
        list(spark.map_batches(partial(fails, hudi.place.storage), ["a"], batch_size=1))
    except LakemetaError as error:
        print("failed:", error)
        traceback.print_exc()
"""


@pytest.fixture
def server() -> Iterator[S3Server]:
    """Holds an Iceberg table, a Hudi table, and one whose partitions nobody may list."""
    server = S3Server()
    storage, root = open_storage("s3://hidden/iceberg", server.options)
    storage.fs.call_s3("create_bucket", Bucket="hidden")
    small = create_table(storage, root, location="s3://hidden/iceberg")
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)])
    case = load_cases()["1.2.0__cow__commits1"]
    for name in ("hudi", "denied"):
        for path, content in case.hoodie.items():
            storage.create(f"hidden/{name}/{path}", content)
        for path in case.files.keys() - case.hoodie.keys():
            storage.create(f"hidden/{name}/{path}", b"x")
    server.faults.append(
        lambda request: error(403, "AccessDenied") if request.args.get("prefix", "").startswith("denied/p") else None
    )
    yield server
    server.stop()


def test_no_log_message_plan_or_event_holds_a_secret(server: S3Server, tmp_path: Path) -> None:
    """Python logs at DEBUG, Spark at INFO; work succeeds, is denied on workers, and fails there unforeseen."""
    case = load_cases()["1.2.0__cow__commits1"]
    events = tmp_path / "events"
    events.mkdir()
    conf = {
        **SMALL,
        "spark.log.level": "INFO",
        "spark.eventLog.enabled": "true",
        "spark.eventLog.dir": f"file:{events}",
    }
    storage = {**server.options, "s3.access-key-id": f"id{MARK}", "s3.secret-access-key": f"key{MARK}"}
    given = {"conf": conf, "storage": storage, "options": case.options, "now": case.now.isoformat()}
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        input=json.dumps(given),
        env={**os.environ, "SPARK_HOME": str(home()), "PYTHONPATH": str(TESTS.parent), "SPARK_LOCAL_IP": "127.0.0.1"},
        cwd=tmp_path,
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    logged = "".join(path.read_text() for path in events.rglob("*") if path.is_file())
    assert "plan clean of s3://hidden/hudi" in logged
    assert "INFO DAGScheduler" in done.stderr
    assert "Lost task" in done.stderr
    assert "DEBUG:" in done.stderr
    assert "rewritten 3" in done.stdout
    assert done.stdout.count("\nfailed: ") == 2
    assert "as you wish" in done.stdout
    assert "unforeseen" in done.stderr
    for text in (done.stdout, done.stderr, logged):
        assert f"key{MARK}" not in text
    for text in (done.stdout, logged):
        assert MARK not in text

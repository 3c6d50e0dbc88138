"""The Python examples of the documentation run."""

from __future__ import annotations

import ast
import os
import re
import subprocess
import sys
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from contract.spark_cluster import needs_spark
from pyiceberg.catalog.sql import SqlCatalog
from support.commands import runner

from lakemeta.cli.hudi import clean
from lakemeta.hudi import HudiTable
from lakemeta.hudi.sample import SampleTable, write_sample_table
from lakemeta.iceberg.sample import write_sample_table as write_sample_rides

if TYPE_CHECKING:
    from collections.abc import Callable

ROOT = Path(__file__).parents[2]
OPTIONS = {"hoodie.clean.commits.retained": "1"}


def examples(page: str) -> list[str]:
    """The Python blocks of a page, in order."""
    return re.findall(r"```python\n(.*?)```", (ROOT / "docs" / page).read_text(encoding="utf-8"), re.DOTALL)


def function(page: str, name: str) -> Callable[..., Any]:
    """A function that an example defines."""
    (code,) = (code for code in examples(page) if f"def {name}(" in code)
    names: dict[str, Any] = {}
    exec(compile(code, page, "exec"), names)
    found: Callable[..., Any] = names[name]
    return found


@pytest.fixture
def table(tmp_path: Path) -> SampleTable:
    """Its instants lie ahead of the clock, so that those of cleans come between its own."""
    return write_sample_table(str(tmp_path / "t"), datetime(2190, 1, 1, tzinfo=UTC))


def test_a_plain_loop(table: SampleTable) -> None:
    """Batches are written while cleans go on, and what they superseded goes."""
    batches = [{"berlin": [{"id": f"berlin-{n:05d}", "ts": n, "fare": 1.0}]} for n in range(5)]
    deleted = function("async-clean.md", "stream")(batches, table.upsert, table.root, OPTIONS)
    after = HudiTable.open(table.root)
    deleted += after.apply(after.plan_clean(OPTIONS)).deleted_files
    assert deleted > 8
    assert after.plan_clean(OPTIONS).is_empty


def test_a_clean_with_a_way_back(table: SampleTable) -> None:
    """What it moved is back, and nothing waits any more."""
    deleted, restored, waiting = function("undo.md", "try_a_clean")(table.root, OPTIONS)
    assert (deleted == restored) > 0
    assert waiting == []


def test_the_commands_of_undoing(
    table: SampleTable, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """They run one after the other as they are written, with the ledger of the first of them."""
    (block,) = re.findall(r"```console\n(.*?)```", (ROOT / "docs/undo.md").read_text(encoding="utf-8"), re.DOTALL)
    Path(table.root).rename(tmp_path / "events")
    monkeypatch.chdir(tmp_path)
    call, said = runner(monkeypatch, capsys), []
    for line in block.strip().splitlines():
        ledger = next(map(str, (tmp_path / "events").rglob("*.jsonl")), "")
        done = call(*line.removeprefix("$ lakemeta ").replace("LEDGER", ledger).split())
        assert done.code == 0, done
        said.append(done.out)
    assert "in quarantine" in said[0]
    assert "done, in quarantine" in said[1]
    assert "restored files: 8" in said[2]
    assert said[3] == "Nothing to do.\n"


STREAMING = """
import sys
from datetime import UTC, datetime
from pyspark.sql import SparkSession
from lakemeta.hudi.sample import write_sample_table

folder = sys.argv[1]
table = write_sample_table(folder + "/t", datetime(2190, 1, 1, tzinfo=UTC))
conf = {
    "spark.driver.memory": "512m", "spark.ui.enabled": "false", "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1", "spark.log.level": "OFF", "spark.sql.shuffle.partitions": "1",
    "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -XX:TieredStopAtLevel=1",
}
spark = SparkSession.builder.master("local[1]").config(map=conf).getOrCreate()
stream = spark.readStream.schema("id string, ts long, fare double").option("maxFilesPerTrigger", 1).json(folder + "/in")
write = lambda batch: table.upsert({"berlin": [row.asDict() for row in batch.collect()]})
run(stream, write, table.root, folder + "/checkpoint", {"hoodie.clean.commits.retained": "1"}, availableNow=True)
spark.stop()
"""


@pytest.mark.spark
@needs_spark
def test_structured_streaming(tmp_path: Path) -> None:
    """A streaming query writes three batches, and the table is cleaned beside it."""
    (tmp_path / "in").mkdir()
    for n in range(3):
        (tmp_path / "in" / f"{n}.json").write_text(f'{{"id": "berlin-{n:05d}", "ts": {n}, "fare": 1.5}}\n')
    (code,) = (code for code in examples("async-clean.md") if "foreachBatch" in code)
    script = tmp_path / "job.py"
    script.write_text(code + STREAMING)
    words = [sys.executable, str(script), str(tmp_path)]
    done = subprocess.run(words, capture_output=True, text=True, check=False, cwd=ROOT, env=environment())
    assert done.returncode == 0, done.stderr
    timeline = tmp_path / "t/.hoodie/timeline"
    assert len(list(timeline.glob("2190*.commit"))) == 10
    assert list(timeline.glob("2190*.clean"))


def environment() -> dict[str, str]:
    """This one, with the package on the path and Spark's Python the same as ours."""
    return {**os.environ, "PYTHONPATH": str(ROOT), "PYSPARK_PYTHON": sys.executable, "SPARK_LOCAL_IP": "127.0.0.1"}


def test_a_simulation(table: SampleTable) -> None:
    """The example finds the largest number that frees as much as is asked for."""
    largest = function("simulate.md", "largest_that_frees")
    assert [largest(table.root, size) for size in (1, 40_000, 70_000, 10**9)] == [5, 2, 1, None]


def test_events(table: SampleTable, capsys: pytest.CaptureFixture[str]) -> None:
    """The listener of the example prints a line for each event."""
    report = function("observability.md", "clean")(table.root, OPTIONS)
    lines = capsys.readouterr().out.splitlines()
    assert report.deleted_files == 8
    assert [re.findall(r'"event":"(\w+)"', line) for line in lines] == [
        ["plan_started"],
        ["plan_made"],
        ["apply_started"],
        ["applied"],
    ]


def test_progress(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """The listener of the example prints how far a rewrite has come."""
    root = str(tmp_path / "rides")
    write_sample_rides(root, datetime(2026, 8, 1, tzinfo=UTC))
    report = function("observability.md", "rewrite")(root)
    *_, last = capsys.readouterr().out.splitlines()
    assert (
        last == f"3/3 groups, {report.result['rewritten_bytes_count']}/{report.result['rewritten_bytes_count']} bytes"
    )


def test_metrics(table: SampleTable) -> None:
    """Tables are cleaned with a listener that records metrics."""
    function("observability.md", "clean_measured")([table.root], OPTIONS)
    assert HudiTable.open(table.root).plan_clean(OPTIONS).is_empty


def test_the_words_of_the_airflow_example() -> None:
    """They are a command that the command line takes; Airflow itself is not needed to see that."""
    tree = ast.parse((ROOT / "docs/examples/airflow_clean.py").read_text(encoding="utf-8"))
    (given,) = (
        node.value for node in ast.walk(tree) if isinstance(node, ast.keyword) and node.arg == "application_args"
    )
    name, *words = ast.literal_eval(given)
    assert name == "clean"
    context = clean.make_context(name, words)
    assert context.params["executor_name"] == "spark"


@pytest.mark.filterwarnings("default")
def test_a_table_of_pyiceberg_is_compacted(tmp_path: Path) -> None:
    """The table that is handed over shows the commit, and has the same rows."""
    catalog = SqlCatalog("lake", uri=f"sqlite:///{tmp_path}/catalog.db", warehouse=f"file://{tmp_path}/warehouse")
    catalog.create_namespace("db")
    rows = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    table = catalog.create_table("db.t", rows.schema)
    for _ in range(2):
        table.append(rows)
    report = function("catalogs.md", "compact")(table)
    assert report.result["rewritten_data_files_count"] == 2
    assert len(list(table.scan().plan_files())) == 1
    assert len(table.scan().to_arrow()) == 6

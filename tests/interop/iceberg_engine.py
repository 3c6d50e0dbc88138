"""Real Apache Iceberg as a subprocess: Spark with the Iceberg runtime and a Hadoop catalog, spoken to in SQL.

The jar is resolved by its Maven coordinates with the Ivy that PySpark ships, into Ivy's own cache; set IVY_SETTINGS
to an ivysettings.xml to use another repository than Ivy's default.
"""

from __future__ import annotations

import functools
import json
import os
import select
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any, Self

from interop.hudi_engine import EngineError, EngineUnavailableError

if TYPE_CHECKING:
    from types import TracebackType

RUNTIME = ("org.apache.iceberg", "iceberg-spark-runtime-3.5_2.12", "1.12.0")
ANSWER_WITHIN = 300.0  # seconds: a JVM that says nothing for so long is broken


@functools.cache
def runtime_jar() -> str:
    """The path of the Iceberg runtime in Ivy's cache, downloaded if need be; raises EngineUnavailableError."""
    java = shutil.which("java")
    if java is None:
        raise EngineUnavailableError("no java on the PATH")
    try:
        import pyspark
    except ImportError as error:
        raise EngineUnavailableError("PySpark is not installed") from error
    ivy = sorted(Path(pyspark.__file__).parent.glob("jars/ivy-*.jar"))
    if not ivy:
        raise EngineUnavailableError("this PySpark ships no Ivy to resolve jars with")
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch, "classpath")
        command = [java, "-jar", str(ivy[0]), "-dependency", *RUNTIME, "-confs", "default", "-notransitive"]
        if settings := os.environ.get("IVY_SETTINGS"):
            command += ["-settings", settings]
        command += ["-cachepath", str(answer)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        jar = answer.read_text().strip() if answer.exists() else ""
    if not jar or not Path(jar).exists():
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise EngineUnavailableError(f"could not get {':'.join(RUNTIME)}: {' '.join(last)}")
    return jar


class IcebergEngine:
    """One session in its own process; use as a context manager. Table ``t`` lies in ``warehouse/db/t``."""

    def __init__(self, scratch: Path) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self.warehouse = scratch / "warehouse"
        self._log_path = scratch / "iceberg.log"
        self._log = self._log_path.open("wb")
        worker = str(Path(__file__).with_name("iceberg_worker.py"))
        self._process = subprocess.Popen(
            [sys.executable, worker, runtime_jar(), str(self.warehouse), str(scratch)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=scratch,
            env={**os.environ, "TZ": "UTC", "PYTHONWARNINGS": "ignore"},
        )
        self._answer()

    def sql(self, statement: str) -> list[Any]:
        """The rows of one statement as JSON objects; raises EngineError with the engine's own message."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(statement) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def path(self, table: str) -> Path:
        """The directory of a table."""
        return self.warehouse / "db" / table

    def rows(self, table: str, columns: str = "*") -> list[str]:
        """The rows of a table, each as JSON with sorted keys, sorted."""
        found = self.sql(f"SELECT {columns} FROM ice.db.{table}")
        return sorted(json.dumps(row, sort_keys=True) for row in found)

    def _answer(self) -> Any:
        stdout = self._process.stdout
        assert stdout
        ready, _, _ = select.select([stdout], [], [], ANSWER_WITHIN)
        line = stdout.readline() if ready else ""
        if not line:
            self.close()
            tail = "\n".join(self._log_path.read_text(errors="replace").splitlines()[-30:])
            raise EngineError(f"Iceberg stopped answering; its log ends:\n{tail}")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["result"]

    def close(self) -> None:
        """End the JVM; safe to call twice."""
        if self._process.stdin and not self._process.stdin.closed:
            self._process.stdin.close()
        try:
            self._process.wait(30)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        if self._process.stdout:
            self._process.stdout.close()
        self._log.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

"""A real engine in a process of its own, spoken to in JSON lines, and its jar by Maven coordinates.

Jars are resolved with the Ivy that PySpark ships, into Ivy's own cache; set IVY_SETTINGS to an ivysettings.xml to use
another repository than Ivy's default.
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

if TYPE_CHECKING:
    from types import TracebackType

ANSWER_WITHIN = 300.0  # seconds: a JVM that says nothing for so long is broken


class EngineUnavailableError(Exception):
    """Java, PySpark or the jar can't be had here; the message says which and is a test's reason to skip."""


class EngineError(Exception):
    """The engine answered with an exception; the message is its own."""


@functools.cache
def resolve_jar(group: str, artifact: str, version: str) -> str:
    """The path of a jar in Ivy's cache, downloaded if need be; raises EngineUnavailableError."""
    coordinates = (group, artifact, version)
    return _resolved(":".join(coordinates), "-dependency", *coordinates, "-notransitive")


@functools.cache
def resolve_class_path(ivy_file: str) -> str:
    """The class path of all that an Ivy file names, downloaded if need be; raises EngineUnavailableError."""
    return _resolved(Path(ivy_file).name, "-ivy", ivy_file)


def _resolved(name: str, *asked: str) -> str:
    with tempfile.TemporaryDirectory() as scratch:
        answer = Path(scratch, "classpath")
        command = [java(), "-jar", str(spark_jar("ivy")), *asked, "-confs", "default", "-cachepath", str(answer)]
        if settings := os.environ.get("IVY_SETTINGS"):
            command += ["-settings", settings]
        done = subprocess.run(command, capture_output=True, text=True, timeout=600, check=False)
        found = answer.read_text().strip() if answer.exists() else ""
    if not found or not all(Path(jar).exists() for jar in found.split(os.pathsep)):
        last = (done.stdout + done.stderr).strip().splitlines()[-1:]
        raise EngineUnavailableError(f"could not get {name}: {' '.join(last)}")
    return found


def java() -> str:
    """The path of java; raises EngineUnavailableError."""
    found = shutil.which("java")
    if found is None:
        raise EngineUnavailableError("no java on the PATH")
    return found


def spark_jar(name: str) -> Path:
    """The path of a jar that PySpark ships, by the beginning of its name; raises EngineUnavailableError."""
    try:
        import pyspark
    except ImportError as error:
        raise EngineUnavailableError("PySpark is not installed") from error
    found = sorted(Path(pyspark.__file__).parent.glob(f"jars/{name}-[0-9]*.jar"))
    if not found:
        raise EngineUnavailableError(f"this PySpark ships no {name}")
    return found[0]


class EngineProcess:
    """A worker script under PySpark; use as a context manager, one at a time on a small machine.

    ``name`` stands in messages and in the name of the log in ``scratch``; clocks run in UTC.
    """

    def __init__(self, name: str, worker: str, scratch: Path, arguments: list[str]) -> None:
        scratch.mkdir(parents=True, exist_ok=True)
        self._name = name
        self._log_path = scratch / f"{name.lower().replace(' ', '-')}.log"
        self._log = self._log_path.open("wb")
        self._process = subprocess.Popen(
            [sys.executable, str(Path(__file__).with_name(worker)), *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=self._log,
            text=True,
            cwd=scratch,
            env={**os.environ, "TZ": "UTC", "PYTHONWARNINGS": "ignore"},
        )
        self._answer()

    def ask(self, request: Any) -> Any:
        """Send one request and wait for its result; raises EngineError with the engine's own message."""
        assert self._process.stdin
        self._process.stdin.write(json.dumps(request) + "\n")
        self._process.stdin.flush()
        return self._answer()

    def _answer(self) -> Any:
        stdout = self._process.stdout
        assert stdout
        ready, _, _ = select.select([stdout], [], [], ANSWER_WITHIN)
        line = stdout.readline() if ready else ""
        if not line:
            self.close()
            raise EngineError(f"{self._name} stopped answering; its log ends:\n{self.log_tail()}")
        answer = json.loads(line)
        if "error" in answer:
            raise EngineError(answer["error"])
        return answer["result"]

    @property
    def runs(self) -> bool:
        """False once the process has ended."""
        return self._process.poll() is None

    def log_tail(self, lines: int = 30) -> str:
        """The end of what the JVM logged."""
        return "\n".join(self._log_path.read_text(errors="replace").splitlines()[-lines:])

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

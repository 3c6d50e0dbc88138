"""Failures as data: an event in the run log, and an object on stdout for who reads JSON; and pipes that end early."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.builders import TableFiles, base
from support.commands import Result

from lakemeta.cli import metrics
from lakemeta.errors import OptionError

Run = Callable[..., Result]
ONE = ("--set", "hoodie.clean.commits.retained=1")

FAILURES = [
    (("clean", "{t}/none"), 2, "TableNotFoundError"),
    (("clean", "{t}", "--set", "hoodie.clean.policy=x", "--yes"), 2, "OptionError"),
    (("clean", "{t}", "--nonsense"), 2, "UsageError"),
    (("clean", "{t}", *ONE), 2, "OptionError"),
    (("inspect", "{t}/p1"), 2, "TableNotFoundError"),
    (("inspect",), 2, "UsageError"),
    (("nonsense",), 2, "UsageError"),
    (("apply", "{t}/no-plan.jsonl"), 2, "OptionError"),
]


@pytest.mark.parametrize(("command", "code", "kind"), FAILURES)
@pytest.mark.parametrize("output", ["json", "jsonl"])
def test_every_failure_is_an_object_and_an_event(
    run: Run, table: TableFiles, tmp_path: Path, command: tuple[str, ...], code: int, kind: str, output: str
) -> None:
    """The same sentence as on stderr, the class of the error, and the exit code."""
    log = tmp_path / "log.jsonl"
    arguments = [part.format(t=table.root) for part in command]
    result = run(
        *arguments,
        *([f"--output={output}", "--log", log] if command != ("nonsense",) else []),
        *(["--output", output, f"--log={log}"] if command == ("nonsense",) else []),
    )
    assert result.code == code
    found = json.loads(result.out)
    assert (found["exit_code"], found["class"]) == (code, kind)
    assert found["error"] in result.err
    event = json.loads(log.read_text().splitlines()[-1])
    assert event.items() >= {"event": "exited", "command": command[0], **found}.items()


def test_what_was_partly_done_is_in_the_report(run: Run, table: TableFiles, tmp_path: Path) -> None:
    """Stdout stays one object, the report; the log has the exit."""
    stubborn = table.root / "p1" / base("a", 1)
    run("plan", "clean", table.root, *ONE, "--out", tmp_path / "p.jsonl")
    stubborn.unlink()
    stubborn.mkdir()
    (stubborn / "inside").touch()
    result = run("apply", tmp_path / "p.jsonl", "--output", "json", "--log", tmp_path / "log")
    assert (result.code, json.loads(result.out)["failed_files"]) == (4, 1)
    event = json.loads((tmp_path / "log").read_text().splitlines()[-1])
    assert (event["event"], event["exit_code"]) == ("exited", 4)


def test_text_stays_text(run: Run, table: TableFiles, tmp_path: Path) -> None:
    """Without JSON there is nothing on stdout; success leaves no event of its own; a log elsewhere changes nothing."""
    assert run("inspect", table.root / "p1").out == ""
    assert run("inspect", table.root, "--log", tmp_path / "log").code == 0
    assert not (tmp_path / "log").exists()
    assert run("inspect", table.root / "p1", "--log", tmp_path / "no" / "log").code == 2


@pytest.mark.slow
@pytest.mark.parametrize("command", ["clean", "maintain"])
def test_a_pipe_that_ends_early_stops_no_work(table: TableFiles, command: str) -> None:
    """``lakemeta clean --yes | head -1`` cleans."""
    settings = ONE if command == "clean" else ("--set", "clean.hoodie.clean.commits.retained=1")
    arguments = [sys.executable, "-m", "lakemeta", command, str(table.root), "--yes", *settings]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    ours, theirs = os.pipe()
    os.close(ours)
    done = subprocess.run(arguments, stdout=theirs, stderr=subprocess.PIPE, env=environment, check=False)
    os.close(theirs)
    assert (done.returncode, done.stderr) == (0, b"")
    assert len(table.files()) == 2


class Exporter:
    """An exporter of metrics that keeps their names."""

    seen: list[str] = []

    def __new__(cls) -> Any:
        from opentelemetry.sdk.metrics.export import MetricExporter, MetricExportResult

        class Kept(MetricExporter):
            def export(self, data: Any, timeout_millis: float = 0, **_: Any) -> MetricExportResult:
                scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics]
                Exporter.seen += [metric.name for scope in scopes for metric in scope.metrics]
                return MetricExportResult.SUCCESS

            def force_flush(self, timeout_millis: float = 0) -> bool:
                return True

            def shutdown(self, timeout_millis: float = 0, **_: Any) -> None: ...

        return Kept()


class Entry:
    """The entry point of an installed exporter."""

    name = "kept"

    def load(self) -> type[Exporter]:
        return Exporter


def test_metrics_by_opentelemetrys_own_environment(
    run: Run, table: TableFiles, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The exporter that it names gets the metrics of the command before it ends."""
    monkeypatch.setenv("OTEL_METRICS_EXPORTER", "kept")
    monkeypatch.setattr(metrics, "entry_points", lambda group: [Entry()])
    Exporter.seen.clear()
    assert run("clean", table.root, *ONE, "--yes").code == 0
    assert {"lakemeta.deleted.files", "lakemeta.apply.duration"} <= set(Exporter.seen)


@pytest.mark.parametrize(
    ("environment", "name"),
    [
        ({}, None),
        ({"OTEL_METRICS_EXPORTER": "none"}, None),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "http://x:4318"}, "otlp_proto_grpc"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_EXPORTER_OTLP_PROTOCOL": "http/protobuf"}, "otlp_proto_http"),
        ({"OTEL_EXPORTER_OTLP_ENDPOINT": "x", "OTEL_METRICS_EXPORTER": "none"}, None),
        ({"OTEL_METRICS_EXPORTER": "console", "OTEL_SDK_DISABLED": "true"}, None),
    ],
)
def test_what_the_environment_asks_for(
    monkeypatch: pytest.MonkeyPatch, environment: dict[str, str], name: str | None
) -> None:
    """Nothing unless it says so; an exporter that is not installed is named."""
    for variable, value in environment.items():
        monkeypatch.setenv(variable, value)
    monkeypatch.setattr(metrics, "entry_points", lambda group: [])
    if name is None:
        assert metrics.start() is None
        return
    with pytest.raises(OptionError, match=f"by {name}, which is not installed"):
        metrics.start()

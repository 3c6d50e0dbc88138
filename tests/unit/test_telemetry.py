"""Events as OpenTelemetry metrics."""

from __future__ import annotations

import sys
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_tables import create_table

from lakemeta.errors import OptionError, StalePlanError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.sample import SampleTable, write_sample_table
from lakemeta.iceberg import IcebergTable
from lakemeta.report import Outcome
from lakemeta.storage import LocalStorage
from lakemeta.telemetry import otel_listener

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

OPTIONS = {"hoodie.clean.commits.retained": "1"}


class Collected:
    """An SDK that keeps what is recorded in memory."""

    def __init__(self) -> None:
        from opentelemetry.sdk import metrics
        from opentelemetry.sdk.metrics import export

        self.reader = export.InMemoryMetricReader()
        self.provider = metrics.MeterProvider(metric_readers=[self.reader], shutdown_on_exit=False)

    def points(self) -> dict[str, list[Any]]:
        """The data points by metric."""
        data = self.reader.get_metrics_data()
        scopes = [scope for resource in data.resource_metrics for scope in resource.scope_metrics] if data else []
        return {metric.name: list(metric.data.data_points) for scope in scopes for metric in scope.metrics}


@pytest.fixture
def sdk() -> Collected:
    return Collected()


@pytest.fixture
def sample(tmp_path: Path) -> SampleTable:
    return write_sample_table(str(tmp_path / "t"), datetime(2026, 8, 1, tzinfo=UTC))


def test_a_clean_is_measured(sdk: Collected, sample: SampleTable) -> None:
    """A clean leaves its durations, its files and bytes, and up to when history was cleaned, by table and plan."""
    table = HudiTable.open(sample.root, on_event=otel_listener(sdk.provider, timezone=UTC))
    plan = table.plan_clean(OPTIONS)
    report = table.apply(plan)
    points = sdk.points()
    about = {"lakemeta.table": table.url, "lakemeta.plan": "hudi.clean"}
    assert all(dict(point.attributes) == about for found in points.values() for point in found)
    assert points["lakemeta.deleted.files"][0].value == report.deleted_files == 8
    assert points["lakemeta.deleted.bytes"][0].value == report.freed_bytes > 0
    assert points["lakemeta.undeleted.files"][0].value == 0
    assert points["lakemeta.plan.duration"][0].count == points["lakemeta.apply.duration"][0].count == 1
    earliest = datetime.fromtimestamp(points["lakemeta.earliest_retained"][0].value, UTC)
    assert earliest.strftime("%Y%m%d%H%M%S%f")[:17] == plan.header.facts["earliest_to_retain"]
    assert "lakemeta.failures" not in points


def test_cleans_add_up(sdk: Collected, sample: SampleTable) -> None:
    """Counters grow from clean to clean; one that has nothing to do adds nothing, and keeps the last instant."""
    table = HudiTable.open(sample.root, on_event=otel_listener(sdk.provider))
    for _ in range(2):
        table.apply(table.plan_clean(OPTIONS))
    points = sdk.points()
    assert points["lakemeta.deleted.files"][0].value == 8
    assert points["lakemeta.apply.duration"][0].count == 2
    assert len(points["lakemeta.earliest_retained"]) == 1


def test_failures_are_counted_by_kind(sdk: Collected, sample: SampleTable) -> None:
    """An application that is refused counts as a failure of its class."""
    table = HudiTable.open(sample.root, on_event=otel_listener(sdk.provider))
    plan = table.plan_clean(OPTIONS)
    table.apply(plan)
    with pytest.raises(StalePlanError):
        table.apply(plan)
    (point,) = sdk.points()["lakemeta.failures"]
    assert point.value == 1
    assert point.attributes["error.type"] == "StalePlanError"


class StubbornStorage(WrappedStorage):
    """Deletes no data file."""

    def delete_many(self, paths: Sequence[str]) -> list[Outcome]:
        return [Outcome(path, "failed", "it is in use") for path in paths]


def test_files_that_stay_are_counted(sdk: Collected, sample: SampleTable) -> None:
    """Files that could not be deleted have a counter of their own."""
    table = HudiTable.open(sample.root, on_event=otel_listener(sdk.provider))
    stubborn = attrs.evolve(table, place=attrs.evolve(table.place, storage=StubbornStorage(table.place.storage)))
    stubborn.apply(stubborn.plan_clean(OPTIONS))
    points = sdk.points()
    assert points["lakemeta.undeleted.files"][0].value == 8
    assert points["lakemeta.deleted.files"][0].value == 0


def test_without_opentelemetry(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where OpenTelemetry is not installed, asking for metrics says so, and how to get it."""
    monkeypatch.setitem(sys.modules, "opentelemetry", None)
    with pytest.raises(OptionError, match=r"not installed; pip install 'lakemeta\[otel\]'"):
        otel_listener()


def test_a_rewrite_is_measured(sdk: Collected, tmp_path: Path) -> None:
    """Files and bytes that were rewritten and written, beside what a clean deletes."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    small.append([(1, "a", 0.5)])
    small.append([(2, "b", 0.5)])
    table = IcebergTable.open(small.root, on_event=otel_listener(sdk.provider))
    plan = table.plan_rewrite_data_files({"rewrite-all": True})
    table.apply(plan)
    points = {name: [point.value for point in found] for name, found in sdk.points().items() if "files" in name}
    assert (points["lakemeta.rewritten.files"], points["lakemeta.added.files"]) == ([2], [1])
    assert points["lakemeta.unrewritten.files"] == [0]
    assert sdk.points()["lakemeta.rewritten.bytes"][0].value == plan.bytes

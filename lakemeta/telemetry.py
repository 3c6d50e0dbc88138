"""What lakemeta does, as OpenTelemetry metrics: a listener for the events of tables.

OpenTelemetry is imported when a listener is made, and only its API: without an SDK that exports them the metrics go
nowhere, and nothing else changes. Every metric carries ``lakemeta.table`` (the table as it was named) and
``lakemeta.plan`` (``hudi.clean``, ...):

- ``lakemeta.plan.duration`` and ``lakemeta.apply.duration``: histograms, seconds;
- ``lakemeta.deleted.files``, ``lakemeta.deleted.bytes`` and ``lakemeta.undeleted.files`` (that should have been deleted
  and could not): counters;
- ``lakemeta.rewritten.files``, ``lakemeta.rewritten.bytes`` and ``lakemeta.added.files``: counters of what rewrites of
  data files, position deletes and manifests read and wrote, and ``lakemeta.unrewritten.files`` of groups that failed;
- ``lakemeta.failures``: a counter of plans and applications that ended with an error, whose class is ``error.type``;
- ``lakemeta.earliest_retained``: a gauge, the instant up to which history was cleaned last, in seconds since the epoch.
"""

from __future__ import annotations

from datetime import datetime
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Mapping
    from datetime import tzinfo

    from opentelemetry.metrics import CallbackOptions, Meter, MeterProvider, Observation

    from lakemeta.events import Event


_REWRITTEN: Final = ("rewritten_data_files_count", "rewritten_delete_files_count", "rewritten_manifests_count")
_REWRITTEN_BYTES: Final = ("rewritten_bytes_count",)
_ADDED: Final = ("added_data_files_count", "added_delete_files_count", "added_manifests_count")
_UNREWRITTEN: Final = ("failed_data_files_count",)


def otel_listener(
    meter_provider: MeterProvider | None = None, *, timezone: tzinfo | None = None
) -> Callable[[Event], None]:
    """A listener (``on_event``) that records events as metrics; one for all tables will do.

    ``meter_provider`` is OpenTelemetry's global one by default. ``timezone`` is that of the tables' timelines, by
    default this machine's, as in Hudi. Raises OptionError if OpenTelemetry is not installed.
    """
    try:
        from opentelemetry import metrics
    except ImportError:
        raise OptionError("OpenTelemetry is not installed; pip install 'lakemeta[otel]'") from None
    return _Metrics(metrics.get_meter("lakemeta", meter_provider=meter_provider), metrics.Observation, timezone).record


class _Metrics:
    """The instruments, and which event goes to which."""

    def __init__(self, meter: Meter, observation: type[Observation], timezone: tzinfo | None) -> None:
        self._observation, self._timezone = observation, timezone
        self._earliest: dict[tuple[str, str], float] = {}
        self._planning = meter.create_histogram("lakemeta.plan.duration", "s", "How long it took to make a plan")
        self._applying = meter.create_histogram("lakemeta.apply.duration", "s", "How long it took to apply a plan")
        self._files = meter.create_counter("lakemeta.deleted.files", "{file}", "Files deleted")
        self._bytes = meter.create_counter("lakemeta.deleted.bytes", "By", "Bytes freed")
        self._undeleted = meter.create_counter("lakemeta.undeleted.files", "{file}", "Files that could not be deleted")
        self._rewritten = meter.create_counter(
            "lakemeta.rewritten.files", "{file}", "Files that others took the place of"
        )
        self._rewritten_bytes = meter.create_counter("lakemeta.rewritten.bytes", "By", "Bytes of rewritten files")
        self._added = meter.create_counter("lakemeta.added.files", "{file}", "Files that took the place of others")
        self._unrewritten = meter.create_counter(
            "lakemeta.unrewritten.files", "{file}", "Files that were not rewritten"
        )
        self._failures = meter.create_counter("lakemeta.failures", "{failure}", "Plans and applications that failed")
        meter.create_observable_gauge(
            "lakemeta.earliest_retained", [self._observe], "s", "The earliest instant retained, since the epoch"
        )

    def record(self, event: Event) -> None:
        """Record one event."""
        about = _about(event.table, event.fields["plan"])
        if event.name == "plan_made":
            self._planning.record(event.fields["duration_ms"] / 1000, about)
        elif event.name == "applied":
            self._applied(event, about)
        elif event.name == "failed":
            self._failures.add(1, {**about, "error.type": event.fields["error"]})

    def _applied(self, event: Event, about: Mapping[str, str]) -> None:
        fields = event.fields
        self._applying.record(fields["duration_ms"] / 1000, about)
        self._files.add(fields["deleted_files"], about)
        self._bytes.add(fields["freed_bytes"], about)
        self._undeleted.add(fields["failed_files"], about)
        for counter, names in (
            (self._rewritten, _REWRITTEN),
            (self._rewritten_bytes, _REWRITTEN_BYTES),
            (self._added, _ADDED),
            (self._unrewritten, _UNREWRITTEN),
        ):
            counts = [fields[name] for name in names if name in fields]
            if counts:
                counter.add(sum(counts), about)
        if earliest := fields.get("earliest_commit_to_retain"):
            self._earliest[event.table, fields["plan"]] = self._seconds(earliest)

    def _seconds(self, instant: str) -> float:
        moment = datetime.strptime(instant[:17].ljust(17, "0"), "%Y%m%d%H%M%S%f")
        return (moment.replace(tzinfo=self._timezone) if self._timezone else moment.astimezone()).timestamp()

    def _observe(self, _: CallbackOptions) -> Iterator[Observation]:
        for (table, plan), seconds in list(self._earliest.items()):
            yield self._observation(seconds, _about(table, plan))


def _about(table: str, plan: str) -> dict[str, Any]:
    return {"lakemeta.table": table, "lakemeta.plan": plan}

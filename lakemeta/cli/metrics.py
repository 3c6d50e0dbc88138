"""OpenTelemetry of the command line: on if its own environment variables say where metrics go (I/O).

``OTEL_METRICS_EXPORTER`` names an exporter as OpenTelemetry's own packages do (``otlp``, ``console``, ...), and without
it ``OTEL_EXPORTER_OTLP_ENDPOINT`` or ``OTEL_EXPORTER_OTLP_METRICS_ENDPOINT`` means ``otlp``. ``OTEL_SDK_DISABLED=true``
and ``OTEL_METRICS_EXPORTER=none`` switch it off.
"""

from __future__ import annotations

import os
from importlib.metadata import entry_points
from typing import TYPE_CHECKING, Any, Final

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable

    from lakemeta.events import Event

_GROUP: Final = "opentelemetry_metrics_exporter"
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_METRICS_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_PROTOCOLS: Final = ("OTEL_EXPORTER_OTLP_METRICS_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL")


def start() -> tuple[Callable[[Event], None], Callable[[], Any]] | None:
    """A listener for events, and what sends the last metrics; None unless the environment asks for them.

    Raises OptionError if the exporter that it names is not installed.
    """
    name = _exporter()
    if name is None:
        return None
    found = next((entry for entry in entry_points(group=_GROUP) if entry.name == name), None)
    try:
        from opentelemetry.sdk.metrics import MeterProvider
        from opentelemetry.sdk.metrics.export import PeriodicExportingMetricReader
    except ImportError:
        found = None
    if found is None:
        raise OptionError(
            f"the environment asks for OpenTelemetry metrics by {name}, which is not installed; pip install "
            "opentelemetry-sdk opentelemetry-exporter-otlp, or set OTEL_METRICS_EXPORTER=none"
        )
    from lakemeta.telemetry import otel_listener

    provider = MeterProvider([PeriodicExportingMetricReader(found.load()())])
    return otel_listener(provider), provider.shutdown


def _exporter() -> str | None:
    """The name of the exporter, by the environment."""
    if os.environ.get("OTEL_SDK_DISABLED", "").lower() == "true":
        return None
    endpoint = any(map(os.environ.get, _ENDPOINTS))
    name = os.environ.get("OTEL_METRICS_EXPORTER", "otlp" if endpoint else "none").split(",")[0].strip()
    if name != "otlp":
        return None if name in ("", "none") else name
    protocol = next(filter(None, map(os.environ.get, _PROTOCOLS)), "grpc")
    return "otlp_proto_http" if protocol.startswith("http") else "otlp_proto_grpc"

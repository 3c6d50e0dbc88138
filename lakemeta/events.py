"""Events of a run: what began, what was done, what failed; for callbacks, run logs and telemetry.

An event is a name and plain fields. Names are ``plan_started``, ``plan_made``, ``apply_started``, ``applied`` and
``failed``; sizes are bytes, durations ms. Nothing is emitted unless a listener is given, and an error in a listener
is the caller's own: it is not caught here.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable
    from datetime import datetime

    from lakemeta.plan import Plan
    from lakemeta.report import Report

T = TypeVar("T")


@attrs.frozen
class Event:
    """One thing that happened to one table at one moment (with a timezone)."""

    name: str
    table: str
    at: datetime
    fields: dict[str, Any] = attrs.field(factory=dict)

    def to_json_line(self) -> str:
        """The event as one line of a run log: name, table, UTC time in ISO 8601, then its fields."""
        head = {"event": self.name, "table": self.table, "at": self.at.isoformat(timespec="milliseconds")}
        return json.dumps({**head, **self.fields}, ensure_ascii=False, separators=(",", ":")) + "\n"


@attrs.frozen(slots=True)
class Progress:
    """How far the rewriting of groups of files has come: groups and bytes of their input, done and in all."""

    groups: int
    groups_total: int
    bytes: int
    bytes_total: int


@attrs.frozen
class Watch:
    """Notifies a listener (if there is one) of the plans and applications of one table; ``clock`` gives the time."""

    table: str
    listener: Callable[[Event], None] | None
    clock: Callable[[], datetime]

    def plan(self, kind: str, make: Callable[[], Plan]) -> Plan:
        """Make a plan, with events before and after."""
        return self._observed("plan_started", "plan_made", {"plan": kind}, make, _plan_fields)

    def apply(self, kind: str, run: Callable[[], Report]) -> Report:
        """Apply a plan, with events before and after."""
        started = self.clock()
        report = self._observed("apply_started", "applied", {"plan": kind}, run, _report_fields)
        return attrs.evolve(report, duration_ms=int((self.clock() - started).total_seconds() * 1000))

    def _observed(
        self, before: str, after: str, fields: dict[str, Any], work: Callable[[], T], describe: Callable[[T], Any]
    ) -> T:
        started = self.clock()
        self._notify(before, started, fields)
        try:
            result = work()
        except Exception as error:
            self._notify("failed", started, {**fields, "error": type(error).__name__, "message": str(error)})
            raise
        self._notify(after, started, {**fields, **describe(result)})
        return result

    def _notify(self, name: str, started: datetime, fields: dict[str, Any]) -> None:
        if self.listener is not None:
            now = self.clock()
            millis = int((now - started).total_seconds() * 1000)
            self.listener(Event(name, self.table, now, {**fields, "duration_ms": millis}))


def _plan_fields(plan: Plan) -> dict[str, Any]:
    facts = plan.header.facts
    chosen = {key: facts[key] for key in ("partitions", "earliest_to_retain", "scope") if key in facts}
    return {"files": plan.files, "bytes": plan.bytes, **chosen}


def _report_fields(report: Report) -> dict[str, Any]:
    return {
        "committed": report.committed,
        "deleted_files": report.deleted_files,
        "absent_files": report.absent_files,
        "failed_files": len(report.failed),
        "freed_bytes": report.freed_bytes,
        **report.result,
    }

"""One table of a run: its maintenance, service by service, as far as the budgets go."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import LakemetaError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from lakemeta.maintenance import Step
    from lakemeta.report import Report

PARTLY_DONE: Final = 4
WORST_FIRST: Final = (5, 1, 3, 4, 2, 0)  # commit state unknown, failed, refused, partly done, configuration, done


class StoppedError(Exception):
    """The run is to stop: no further service begins, and the table is not counted as visited."""


@attrs.frozen
class Opened:
    """A table with the steps of its maintenance, in the order in which they are to be done."""

    format: str
    steps: Sequence[Step]


@attrs.frozen
class Service:
    """What became of one service: its plan, its report if it was applied, and why it did not begin."""

    name: str
    due: bool
    gain: int
    unit: str
    files: int
    bytes: int
    report: Report | None = None
    left: str | None = None

    @property
    def moved(self) -> int:
        """Bytes that were freed, quarantined or newly written."""
        report = self.report
        return 0 if report is None else report.freed_bytes + report.quarantined_bytes + report.written_bytes

    def to_json(self) -> dict[str, Any]:
        """As one JSON object; ``left`` stands there if the service did not begin for want of budget."""
        totals = {"due": self.due, "gain": self.gain, "files": self.files, "bytes": self.bytes}
        report = None if self.report is None else self.report.to_json()
        return {"service": self.name, **totals, **({"left": self.left} if self.left else {}), "report": report}


@attrs.frozen
class Row:
    """What became of one table; an ``error`` is a sentence, and ``kind`` the class of it."""

    table: str
    format: str | None = None
    services: tuple[Service, ...] = ()
    error: str | None = None
    kind: str | None = None
    code: int = 0

    @property
    def begun(self) -> tuple[Service, ...]:
        """The services that were due and within the budget."""
        return tuple(service for service in self.services if service.due and service.left is None)

    @property
    def left(self) -> tuple[Service, ...]:
        """Those that did not begin for want of budget."""
        return tuple(service for service in self.services if service.left is not None)

    @property
    def files(self) -> int:
        """Files that the plans of services change that have begun, or would."""
        return sum(service.files for service in self.begun)

    @property
    def bytes(self) -> int:
        """The bytes of these files."""
        return sum(service.bytes for service in self.begun)

    @property
    def moved(self) -> int:
        """Bytes that were freed, quarantined or newly written."""
        return sum(service.moved for service in self.services)

    @property
    def freed(self) -> int:
        """Bytes that were freed."""
        return sum(service.report.freed_bytes for service in self.services if service.report is not None)

    def to_json(self) -> dict[str, Any]:
        """As one JSON object."""
        found = {
            "table": self.table,
            "format": self.format,
            "services": [service.to_json() for service in self.services],
            "files": self.files,
            "bytes": self.bytes,
            "freed_bytes": self.freed,
            "left": [service.name for service in self.left],
        }
        wrong = {} if self.error is None else {"error": self.error, "class": self.kind}
        return {**found, **wrong, "exit_code": self.code}


def failed(table: str, error: Exception, services: tuple[Service, ...] = (), format_name: str | None = None) -> Row:
    """The row of a table that was refused or is broken, or of which a service ended in an error."""
    name = type(error).__name__
    if isinstance(error, LakemetaError):
        said, code = str(error), error.exit_code
    else:
        said, code = f"unexpected {name}: {error}", 1
    return Row(table, format_name, services, said, name, worst([code, _code(services)]))


def worst(codes: Iterable[int]) -> int:
    """The worst of some exit codes, 0 of none; one that has no place in the order is a failure."""
    places = {code: place for place, code in enumerate(WORST_FIRST)}
    return min((code if code in places else 1 for code in codes), key=lambda code: places[code], default=0)


def visit(
    table: str,
    open_table: Callable[[], Opened],
    admit: Callable[[int, int], str | None],
    *,
    apply: bool,
    stopped: Callable[[], bool],
) -> Row:
    """Plan the services of a table and, with ``apply``, do those that are due.

    ``admit`` takes the files and bytes of a service on, or says why it does not begin. The first service that is
    refused or fails ends the visit with its sentence. Raises StoppedError once ``stopped`` says so.
    """
    done: list[Service] = []
    format_name = None
    try:
        opened = open_table()
        format_name = opened.format
        for step in opened.steps:
            if stopped():
                raise StoppedError
            done.append(_serve(step, admit, apply=apply))
    except StoppedError:
        raise
    except Exception as error:  # noqa: BLE001 - one table's trouble, foreseen or not, does not keep the others waiting
        return failed(table, error, tuple(done), format_name)
    return Row(table, format_name, tuple(done), code=_code(done))


def _serve(step: Step, admit: Callable[[int, int], str | None], *, apply: bool) -> Service:
    name, unit = step.duty.service, step.duty.unit
    if (over := admit(0, 0)) is not None:  # of time: not even planned
        return Service(name, due=False, gain=0, unit=unit, files=0, bytes=0, left=over)
    plan = step.plan()
    due, (files, size) = step.is_due(plan), plan.changed
    left = admit(files, size) if due else None
    report = step.apply(plan) if apply and due and left is None else None
    return Service(name, due, step.duty.gain(plan), unit, files, size, report, left)


def _code(services: Iterable[Service]) -> int:
    complete = all(service.report is None or service.report.complete for service in services)
    return 0 if complete else PARTLY_DONE

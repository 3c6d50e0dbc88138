"""Maintenance of one table: its services in the order in which each makes work for the next, those done that are due.

Every step is planned on the table as the steps before it left it. A step is due if its plan gains at least as much as
is asked for, counted in what the service is about: files, snapshots, manifests.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from lakemeta.plan import Plan
    from lakemeta.report import Report


@attrs.frozen
class Duty:
    """A service as a part of maintenance: ``gain`` counts what a plan of it gains, in units of ``unit``."""

    service: str
    unit: str
    gain: Callable[[Plan], int]


@attrs.frozen
class Step:
    """One service of one table's maintenance, due from a gain of ``at_least`` on."""

    duty: Duty
    plan: Callable[[], Plan]
    apply: Callable[[Plan], Report]
    at_least: int

    def is_due(self, plan: Plan) -> bool:
        """True if the plan gains enough to be applied."""
        return self.duty.gain(plan) >= self.at_least


def files_gained(plan: Plan) -> int:
    """How many files a plan deletes, rewrites or removes."""
    return plan.files


def steps(
    duties: Sequence[Duty],
    plan: Callable[[str, Mapping[str, str]], Plan],
    apply: Callable[[Plan], Report],
    *,
    settings: Mapping[str, str],
    at_least: Mapping[str, str],
    skip: Collection[str],
) -> tuple[Step, ...]:
    """The steps of a table's maintenance, in the order of ``duties``.

    ``settings`` are options by ``SERVICE.KEY``, ``at_least`` thresholds by service. Raises OptionError for a name that
    is none of a service, or a threshold that is no whole number from 1 on.
    """
    services = [duty.service for duty in duties]
    options = _options(settings, services)
    thresholds = _thresholds(at_least, services)
    for name in skip:
        _check(name, services)
    return tuple(
        Step(duty, partial(plan, duty.service, options[duty.service]), apply, thresholds.get(duty.service, 1))
        for duty in duties
        if duty.service not in skip
    )


def _options(settings: Mapping[str, str], services: Iterable[str]) -> dict[str, dict[str, str]]:
    found: dict[str, dict[str, str]] = {service: {} for service in services}
    for name, value in settings.items():
        service, _, key = name.partition(".")
        if service not in found or not key:
            raise OptionError(f"{name} names no service; write SERVICE.KEY=VALUE with one of {', '.join(found)}")
        found[service][key] = value
    return found


def _thresholds(given: Mapping[str, str], services: Sequence[str]) -> dict[str, int]:
    for name, text in given.items():
        _check(name, services)
        if not (text.isascii() and text.isdigit() and int(text[:18]) > 0):
            raise OptionError(f"'{name}' is set to {text} but must be a whole number from 1 on")
    return {name: int(text[:18]) for name, text in given.items()}


def _check(name: str, services: Sequence[str]) -> None:
    if name not in services:
        raise OptionError(f"{name} is no service of this table; its services are {', '.join(services)}")

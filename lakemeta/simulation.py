"""What-if: one option of a service at several values, a plan for each of them, and what the plans would do.

Nothing is applied. A value that the service refuses is an outcome with the sentence of the refusal; what the storage, a
catalog or an executor raises says nothing of a value and ends the simulation.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.errors import CatalogError, ExecutorError, LakemetaError, OptionError, StorageError
from lakemeta.moments import date_of
from lakemeta.plan_operations import Expire, Rewrite, RewriteManifests
from lakemeta.words import html_table, human_bytes

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from lakemeta.plan import Plan


@attrs.frozen
class Oldest:
    """The oldest point at which the table can be read: an instant (Hudi) or a snapshot id (Iceberg).

    ``ms`` is its time in ms since the epoch, None for an instant, whose name is its time.
    """

    name: str
    ms: int | None = None

    def __str__(self) -> str:
        return self.name if self.ms is None else f"{self.name} ({date_of(self.ms)})"


@attrs.frozen
class Outcome:
    """What a plan with one value would do: ``files`` and ``bytes`` that go or are rewritten.

    ``into`` is the number of files that a rewrite makes of them, ``snapshots`` how many expire; None where a plan does
    no such thing. ``oldest`` is the oldest readable point afterwards, None if the plan names none. ``note`` is why
    nothing is done. ``refused`` is the sentence of a value that is refused, which has no plan.
    """

    value: str
    files: int = 0
    bytes: int = 0
    into: int | None = None
    snapshots: int | None = None
    oldest: Oldest | None = None
    note: str | None = None
    refused: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The outcome as a JSON object; a refused one has its value and the sentence alone."""
        if self.refused is not None:
            return {"value": self.value, "refused": self.refused}
        oldest = {"oldest": self.oldest and self.oldest.name, "oldest_ms": self.oldest and self.oldest.ms}
        return {**attrs.asdict(self, filter=attrs.filters.exclude("oldest", "refused")), **oldest}


@attrs.frozen
class Simulation:
    """The outcomes of one option of a service of a table, in the order of the values."""

    table: str
    service: str
    option: str
    outcomes: tuple[Outcome, ...]

    @property
    def all_refused(self) -> bool:
        """True if no value has a plan."""
        return all(outcome.refused is not None for outcome in self.outcomes)

    def to_json(self) -> dict[str, Any]:
        """The simulation as a JSON object."""
        outcomes = [outcome.to_json() for outcome in self.outcomes]
        return {"table": self.table, "service": self.service, "option": self.option, "outcomes": outcomes}

    def _repr_html_(self) -> str:
        rows = [
            (o.value, str(o.files), human_bytes(o.bytes), "" if o.oldest is None else str(o.oldest), "")
            if o.refused is None
            else (o.value, "", "", "", o.refused)
            for o in self.outcomes
        ]
        heads = (self.option, "files", "bytes", "oldest readable", "refused")
        return html_table(f"{self.service} of {self.table}", heads, rows)


def simulate(
    table: str,
    service: str,
    option: str,
    values: Iterable[str],
    plan: Callable[[str], Plan],
    oldest: Callable[[Plan], Oldest | None],
) -> Simulation:
    """Plan with each value of an option; a value that comes again is planned once.

    ``plan`` makes the plan for a value, ``oldest`` says what can still be read once a plan is applied. Raises
    OptionError if there is no value.
    """
    wanted = tuple(dict.fromkeys(values))
    if not wanted:
        raise OptionError(f"{option} has no value to simulate; give one or more")
    return Simulation(table, service, option, tuple(_outcome(value, plan, oldest) for value in wanted))


def _outcome(value: str, make: Callable[[str], Plan], oldest: Callable[[Plan], Oldest | None]) -> Outcome:
    try:
        plan = make(value)
    except (StorageError, CatalogError, ExecutorError):
        raise
    except LakemetaError as error:
        return Outcome(value, refused=str(error))
    files, size = plan.changed
    nothing = plan.header.facts.get("scope_reason") if not files else None
    return Outcome(value, files, size, _into(plan), _expired(plan), oldest(plan), nothing)


def _into(plan: Plan) -> int | None:
    if plan.kinds.isdisjoint((Rewrite, RewriteManifests)):
        return None
    return sum(op.expected_outputs for op in plan.operations if isinstance(op, Rewrite | RewriteManifests))


def _expired(plan: Plan) -> int | None:
    return sum(isinstance(op, Expire) for op in plan.operations) if Expire in plan.kinds else None

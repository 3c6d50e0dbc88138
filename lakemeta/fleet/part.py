"""What a configuration says of a table: in general, by a policy, or by an override.

Rules of this module:

1. Of several overrides of one table, and of several policies and what the file itself says in general, the safer value
   wins where they contradict each other.
2. What overrides say of a table takes the place of what is said in general, value by value.
3. Which order of services is safer is not known: two that differ are refused.
"""

from __future__ import annotations

from functools import reduce
from typing import TYPE_CHECKING, TypeVar

import attrs

from lakemeta.errors import OptionError
from lakemeta.fleet.budget import Budget
from lakemeta.fleet.safer import safer
from lakemeta.safeguards import PROOFS

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping

T = TypeVar("T")


@attrs.frozen
class Part:
    """``settings`` are options by service and name; None is not said, and ``budget`` is for each table."""

    settings: Mapping[tuple[str, str], str] = attrs.field(factory=dict)
    at_least: Mapping[str, int] = attrs.field(factory=dict)
    enabled: Mapping[str, bool] = attrs.field(factory=dict)
    services: tuple[str, ...] | None = None
    skip: bool | None = None
    quarantine: bool | None = None
    proof: str | None = None
    max_share: float | None = None
    assume_single_writer: bool | None = None
    budget: Budget = attrs.field(factory=Budget)

    def merged(self, other: Part) -> Part:
        """Both, of contradicting values the safer one; raises OptionError where that is not known (rules 1 and 3)."""
        settings = dict(self.settings)
        for (service, option), value in other.settings.items():
            mine = settings.get((service, option))
            settings[service, option] = value if mine is None else safer(service, option, mine, value)
        return Part(
            settings,
            _each(self.at_least, other.at_least, max),
            _each(self.enabled, other.enabled, min),
            _same(self.services, other.services),
            _either(self.skip, other.skip, max),
            _either(self.quarantine, other.quarantine, max),
            _either(self.proof, other.proof, lambda one, two: min(one, two, key=PROOFS.index)),
            _either(self.max_share, other.max_share, min),
            _either(self.assume_single_writer, other.assume_single_writer, min),
            self.budget.smaller(other.budget),
        )

    def over(self, general: Part) -> Part:
        """This, and what is said in general where this says nothing (rule 2)."""
        said = {
            name: value
            for name in ("services", "skip", "quarantine", "proof", "max_share", "assume_single_writer")
            if (value := getattr(self, name)) is not None
        }
        return attrs.evolve(
            general,
            settings={**general.settings, **self.settings},
            at_least={**general.at_least, **self.at_least},
            enabled={**general.enabled, **self.enabled},
            budget=self.budget.over(general.budget),
            **said,
        )

    def settings_of(self, services: Collection[str]) -> dict[str, str]:
        """The options of these services as :func:`lakemeta.maintenance.steps` takes them."""
        return {f"{service}.{name}": value for (service, name), value in self.settings.items() if service in services}

    def order(self, services: Iterable[str]) -> tuple[str, ...]:
        """Those of a table's services that are to be done, in the order that is asked for, else in their own."""
        there = [service for service in services if self.enabled.get(service, True)]
        return tuple(there if self.services is None else (name for name in self.services if name in there))


def merge(parts: Iterable[Part]) -> Part:
    """All of them (rule 1)."""
    return reduce(Part.merged, parts, Part())


def _each(one: Mapping[str, T], other: Mapping[str, T], choose: Callable[[T, T], T]) -> dict[str, T]:
    both = {name: choose(one[name], other[name]) for name in one.keys() & other.keys()}
    return {**one, **other, **both}


def _either(one: T | None, other: T | None, choose: Callable[[T, T], T]) -> T | None:
    return other if one is None else one if other is None else choose(one, other)


def _same(one: tuple[str, ...] | None, other: tuple[str, ...] | None) -> tuple[str, ...] | None:
    if one is not None and other is not None and one != other:
        raise OptionError(
            f"services are given as {', '.join(one)} and as {', '.join(other)} for one table, and neither is known to "
            f"be safer; give them once"
        )
    return other if one is None else one

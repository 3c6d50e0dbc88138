"""The file that says which tables are maintained and how.

Rules of this module:

1. A name that is not known is refused anywhere in the file, with the nearest one that is.
2. Options are those of the services, by their primary names or older spellings; ``older_than`` may be an age: ``"7d"``.
3. Options that are of one table (a directory, ids of snapshots) may stand in an override only.
"""

from __future__ import annotations

import tomllib
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.fleet.budget import Budget
from lakemeta.fleet.fields import Fields, flat, option_text
from lakemeta.fleet.part import Part, merge
from lakemeta.fleet.place_globs import PlaceGlob
from lakemeta.fleet.policies import parse_policies
from lakemeta.fleet.schedule import Schedule
from lakemeta.safeguards import PROOFS

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    Known = Mapping[str, Mapping[str, str]]

TABLES_AT_ONCE: Final = 4
_MOST_AT_ONCE: Final = 64
_OF_ONE_TABLE: Final = ("location", "inventory", "snapshot_ids")
_PART: Final = ("services", "service", "policies", "quarantine", "proof", "max-share", "assume-single-writer")
_TOP: Final = ("tables", *_PART, "tables-at-once", "storage-options", "budget", "schedule", "override")
_OVERRIDE: Final = ("tables", *_PART, "skip", "budget")
_SCHEDULE: Final = ("shortest-hours", "longest-hours", "little", "much")
_BUDGET: Final = ("files", "bytes", "minutes")


@attrs.frozen
class Override:
    """What is said of the tables that one of some globs takes."""

    tables: tuple[PlaceGlob, ...]
    part: Part

    def takes(self, url: str) -> bool:
        """True if the table at a URL is meant."""
        return any(glob.matches(url) for glob in self.tables)


@attrs.frozen
class Config:
    """A file as it is meant. ``storage_options`` are by the beginning of a URL; ``budget`` is that of the whole run."""

    tables: tuple[PlaceGlob, ...]
    general: Part = attrs.field(factory=Part)
    overrides: tuple[Override, ...] = ()
    storage_options: Mapping[str, Mapping[str, str]] = attrs.field(factory=dict)
    budget: Budget = attrs.field(factory=Budget)
    schedule: Schedule = attrs.field(factory=Schedule)
    tables_at_once: int = TABLES_AT_ONCE
    notes: tuple[str, ...] = ()

    def of(self, url: str) -> Part:
        """What is said of a table; raises OptionError if overrides contradict each other and no value is safer."""
        return merge(override.part for override in self.overrides if override.takes(url)).over(self.general)

    def options_of(self, url: str) -> dict[str, str]:
        """The storage options of a URL: those of the longest beginning that it has."""
        found = [beginning for beginning in self.storage_options if url.startswith(beginning)]
        return dict(self.storage_options[max(found, key=len)]) if found else {}


@attrs.frozen
class Surroundings:
    """What a file is read with.

    ``known`` has by service the primary name of each spelling of its options, ``absolute`` makes a glob of the file an
    absolute one, and ``read`` gives the text of a file that is named in it.
    """

    known: Known
    now_ms: int
    absolute: Callable[[str], str]
    read: Callable[[str], str]


def parse_config(text: str, file: str, around: Surroundings) -> Config:
    """The file; raises OptionError for what is malformed, unknown, or contradictory."""
    try:
        document = tomllib.loads(text)
    except (tomllib.TOMLDecodeError, RecursionError) as error:
        raise OptionError(f"{file} is no TOML: {error}") from None
    fields = Fields(document, file)
    fields.check(_TOP)
    globs = _globs(fields, around)
    budget, schedule = _budget(fields.table("budget")), _schedule(fields.table("schedule"))
    at_once = fields.whole("tables-at-once", 1) or TABLES_AT_ONCE
    if at_once > _MOST_AT_ONCE:
        raise fields.wrong("tables-at-once", at_once, f"from 1 to {_MOST_AT_ONCE}")
    options = _storage_options(fields.table("storage-options"), around)
    overrides, notes = _overrides(fields, around)
    general, noted = _part(fields, around)
    for service, option in general.settings:
        if option in _OF_ONE_TABLE:
            raise OptionError(f"{file}: {service}.{option} is of one table; give it in an [[override]] of that table")
    return Config(globs, general, overrides, options, budget, schedule, at_once, (*noted, *notes))


def _globs(fields: Fields, around: Surroundings) -> tuple[PlaceGlob, ...]:
    found = fields.texts("tables")
    if not found:
        raise OptionError(f'{fields.where} names no tables; write tables = ["/lake/**"]')
    return tuple(PlaceGlob.of(around.absolute(text)) for text in found)


def _overrides(fields: Fields, around: Surroundings) -> tuple[tuple[Override, ...], tuple[str, ...]]:
    given = fields.take("override")
    given = [] if given is None else given
    if not isinstance(given, list):
        raise OptionError(f"{fields.where}: override must be a list of tables; write [[override]]")
    found: list[Override] = []
    notes: list[str] = []
    for number, value in enumerate(given, 1):
        inner = Fields(value, f"{fields.where}: [[override]] {number}")
        inner.check(_OVERRIDE)
        globs = _globs(inner, around)
        skip, budget = inner.truth("skip"), _budget(inner.table("budget"))
        part, noted = _part(inner, around)
        found.append(Override(globs, attrs.evolve(part, skip=skip, budget=budget)))
        notes += noted
    return tuple(found), tuple(notes)


def _part(fields: Fields, around: Surroundings) -> tuple[Part, tuple[str, ...]]:
    """What the file and its policies say there, the safer of both (part, rule 1)."""
    known = around.known
    services = fields.texts("services")
    for name in services or ():
        _check_service(name, known, fields.where)
    if services is not None and len(set(services)) < len(services):
        raise OptionError(f"{fields.where}: services names one twice; name each once")
    proof = fields.text("proof")
    if proof is not None and proof not in PROOFS:
        raise fields.wrong("proof", proof, f"one of {', '.join(PROOFS)}")
    share = fields.number("max-share")
    if share is not None and share > 100:
        raise fields.wrong("max-share", share, "a percentage from 0 to 100")
    parts: list[Part] = []
    notes: list[str] = []
    for file in fields.texts("policies") or ():
        part, noted = parse_policies(
            around.read(file), file, {s: set(o.values()) for s, o in known.items()}, around.now_ms
        )
        parts.append(part)
        notes += noted
    said = Part(
        *_services(fields.table("service"), around),
        services=services,
        quarantine=fields.truth("quarantine"),
        proof=proof,
        max_share=share,
        assume_single_writer=fields.truth("assume-single-writer"),
    )
    return merge([said, *parts]), tuple(notes)


def _services(
    fields: Fields, around: Surroundings
) -> tuple[dict[tuple[str, str], str], dict[str, int], dict[str, bool]]:
    settings: dict[tuple[str, str], str] = {}
    at_least: dict[str, int] = {}
    enabled: dict[str, bool] = {}
    for service in list(fields.rest()):
        _check_service(service, around.known, fields.where)
        inner = fields.table(service)
        if (least := inner.whole("at-least", 1)) is not None:
            at_least[service] = least
        if (enable := inner.truth("enable")) is not None:
            enabled[service] = enable
        for name, value in flat(inner.rest()):
            option = _primary(name, service, around.known, inner.where)
            said = _value(inner, name, value, around)
            if settings.setdefault((service, option), said) != said:
                raise OptionError(f"{inner.where}: {option} is given twice with different values; give it once")
    return settings, at_least, enabled


def _value(fields: Fields, name: str, value: Any, around: Surroundings) -> str:
    try:
        return option_text(name, value, around.now_ms)
    except OptionError as error:
        raise OptionError(f"{fields.where}: {error}") from None


def _primary(name: str, service: str, known: Known, where: str) -> str:
    if name not in known[service]:
        near = [*known[service], "enable", "at-least"]
        raise OptionError(f"{where}: {OptionError.unknown(name, near, f'lakemeta options {service} lists them')}")
    return known[service][name]


def _check_service(name: str, known: Known, where: str) -> None:
    if name not in known:
        error = OptionError.unknown(name, known, f"services are {', '.join(known)}")
        raise OptionError(f"{where}: {str(error).replace('option', 'service', 1)}")


def _budget(fields: Fields) -> Budget:
    fields.check(_BUDGET)
    return Budget(fields.whole("files"), fields.whole("bytes"), fields.number("minutes"))


def _schedule(fields: Fields) -> Schedule:
    fields.check(_SCHEDULE)
    usual = Schedule()
    shortest, longest = fields.number("shortest-hours"), fields.number("longest-hours")
    little, much = fields.whole("little"), fields.whole("much")
    made = Schedule(
        usual.shortest_hours if shortest is None else shortest,
        usual.longest_hours if longest is None else longest,
        usual.little if little is None else little,
        usual.much if much is None else much,
    )
    if made.longest_hours < made.shortest_hours or made.much < made.little:
        raise OptionError(f"{fields.where}: longest-hours and much must not be less than shortest-hours and little")
    return made


def _storage_options(fields: Fields, around: Surroundings) -> dict[str, dict[str, str]]:
    found = {}
    for beginning in list(fields.rest()):
        inner = fields.table(beginning)
        if "://" not in beginning:
            raise OptionError(f'{inner.where}: storage options are of the beginning of a URL, as "s3://lake"')
        found[beginning] = {name: option_text(name, value, around.now_ms) for name, value in flat(inner.rest())}
    return found

"""What is known of earlier runs, as lines of JSON: the last visit of each table, and a run that was interrupted.

A line is a run that began (``run``: what was asked for), a visit of a table (``visit``) or the end of the run
(``ended``). A last line without its end was cut off by a crash, and is none.
"""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.fleet.budget import Spent
from lakemeta.fleet.schedule import Visit
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Mapping

_MOST_HOURS: Final = 1e9


@attrs.frozen
class Unfinished:
    """A run that has not ended: what was asked for, when it began and last got on (ms), and the visits it has made."""

    asked: str
    began_ms: int
    last_ms: int
    visits: tuple[Visit, ...] = ()

    @property
    def done(self) -> frozenset[str]:
        """The tables that are not visited again when the run goes on."""
        return frozenset(visit.table for visit in self.visits if not visit.left)

    @property
    def spent(self) -> Spent:
        """What it has taken on."""
        files, size = sum(visit.files for visit in self.visits), sum(visit.bytes for visit in self.visits)
        return Spent(files, size, (self.last_ms - self.began_ms) / 1000)

    def continues(self, asked: str, now_ms: int, within_hours: float) -> bool:
        """True if a run that asks for the same goes on with it: it began no longer ago than so many hours."""
        return self.asked == asked and now_ms - self.began_ms <= within_hours * 3_600_000


@attrs.frozen
class Memory:
    """Visits by table, and the run that did not end."""

    visits: Mapping[str, Visit] = attrs.field(factory=dict)
    unfinished: Unfinished | None = None

    def restarted(self) -> Memory:
        """Without the run that did not end; the tables that it had done are due again."""
        if self.unfinished is None:
            return self
        done = self.unfinished.done
        return Memory({name: attrs.evolve(v, left=v.left or name in done) for name, v in self.visits.items()})

    def lines(self, unfinished: Unfinished | None) -> str:
        """The whole of it, with a run that goes on from here."""
        running = () if unfinished is None else unfinished.visits
        of_it = {visit.table for visit in running}
        earlier = "".join(visit_line(visit) for visit in self.visits.values() if visit.table not in of_it)
        if unfinished is None:
            return earlier
        return earlier + run_line(unfinished.asked, unfinished.began_ms) + "".join(map(visit_line, running))


def parse_memory(text: str, file: str) -> Memory:
    """Raises CorruptMetadataError for a line that is none of these."""
    visits: dict[str, Visit] = {}
    run: Unfinished | None = None
    lines = text.split("\n")
    for number, line in enumerate(lines[:-1], 1):
        try:
            found = json.loads(line)
            if "run" in found:
                run = Unfinished(str(found["run"]), _count(found["at"]), _count(found["at"]))
            elif "ended" in found:
                run = None
            else:
                visit = _visit(found)
                visits[visit.table] = visit
                if run is not None:
                    last = max(run.last_ms, visit.at_ms)
                    run = attrs.evolve(run, last_ms=last, visits=(*run.visits, visit))
        except (ValueError, TypeError, KeyError, RecursionError) as error:
            raise CorruptMetadataError(
                f"line {number} of {file} cannot be read ({type(error).__name__}); remove the file to visit every table"
            ) from None
    return Memory(visits, run)


def run_line(asked: str, at_ms: int) -> str:
    """The line of a run that begins."""
    return _line({"run": asked, "at": at_ms})


def end_line(at_ms: int) -> str:
    """The line of a run that has ended."""
    return _line({"ended": at_ms})


def visit_line(visit: Visit) -> str:
    """The line of a visit."""
    found = attrs.asdict(visit)
    return _line({"visit": found.pop("table"), "at": found.pop("at_ms"), **found})


def _visit(found: Any) -> Visit:
    numbers = {name: _count(found[name]) for name in ("code", "files", "bytes")}
    hours = found["hours"]
    if not 0 <= hours <= _MOST_HOURS:
        raise ValueError(hours)
    return Visit(str(found["visit"]), _count(found["at"]), float(hours), left=bool(found["left"]), **numbers)


def _count(value: Any) -> int:
    if type(value) is not int or not 0 <= value <= LONG_MAX:
        raise ValueError(value)
    return value


def _line(value: Mapping[str, Any]) -> str:
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")) + "\n"

"""Which tables a run visits: those that are due, of an interrupted run those that were not done."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import OptionError
from lakemeta.fleet.schedule import due

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.fleet.config import Config
    from lakemeta.fleet.discovery import Found
    from lakemeta.fleet.memory import Memory, Unfinished
    from lakemeta.fleet.place_globs import PlaceGlob


@attrs.frozen
class Asked:
    """What a run is to do: ``text`` is that of the configuration, ``only`` a glob that narrows the tables down."""

    text: str
    only: PlaceGlob | None = None
    everything: bool = False
    apply: bool = False

    @property
    def key(self) -> str:
        """What an interrupted run has in common with the one that goes on with it."""
        words = json.dumps([self.text, self.only and self.only.text, self.everything])
        return hashlib.sha256(words.encode()).hexdigest()[:16]


@attrs.frozen
class Selection:
    """The tables of a run in order, places with no table, the tables that are not due, and the run that goes on."""

    tables: tuple[str, ...]
    broken: tuple[Found, ...] = ()
    resting: tuple[str, ...] = ()
    resumed: Unfinished | None = None


def select(found: Iterable[Found], config: Config, memory: Memory, asked: Asked, now_ms: int) -> Selection:
    """What a run visits: what is due (or everything), without what its interrupted part had done."""
    found = list(found)
    broken = tuple(table for table in found if table.error is not None)
    earlier = memory.unfinished
    if earlier is not None and not earlier.continues(asked.key, now_ms, config.schedule.shortest_hours):
        earlier = None
    done = frozenset() if earlier is None else earlier.done
    visits = {} if asked.everything else memory.visits
    tables = (table.url for table in found if table.error is None and table.url not in done)
    waiting = [url for url in tables if _is_meant(url, config, asked)]
    chosen = due(waiting, visits, now_ms)
    resting = tuple(table for table in waiting if table not in set(chosen))
    return Selection(chosen, broken, resting, earlier)


def _is_meant(url: str, config: Config, asked: Asked) -> bool:
    if asked.only is not None and not asked.only.matches(url):
        return False
    try:
        return not config.of(url).skip
    except OptionError:  # what is said of it contradicts itself, which its visit says
        return True

"""Instants and timelines of a Hudi table, in both layouts.

Rules of this module:

1. Layout 1 (table version 6) keeps instants in ``.hoodie`` as ``<ts>.<action>[.requested|.inflight]``; layout 2
   (version 8 and newer) in ``.hoodie/timeline`` with completed ones as ``<ts>_<completion>.<action>``. In both,
   ``<ts>.inflight`` alone is an inflight commit.
2. Order, and every comparison, is by requested time as a string (``InstantComparison``).
3. Of one action at one time only its most advanced state counts. A compaction completes as a commit, a clustering
   as a replacecommit, a log compaction as a deltacommit (``HoodieInstant.getComparableAction``).
4. A name that looks like an instant but has an unknown action is refused: it may be a writer newer than us.
   So is one that ends as an instant does and does not start with the digits of a time: it may be one that was renamed,
   and without it its write would seem to have failed. Hudi takes times of any length and passes over the rest.
   Hidden names are passed over, and those that a writer renames once they are whole: ending in ``.tmp``, or in a UUID
   (``HoodieStorage.createImmutableFileInPath``).
"""

from __future__ import annotations

import re
from enum import IntEnum
from functools import cached_property
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator


class State(IntEnum):
    """How far an instant has come."""

    REQUESTED = 0
    INFLIGHT = 1
    COMPLETED = 2


COMMITS: Final = frozenset({"commit", "deltacommit", "replacecommit", "clustering"})
COMMITS_AND_COMPACTION: Final = COMMITS | {"compaction"}
WRITES: Final = COMMITS_AND_COMPACTION | {"logcompaction"}
ACTIONS: Final = WRITES | {"clean", "savepoint", "rollback", "restore", "indexing", "schemacommit"}

_COMPLETES_AS: Final = {"compaction": "commit", "clustering": "replacecommit", "logcompaction": "deltacommit"}
_NAME: Final = re.compile(
    r"(?P<ts>[0-9]{14,20})(?:_(?P<completion>[0-9]+))?(?:\.(?P<action>[a-z]+))??(?:\.(?P<state>requested|inflight))?"
)
_DIGITS: Final = re.compile(r"\d{14,20}(?:[._].*)?", re.DOTALL)  # also those of other scripts
_ENDING: Final = re.compile(rf".*\.(?:(?:{'|'.join(sorted(ACTIONS))})(?:\.requested|\.inflight)?|inflight)", re.DOTALL)
_PASSED_OVER: Final = re.compile(r".*\.(?:crc|tmp|[0-9a-f]{8}(?:-[0-9a-f]{4}){3}-[0-9a-f]{12})")


@attrs.frozen(slots=True, order=False)
class Instant:
    """One action on the timeline at one state.

    ``requested`` is the time that names it, ``completion`` the time it completed (layout 2 only, else None); both are
    digits in the table's timeline timezone. ``size`` is that of its file in bytes.
    """

    requested: str
    action: str
    state: State
    file_name: str
    completion: str | None = None
    size: int = 0

    @property
    def completed(self) -> bool:
        """True if the action is done."""
        return self.state is State.COMPLETED

    @property
    def comparable_action(self) -> str:
        """The action under which a completed instant of this kind is listed."""
        return _COMPLETES_AS.get(self.action, self.action)

    def __str__(self) -> str:
        """The instant as a person writes it: ``20260101000000000 clean (requested)``."""
        return f"{self.requested} {self.action} ({self.state.name.lower()})"


def parse_instant(name: str, size: int = 0) -> Instant | None:
    """Read a timeline file name; None if it is no instant.

    Raises:
        UnsupportedFeatureError: it is an instant of an action that lakemeta does not know.
        CorruptMetadataError: it ends as an instant does and has no time.
    """
    match = _NAME.fullmatch(name)
    if match is None or (match["action"] is None and match["state"] is None) or not _has_times(match):
        if not name.startswith("."):
            _refuse_lookalike(name)
        return None
    action = match["action"] or "commit"
    if action not in ACTIONS:
        raise UnsupportedFeatureError(f"the timeline has {name}, whose action {action} lakemeta does not know")
    state = State[match["state"].upper()] if match["state"] else State.COMPLETED
    return Instant(match["ts"], action, state, name, match["completion"], size)


def _has_times(match: re.Match[str]) -> bool:
    return is_instant(match["ts"]) and (match["completion"] is None or is_instant(match["completion"]))


def _refuse_lookalike(name: str) -> None:
    if _ENDING.fullmatch(name):
        raise CorruptMetadataError(
            f"the timeline has {name!r:.200}, which is named like an instant and has no time that Hudi writes; nothing "
            "was done; give it the name that it had, or take it out of the timeline if it is none of Hudi's"
        )
    if _DIGITS.fullmatch(name) and not _PASSED_OVER.fullmatch(name):
        raise UnsupportedFeatureError(f"the timeline has {name!r:.200}, which is no instant that lakemeta knows")


def is_instant(text: str) -> bool:
    """True for the requested time of an instant.

    Seconds (14 digits) or milliseconds (17), with three more digits where a metadata table marks what it does itself.
    """
    return text.isascii() and text.isdecimal() and len(text) in (14, 17, 20)


def instant_file_name(requested: str, action: str, state: State, completion: str | None = None) -> str:
    """The file name of an instant; ``completion`` is given for completed instants of layout 2."""
    if state is State.COMPLETED:
        return f"{requested}_{completion}.{action}" if completion else f"{requested}.{action}"
    return f"{requested}.{action}.{state.name.lower()}"


def _as_tuple(instants: Iterable[Instant]) -> tuple[Instant, ...]:
    return tuple(instants)


@attrs.frozen
class Timeline:
    """Instants in order of requested time; every filter gives a new timeline."""

    instants: tuple[Instant, ...] = attrs.field(converter=_as_tuple)

    @classmethod
    def of(cls, instants: Iterable[Instant]) -> Timeline:
        """The timeline of all instants found, keeping the most advanced state of each."""
        best: dict[tuple[str, str], Instant] = {}
        for instant in instants:
            key = (instant.requested, instant.comparable_action)
            if key not in best or best[key].state < instant.state:
                best[key] = instant
        return cls(sorted(best.values(), key=lambda i: (i.requested, i.comparable_action)))

    def check_writes(self) -> None:
        """Raise CorruptMetadataError if two writes have one time: files would belong to the one and to the other."""
        seen: dict[str, Instant] = {}
        for instant in self.instants:
            if instant.action in WRITES and seen.setdefault(instant.requested, instant) is not instant:
                raise CorruptMetadataError(
                    f"the timeline has {seen[instant.requested]} and {instant}, and a file cannot be of both; find out "
                    "which of them wrote what is there, and remove the other"
                )

    def __iter__(self) -> Iterator[Instant]:
        return iter(self.instants)

    def __len__(self) -> int:
        return len(self.instants)

    def where(self, keep: Callable[[Instant], bool]) -> Timeline:
        """The instants for which ``keep`` is true."""
        return Timeline(filter(keep, self.instants))

    def of_actions(self, *actions: str) -> Timeline:
        """The instants of these actions, in any state."""
        return self.where(lambda i: i.action in actions)

    @cached_property
    def completed(self) -> Timeline:
        """The completed instants."""
        return self.where(lambda i: i.completed)

    @cached_property
    def pending(self) -> Timeline:
        """The requested and inflight instants."""
        return self.where(lambda i: not i.completed)

    @cached_property
    def commits(self) -> Timeline:
        """``getCommitsTimeline``: commits, delta commits, replace commits and clusterings, in any state."""
        return self.where(lambda i: i.action in COMMITS)

    @cached_property
    def commits_and_compaction(self) -> Timeline:
        """``getCommitsAndCompactionTimeline``: the commits and the compactions, in any state."""
        return self.where(lambda i: i.action in COMMITS_AND_COMPACTION)

    @cached_property
    def view(self) -> Timeline:
        """``filterCompletedAndCompactionInstants`` of the writes: what a file system view counts as committed."""
        return self.where(lambda i: i.action in WRITES and (i.completed or i.action in ("compaction", "logcompaction")))

    @cached_property
    def cleans(self) -> Timeline:
        """The cleans, in any state."""
        return self.of_actions("clean")

    @cached_property
    def savepoints(self) -> Timeline:
        """The completed savepoints."""
        return self.completed.of_actions("savepoint")

    @property
    def first(self) -> Instant | None:
        """The earliest instant."""
        return self.instants[0] if self.instants else None

    @property
    def last(self) -> Instant | None:
        """The latest instant."""
        return self.instants[-1] if self.instants else None

    @property
    def newest_time(self) -> str:
        """The largest time on the timeline, requested or completion; empty if there is none."""
        return max((max(i.requested, i.completion or "") for i in self.instants), default="")

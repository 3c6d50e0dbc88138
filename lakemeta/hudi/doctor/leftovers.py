"""What writers left behind beside the data: markers and heartbeats of writes that are over (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import PathNotFoundError
from lakemeta.finding import Finding, examples
from lakemeta.hudi.files.layout import HEARTBEAT_FOLDER, MARKER_FOLDER
from lakemeta.hudi.timeline.failed_writes import is_alive
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.instants import Timeline


def find_leftovers(
    place: Place, timeline: Timeline, options: CleanOptions, heartbeats: Mapping[str, int], now_ms: int
) -> Iterator[Finding]:
    """Marker directories, and ``heartbeats`` (instant -> ms since the epoch), of instants that are not pending.

    What is later than the timeline, or beats still, may belong to a write that has just begun.
    """
    over = _Over(timeline)
    markers = sorted(filter(over, _marker_directories(place)))
    if markers:
        sentence = (
            f"{MARKER_FOLDER} has the markers of {count_of(len(markers), 'write')} no longer pending, which nothing "
            f"needs: {examples(markers)}; delete those directories"
        )
        yield Finding("leftover_markers", "note", sentence)
    silent = sorted(i for i in heartbeats if over(i) and not is_alive(i, heartbeats, options, now_ms))
    if silent:
        sentence = (
            f"{HEARTBEAT_FOLDER} has the heartbeats of {count_of(len(silent), 'write')} no longer pending, which "
            f"nothing needs: {examples(silent)}; delete those files"
        )
        yield Finding("leftover_heartbeats", "note", sentence)


class _Over:
    """True for instants that a timeline has come past: not pending, and not later than its newest time."""

    def __init__(self, timeline: Timeline) -> None:
        self._pending = frozenset(instant.requested for instant in timeline.pending)
        self._newest = timeline.newest_time

    def __call__(self, instant: str) -> bool:
        return instant.isdecimal() and instant <= self._newest and instant not in self._pending


def _marker_directories(place: Place) -> Iterator[str]:
    try:
        entries = place.storage.list_dir(f"{place.root}/{MARKER_FOLDER}")
    except PathNotFoundError:
        return
    yield from (entry.name for entry in entries if entry.is_dir)

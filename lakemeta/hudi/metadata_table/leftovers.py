"""What writers left pending in the metadata table, and the way out of it (I/O).

Rules of this module:

1. A delta commit is pending in the metadata table while its writer is at work, and for ever if that died. Readers count
   nothing of it either way.
2. Those of pending cleans are written again when these are executed, and those of failed writes and of pending
   rollbacks of the data table go with the rollback there.
3. One of a compaction or clustering that failed, or of an instant that the data table does not have any more, is rolled
   back in the metadata table alone, at a new instant, as Hudi does before it writes there
   (``HoodieBackedTableMetadataWriter.rollbackFailedWrites``). Hudi does not ask whether its writer is at work. Here
   neither table may have a fresh heartbeat of it, and it takes the table's lock, where every writer to the
   metadata table holds it, or the word of a person that there is no other writer.
4. One whose action has completed on the data table says that the metadata table was never updated: it must be
   built anew.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import LakemetaError, UnsupportedFeatureError
from lakemeta.hudi.files.layout import METADATA_TABLE
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.rollback import roll_back_pending
from lakemeta.hudi.metadata_table.slices import INIT_PREFIX
from lakemeta.hudi.metadata_table.sync import open_metadata
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.timeline.failed_writes import is_alive
from lakemeta.hudi.timeline.heartbeats import read_heartbeats
from lakemeta.hudi.timeline.instant_writer import next_instant
from lakemeta.hudi.timeline.loading import load_timeline
from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.instant_writer import InstantWriter
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState

_SERVICES: Final = frozenset({"compaction", "logcompaction", "clustering"})
_DIGITS: Final = 17  # of an instant; the metadata table's own have more in table version 6


def read_leftovers(
    place: Place, state: TableState, options: CleanOptions, now: datetime
) -> tuple[tuple[Instant, ...], tuple[Instant, ...]]:
    """The delta commits of rule 3: those to roll back, and those whose writer's heart beats at the moment ``now``.

    There are none if the table has no metadata table, or none that can be opened.
    """
    if not state.config.has_metadata_table:
        return (), ()
    try:
        table = open_latest(place, state)
    except LakemetaError:
        return (), ()
    beats, now_ms = heartbeats(place), epoch_ms(now)
    found = leftovers(table, state.clusterings)
    alive = tuple(i for i in found if is_alive(i.requested, beats, options, now_ms))
    return tuple(i for i in found if i not in alive), alive


def open_latest(place: Place, state: TableState) -> MetadataTable:
    """The metadata table, with the data table's timeline as it is after the other was read.

    A delta commit is requested after its action, so that the action of each is found, if there is one.
    """
    table = MetadataTable.open(place.storage, place.root, state.config, state.timeline)
    return attrs.evolve(table, data=load_timeline(place.storage, place.root, state.config))


def leftovers(table: MetadataTable, clusterings: frozenset[str]) -> tuple[Instant, ...]:
    """The pending delta commits of rule 3; ``clusterings`` are the pending clusterings of table version 6."""
    pending = table.timeline.pending.of_actions("deltacommit")
    return tuple(i for i in pending if _is_leftover(table, clusterings, i.requested))


def heartbeats(place: Place) -> Mapping[str, int]:
    """When each heartbeat of the table and of its metadata table last changed, in ms since the epoch."""
    of_data = read_heartbeats(place.storage, place.root)
    of_metadata = read_heartbeats(place.storage, f"{place.root}/{METADATA_TABLE}")
    return {i: max(of_data.get(i, 0), of_metadata.get(i, 0)) for i in {*of_data, *of_metadata}}


def roll_back_leftovers(writer: InstantWriter, instants: Iterable[str]) -> dict[str, str]:
    """Roll these pending delta commits back in the metadata table (rule 3); the instant of the rollback of each.

    The caller holds the table's lock, or is the only writer. What a crash left of such a rollback is finished.
    """
    done: dict[str, str] = {}
    for instant in instants:
        timeline = load_timeline(writer.storage, writer.root, writer.config)
        table = open_metadata(writer, timeline)
        if table is None or not any(i.requested == instant for i in table.timeline.pending):
            continue  # another writer was faster
        newest = max(timeline.newest_time, table.newest_time)
        at = table.pending_rollback_of(instant) or next_instant(newest, writer.clock(), writer.zone)
        later = next_instant(max(newest, at), writer.clock(), writer.zone) if writer.config.layout == 2 else None
        roll_back_pending(table, at, later, instant)
        done[instant] = at
    return done


def refuse_pending(
    place: Place, table: MetadataTable, state: TableState, options: CleanOptions, *, own: Iterable[str], now: datetime
) -> None:
    """Raise UnsupportedFeatureError, with the way out, for what is pending in the metadata table and is not ``own``."""
    table.check_indexed()
    blocking = table.blocking(*own)
    if blocking:
        raise UnsupportedFeatureError(
            f"the metadata table has the pending {blocking[0]} {_of(table, blocking[0].requested)}; "
            f"{_way_out(place, table, state, options, blocking=blocking[0], now=now)}"
        )


def _is_leftover(table: MetadataTable, clusterings: frozenset[str], instant: str) -> bool:
    if len(instant) > _DIGITS or instant.startswith(INIT_PREFIX):
        return False
    mine = [i for i in table.data if i.requested == instant]
    if not mine:
        return table.data.first is not None and instant > table.data.first.requested  # else it may be archived
    return all(not i.completed and (i.action in _SERVICES or instant in clusterings) for i in mine)


def _of(table: MetadataTable, instant: str) -> str:
    mine = [i for i in table.data if i.requested == instant]
    return f"of {mine[0].action} {instant}" if mine else "of no action on the table's timeline"


def _way_out(
    place: Place, table: MetadataTable, state: TableState, options: CleanOptions, *, blocking: Instant, now: datetime
) -> str:
    instant, beats = blocking.requested, heartbeats(place)
    mine = [i for i in table.data if i.requested == instant]
    if is_alive(instant, beats, options, epoch_ms(now)):
        return "its writer is at work, so clean again when it is done"
    if instant in {i.requested for i in leftovers(table, state.clusterings)}:
        return f"if no writer is at work, run: lakemeta rollback {place.url}"
    if blocking.action == "deltacommit" and mine and all(i.action == "rollback" for i in mine):
        return f"finish that rollback with: lakemeta rollback {place.url}"
    if blocking.action == "deltacommit" and mine and not any(i.completed or i.action == "restore" for i in mine):
        later = any(i.requested > instant for i in table.data.commits.completed) and instant not in beats
        lazy = " --set hoodie.clean.failed.writes.policy=LAZY" if later or options.failed_writes != "EAGER" else ""
        return f"if its writer is not at work, run: lakemeta rollback {place.url}{lazy}"
    return f"if no writer is at work, {drop_advice(place.url)}"

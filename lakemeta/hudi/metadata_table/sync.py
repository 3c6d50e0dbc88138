"""Updates the metadata table with cleans and rollbacks (I/O).

Rules of this module:

1. The metadata table is looked at before the first file is deleted: that is the moment to refuse.
2. It is updated after the files are deleted and before the action completes, with the lock held. If other writers have
   updated it in between it is read again, and else what was read before holds.
3. From table version 8 on its commit completes later than anything on either timeline, and the action after that.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.hudi.metadata_table.rollback import check_can_roll_back, roll_back
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.metadata_table.update import CleanedPartition
from lakemeta.hudi.timeline.instant_writer import next_instant
from lakemeta.hudi.timeline.loading import load_config, load_timeline
from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lakemeta.hudi.metadata_table.table import PreparedClean
    from lakemeta.hudi.timeline.action_metadata import CleanerPlan
    from lakemeta.hudi.timeline.instant_writer import InstantWriter
    from lakemeta.hudi.timeline.instants import Timeline


def open_metadata(writer: InstantWriter, timeline: Timeline) -> MetadataTable | None:
    """The metadata table of the table that ``writer`` writes to, if it has one."""
    if not writer.config.has_metadata_table:
        return None
    return MetadataTable.open(writer.storage, writer.root, writer.config, timeline)


def newest_time(writer: InstantWriter, timeline: Timeline) -> str:
    """The largest time on the timeline and on that of the metadata table: a new instant must be later."""
    table = open_metadata(writer, timeline)
    return max(timeline.newest_time, table.newest_time) if table else timeline.newest_time


def cleaned_partitions(plan: CleanerPlan, dropped: Iterable[str]) -> list[CleanedPartition]:
    """What a clean takes away, by partition: the planned files, and the partitions that are ``dropped``."""
    gone = set(dropped)
    files = {partition: [file.path.rpartition("/")[2] for file in listed] for partition, listed in plan.files.items()}
    return [CleanedPartition(p, files.get(p, ()), p in gone) for p in sorted({*files, *gone})]


def prepare_clean(writer: InstantWriter, timeline: Timeline, instant: str, plan: CleanerPlan) -> PreparedClean | None:
    """What the metadata table is to hold of a clean, if there is one; refuses what it cannot (rule 1)."""
    table = open_metadata(writer, timeline)
    if table is None:
        return None
    planned = cleaned_partitions(plan, plan.partitions_to_delete or ())
    return table.prepare_clean(instant, planned, epoch_ms(writer.clock()))


def sync_clean(
    writer: InstantWriter, instant: str, plan: CleanerPlan, dropped: Iterable[str], prepared: PreparedClean | None
) -> str:
    """Update the metadata table, if there is one, with a clean; the newest time on both timelines then."""
    writer = attrs.evolve(writer, config=load_config(writer.storage, writer.root))  # an index may have been dropped
    timeline = load_timeline(writer.storage, writer.root, writer.config)
    table = open_metadata(writer, timeline)
    if table is None:
        return timeline.newest_time
    cleaned = cleaned_partitions(plan, dropped)
    if prepared is None or not table.still_holds(prepared, cleaned):
        prepared = table.prepare_clean(instant, cleaned, epoch_ms(writer.clock()))
    newest = max(timeline.newest_time, table.newest_time)
    completion = _completion(writer, newest)
    table.commit_clean(prepared, completion)
    return completion or newest


def check_rollback(
    writer: InstantWriter, timeline: Timeline, *, rollback: str, failed: str, dead: Collection[str]
) -> None:
    """Refuse now what rolling the write at ``failed`` back in the metadata table would refuse after the deletes.

    ``rollback`` is the instant of the rollback, empty if it was not begun; ``dead`` are the instants of what else
    failed.
    """
    table = open_metadata(writer, timeline)
    if table is not None:
        check_can_roll_back(table, rollback=rollback, failed=failed, dead=dead)


def sync_rollback(
    writer: InstantWriter,
    timeline: Timeline,
    *,
    rollback: str,
    failed: str,
    appended: Mapping[str, Mapping[str, int]],
    dead: Collection[str],
) -> str:
    """Roll the write at ``failed`` back in the metadata table, if there is one; the newest time on both timelines then.

    ``appended`` are the log files of the slices with rollback blocks: partition -> file name -> bytes. ``dead`` are the
    instants of what else failed.
    """
    table = open_metadata(writer, timeline)
    if table is None:
        return timeline.newest_time
    newest = max(timeline.newest_time, table.newest_time)
    completion = _completion(writer, newest)
    roll_back(
        table,
        rollback=rollback,
        failed=failed,
        appended=appended,
        completion=completion,
        now_ms=epoch_ms(writer.clock()),
        dead=dead,
    )
    return completion or newest


def _completion(writer: InstantWriter, newest: str) -> str | None:
    return next_instant(newest, writer.clock(), writer.zone) if writer.config.layout == 2 else None

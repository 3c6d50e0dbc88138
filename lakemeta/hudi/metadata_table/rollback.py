"""Rolls a failed write back in the metadata table (I/O).

The failed write C may have got as far as a delta commit of the metadata table. R is the instant of the data table's
rollback. Rules of this module (``HoodieBackedTableMetadataWriter.update`` for rollbacks):

1. Version 8 and newer: nothing to do unless C is on the metadata table's timeline. If it is, a rollback at R: C is
   made incomplete, its log files are deleted, R completes, and the rest of C is removed.
2. Version 6: a delta commit at R lists the rollback blocks that were appended to data files. If C is there, a
   rollback at R with the suffix 006 appends a rollback command to every slice that has a block of C, whose log files
   stay.
3. All of it comes after the failed write's data files are deleted and before anything of C is removed from the data
   timeline: a delta commit whose instant is unknown there counts for readers.
4. A write that is older than the last compaction of the metadata table is in its base files for good: refused.
5. Every step may be done again, so a second run completes what a crash left.
6. Several failed writes may have got here. Each is rolled back with its own rollback of the data table, newest first;
   what the others left is counted by no reader meanwhile. Hudi, which counts all pending delta commits here as failed
   once it has the lock, rolls them all back with the first one.
7. What no write of the data table left, such as a clustering that failed, has no rollback there. It is rolled back here
   alone; it never completed, so no compaction has merged it.
"""

from __future__ import annotations

from contextlib import suppress
from typing import TYPE_CHECKING, Final

from lakemeta.errors import CorruptMetadataError, PathExistsError, UnsupportedFeatureError
from lakemeta.hudi.files.logs import ROLLBACK_COMMAND, BlockType, HeaderKey, LogBlock, encode_block, read_blocks
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.deltacommit import new_log_file
from lakemeta.hudi.metadata_table.update import GroupUpdate, appended_update
from lakemeta.hudi.timeline.instants import State, instant_file_name
from lakemeta.hudi.timeline.rollback_metadata import (
    ROLLBACK_VERSION,
    RollbackPlan,
    RollbackRequest,
    encode_rollback_metadata,
    encode_rollback_plan,
)

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping, Sequence

    from lakemeta.hudi.metadata_table.slices import Slice
    from lakemeta.hudi.metadata_table.table import MetadataTable

ROLLBACK_SUFFIX: Final = "006"  # HoodieTableMetadataUtil.OperationSuffix of a rollback


def check_can_roll_back(table: MetadataTable, *, rollback: str, failed: str, dead: Collection[str] = ()) -> None:
    """Raise UnsupportedFeatureError if the write at ``failed`` cannot be rolled back in the metadata table.

    ``rollback`` is the instant of the data table's rollback, ``dead`` are the instants of other failed writes and of
    rollbacks that were begun: they may be pending (rule 6). Nothing is written.
    """
    table.check_writable(rollback, failed, f"{rollback}{ROLLBACK_SUFFIX}", *dead)
    counted = any(i.requested == failed for i in table.timeline.completed.of_actions("deltacommit"))
    if counted and not any(i.requested == failed for i in table.data):
        raise CorruptMetadataError(
            f"the write {failed} is to be rolled back, which the timeline does not have and the metadata table counts; "
            "delete that rollback from the timeline if the write had completed"
        )
    compactions = [i.requested for i in table.timeline.completed.of_actions("commit")]
    if any(i.requested == failed for i in table.timeline) and failed <= max(compactions, default=""):
        raise UnsupportedFeatureError(
            f"the metadata table was compacted after the failed write {failed}, so it cannot be rolled back there; "
            + drop_advice(table.url)
        )


def roll_back(
    table: MetadataTable,
    *,
    rollback: str,
    failed: str,
    appended: Mapping[str, Mapping[str, int]],
    completion: str | None,
    now_ms: int,
    dead: Collection[str] = (),
) -> None:
    """Roll the write at ``failed`` back, as part of the data table's rollback at ``rollback``.

    ``appended`` are the rollback blocks that the data table got (table version 6 only): partition -> name of the log
    file -> size in bytes. ``completion`` is the completion time of the rollback here, from version 8 on: earlier than
    that of the data table's. ``now_ms`` is the time in ms since the epoch. ``dead`` and what is raised are as for
    :func:`check_can_roll_back`.
    """
    check_can_roll_back(table, rollback=rollback, failed=failed, dead=dead)
    if table.config.version < 8:
        table.commit_appended(rollback, appended_update(appended, table.precedent(rollback).record_schema), now_ms)
    if any(i.requested == failed for i in table.timeline):
        _undo(table, rollback if table.config.version >= 8 else f"{rollback}{ROLLBACK_SUFFIX}", completion, failed)


def roll_back_pending(table: MetadataTable, at: str, completion: str | None, failed: str) -> None:
    """Roll the pending delta commit at ``failed`` back in the metadata table alone, at an instant of its own (rule 7).

    ``at`` is later than every time on both timelines, unless this rollback was begun before, and so is ``completion``,
    from table version 8 on.
    """
    _undo(table, at, completion, failed)


def _undo(table: MetadataTable, at: str, completion: str | None, failed: str) -> None:
    requests = (
        [_command_request(p, onto) for p, onto in _slices_with(table, failed)]
        if table.config.version < 8
        else list(_log_requests(table, failed))
    )
    deltas = [i for i in table.timeline if i.requested == failed]
    plan = RollbackPlan(failed, "deltacommit", tuple(requests))
    names = [instant_file_name(at, "rollback", state) for state in (State.REQUESTED, State.INFLIGHT)]
    for name, content in zip(names, (encode_rollback_plan(plan), b""), strict=True):
        with suppress(PathExistsError):
            table.storage.create(f"{table.timeline_path}/{name}", content)
    table.delete([f"{table.timeline_path}/{i.file_name}" for i in deltas if i.completed])
    if table.config.version < 8:
        _append_commands(table, at, failed)
    table.delete([path for request in requests for path in request.files])
    done = instant_file_name(at, "rollback", State.COMPLETED, completion)
    if not any(i.requested == at and i.action == "rollback" and i.completed for i in table.timeline):
        table.storage.create(f"{table.timeline_path}/{done}", _metadata(at, failed, requests))
    rest = (State.INFLIGHT, State.REQUESTED)
    table.delete([f"{table.timeline_path}/{instant_file_name(failed, 'deltacommit', state)}" for state in rest])


def _append_commands(table: MetadataTable, at: str, failed: str) -> None:
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: at,
        HeaderKey.TARGET_INSTANT_TIME: failed,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
    }
    content = encode_block(BlockType.COMMAND, header, b"")
    for partition, onto in _slices_with(table, failed):
        if not any(block.instant_time == at for block in _blocks(table, partition, onto)):
            file = new_log_file(GroupUpdate(partition, onto.file_id), onto, at, table.config.version, content)
            table.storage.create(f"{table.path}/{file.path}", content)


def _slices_with(table: MetadataTable, failed: str) -> Iterator[tuple[str, Slice]]:
    """The newest slices that have a block of the failed write, with their partitions."""
    for partition in table.partitions:
        for onto in table.slices(partition):
            if any(block.instant_time == failed for block in _blocks(table, partition, onto)):
                yield partition, onto


def _blocks(table: MetadataTable, partition: str, onto: Slice) -> Iterator[LogBlock]:
    for log in onto.log_files:
        path = f"{table.path}/{partition}/{log.name}"
        yield from (b for b in read_blocks(table.storage.read(path), path) if isinstance(b, LogBlock))


def _command_request(partition: str, onto: Slice) -> RollbackRequest:
    return RollbackRequest(partition, onto.file_id, onto.base_instant, (), {log.name: 1 for log in onto.log_files})


def _log_requests(table: MetadataTable, failed: str) -> Iterator[RollbackRequest]:
    for partition in table.partitions:
        for path in table.log_files_of(partition, failed):
            yield RollbackRequest(partition, "", "", (path,))


def _metadata(at: str, failed: str, requests: Sequence[RollbackRequest]) -> bytes:
    partitions = {
        partition: {
            "partitionPath": partition,
            "successDeleteFiles": [path for r in requests if r.partition == partition for path in r.files],
            "failedDeleteFiles": [],
            "rollbackLogFiles": {},
            "logFilesFromFailedCommit": {
                n: s for r in requests if r.partition == partition for n, s in r.log_blocks.items()
            },
        }
        for partition in sorted({r.partition for r in requests})
    }
    return encode_rollback_metadata(
        {
            "startRollbackTime": at,
            "timeTakenInMillis": 0,
            "totalFilesDeleted": sum(len(r.files) for r in requests),
            "commitsRollback": [failed],
            "partitionMetadata": partitions,
            "version": ROLLBACK_VERSION,
            "instantsRollback": [{"commitTime": failed, "action": "deltacommit"}],
        }
    )

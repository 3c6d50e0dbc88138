"""Rolls back failed writes (I/O).

Rules of this module (``BaseRollbackActionExecutor``, ``RollbackHelper``, ``RollbackHelperV1``):

1. The plan is written to ``<ts>.rollback.requested`` first, then ``<ts>.rollback.inflight`` (empty). From then on the
   plan is in that file: whoever finds a pending rollback executes it as it stands.
2. Files go, and rollback blocks are appended as new log files of their slices. Then the metadata table is updated. Then
   the failed write's own instant files go, inflight before requested, then its markers and its heartbeat, and last the
   rollback completes. Hudi does away with markers and heartbeat after that; this way nothing is left behind if the last
   step is not reached.
3. A file that cannot be deleted keeps the rollback pending: what a rolled back write leaves would count as committed
   once the timeline is archived past it.
4. A slice that has a rollback block of this rollback gets no second one, and a slice without log files gets none.
5. Nothing is begun or completed if the failed write turns out to have completed meanwhile.
6. Under a lock that is shared with others the rollback has a heartbeat, and one that has another's is left to that (see
   :mod:`lakemeta.hudi.timeline.heartbeats`).
"""

from __future__ import annotations

from contextlib import nullcontext
from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.errors import PathExistsError, StalePlanError, StorageError
from lakemeta.hudi.files.doors import block_door, data_door, metadata_door
from lakemeta.hudi.files.layout import HEARTBEAT_FOLDER, MARKER_FOLDER
from lakemeta.hudi.files.logs import ROLLBACK_COMMAND, BlockType, HeaderKey, LogBlock, encode_block, read_blocks
from lakemeta.hudi.files.names import BLOCK_TOKEN, LogFile, parse_log_file
from lakemeta.hudi.metadata_table.sync import check_rollback, newest_time, sync_rollback
from lakemeta.hudi.rollback.planner import check_not_executing
from lakemeta.hudi.timeline.heartbeats import Heartbeat, read_heartbeats
from lakemeta.hudi.timeline.instants import Instant, Timeline, parse_instant
from lakemeta.hudi.timeline.loading import load_timeline
from lakemeta.hudi.timeline.rollback_metadata import (
    ROLLBACK_VERSION,
    RollbackRequest,
    encode_rollback_metadata,
    encode_rollback_plan,
)
from lakemeta.hudi.view.listing import list_partition
from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Collection, Iterator, Mapping

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.rollback.failed_write import FailedWrite
    from lakemeta.hudi.timeline.instant_writer import InstantWriter
    from lakemeta.hudi.timeline.locks import TableLock
    from lakemeta.report import Outcome


@attrs.frozen
class RolledBack:
    """One executed rollback: the write it undid, its own instant, and what became of every file.

    ``blocks`` maps the log files that were appended (store path) to their bytes, by partition; ``complete`` is false if
    a file could not be deleted, and then the rollback is still pending. ``freed`` is in bytes.
    """

    instant: str
    rollback: str
    outcomes: tuple[Outcome, ...]
    blocks: Mapping[str, Mapping[str, int]]
    freed: int
    millis: int

    @property
    def complete(self) -> bool:
        """True if the rollback completed."""
        return all(outcome.done for outcome in self.outcomes)


def roll_back(
    place: Place,
    writer: InstantWriter,
    write: FailedWrite,
    *,
    options: CleanOptions,
    lock: TableLock,
    executor: Executor,
    dead: Collection[str],
) -> RolledBack:
    """Roll back one failed write to its end; ``dead`` are the instants of all failed writes and their rollbacks.

    Raises StalePlanError if the write completed meanwhile or another writer took the instant, CommitConflictError if
    another writer is executing the rollback, StorageError if an instant file of the write cannot be deleted. In all
    cases nothing is lost: a second run goes on.
    """
    with lock.held():
        rollback = _request(writer, write, options, dead)
        alone = lock.provider is None
        beating = nullcontext() if alone else _heartbeat(writer, rollback, options)
    with beating:
        return _execute(place, writer, write, rollback, lock=lock, executor=executor, dead=dead)


def _execute(
    place: Place,
    writer: InstantWriter,
    write: FailedWrite,
    rollback: Instant,
    *,
    lock: TableLock,
    executor: Executor,
    dead: Collection[str],
) -> RolledBack:
    writer.inflight(rollback, b"")
    started = perf_counter()
    files = [(path, write.sizes.get(path)) for _, _, path in write.deletes()]
    outcomes = tuple(data_door(writer.storage, writer.root).dispose(files, executor))
    blocks = _append_blocks(writer, write, rollback.requested)
    millis = int((perf_counter() - started) * 1000)
    freed = sum(write.sizes.get(outcome.path, 0) for outcome in outcomes if outcome.status == "deleted")
    done = RolledBack(write.instant, rollback.requested, outcomes, blocks, freed, millis)
    if done.complete:
        with lock.held():
            _finish(place, writer, write, rollback, done=done, dead=dead)
    return done


def rollback_metadata(place: Place, write: FailedWrite, done: RolledBack) -> dict[str, Any]:
    """The fields of ``HoodieRollbackMetadata`` for an executed rollback."""
    by_path = {outcome.path: outcome for outcome in done.outcomes}
    partitions = {request.partition: _empty(request.partition) for request in write.plan.requests}
    for partition, named, path in write.deletes():
        field = "successDeleteFiles" if by_path[path].done else "failedDeleteFiles"
        partitions[partition][field].append(named)
    for partition, files in done.blocks.items():
        partitions[partition]["rollbackLogFiles"] = {place.engine_url(path): size for path, size in files.items()}
    for request in write.plan.requests:
        partitions[request.partition]["logFilesFromFailedCommit"].update(request.log_blocks)
    return {
        "startRollbackTime": done.rollback,
        "timeTakenInMillis": done.millis,
        "totalFilesDeleted": sum(outcome.done for outcome in done.outcomes),
        "commitsRollback": [write.instant],
        "partitionMetadata": partitions,
        "version": ROLLBACK_VERSION,
        "instantsRollback": [{"commitTime": write.instant, "action": write.plan.action}],
    }


def _empty(partition: str) -> dict[str, Any]:
    return {
        "partitionPath": partition,
        "successDeleteFiles": [],
        "failedDeleteFiles": [],
        "rollbackLogFiles": {},
        "logFilesFromFailedCommit": {},
    }


def _heartbeat(writer: InstantWriter, rollback: Instant, options: CleanOptions) -> Heartbeat:
    return Heartbeat(writer.storage, writer.root, rollback.requested, options.heartbeat_interval_ms)


def _request(writer: InstantWriter, write: FailedWrite, options: CleanOptions, dead: Collection[str]) -> Instant:
    """The rollback that was begun, or a new one, once it is sure that neither it nor the write completed."""
    timeline = load_timeline(writer.storage, writer.root, writer.config)
    _check_pending(timeline, write)
    _check_not_rolled_back(timeline, write)
    if write.rollback is not None:
        beats = read_heartbeats(writer.storage, writer.root)
        check_not_executing(write.rollback, beats, options, epoch_ms(writer.clock()))
        return write.rollback
    check_rollback(writer, timeline, rollback="", failed=write.instant, dead=dead)
    return writer.requested("rollback", newest_time(writer, timeline), encode_rollback_plan(write.plan))


def _check_pending(timeline: Timeline, write: FailedWrite) -> None:
    done = [i for i in timeline.completed if i.requested == write.instant and i.action == write.plan.action]
    if done:
        raise StalePlanError(f"{done[0]} was not failed after all: it completed meanwhile; plan again")


def _check_not_rolled_back(timeline: Timeline, write: FailedWrite) -> None:
    ours = write.rollback.requested if write.rollback else write.instant
    if not any(i.requested == ours for i in timeline.pending):
        raise StalePlanError(f"the write at {write.instant} was rolled back by another writer meanwhile; plan again")


def _finish(
    place: Place,
    writer: InstantWriter,
    write: FailedWrite,
    rollback: Instant,
    *,
    done: RolledBack,
    dead: Collection[str],
) -> None:
    """Do away with the failed write itself, then complete the rollback (rule 2)."""
    storage, root = writer.storage, writer.root
    timeline = load_timeline(storage, root, writer.config)
    _check_pending(timeline, write)
    newest = sync_rollback(
        writer,
        timeline,
        rollback=done.rollback,
        failed=write.instant,
        appended=_kept_logs(writer, write),
        dead=dead,
    )
    for path in _instant_files(writer, write):
        _delete(writer, path)
    metadata_door(storage, root).delete_directory(f"{root}/{MARKER_FOLDER}/{write.instant}")
    _delete(writer, f"{root}/{HEARTBEAT_FOLDER}/{write.instant}")
    content = encode_rollback_metadata(rollback_metadata(place, write, done))
    writer.completed(rollback, newest, content)


def _instant_files(writer: InstantWriter, write: FailedWrite) -> Iterator[str]:
    """The files of the failed write on the timeline, inflight before requested."""
    folder = f"{writer.root}/{writer.config.timeline_folder}"
    found = (parse_instant(entry.name) for entry in writer.storage.list_dir(folder) if not entry.is_dir)
    mine = [i for i in found if i is not None and i.requested == write.instant and i.action == write.plan.action]
    yield from (f"{folder}/{i.file_name}" for i in sorted(mine, key=lambda i: i.state, reverse=True))


def _delete(writer: InstantWriter, path: str) -> None:
    (outcome,) = metadata_door(writer.storage, writer.root).delete_files([path])
    if not outcome.done:
        raise StorageError(
            f"{path} could not be deleted ({outcome.error}), so its rollback is still pending; run again"
        )


def _append_blocks(writer: InstantWriter, write: FailedWrite, rollback: str) -> dict[str, dict[str, int]]:
    appended: dict[str, dict[str, int]] = {}
    for request in write.plan.requests:
        if request.log_blocks and (file := _append_block(writer, request, write.instant, rollback)) is not None:
            path, size = file
            appended.setdefault(request.partition, {})[path] = size
    return appended


def _append_block(
    writer: InstantWriter, request: RollbackRequest, instant: str, rollback: str
) -> tuple[str, int] | None:
    """Put a rollback block into a new log file of a slice: the file and its bytes (rule 4)."""
    folder = request.folder(writer.root)
    logs = _slice_logs(writer, request)
    content, door = rollback_block(instant, rollback), block_door(writer.storage, writer.root)
    for log in logs:
        like_ours = log.token == BLOCK_TOKEN and log.size == len(content)
        if like_ours and _has_block(writer, f"{folder}/{log.name}", instant, rollback):
            return f"{folder}/{log.name}", log.size
    number = max((log.version for log in logs), default=None)
    while number is not None:
        number += 1
        path = request.block_file(writer.root, number)
        try:
            door.create_file(path, content)
        except PathExistsError:
            continue  # another rollback of the same slice took the number
        return path, len(content)
    return None


def rollback_block(instant: str, rollback: str) -> bytes:
    """A log file with one command block: the blocks of ``instant`` before it no longer count."""
    header: dict[int, str] = {
        HeaderKey.INSTANT_TIME: rollback,
        HeaderKey.TARGET_INSTANT_TIME: instant,
        HeaderKey.COMMAND_BLOCK_TYPE: ROLLBACK_COMMAND,
    }
    return encode_block(BlockType.COMMAND, header, b"")


def _kept_logs(writer: InstantWriter, write: FailedWrite) -> dict[str, dict[str, int]]:
    """The log files of all slices that got a rollback block, by partition: name -> bytes.

    Those of the failed write are among them. They stay, and a metadata table forgets them with the failed write.
    """
    kept: dict[str, dict[str, int]] = {}
    for request in write.plan.requests:
        if request.log_blocks:
            logs = _slice_logs(writer, request)
            kept.setdefault(request.partition, {}).update((log.name, log.size) for log in logs if log.size)
    return kept


def _slice_logs(writer: InstantWriter, request: RollbackRequest) -> list[LogFile]:
    entries = list_partition(writer.storage, writer.root, request.partition)
    logs = (parse_log_file(entry.name, entry.size) for entry in entries)
    return [
        log
        for log in logs
        if log is not None and log.file_id == request.file_id and log.instant == request.base_instant
    ]


def _has_block(writer: InstantWriter, path: str, instant: str, rollback: str) -> bool:
    blocks = read_blocks(writer.storage.read(path), path)
    return any(
        isinstance(block, LogBlock) and block.rolled_back_instant == instant and block.instant_time == rollback
        for block in blocks
    )

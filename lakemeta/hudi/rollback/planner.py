"""Plans rollbacks of failed writes: finds them, reads their markers or lists partitions (I/O).

Rules of this module:

1. A rollback that was requested and did not complete is executed as it was planned, whatever the policy. Pending
   rollbacks of compactions and clusterings belong to whoever runs those again, and are left alone, as in Hudi.
2. What a rollback would delete and append is proved before it is begun (see :mod:`lakemeta.hudi.rollback.plan_check`).
3. Unlike Hudi, an inflight write without a marker directory is looked for by listing: if its files stayed, they would
   count as committed once the timeline is archived past it.
4. What failed compactions and clusterings left pending in the metadata table is rolled back there, unless the policy is
   NEVER (see :mod:`lakemeta.hudi.metadata_table.leftovers`).
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

from lakemeta.errors import CommitConflictError, CorruptMetadataError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.hudi.files.layout import MARKER_FOLDER
from lakemeta.hudi.metadata_table.leftovers import read_leftovers
from lakemeta.hudi.options import FailedWrites
from lakemeta.hudi.rollback.failed_write import FailedWrite
from lakemeta.hudi.rollback.plan_check import check_marker_folder, check_write
from lakemeta.hudi.rollback.requests import Marker, listing_requests, marker_requests, parse_marker
from lakemeta.hudi.timeline.action_metadata import decode_commit
from lakemeta.hudi.timeline.failed_writes import WRITE_ACTIONS, is_alive, pending_writes, writes_to_roll_back
from lakemeta.hudi.timeline.heartbeats import read_heartbeats
from lakemeta.hudi.timeline.instants import Instant, State
from lakemeta.hudi.timeline.loading import load_state, settled
from lakemeta.hudi.timeline.rollback_metadata import RollbackPlan, RollbackRequest, decode_rollback_plan
from lakemeta.hudi.view.file_groups import View
from lakemeta.hudi.view.listing import LeftOut, find_partitions, list_partition
from lakemeta.moments import epoch_ms
from lakemeta.paths import inside
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete, Keep, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence
    from datetime import datetime

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.action_metadata import CommitMetadata
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.storage import Storage

    _Listed = Mapping[str, Mapping[str, int]]  # partition -> file name -> bytes

PLAN_KIND = "hudi.rollback"
FAILED_WRITE = "failed_write"
UNDONE = "undone_by_rollback_block"
_MARKER_TYPE = "MARKERS.type"
_TABLE_SERVICES = frozenset({"compaction", "clustering", "logcompaction"})
_BATCH = 8


class _Chosen(NamedTuple):
    """The writes that have failed, and the heartbeats that say so."""

    writes: tuple[Instant, ...]
    heartbeats: Mapping[str, int]


def plan_rollback(
    place: Place, options: CleanOptions, now: datetime, executor: Executor, *, explain: bool = False
) -> Plan:
    """Plan to roll back what has failed at the moment ``now``.

    Raises UnsupportedFeatureError if a writer seems to be alive (see :mod:`lakemeta.hudi.timeline.failed_writes`).
    """
    now_ms = epoch_ms(now)

    def look() -> tuple[TableState, _Chosen]:
        state, beats = load_state(place.storage, place.root, executor), read_heartbeats(place.storage, place.root)
        writes = writes_to_roll_back(state.timeline, state.clusterings, beats, options, now_ms)
        return state, _Chosen(writes, beats)

    state, (chosen, beats) = settled(look, lambda found: found.writes)
    begun = pending_rollbacks(place, state, beats, options, now_ms)
    times = [i.requested for i in chosen]
    times += [t for t in sorted(begun) if t not in times]
    writes = [failed_write(place, state, options, t, begun=begun, executor=executor) for t in times]
    operations = [op for write in writes for op in _operations(place, write, explain=explain)]
    alive = [
        i.requested
        for i in pending_writes(state.timeline, state.clusterings)
        if is_alive(i.requested, beats, options, now_ms)
    ]
    leftovers, working = read_leftovers(place, state, options, now)
    alive += [i.requested for i in working if i.requested not in alive]
    if options.failed_writes is FailedWrites.NEVER:
        leftovers = ()
    left = [i.requested for i in leftovers]
    return Plan(_header(place, state, options, writes=writes, alive=alive, leftovers=left), operations)


def pending_rollbacks(
    place: Place, state: TableState, heartbeats: Mapping[str, int], options: CleanOptions, now_ms: int
) -> dict[str, tuple[Instant, RollbackPlan]]:
    """The rollbacks that were begun and are to be finished, by the write they undo (rule 1).

    Raises UnsupportedFeatureError for one that undoes a completed commit, CommitConflictError for one that a live
    writer is executing.
    """
    found: dict[str, tuple[Instant, RollbackPlan]] = {}
    completed = {i.requested for i in state.timeline.commits.completed}
    for instant in state.timeline.pending.of_actions("rollback"):
        path = f"{place.root}/{state.config.timeline_folder}/{instant.requested}.rollback.requested"
        content = place.storage.read(path)
        if not content:
            raise CorruptMetadataError(f"{path} is empty; delete that file and roll back again")
        plan = decode_rollback_plan(content, path)
        if plan.action in _TABLE_SERVICES or plan.instant in state.clusterings:
            continue
        _check_target(instant, plan, state)
        if plan.instant in completed:
            raise UnsupportedFeatureError(
                f"{instant} undoes {plan.instant}, which had completed; let a Hudi writer finish that rollback"
            )
        check_not_executing(instant, heartbeats, options, now_ms)
        if not is_alive(plan.instant, heartbeats, options, now_ms):
            found[plan.instant] = (instant, plan)
    return found


def _check_target(rollback: Instant, plan: RollbackPlan, state: TableState) -> None:
    """Refuse a rollback of what is no write, or of another action than the timeline has at that time."""
    at = [i for i in state.timeline if i.requested == plan.instant]
    if plan.action not in WRITE_ACTIONS or (at and not any(i.action == plan.action for i in at)):
        raise CorruptMetadataError(
            f"{rollback} undoes {plan.instant} {plan.action}, which is no write on the timeline; nothing was done; "
            f"delete {rollback.requested}.rollback.* from the timeline, and roll back again"
        )


def check_not_executing(rollback: Instant, heartbeats: Mapping[str, int], options: CleanOptions, now_ms: int) -> None:
    """Raise CommitConflictError if the heartbeat of a pending rollback is fresh: a writer executes it."""
    if is_alive(rollback.requested, heartbeats, options, now_ms):
        seconds = max(0, now_ms - heartbeats[rollback.requested]) // 1000
        tolerated = options.heartbeat_interval_ms * options.heartbeat_misses // 1000
        raise CommitConflictError(
            f"{rollback} is being executed by a writer whose heartbeat is {seconds} s old; try again when it is done, "
            f"or if that writer died, when the heartbeat is older than {tolerated} s"
        )


def failed_write(
    place: Place,
    state: TableState,
    options: CleanOptions,
    instant: str,
    *,
    begun: Mapping[str, tuple[Instant, RollbackPlan]],
    executor: Executor,
) -> FailedWrite:
    """How the write at ``instant`` is undone: by the rollback that was begun for it, or by a new one."""
    check_marker_folder(place, instant)
    rollback, plan = begun.get(instant, (None, None))
    if plan is not None:
        listed = _list(place, {request.partition for request in plan.requests}, executor)
    else:
        target = next(i for i in pending_writes(state.timeline, state.clusterings) if i.requested == instant)
        requests, listed = _requests(place, state, options, target, executor)
        plan = RollbackPlan(instant, target.action, requests)
    write = FailedWrite(place.base, plan, rollback, _sizes(place.root, listed))
    check_write(place, write, state)
    return write


def engine_base(place: Place) -> str:
    """The table root in rollback plans: without scheme on a local disk, the URL as given elsewhere."""
    return place.root if place.storage.scheme == "file" else place.engine_url(place.root)


def _requests(
    place: Place, state: TableState, options: CleanOptions, target: Instant, executor: Executor
) -> tuple[tuple[RollbackRequest, ...], _Listed]:
    markers = _markers(place, target.requested) if options.rollback_by_markers else None
    if markers is None and options.rollback_by_markers and target.state is State.REQUESTED:
        markers = []  # it had not begun to write
    base, version = engine_base(place), state.config.version
    if markers is not None:
        listed = _list(place, {marker.partition for marker in markers}, executor)
        return marker_requests(markers, listed, target.requested, base, version), listed
    listed = _list(place, _partitions(place, target, executor), executor)
    pending = {(operation.partition, operation.file_id): at for at, operation in state.compactions}
    view = View.of(state.timeline, state.completions, pending)
    return listing_requests(listed, target.requested, base, _updates(place, state, target), view), listed


def _partitions(place: Place, target: Instant, executor: Executor) -> Iterator[str]:
    """All partitions; refuses a table of which a part is left out, as files of the write may lie there."""
    for found in find_partitions(place.storage, place.root, executor):
        if isinstance(found, LeftOut):
            raise UnsupportedFeatureError(
                f"the files of the write at {target.requested} cannot be looked for, because {found.sentence}; put the "
                "directory itself in its place, or take it out of the table"
            )
        yield found


def _updates(place: Place, state: TableState, target: Instant) -> CommitMetadata | None:
    """What an inflight delta commit of table version 6 says that it updates."""
    if state.config.version >= 8 or target.action != "deltacommit" or target.state is State.REQUESTED:
        return None
    path = f"{place.root}/{state.config.timeline_folder}/{target.file_name}"
    content = place.storage.read(path)
    return decode_commit(content, path) if content else None


def _markers(place: Place, instant: str) -> list[Marker] | None:
    """The markers of a write; None if it has no marker directory.

    Files ``MARKERS0``, ``MARKERS1``, ... have one marker a line (timeline server based), else every marker is a file.
    """
    folder = f"{place.root}/{MARKER_FOLDER}/{instant}"
    try:
        entries = place.storage.list_dir(folder)
    except PathNotFoundError:
        return None
    names = {entry.name for entry in entries if not entry.is_dir}
    kind = _text(place, f"{folder}/{_MARKER_TYPE}").strip() if _MARKER_TYPE in names else "DIRECT"
    if kind == "DIRECT":
        paths = (entry.path[len(folder) + 1 :] for entry in place.storage.walk(folder))
        return [parse_marker(path, folder) for path in sorted(paths) if path != _MARKER_TYPE]
    if kind != "TIMELINE_SERVER_BASED":
        raise UnsupportedFeatureError(
            f"{folder}/{_MARKER_TYPE} says {kind[:60]!r}, which is no kind of markers that lakemeta knows; roll back "
            "with hoodie.rollback.using.markers=false"
        )
    files = sorted(name for name in names if name.startswith("MARKERS") and name != _MARKER_TYPE)
    lines = (line for name in files for line in _text(place, f"{folder}/{name}").splitlines())
    return [parse_marker(line, folder) for line in lines if line]


def _text(place: Place, path: str) -> str:
    try:
        return place.storage.read(path).decode()
    except UnicodeDecodeError as error:
        raise CorruptMetadataError(
            f"{path} is no text ({error}); roll back with hoodie.rollback.using.markers=false"
        ) from error


def _list(place: Place, partitions: Iterable[str], executor: Executor) -> _Listed:
    ordered = sorted(partitions)
    for partition in filter(None, ordered):
        inside(place.root, f"{place.root}/{partition}")
    files = executor.map_batches(partial(_list_batch, place.storage, place.root), ordered, batch_size=_BATCH)
    return dict(zip(ordered, files, strict=True))


def _list_batch(storage: Storage, root: str, partitions: Sequence[str]) -> list[dict[str, int]]:
    return [{entry.name: entry.size for entry in list_partition(storage, root, p)} for p in partitions]


def _sizes(root: str, listed: _Listed) -> dict[str, int]:
    return {
        f"{root}/{partition}/{name}" if partition else f"{root}/{name}": size
        for partition, files in listed.items()
        for name, size in files.items()
    }


def _operations(place: Place, write: FailedWrite, *, explain: bool) -> Iterator[Operation]:
    start = len(place.root) + 1
    for partition, _, path in write.deletes():
        yield Delete(partition, path[start:], write.sizes.get(path, 0), FAILED_WRITE, write.instant)
    for request in write.plan.requests if explain else ():
        for name in request.log_blocks:
            relative = f"{request.partition}/{name}" if request.partition else name
            size = write.sizes.get(f"{place.root}/{relative}")
            if size is not None:
                yield Keep(request.partition, relative, size, UNDONE, write.instant)


def _header(
    place: Place,
    state: TableState,
    options: CleanOptions,
    *,
    writes: Sequence[FailedWrite],
    alive: Sequence[str],
    leftovers: Sequence[str],
) -> PlanHeader:
    newest = state.timeline.last
    facts: dict[str, Any] = {
        "policy": str(options.failed_writes),
        "failed_writes": [write.instant for write in writes],
        "pending_rollbacks": {w.instant: w.rollback.requested for w in writes if w.rollback},
        "rollback_blocks": [[write.instant, *block] for write in writes for block in write.blocks()],
        "timeline_digest": state.digest,
    }
    if alive:
        facts["alive_writes"] = list(alive)
    if leftovers:
        facts["metadata_rollbacks"] = list(leftovers)
    return PlanHeader(
        plan=PLAN_KIND,
        table=place.url,
        table_format_version=state.config.version,
        based_on=newest.requested if newest else None,
        options=options.given,
        facts=facts,
    )

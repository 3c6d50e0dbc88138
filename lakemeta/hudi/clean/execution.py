"""Executes requested cleans: deletes what their plans name, then completes them (I/O).

Rules of this module (``CleanActionExecutor``):

1. The plan is read from ``<ts>.clean.requested`` and checked (see :mod:`lakemeta.hudi.clean.plan_check`). If it names
   what must stay, nothing is deleted.
2. Files go before the directories of dropped partitions, and all of it before the clean completes: a crash leaves a
   pending clean, which the next run, ours or the engine's, executes again. A file that is gone counts as done.
3. A directory is dropped only if whatever data files are left in it belong to replaced file groups that the plan does
   not retain, to no unfinished write and to nothing that a pending operation reads, if what savepoints say of it fits
   (:mod:`lakemeta.hudi.clean.savepoints`), and if no directory with files lies in it. Other files go with a partition,
   as in Hudi; a directory without partition metadata stays for their sake.
4. A metadata table is updated with the clean before it completes (see :mod:`lakemeta.hudi.metadata_table.sync`).
5. A file that cannot be deleted is recorded in ``failedDeleteFiles``, and the clean completes, as Hudi does.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.hudi.clean.decision import clean_context
from lakemeta.hudi.clean.plan_check import check_names, check_plan
from lakemeta.hudi.clean.savepoints import advice, doubt
from lakemeta.hudi.clean.waiting import read_requested
from lakemeta.hudi.files.doors import data_door
from lakemeta.hudi.files.names import is_partition_metadata, parse_data_file
from lakemeta.hudi.metadata_table.sync import prepare_clean, sync_clean
from lakemeta.hudi.options import CleanOptions, Policy
from lakemeta.hudi.timeline.action_metadata import (
    CLEAN_PLAN_VERSION,
    CleanerPlan,
    encode_clean_metadata,
)
from lakemeta.hudi.view.file_groups import build_file_groups
from lakemeta.hudi.view.listing import list_partition

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.files.names import BaseFile, LogFile
    from lakemeta.hudi.timeline.instant_writer import InstantWriter
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.locks import TableLock
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.report import Outcome
    from lakemeta.storage import Storage


@attrs.frozen
class Executed:
    """One executed clean: its instant, what became of every file, and what its metadata says."""

    instant: str
    outcomes: tuple[Outcome, ...]
    dropped: tuple[str, ...]
    earliest_to_retain: str
    millis: int
    notes: tuple[str, ...]

    @property
    def files_done(self) -> int:
        """The number of planned files that are gone."""
        return sum(outcome.done for outcome in self.outcomes)


def execute_clean(
    writer: InstantWriter,
    state: TableState,
    pending: Instant,
    executor: Executor,
    lock: TableLock,
    *,
    drop_savepointed: bool,
    sizes: Mapping[str, int],
    judged: bool = False,
) -> Executed:
    """Execute one pending clean to its end; ``judged`` says that its plan was, on the table as it is.

    ``sizes`` are the bytes of files, by store path, as far as they are known.

    Raises:
        CorruptMetadataError: its plan is damaged or names a path outside the table or under a savepoint, or the
            metadata table does not list what the clean left; then the clean stays pending.
        UnsupportedFeatureError: it deletes bootstrap base files, or the metadata table cannot be written.
    """
    started = perf_counter()
    root, door = writer.root, data_door(writer.storage, writer.root)
    content, plan = read_requested(writer.storage, f"{root}/{writer.config.timeline_folder}", pending)
    paths = check_names(door, root, plan, state) if judged else check_plan(door, root, plan, state, executor).paths
    prepared = prepare_clean(writer, state.timeline, pending.requested, plan)
    writer.inflight(pending, content)
    files = [(path, sizes.get(path)) for listed in paths.values() for path in listed]
    outcomes = tuple(door.dispose(files, executor))
    dropped, notes = _drop(door, plan, state, executor, drop_savepointed=drop_savepointed)
    millis = int((perf_counter() - started) * 1000)
    done = Executed(pending.requested, outcomes, dropped, plan.earliest[0] if plan.earliest else "", millis, notes)
    record = clean_metadata(plan, done, root)
    with lock.held():
        newest = sync_clean(writer, pending.requested, plan, dropped, prepared)
        writer.completed(pending, newest, encode_clean_metadata(record))
    return done


def clean_metadata(plan: CleanerPlan, done: Executed, root: str) -> dict[str, Any]:
    """The fields of ``HoodieCleanMetadata`` for an executed plan."""
    by_partition = _by_partition(done.outcomes, root)
    return {
        "startCleanTime": done.instant,
        "timeTakenInMillis": done.millis,
        "totalFilesDeleted": done.files_done,
        "earliestCommitToRetain": done.earliest_to_retain,
        "lastCompletedCommitTimestamp": plan.last_completed_commit,
        "partitionMetadata": {
            partition: _partition_metadata(partition, plan.policy, outcomes, partition in done.dropped)
            for partition, outcomes in by_partition.items()
        },
        "version": CLEAN_PLAN_VERSION,
        "bootstrapPartitionMetadata": {},
        "extraMetadata": dict(plan.extra),
    }


def _partition_metadata(partition: str, policy: str, outcomes: Sequence[Outcome], dropped: bool) -> dict[str, Any]:
    return {
        "partitionPath": partition,
        "policy": policy,
        "deletePathPatterns": [_name(o.path) for o in outcomes],
        "successDeleteFiles": [_name(o.path) for o in outcomes if o.done],
        "failedDeleteFiles": [_name(o.path) for o in outcomes if not o.done],
        "isPartitionDeleted": dropped,
    }


def _by_partition(outcomes: Iterable[Outcome], root: str) -> Mapping[str, list[Outcome]]:
    grouped: dict[str, list[Outcome]] = {}
    for outcome in outcomes:
        partition = outcome.path.rpartition("/")[0][len(root) + 1 :]
        grouped.setdefault(partition, []).append(outcome)
    return grouped


def _name(path: str) -> str:
    return path.rpartition("/")[2]


def _drop(
    door: Door, plan: CleanerPlan, state: TableState, executor: Executor, *, drop_savepointed: bool
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Remove the directories of dropped partitions (rule 3): the ones removed, and notes on the others."""
    dropped: list[str] = []
    notes: list[str] = []
    root = door.base
    context = clean_context(state, CleanOptions(drop_savepointed=drop_savepointed), state.timeline, "")
    for partition in plan.partitions_to_delete or ():
        problem = next(_in_the_way(door.storage, root, partition, plan=plan, state=state, context=context), None)
        if problem is not None:
            notes.append(f"the directory of {partition or 'the table'} stays: {problem}")
            continue
        door.dispose_directory(f"{root}/{partition}", executor)
        dropped.append(partition)
    return tuple(dropped), tuple(notes)


def _in_the_way(
    storage: Storage, root: str, partition: str, *, plan: CleanerPlan, state: TableState, context: CleanContext
) -> Iterator[str]:
    if not partition:
        yield "it is the table's own"
        return
    # A crash may have taken the partition metadata before the rest, so what the timeline says counts as well.
    listed = [(entry.name, entry.size) for entry in list_partition(storage, root, partition)]
    marked = any(is_partition_metadata(name) for name, _ in listed)
    is_partition = marked or any(of == partition for of, _ in state.replaced)
    if listed and not context.drop_savepointed:
        unclear = doubt(context, partition, build_file_groups(partition, listed, context.view), dict(listed))
        if unclear is not None:
            yield f"{unclear.clause}; {advice(unclear.savepoint)}"
    planned = {_name(file.path) for file in plan.files.get(partition, ())}
    unfinished = frozenset(instant.requested for instant in state.timeline.commits.pending)
    folder = f"{root}/{partition}"
    for entry in storage.walk(folder) if storage.exists(folder) else ():
        if entry.path != f"{folder}/{entry.name}":
            yield f"{entry.path} lies deeper in it"
        file = parse_data_file(entry.name)
        if file is not None and entry.name not in planned:
            if file.instant in unfinished:
                yield f"{entry.name} belongs to {file.instant}, which has not completed"
            yield from _needed_file(partition, entry.name, file, plan=plan, state=state, context=context)
        elif file is None and not is_partition and not entry.name.startswith("."):
            yield f"{entry.name} is no file of Hudi's, and the directory has no partition metadata"


def _needed_file(
    partition: str, name: str, file: BaseFile | LogFile, *, plan: CleanerPlan, state: TableState, context: CleanContext
) -> Iterator[str]:
    """Why a data file that the plan does not name keeps its directory."""
    if name in context.savepointed and not context.drop_savepointed:
        yield f"a savepoint names {name}"
    if name in state.needed:
        yield f"the pending {state.needed[name]} reads {name}"
    replaced_at = state.replaced.get((partition, file.file_id))
    if replaced_at is None:
        yield f"{name} is in no replaced file group"
    elif _retains(plan, replaced_at):
        yield f"{name} was replaced at {replaced_at}, which the plan retains"


def _retains(plan: CleanerPlan, replaced_at: str) -> bool:
    """True if a clean by this plan leaves what a commit at ``replaced_at`` replaced (as ``clean.judge_replaced``)."""
    if plan.earliest:
        return replaced_at >= plan.earliest[0]
    return plan.policy != Policy.KEEP_LATEST_FILE_VERSIONS.value

"""Applies rollback plans, and rolls back what a LAZY clean finds failed (I/O).

Rules of this module:

1. Every write of a plan is looked at again. One that completed, or whose writer lives again, makes the plan stale, and
   so does one that would be undone otherwise than planned: a marker more, a file less.
2. A write that has been rolled back since by another writer is done; one whose rollback was begun is finished as begun.
3. Newest writes go first, as in Hudi; before them what is rolled back in the metadata table alone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.hudi.metadata_table.leftovers import read_leftovers, roll_back_leftovers
from lakemeta.hudi.metadata_table.rollback import ROLLBACK_SUFFIX
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.plan_origin import refuse_foreign
from lakemeta.hudi.rollback.execution import RolledBack, roll_back
from lakemeta.hudi.rollback.planner import PLAN_KIND, failed_write, pending_rollbacks
from lakemeta.hudi.timeline.failed_writes import is_alive, pending_writes
from lakemeta.hudi.timeline.heartbeats import read_heartbeats
from lakemeta.hudi.timeline.instant_writer import InstantWriter
from lakemeta.hudi.timeline.loading import InstantReader, load_state
from lakemeta.hudi.timeline.locks import TableLock, table_lock
from lakemeta.hudi.timeline.rollback_metadata import decode_rolled_back
from lakemeta.hudi.timeline.times import timezone
from lakemeta.hudi.view.closure import problems, read_closure, refuse_damage, refuse_planned
from lakemeta.ledger.run import open_ledger
from lakemeta.moments import epoch_ms
from lakemeta.plan_operations import Delete, Keep
from lakemeta.report import Report, count
from lakemeta.safeguards import Proved, Safeguards

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from datetime import datetime

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.rollback.failed_write import FailedWrite
    from lakemeta.hudi.timeline.instant_writer import Clock
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.plan import Plan


@attrs.frozen
class Failures:
    """The failed writes of a table as it is now: those to roll back, newest first."""

    writes: tuple[FailedWrite, ...]

    def instants(self) -> set[str]:
        """The instants of the writes, and of the rollbacks that were begun, with those of the metadata table."""
        begun = {write.rollback.requested for write in self.writes if write.rollback}
        return {write.instant for write in self.writes} | begun | {f"{instant}{ROLLBACK_SUFFIX}" for instant in begun}


def find_failures(
    place: Place,
    state: TableState,
    options: CleanOptions,
    executor: Executor,
    *,
    wanted: Iterable[str],
    now: datetime,
) -> Failures:
    """Look at the ``wanted`` writes again, and at every rollback that was begun.

    Raises StalePlanError for a wanted write that completed or whose writer lives (rule 1).
    """
    beats, now_ms = read_heartbeats(place.storage, place.root), epoch_ms(now)
    begun = pending_rollbacks(place, state, beats, options, now_ms)
    pending = {i.requested for i in pending_writes(state.timeline, state.clusterings)}
    asked = set(wanted)
    if not asked <= pending | set(begun):
        _refuse_unknown(asked - pending - set(begun) - rolled_back_writes(place, state, executor), state)
    alive = [instant for instant in sorted(asked) if is_alive(instant, beats, options, now_ms)]
    if alive:
        raise StalePlanError(f"the writer of {alive[0]} is alive again; plan again")
    left = (asked & pending) | set(begun)
    found = (failed_write(place, state, options, i, begun=begun, executor=executor) for i in sorted(left, reverse=True))
    return Failures(tuple(found))


def rolled_back_writes(place: Place, state: TableState, executor: Executor) -> set[str]:
    """The writes that completed rollbacks on the active timeline undid."""
    reader = InstantReader(place.storage, f"{place.root}/{state.config.timeline_folder}", executor)
    rollbacks = reader.decode_active(state.timeline.completed.of_actions("rollback"), decode_rolled_back)
    return {instant for _, instants in rollbacks for instant in instants}


def roll_back_all(
    place: Place,
    writer: InstantWriter,
    failures: Failures,
    *,
    options: CleanOptions,
    lock: TableLock,
    executor: Executor,
) -> list[RolledBack]:
    """Roll back all the failed writes; stops after one of which a file could not be deleted."""
    done: list[RolledBack] = []
    dead = failures.instants()
    for write in failures.writes:
        done.append(roll_back(place, writer, write, options=options, lock=lock, executor=executor, dead=dead))
        if not done[-1].complete:
            break
    return done


def apply_rollback(
    place: Place,
    plan: Plan,
    executor: Executor,
    clock: Clock,
    *,
    assume_single_writer: bool = False,
    safeguards: Safeguards | None = None,
) -> Report:
    """Apply a rollback plan exactly as it was planned.

    Raises StalePlanError if the table has moved in a way that makes it wrong (rule 1), UnsupportedFeatureError if its
    lock or its metadata table is one that lakemeta cannot handle; nothing is changed then.
    """
    refuse_foreign(place, plan, PLAN_KIND, ("failed_writes", "rollback_blocks"), (Delete, Keep))
    _refuse_unasked(plan)
    options = CleanOptions.parse(plan.header.options)
    lock = table_lock(place, options, assume_single_writer=assume_single_writer, clock=clock)
    state = load_state(place.storage, place.root, executor)
    wanted = plan.header.facts["failed_writes"]
    failures = find_failures(place, state, options, executor, wanted=wanted, now=clock())
    for write in failures.writes:
        _refuse_different(place, plan, write)
    proved = prove_failures(place, state, failures, (safeguards or Safeguards()).proof)
    writer = InstantWriter(place.storage, place.root, state.config, timezone(state.config, options), clock)
    if failures.writes:
        open_ledger()
    leftovers = _roll_back_leftovers(place, plan, writer, lock=lock, state=state, options=options)
    done = roll_back_all(place, writer, failures, options=options, lock=lock, executor=executor)
    return attrs.evolve(_report(plan, done, leftovers), proved=proved)


def prove_failures(place: Place, state: TableState, failures: Failures, proof: str) -> Proved:
    """Hold what commits say against the partitions of failed writes; raises CorruptMetadataError.

    Of a rollback everything is proved in its own partitions: what else the table has is none of its business.
    """
    files: dict[str, dict[str, int]] = {}
    going: dict[str, set[str]] = {}
    for write in failures.writes:
        for request in write.plan.requests:
            files.setdefault(request.partition, {})
        for path, size in write.sizes.items():
            folder, _, name = path[len(place.root) + 1 :].rpartition("/")
            files.setdefault(folder, {})[name] = size
        for partition, _, path in write.deletes():
            going.setdefault(partition, set()).add(path.rpartition("/")[2])
    if proof == "off":
        return Proved(proof, 0, "")
    closure = read_closure(place.storage, place.root, state, "", everything=False, partitions=files.keys())
    found = [
        p for partition, names in files.items() for p in problems(closure, partition, names, going.get(partition, ()))
    ]
    refuse_damage(place.storage, place.root, state, found)
    refuse_planned(found)
    return Proved(proof, sum(map(len, closure.kept.values())), closure.how)


def _refuse_unasked(plan: Plan) -> None:
    writes = plan.header.facts["failed_writes"]
    other = next((op for op in plan.deletes() if op.by not in writes), None)
    if other is not None:
        raise CorruptMetadataError(
            f"the plan deletes {other.path!r:.200} for {other.by!r:.100}, which it does not roll back; make it again"
        )


def _roll_back_leftovers(
    place: Place, plan: Plan, writer: InstantWriter, *, lock: TableLock, state: TableState, options: CleanOptions
) -> dict[str, str]:
    """Roll back in the metadata table what the plan says, as far as it is there still: instant -> its rollback."""
    planned = plan.header.facts.get("metadata_rollbacks", [])
    if not isinstance(planned, list):
        raise CorruptMetadataError("the plan's metadata_rollbacks are no list; make the plan again")
    if not planned:
        return {}
    with lock.held():
        left, working = read_leftovers(place, state, options, writer.clock())
        alive = [i.requested for i in working if i.requested in planned]
        if alive:
            raise StalePlanError(f"the writer of {alive[0]} is alive again; plan again")
        return roll_back_leftovers(writer, [i.requested for i in left if i.requested in planned])


def _refuse_unknown(unknown: set[str], state: TableState) -> None:
    for instant in sorted(unknown):
        completed = [i for i in state.timeline.completed if i.requested == instant]
        what = f"{completed[0]} is done" if completed else f"the write at {instant} is gone"
        raise StalePlanError(f"{what}, and the plan would roll it back; plan again")


def _refuse_different(place: Place, plan: Plan, write: FailedWrite) -> None:
    planned = {op.path for op in plan.deletes() if op.by == write.instant}
    start = len(place.root) + 1
    now = {path[start:] for _, _, path in write.deletes()}
    blocks = [row[1:] for row in plan.header.facts["rollback_blocks"] if row[0] == write.instant]
    if write.instant not in plan.header.facts["failed_writes"]:
        raise StalePlanError(f"a rollback of {write.instant} was begun since the plan; plan again")
    if planned != now or blocks != [list(block) for block in write.blocks()]:
        raise StalePlanError(f"the write at {write.instant} has other files than when the plan was made; plan again")


def _report(plan: Plan, done: Sequence[RolledBack], leftovers: Mapping[str, str]) -> Report:
    outcomes = [outcome for one in done for outcome in one.outcomes]
    complete = [one for one in done if one.complete]
    deleted, absent, failed = count(outcomes)
    return Report(
        plan=plan.header.plan,
        table=plan.header.table,
        committed=complete[-1].rollback if complete else max(leftovers.values(), default=None),
        deleted_files=deleted,
        absent_files=absent,
        freed_bytes=sum(one.freed for one in done),
        failed=failed,
        result={
            "commits_rollback": [one.instant for one in complete],
            "rollbacks": [one.rollback for one in complete],
            "total_files_deleted": sum(outcome.done for outcome in outcomes),
            "time_taken_in_millis": sum(one.millis for one in done),
            "metadata_rollbacks": list(leftovers),
            "rollback_log_files": sum(len(files) for one in done for files in one.blocks.values()),
        },
        notes=tuple(note for one in done for note in notes(one)),
    )


def notes(done: RolledBack) -> list[str]:
    """What a person should know of one rollback."""
    if done.complete:
        return []
    return [f"rollback {done.rollback} of {done.instant} stays pending until its files can be deleted"]

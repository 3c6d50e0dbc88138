"""Applies a clean plan: refuses first, deletes last (I/O).

Rules of this module:

1. The table is read again, and a stale plan is refused (see :mod:`lakemeta.hudi.clean.staleness`). Where there is a
   lock, that is done once more with the lock held, right before the plan is requested.
2. A LAZY clean first rolls back the failed writes that it was planned without, and finishes rollbacks that were begun:
   the order of Hudi 1.2, where 0.15 and 1.0 request the clean first. If one cannot be finished, nothing is cleaned.
3. Pending cleans are executed in order. A new plan is requested before they run only where several cleans may be
   pending at once (``hoodie.clean.multiple.enabled``), as Hudi does. A clean that completed with an empty file is
   executed again, and nothing new is planned before, as in Hudi 1.2 (``CleanPlanActionExecutor.requestClean``).
4. A metadata table is updated with every clean and rollback before it completes; what it would refuse is refused before
   anything is written.
"""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, StorageError
from lakemeta.hudi.clean.execution import Executed, execute_clean
from lakemeta.hudi.clean.plan_check import Checked, check_plan
from lakemeta.hudi.clean.staleness import planned_failures, refuse_foreign_clean, refuse_stale
from lakemeta.hudi.clean.waiting import read_requested
from lakemeta.hudi.files.doors import data_door
from lakemeta.hudi.metadata_table.advice import drop_advice
from lakemeta.hudi.metadata_table.drop import drop_metadata_table
from lakemeta.hudi.metadata_table.leftovers import open_latest, read_leftovers, refuse_pending, roll_back_leftovers
from lakemeta.hudi.metadata_table.sync import newest_time
from lakemeta.hudi.options import CleanOptions, FailedWrites
from lakemeta.hudi.rollback.apply import Failures, find_failures, notes, roll_back_all
from lakemeta.hudi.timeline.action_metadata import (
    SAVEPOINTED_TIMESTAMPS,
    CleanerPlan,
    CleanPlanFile,
    encode_cleaner_plan,
)
from lakemeta.hudi.timeline.instant_writer import Clock, InstantWriter
from lakemeta.hudi.timeline.loading import load_state
from lakemeta.hudi.timeline.locks import TableLock, table_lock
from lakemeta.hudi.timeline.times import timezone
from lakemeta.hudi.view.listing import bytes_elsewhere
from lakemeta.ledger.run import open_ledger
from lakemeta.report import Report, count
from lakemeta.safeguards import Safeguards

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from datetime import datetime

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.metadata_table.table import MetadataTable
    from lakemeta.hudi.rollback.execution import RolledBack
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.plan import Plan
    from lakemeta.safeguards import Proved


@attrs.frozen
class Applying:
    """A plan on its way: the table as it is now, what failed in it, and who writes instants under which lock."""

    place: Place
    plan: Plan
    options: CleanOptions
    state: TableState
    failures: Failures
    writer: InstantWriter
    lock: TableLock
    executor: Executor
    alone: bool  # the caller says that there is no other writer
    safeguards: Safeguards
    proved: Proved
    sizes: Mapping[str, int]  # bytes of the files that go, by store path


def begin(
    place: Place,
    plan: Plan,
    executor: Executor,
    clock: Clock,
    *,
    drop_metadata: bool = False,
    assume_single_writer: bool = False,
    safeguards: Safeguards | None = None,
) -> Applying:
    """Read the table again and refuse what must be refused; nothing is changed unless ``drop_metadata`` is true."""
    refuse_foreign_clean(place, plan)
    options = CleanOptions.parse(plan.header.options)
    lock = table_lock(place, options, assume_single_writer=assume_single_writer, clock=clock)
    state = load_state(place.storage, place.root, executor)
    failures = _failures(place, plan, state, options, executor=executor, now=clock())
    refuse_stale(place, plan, options, state, executor, has_work=has_work(plan))
    # A bad path is found before the plan is requested: a pending clean that cannot be executed blocks the table.
    safeguards = safeguards or Safeguards()
    proved = _checked(place, cleaner_plan(place, plan, state), state, executor, safeguards).proved
    if drop_metadata and state.config.has_metadata_table:
        open_ledger()
        with lock.held():
            state = attrs.evolve(state, config=drop_metadata_table(place.storage, place.root, state.config, executor))
    writer = InstantWriter(place.storage, place.root, state.config, timezone(state.config, options), clock)
    alone = assume_single_writer
    sizes = {f"{place.root}/{op.path}": op.size for op in plan.deletes()}
    return Applying(place, plan, options, state, failures, writer, lock, executor, alone, safeguards, proved, sizes)


def _checked(place: Place, plan: CleanerPlan, state: TableState, executor: Executor, safeguards: Safeguards) -> Checked:
    """Raise unless a plan may be executed."""
    door = data_door(place.storage, place.root)
    checked = check_plan(door, place.root, plan, state, executor, safeguards.proof)
    if safeguards.exceeds(checked.going, checked.listed):  # of its partitions; now of the whole table
        whole = checked.listed + bytes_elsewhere(place.storage, place.root, plan.files, executor)
        safeguards.refuse_share(place.url, checked.going, whole)
    return checked


def has_work(plan: Plan) -> bool:
    """True if applying the plan writes a clean: it deletes something, or is an empty clean on purpose."""
    return not plan.is_empty or bool(plan.header.facts.get("empty_clean"))


def schedule(applying: Applying) -> Instant | None:
    """Roll back what failed and write ``<ts>.clean.requested``; None if there is nothing to request.

    Raises StorageError if a file of a failed write cannot be deleted; its rollback stays pending.
    """
    if applying.failures.writes:
        open_ledger()
        _settle_metadata(applying)
    rolled_back = _roll_back(applying)
    unfinished = [note for one in rolled_back for note in notes(one)]
    if unfinished:
        raise StorageError(f"{unfinished[0]}, so no clean was requested")
    with applying.lock.held():
        return _request(_look_again(applying, rolled_back))


def run(applying: Applying) -> Report:
    """Roll back what failed, request the plan, execute every pending clean, and account for every file."""
    if not (has_work(applying.plan) or applying.failures.writes or applying.state.unfinished_cleans):
        return report(applying, [])
    applying = _check_waiting(applying)
    settled = _settle_metadata(applying)
    if not applying.plan.is_empty or applying.failures.writes or applying.state.unfinished_cleans:
        open_ledger()
    rolled_back = _roll_back(applying)
    if not all(one.complete for one in rolled_back):
        return report(applying, [], rolled_back, settled)
    with applying.lock.held():
        applying = _look_again(applying, rolled_back)
        waiting = applying.state.unfinished_cleans
        for clean in applying.state.emptied_cleans:
            applying.writer.reopen(clean)
        requested = _request(applying)
    executed = [_execute(applying, instant) for instant in waiting]
    if requested:
        executed.append(_execute(applying, requested, judged=True))  # before it was requested
    return report(applying, executed, rolled_back, settled)


def _failures(
    place: Place, plan: Plan, state: TableState, options: CleanOptions, *, executor: Executor, now: datetime
) -> Failures:
    if options.failed_writes is not FailedWrites.LAZY:
        return Failures(())
    return find_failures(place, state, options, executor, wanted=planned_failures(plan), now=now)


def _roll_back(applying: Applying) -> list[RolledBack]:
    a = applying
    return roll_back_all(a.place, a.writer, a.failures, options=a.options, lock=a.lock, executor=a.executor)


def _look_again(applying: Applying, rolled_back: Sequence[RolledBack]) -> Applying:
    """Read the table again if it may have moved: by our own rollbacks, or by others before we had the lock."""
    if not rolled_back and applying.lock.provider is None:
        return applying
    state = load_state(applying.place.storage, applying.place.root, applying.executor)
    if has_work(applying.plan):
        refuse_stale(applying.place, applying.plan, applying.options, state, applying.executor, has_work=True)
    return attrs.evolve(applying, state=state)


def _request(applying: Applying) -> Instant | None:
    if not has_work(applying.plan):
        return None
    content = encode_cleaner_plan(cleaner_plan(applying.place, applying.plan, applying.state))
    newest = newest_time(applying.writer, applying.state.timeline)
    return applying.writer.requested("clean", newest, content)


def _execute(applying: Applying, pending: Instant, *, judged: bool = False) -> Executed:
    place, executor = applying.place, applying.executor
    state = load_state(place.storage, place.root, executor)  # an earlier clean of this run has changed it
    return execute_clean(
        applying.writer,
        state,
        pending,
        executor,
        applying.lock,
        drop_savepointed=applying.options.drop_savepointed,
        sizes=applying.sizes,
        judged=judged,
    )


def _check_waiting(applying: Applying) -> Applying:
    """Refuse plans of pending cleans before anything is written that executing would refuse; with what they add."""
    proved, sizes = applying.proved, dict(applying.sizes)
    folder = f"{applying.place.root}/{applying.state.config.timeline_folder}"
    for clean in applying.state.unfinished_cleans:
        _, waiting = read_requested(applying.place.storage, folder, clean)
        checked = _checked(applying.place, waiting, applying.state, applying.executor, applying.safeguards)
        proved, sizes = proved.plus(checked.proved), {**checked.sizes, **sizes}
    return attrs.evolve(applying, proved=proved, sizes=sizes)


def _settle_metadata(applying: Applying) -> tuple[str, ...]:
    """Refuse a metadata table that cannot be written or read before anything is written (rule 4), notes on the rest.

    With the table's lock held, or where the caller says that there is no other writer, what a failed compaction or
    clustering left pending in it is rolled back (see :mod:`lakemeta.hudi.metadata_table.leftovers`).
    """
    if not applying.state.config.has_metadata_table:
        return ()
    allowed = applying.alone or applying.lock.provider is not None
    with applying.lock.held() if allowed else nullcontext():
        return _settle(applying, roll_back=allowed)


def _settle(applying: Applying, *, roll_back: bool) -> tuple[str, ...]:
    place, options, writer, now = applying.place, applying.options, applying.writer, applying.writer.clock()
    state = load_state(place.storage, place.root, applying.executor) if roll_back else applying.state
    metadata = open_latest(place, state)
    dead = tuple(i.requested for i in read_leftovers(place, state, options, now)[0]) if roll_back else ()
    begun = {at for instant in dead if (at := metadata.pending_rollback_of(instant)) is not None}
    own = {*applying.failures.instants(), *dead, *begun}
    refuse_pending(place, metadata, state, options, own=own, now=now)
    _refuse_unreadable(place, metadata)
    if dead:
        open_ledger()
    done = roll_back_leftovers(writer, dead)
    return tuple(f"delta commit {i} of the metadata table was rolled back there by {at}" for i, at in done.items())


def _refuse_unreadable(place: Place, metadata: MetadataTable) -> None:
    try:
        metadata.check_readable()
    except CorruptMetadataError as error:
        raise CorruptMetadataError(
            f"the metadata table cannot be updated with a clean: {error}; {drop_advice(place.url)}"
        ) from error


def report(
    applying: Applying,
    executed: Sequence[Executed],
    rolled_back: Sequence[RolledBack] = (),
    settled: Sequence[str] = (),
) -> Report:
    """The report of rollbacks and executed cleans."""
    plan, sizes = applying.plan, applying.sizes
    outcomes = [o for done in rolled_back for o in done.outcomes] + [o for done in executed for o in done.outcomes]
    last = executed[-1] if executed else None
    unfinished = [note for done in rolled_back for note in notes(done)]
    if any(not outcome.done for done in executed for outcome in done.outcomes):
        unfinished.append(f"what could not be deleted is taken up again by: lakemeta clean {plan.header.table}")
    deleted, absent, failed = count(outcomes)
    return Report(
        plan=plan.header.plan,
        table=plan.header.table,
        committed=last.instant if last else None,
        deleted_files=deleted,
        absent_files=absent,
        freed_bytes=sum(sizes.get(o.path, 0) for o in outcomes if o.status == "deleted")
        + sum(done.freed for done in rolled_back),
        deleted_directories=sum(len(clean.dropped) for clean in executed),
        failed=failed,
        result={**_result(executed), "commits_rollback": [done.instant for done in rolled_back if done.complete]},
        notes=(
            *plan.header.facts.get("notes", ()),
            *settled,
            *(n for clean in executed for n in clean.notes),
            *unfinished,
        ),
        proved=applying.proved,
    )


def cleaner_plan(place: Place, plan: Plan, state: TableState) -> CleanerPlan:
    """The engine's form of a plan. Paths carry a scheme, as Hudi's do, but on disks where it has a metadata table."""
    facts = plan.header.facts
    plain = state.config.has_metadata_table and place.storage.scheme == "file"
    base = place.root if plain else place.engine_url(place.root)
    files: dict[str, list[CleanPlanFile]] = {}
    for op in plan.deletes():
        files.setdefault(op.partition, []).append(CleanPlanFile(f"{base}/{op.path}"))
    savepoints = facts["savepoints"]
    earliest = facts["earliest_to_retain"]
    return CleanerPlan(
        facts["policy"],
        (earliest, facts["earliest_action"]) if earliest else None,
        facts["last_completed_commit"],
        {partition: tuple(listed) for partition, listed in files.items()},
        plan.dropped_partitions() if facts["partitions"] else None,
        {SAVEPOINTED_TIMESTAMPS: ",".join(savepoints)} if savepoints else {},
    )


def _result(executed: Sequence[Executed]) -> Mapping[str, object]:
    last = executed[-1] if executed else None
    return {
        "start_clean_time": last.instant if last else None,
        "time_taken_in_millis": sum(clean.millis for clean in executed),
        "total_files_deleted": sum(clean.files_done for clean in executed),
        "earliest_commit_to_retain": last.earliest_to_retain if last else None,
        "cleans": [clean.instant for clean in executed],
    }

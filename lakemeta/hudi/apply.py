"""Applies a clean plan: refuses first, deletes last (I/O).

Rules of this module:

1. The table is read again. If its timeline is not the one the plan was made from, the plan is stale when the newest
   instant it knew is gone, when another clean was made or requested, when something was rolled back or restored, when
   the earliest commit to retain is no longer completed, or when a planned file would no longer be deleted by the same
   policy and earliest commit.
2. Pending cleans are executed in order. A new plan is requested before they run only where several cleans may be
   pending at once (``hoodie.clean.multiple.enabled``), as Hudi does.
3. A table with a metadata table is refused: cleaning it without telling the metadata table would leave readers with
   files that are gone.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, StalePlanError, UnsupportedFeatureError
from lakemeta.hudi.commit import Clock, InstantWriter
from lakemeta.hudi.decision import clean_context
from lakemeta.hudi.execute import Executed, check_paths, execute_clean
from lakemeta.hudi.listing import plan_partitions
from lakemeta.hudi.load import load_state
from lakemeta.hudi.metadata import (
    SAVEPOINTED_TIMESTAMPS,
    CleanerPlan,
    CleanPlanFile,
    encode_cleaner_plan,
)
from lakemeta.hudi.metadata_off import drop_metadata_table
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.planning import PLAN_KIND, Place, timezone
from lakemeta.plan import Delete, DeletePartition, Keep
from lakemeta.report import Report
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.executor import Executor
    from lakemeta.hudi.state import TableState
    from lakemeta.hudi.timeline import Instant
    from lakemeta.plan import Plan

_FACTS = ("policy", "earliest_to_retain", "earliest_action", "partitions", "last_completed_commit", "savepoints")
IN_PROCESS_LOCK = "org.apache.hudi.client.transaction.lock.InProcessLockProvider"


@attrs.frozen
class Applying:
    """A plan on its way: the table as it is now, and who writes instants."""

    place: Place
    plan: Plan
    options: CleanOptions
    state: TableState
    writer: InstantWriter
    executor: Executor


def begin(place: Place, plan: Plan, executor: Executor, clock: Clock, *, drop_metadata: bool = False) -> Applying:
    """Read the table again and refuse what must be refused; nothing is changed unless ``drop_metadata`` is true."""
    _refuse_foreign(place, plan)
    options = CleanOptions.parse(plan.header.options)
    state = load_state(place.storage, place.root, executor)
    _refuse_unsupported(options, plan)
    _refuse_stale(place, plan, options, state, executor)
    # A bad path is found before the plan is requested: a pending clean that cannot be executed blocks the table.
    check_paths(place.root, cleaner_plan(place, plan, state), state)
    if drop_metadata and state.config.has_metadata_table:
        state = attrs.evolve(state, config=drop_metadata_table(place.storage, place.root, state.config))
    writer = InstantWriter(place.storage, place.root, state.config, timezone(state.config, options), clock)
    return Applying(place, plan, options, state, writer, executor)


def has_work(plan: Plan) -> bool:
    """True if applying the plan writes a clean: it deletes something, or is an empty clean on purpose."""
    return not plan.is_empty or bool(plan.header.facts.get("empty_clean"))


def request(applying: Applying) -> Instant | None:
    """Write ``<ts>.clean.requested`` for the plan; None if there is nothing to request."""
    if not has_work(applying.plan):
        return None
    content = encode_cleaner_plan(cleaner_plan(applying.place, applying.plan, applying.state))
    return applying.writer.requested("clean", applying.state.timeline.newest_time, content)


def run(applying: Applying) -> Report:
    """Request the plan, then execute every pending clean, and account for every file."""
    waiting = applying.state.timeline.cleans.pending.instants
    if has_work(applying.plan) or waiting:
        _refuse_metadata_table(applying)
    requested = request(applying)
    pending = [*waiting, *([requested] if requested else [])]
    executed = [_execute(applying, instant) for instant in pending]
    return report(applying.place, applying.plan, executed)


def _execute(applying: Applying, pending: Instant) -> Executed:
    place, executor = applying.place, applying.executor
    state = load_state(place.storage, place.root, executor)  # an earlier clean of this run has changed it
    drop_savepointed = applying.options.drop_savepointed
    return execute_clean(applying.writer, state, pending, executor, drop_savepointed=drop_savepointed)


def report(place: Place, plan: Plan, executed: list[Executed]) -> Report:
    """The report of the executed cleans; bytes are counted for files whose size the plan knows."""
    outcomes = [outcome for clean in executed for outcome in clean.outcomes]
    sizes = {f"{place.root}/{op.path}": op.size for op in plan.deletes()}
    last = executed[-1] if executed else None
    return Report(
        plan=plan.header.plan,
        table=plan.header.table,
        committed=last.instant if last else None,
        deleted_files=sum(o.status == "deleted" for o in outcomes),
        absent_files=sum(o.status == "absent" for o in outcomes),
        freed_bytes=sum(sizes.get(o.path, 0) for o in outcomes if o.status == "deleted"),
        deleted_directories=sum(len(clean.dropped) for clean in executed),
        failed=tuple(outcome for outcome in outcomes if not outcome.done),
        result=_result(executed),
        notes=(*plan.header.facts.get("notes", ()), *(note for clean in executed for note in clean.notes)),
    )


def cleaner_plan(place: Place, plan: Plan, state: TableState) -> CleanerPlan:
    """The engine's form of a plan. Paths carry a scheme unless a metadata table serves the table, as Hudi's do."""
    facts = plan.header.facts
    base = place.root if state.config.has_metadata_table else place.engine_url(place.root)
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


def _result(executed: list[Executed]) -> Mapping[str, object]:
    last = executed[-1] if executed else None
    return {
        "start_clean_time": last.instant if last else None,
        "time_taken_in_millis": sum(clean.millis for clean in executed),
        "total_files_deleted": sum(clean.files_done for clean in executed),
        "earliest_commit_to_retain": last.earliest_to_retain if last else None,
        "cleans": [clean.instant for clean in executed],
    }


def _refuse_foreign(place: Place, plan: Plan) -> None:
    header = plan.header
    if header.plan != PLAN_KIND:
        raise StalePlanError(f"this is a {header.plan} plan, not a {PLAN_KIND} plan; nothing was done")
    if open_storage(header.table)[1] != place.root:
        raise StalePlanError(f"this plan is for {header.table}, not for {place.url}; nothing was done")
    missing = [fact for fact in _FACTS if fact not in header.facts]
    if missing:
        raise CorruptMetadataError(f"the plan's first line has no {missing[0]}; make the plan again")
    strange = next((op.op for op in plan.operations if not isinstance(op, Delete | Keep | DeletePartition)), None)
    if strange is not None:
        raise CorruptMetadataError(f"a {PLAN_KIND} plan cannot {strange}; make the plan again")


def _refuse_unsupported(options: CleanOptions, plan: Plan) -> None:
    failed = plan.header.facts.get("failed_writes")
    if failed:
        raise UnsupportedFeatureError(
            f"the failed write {failed[0]} must be rolled back first; let a Hudi writer do so, or clean with "
            "hoodie.clean.failed.writes.policy=EAGER, which leaves it alone"
        )
    if options.lock_provider not in (None, IN_PROCESS_LOCK):
        raise UnsupportedFeatureError(
            f"lakemeta cannot take the lock of {options.lock_provider}; stop the writers and leave "
            "hoodie.write.lock.provider out"
        )


def _refuse_metadata_table(applying: Applying) -> None:
    if applying.state.config.has_metadata_table:
        raise UnsupportedFeatureError(
            f"{applying.place.url} has a metadata table, which would go on listing deleted files; give --schedule-only "
            "to leave the plan to the next Hudi writer, or --drop-metadata-table to clean without the metadata table"
        )


def _refuse_stale(place: Place, plan: Plan, options: CleanOptions, state: TableState, executor: Executor) -> None:
    facts = plan.header.facts
    if state.digest == facts.get("timeline_digest"):
        return
    if not has_work(plan):
        raise StalePlanError("the timeline has moved since this plan of nothing was made; plan again")
    based_on = plan.header.based_on or ""
    if based_on not in {instant.requested for instant in state.timeline}:
        raise StalePlanError(f"instant {based_on}, the newest one the plan knew, is gone from the timeline; plan again")
    for instant in state.timeline:
        if instant.action == "clean" and (instant.requested > based_on or not instant.completed):
            raise StalePlanError(f"{instant} was made since the plan; plan again")
        if instant.action in ("rollback", "restore") and instant.requested > based_on:
            raise StalePlanError(f"{instant} was made since the plan; plan again")
    earliest = facts["earliest_to_retain"]
    completed = {i.requested for i in state.timeline.commits_and_compaction.completed}
    if earliest and earliest not in completed:
        raise StalePlanError(f"the earliest commit to retain, {earliest}, is no longer on the timeline; plan again")
    _refuse_changed_files(place, plan, options, state, executor)


def _refuse_changed_files(
    place: Place, plan: Plan, options: CleanOptions, state: TableState, executor: Executor
) -> None:
    """Judge the planned partitions again, with the plan's own boundary, on the table as it is now."""
    planned: dict[str, set[str]] = {partition: set() for partition in plan.dropped_partitions()}
    for op in plan.deletes():
        planned.setdefault(op.partition, set()).add(op.path.rpartition("/")[2])
    context = clean_context(state, options, state.timeline, plan.header.facts["earliest_to_retain"] or "")
    rows = plan_partitions(place.storage, place.root, context, executor, sorted(planned), explain=True)
    for row in rows:
        kept = sorted(f.name for f in row.files if not f.delete and f.name in planned[row.partition])
        if kept:
            raise StalePlanError(f"{row.partition}/{kept[0]} must be kept by now; plan again")
        if row.partition in plan.dropped_partitions() and not row.drop:
            raise StalePlanError(f"partition {row.partition} is in use again; plan again")

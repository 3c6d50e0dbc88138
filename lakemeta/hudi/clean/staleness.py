"""Refuses plans that are not for this table, or that the table has moved away from (I/O).

Rules of this module:

1. A plan is for one table and one kind of action, and holds what plans of its kind hold and can do: a rollback drops no
   partitions and deletes for no write but those it rolls back, a partition is dropped by the path of its name, and an
   earliest commit to retain has an action.
2. If the timeline is not the one a clean was planned from, the plan is stale when the newest instant it knew is gone,
   when another clean was made or requested, when something was rolled back or restored, when the earliest commit to
   retain is no longer completed, or when a planned file would no longer be deleted by the same policy and earliest
   commit.
3. A plan of nothing is stale only if a clean was requested since, which applying it would execute.
4. A LAZY clean is planned as if the failed writes were gone, so rolling back just those makes it stale in no way.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.hudi.clean.decision import clean_context
from lakemeta.hudi.clean.partitions import plan_partitions
from lakemeta.hudi.clean.planner import PLAN_KIND
from lakemeta.hudi.plan_origin import refuse_foreign
from lakemeta.hudi.timeline.instants import COMMITS_AND_COMPACTION
from lakemeta.hudi.timeline.loading import InstantReader
from lakemeta.hudi.timeline.rollback_metadata import decode_rollback_plan, decode_rolled_back
from lakemeta.plan_operations import Delete, DeletePartition, Keep

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.options import CleanOptions
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.plan import Plan

_FACTS = ("policy", "earliest_to_retain", "earliest_action", "partitions", "last_completed_commit", "savepoints")


def refuse_foreign_clean(place: Place, plan: Plan) -> None:
    """Raise StalePlanError or CorruptMetadataError for what is no plan of a clean of this table (rule 1)."""
    refuse_foreign(place, plan, PLAN_KIND, _FACTS, (Delete, Keep, DeletePartition))
    drops = (op for op in plan.operations if isinstance(op, DeletePartition) and op.path != op.partition)
    if (drop := next(drops, None)) is not None:
        raise CorruptMetadataError(
            f"the plan drops partition {drop.partition!r:.200} by the path {drop.path!r:.200}; make the plan again"
        )
    _check_boundary(plan.header.facts)


def _check_boundary(facts: Mapping[str, Any]) -> None:
    earliest, action = facts.get("earliest_to_retain"), facts.get("earliest_action")
    if earliest and action not in COMMITS_AND_COMPACTION:
        raise CorruptMetadataError(
            f"the plan retains commits from {earliest!r:.100} on, and says that this one is a {action!r:.100}; "
            "make the plan again"
        )


def planned_failures(plan: Plan) -> frozenset[str]:
    """The failed writes that a LAZY clean was planned without."""
    return frozenset(plan.header.facts.get("failed_writes", ()))


def refuse_stale(
    place: Place, plan: Plan, options: CleanOptions, state: TableState, executor: Executor, *, has_work: bool
) -> None:
    """Raise StalePlanError if the table has moved in a way that could make a clean plan wrong (rules 2 to 4)."""
    facts = plan.header.facts
    if state.digest == facts.get("timeline_digest"):
        return
    waiting = facts.get("pending_cleans", ())
    if not has_work:
        _refuse_new_cleans(state, waiting)
        return
    failed = planned_failures(plan)
    based_on = plan.header.based_on or ""
    if based_on not in {instant.requested for instant in state.timeline} | failed:
        raise StalePlanError(f"instant {based_on}, the newest one the plan knew, is gone from the timeline; plan again")
    for instant in state.timeline:
        begun = not instant.completed and instant.requested not in waiting
        if instant.action == "clean" and (instant.requested > based_on or begun):
            raise StalePlanError(f"{instant} was made since the plan; plan again")
        undoes = instant.action in ("rollback", "restore") and instant.requested > based_on
        if undoes and not _undone(place, state, instant, executor) <= failed:
            raise StalePlanError(f"{instant} was made since the plan; plan again")
    earliest = facts["earliest_to_retain"]
    completed = {i.requested for i in state.timeline.commits_and_compaction.completed}
    if earliest and earliest not in completed:
        raise StalePlanError(f"the earliest commit to retain, {earliest}, is no longer on the timeline; plan again")
    _refuse_changed_files(place, plan, options, state, executor)


def _refuse_new_cleans(state: TableState, waiting: Collection[str]) -> None:
    """A plan of nothing is wrong in no way, but executes pending cleans: those that it knew, no others."""
    new = next((i for i in state.unfinished_cleans if i.requested not in waiting), None)
    if new is not None:
        raise StalePlanError(f"{new} was made since the plan; plan again")


def _undone(place: Place, state: TableState, instant: Instant, executor: Executor) -> frozenset[str]:
    """The writes that a rollback undoes; for a restore, which is never our own, its own time."""
    if instant.action == "restore":
        return frozenset({instant.requested})
    reader = InstantReader(place.storage, f"{place.root}/{state.config.timeline_folder}", executor)
    if instant.completed:
        return decode_rolled_back(*reader.read(instant))
    path = f"{reader.folder}/{instant.requested}.rollback.requested"
    return frozenset({decode_rollback_plan(place.storage.read(path), path).instant})


def _refuse_changed_files(
    place: Place, plan: Plan, options: CleanOptions, state: TableState, executor: Executor
) -> None:
    """Judge the planned partitions again, with the plan's own boundary, on the table as it is now."""
    planned: dict[str, set[str]] = {partition: set() for partition in plan.dropped_partitions()}
    for op in plan.deletes():
        planned.setdefault(op.partition, set()).add(op.path.rpartition("/")[2])
    failed = planned_failures(plan)
    timeline = state.timeline.where(lambda i: i.completed or i.requested not in failed)
    context = clean_context(state, options, timeline, plan.header.facts["earliest_to_retain"] or "", failed)
    rows = plan_partitions(place.storage, place.root, context, executor, sorted(planned), explain=True)
    for row in rows:
        kept = sorted(f.name for f in row.files if not f.delete and f.name in planned[row.partition])
        if kept:
            raise StalePlanError(f"{row.partition}/{kept[0]} must be kept now; plan again")
        if row.partition in plan.dropped_partitions() and not row.drop:
            raise StalePlanError(f"partition {row.partition} is in use again; plan again")

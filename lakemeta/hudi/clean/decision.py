"""Decides what a clean would look at, from the state of the table alone; nothing is listed here."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.hudi.clean.boundary import Scope, clean_scope, commits_since_clean, earliest_to_retain
from lakemeta.hudi.clean.context import CleanContext
from lakemeta.hudi.clean.savepoints import partitions_named
from lakemeta.hudi.options import CleanOptions, Policy
from lakemeta.hudi.timeline.failed_writes import failed_writes
from lakemeta.hudi.timeline.times import hours_before
from lakemeta.hudi.view.file_groups import View
from lakemeta.moments import epoch_ms

if TYPE_CHECKING:
    from collections.abc import Mapping
    from datetime import datetime, tzinfo

    from lakemeta.hudi.timeline.instants import Instant, Timeline
    from lakemeta.hudi.timeline.state import TableState


@attrs.frozen
class Decision:
    """The boundary and scope of a clean, or why there is none (``nothing`` is one clause for a person)."""

    nothing: str | None
    earliest: Instant | None
    scope: Scope
    context: CleanContext
    last_completed_commit: str
    savepoints: tuple[str, ...]
    rolled_back: tuple[str, ...]
    empty_clean_due: bool


def decide(
    state: TableState, options: CleanOptions, heartbeats: Mapping[str, int], now: datetime, zone: tzinfo
) -> Decision:
    """Decide whether a clean is due, up to where and over which partitions."""
    failed = failed_writes(state.timeline, state.clusterings, heartbeats, options, epoch_ms(now))
    timeline = state.timeline.where(lambda i: i.completed or i.requested not in failed) if failed else state.timeline
    earliest = earliest_to_retain(timeline, options, now, zone, state.last_clean)
    partitioned = state.config.is_partitioned
    scope = clean_scope(timeline, options, state.last_clean, earliest, is_partitioned=partitioned)
    last_commit = timeline.commits.completed.last
    return Decision(
        _nothing(timeline, options, state, earliest),
        earliest,
        scope,
        clean_context(state, options, timeline, earliest.requested if earliest else "", failed),
        last_commit.requested if last_commit else "",
        tuple(i.requested for i in timeline.savepoints) if partitioned else (),
        tuple(sorted(failed)),
        _empty_clean_due(timeline, options, now, zone, earliest),
    )


def clean_context(
    state: TableState,
    options: CleanOptions,
    timeline: Timeline,
    earliest: str,
    rolled_back: frozenset[str] = frozenset(),
) -> CleanContext:
    """What planning one partition needs to know, for a given earliest commit to retain."""
    # Of two operations on one group the one that reads further back counts: it comes last.
    operations = [*(operation for _, operation in state.compactions), *state.log_compactions]
    operations.sort(key=lambda operation: operation.base_instant, reverse=True)
    pending = {(operation.partition, operation.file_id): at for at, operation in state.compactions}
    return CleanContext(
        options.policy,
        earliest,
        options.versions_retained,
        View.of(timeline, state.completions, pending, rolled_back),
        state.replaced,
        {name: savepoint for savepoint, names in sorted(state.savepoints.items(), reverse=True) for name in names},
        {(operation.partition, operation.file_id): operation for operation in operations},
        options.drop_savepointed,
        state.pinned,
        partitions_named(state),
        state.needed,
    )


def _nothing(timeline: Timeline, options: CleanOptions, state: TableState, earliest: Instant | None) -> str | None:
    if state.emptied_cleans:
        return f"clean {state.emptied_cleans[-1].requested} completed with an empty file and is executed again first"
    pending = timeline.cleans.pending
    if pending.last is not None and not options.allow_multiple:
        return f"clean {pending.last.requested} is pending and is executed first"
    commits = commits_since_clean(timeline, state.last_clean)
    if commits < options.trigger_max_commits:
        return f"{commits} commits since the last clean, {options.trigger_max_commits} make one due"
    if options.policy is Policy.KEEP_LATEST_COMMITS and options.commits_retained == 0:
        return "hoodie.clean.commits.retained is 0, with which Hudi finds no commit to retain; give 1 or more"
    if earliest is None and options.policy is not Policy.KEEP_LATEST_FILE_VERSIONS:
        return "no commit is old enough to be cleaned"
    return None


def _empty_clean_due(
    timeline: Timeline, options: CleanOptions, now: datetime, zone: tzinfo, earliest: Instant | None
) -> bool:
    """True if a clean without files should move the earliest commit on (Hudi 1.2, ``shouldCreateEmptyClean``)."""
    hours = options.empty_clean_interval_hours
    if not options.incremental or hours == 0 or earliest is None:
        return False
    last = timeline.cleans.completed.last
    return last is None or last.requested < hours_before(now, hours, zone)

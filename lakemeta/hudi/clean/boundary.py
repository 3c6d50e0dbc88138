"""What a clean may touch at all: trigger, earliest commit to retain, and the partitions to visit.

Rules of this module (``CleanPlanActionExecutor``, ``CleanPlanner``, ``CleanerUtils.getEarliestCommitToRetain``):

1. A clean is due once enough commits completed since the last completed clean.
2. KEEP_LATEST_COMMITS N: the N-th newest completed commit or compaction, but never later than the last one before
   the first pending commit, compaction or clustering. With N or fewer commits, nothing.
3. KEEP_LATEST_BY_HOURS H: the first completed commit or compaction of the last H hours; pending work does not cap it.
4. KEEP_LATEST_FILE_VERSIONS has no earliest commit to retain.
5. Incremental cleaning visits only what the commits from the last clean's earliest commit (included) up to the
   new one (excluded) touched. Whenever that cannot be known, all partitions are visited, and the plan says why.
6. A clean without files, which is written to move the boundary on, never moves it back.
"""

from __future__ import annotations

from itertools import takewhile
from typing import TYPE_CHECKING

import attrs

from lakemeta.hudi.options import CleanOptions, Policy
from lakemeta.hudi.timeline.times import hours_before

if TYPE_CHECKING:
    from collections.abc import Iterable
    from datetime import datetime, tzinfo

    from lakemeta.hudi.timeline.action_metadata import CleanMetadata, CommitMetadata
    from lakemeta.hudi.timeline.instants import Instant, Timeline

_INSERTS_AND_UPSERTS = frozenset(
    {"INSERT", "INSERT_PREPPED", "BULK_INSERT", "BULK_INSERT_PREPPED", "UPSERT", "UPSERT_PREPPED"}
)


def commits_since_clean(timeline: Timeline, last_clean: CleanMetadata | None) -> int:
    """How many commits completed since the last completed clean; all of them if there was none."""
    since = last_clean.last_completed_commit if last_clean else ""
    return sum(1 for instant in timeline.commits.completed if instant.requested > since)


def earliest_to_retain(
    timeline: Timeline, options: CleanOptions, now: datetime, zone: tzinfo, last_clean: CleanMetadata | None
) -> Instant | None:
    """The earliest commit to retain, or None if the policy has none or nothing is old enough."""
    if options.policy is Policy.KEEP_LATEST_FILE_VERSIONS:
        return None
    if options.policy is Policy.KEEP_LATEST_COMMITS:
        earliest = _by_commits(timeline, options.commits_retained)
    else:
        earliest = _by_hours(timeline, hours_before(now, options.hours_retained, zone))
    return _bounded(timeline, earliest, options.max_commits_to_clean, last_clean)


def _by_commits(timeline: Timeline, retained: int) -> Instant | None:
    completed = timeline.commits_and_compaction.completed.instants
    if retained == 0 or len(completed) <= retained:
        return None
    earliest = completed[len(completed) - retained]
    first_pending = timeline.commits_and_compaction.pending.first
    if first_pending is None or earliest.requested <= first_pending.requested:
        return earliest
    before = list(takewhile(lambda i: i.requested < first_pending.requested, completed))
    return before[-1] if before else None


def _by_hours(timeline: Timeline, since: str) -> Instant | None:
    return timeline.commits_and_compaction.completed.where(lambda i: i.requested >= since).first


def _bounded(
    timeline: Timeline, earliest: Instant | None, most: int | None, last_clean: CleanMetadata | None
) -> Instant | None:
    """Move the earliest commit back so that one clean covers at most ``most`` commits since the last one."""
    if earliest is None or most is None or last_clean is None or not last_clean.earliest_to_retain:
        return earliest
    since = last_clean.earliest_to_retain
    covered = timeline.commits_and_compaction.completed.where(
        lambda i: since <= i.requested < earliest.requested
    ).instants
    return covered[most] if len(covered) > most else earliest


def empty_clean_boundary(earliest: Instant | None, last_clean: CleanMetadata | None) -> str:
    """The earliest commit to retain of a clean without files (rule 6), or the empty string if there is none."""
    last = last_clean.earliest_to_retain if last_clean else ""
    return max(last, earliest.requested if earliest else "")


@attrs.frozen
class Scope:
    """Which partitions to visit: all of them (``commits`` is None), or those that these commits touched.

    ``reason`` is one clause for a person.
    """

    commits: tuple[Instant, ...] | None
    reason: str


def clean_scope(
    timeline: Timeline,
    options: CleanOptions,
    last_clean: CleanMetadata | None,
    earliest: Instant | None,
    *,
    is_partitioned: bool,
) -> Scope:
    """Decide between an incremental and a full clean, and name the reason (rule 5)."""
    if options.policy is Policy.KEEP_LATEST_FILE_VERSIONS:
        return Scope(None, "the policy keeps file versions, so every partition is looked at")
    if earliest is None:
        return Scope((), "there is no earliest commit to retain")
    if not options.incremental:
        return Scope(None, "incremental cleaning is off")
    if last_clean is None:
        return Scope(None, "there is no completed clean to start from")
    since = last_clean.earliest_to_retain
    if not since:
        return Scope(None, "the last clean recorded no earliest commit to retain")
    first = timeline.commits.first
    if first is not None and since < first.requested:
        return Scope(None, f"the last clean's earliest commit {since} is archived")
    if is_partitioned:
        removed = last_clean.savepoints - {i.requested for i in timeline.savepoints}
        if removed:
            return Scope(None, f"savepoint {min(removed)} was removed since the last clean")
    touched = timeline.commits.completed.where(lambda i: since <= i.requested < earliest.requested)
    return Scope(touched.instants, f"commits from {since} up to {earliest.requested}")


def partitions_touched(commits: Iterable[tuple[Instant, CommitMetadata]], *, copy_on_write: bool) -> list[str]:
    """The partitions that an incremental clean visits, sorted.

    An insert or upsert of a copy-on-write table makes older slices only where it wrote a new version of a group.
    """
    partitions: set[str] = set()
    for instant, commit in commits:
        only_updates = copy_on_write and instant.action == "commit" and commit.operation in _INSERTS_AND_UPSERTS
        partitions.update(p for p in commit.partitions() if not only_updates or commit.has_update(p))
    return sorted(partitions)

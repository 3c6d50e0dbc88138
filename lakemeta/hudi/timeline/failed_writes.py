"""Which pending writes have failed (``BaseHoodieTableServiceClient.getInstantsToRollback``, ``HoodieHeartbeatClient``).

Rules of this module:

1. A write is a commit, delta commit or replace commit that is pending and no clustering.
2. Its writer is alive if its heartbeat file was touched no longer ago than the interval times the tolerable misses.
3. LAZY: all writes whose writers are not alive have failed.
4. EAGER: there is but one writer, and whoever asks takes its place: all pending writes have failed. Such writers leave
   no heartbeat, so unlike Hudi a fresh heartbeat is taken as a sign that this is not so, and refused.
5. EAGER: a write is not rolled back once later commits have completed, unless its heartbeat file says that it was made
   by a LAZY writer (``validateRollbackCommitSequence``).
6. NEVER: none has.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.hudi.options import CleanOptions, FailedWrites

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.hudi.timeline.instants import Instant, Timeline

WRITE_ACTIONS: Final = ("commit", "deltacommit", "replacecommit")


def pending_writes(timeline: Timeline, clusterings: frozenset[str]) -> Timeline:
    """The writes that have not completed (rule 1); ``clusterings`` are the pending clusterings of table version 6."""
    return timeline.pending.where(lambda i: i.action in WRITE_ACTIONS and i.requested not in clusterings)


def is_alive(instant: str, heartbeats: Mapping[str, int], options: CleanOptions, now_ms: int) -> bool:
    """True if the heartbeat of an instant is fresh (rule 2).

    ``heartbeats`` maps a requested time to when its heartbeat file last changed, ``now_ms`` is the moment to judge
    by; both in ms since the epoch.
    """
    tolerated = options.heartbeat_interval_ms * options.heartbeat_misses
    return now_ms - heartbeats.get(instant, 0) <= tolerated


def failed_writes(
    timeline: Timeline,
    clusterings: frozenset[str],
    heartbeats: Mapping[str, int],
    options: CleanOptions,
    now_ms: int,
) -> frozenset[str]:
    """The requested times of writes that a clean rolls back first: under LAZY those of rule 3, else none."""
    if options.failed_writes is not FailedWrites.LAZY:
        return frozenset()
    pending = pending_writes(timeline, clusterings)
    return frozenset(i.requested for i in pending if not is_alive(i.requested, heartbeats, options, now_ms))


def writes_to_roll_back(
    timeline: Timeline,
    clusterings: frozenset[str],
    heartbeats: Mapping[str, int],
    options: CleanOptions,
    now_ms: int,
) -> tuple[Instant, ...]:
    """The writes that an explicit rollback undoes, newest first.

    Raises UnsupportedFeatureError for what rules 4 and 5 refuse.
    """
    pending = pending_writes(timeline, clusterings).instants[::-1]
    if options.failed_writes is FailedWrites.NEVER:
        return ()
    if options.failed_writes is FailedWrites.LAZY:
        return tuple(i for i in pending if not is_alive(i.requested, heartbeats, options, now_ms))
    for write in pending:
        _check_eager(write, timeline, heartbeats, options, now_ms)
    return pending


def _check_eager(
    write: Instant, timeline: Timeline, heartbeats: Mapping[str, int], options: CleanOptions, now_ms: int
) -> None:
    if is_alive(write.requested, heartbeats, options, now_ms):
        seconds = max(0, now_ms - heartbeats[write.requested]) // 1000
        raise UnsupportedFeatureError(
            f"the writer of {write} is alive, its heartbeat is {seconds} s old; stop it, or give "
            "hoodie.clean.failed.writes.policy=LAZY to roll back expired writes only"
        )
    last = timeline.commits.completed.last
    if last is not None and last.requested > write.requested and write.requested not in heartbeats:
        raise UnsupportedFeatureError(
            f"{last} completed after {write}, so there is more than one writer; give "
            "hoodie.clean.failed.writes.policy=LAZY to roll back writes without a heartbeat"
        )

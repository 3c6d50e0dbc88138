"""Which pending writes have failed, by their heartbeats (``HoodieHeartbeatUtils``, ``CleanerUtils``).

Under LAZY a pending commit, delta commit or replace commit that is no clustering has failed if its heartbeat file is
absent or was last touched longer ago than the interval times the tolerable misses. Under EAGER the next write rolls
failed writes back, and under NEVER nobody does: a clean does not look.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.hudi.options import CleanOptions, FailedWrites

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.hudi.timeline import Timeline

HEARTBEAT_FOLDER: Final = ".hoodie/.heartbeat"
_ACTIONS: Final = ("commit", "deltacommit", "replacecommit")


def failed_writes(
    timeline: Timeline,
    clusterings: frozenset[str],
    heartbeats: Mapping[str, int],
    options: CleanOptions,
    now_ms: int,
) -> frozenset[str]:
    """The requested times of writes that a LAZY clean rolls back first.

    ``heartbeats`` maps a requested time to when its heartbeat file last changed, ``now_ms`` is the moment to judge
    by; both in ms since the epoch.
    """
    if options.failed_writes is not FailedWrites.LAZY:
        return frozenset()
    tolerated = options.heartbeat_interval_ms * options.heartbeat_misses
    pending = timeline.pending.where(lambda i: i.action in _ACTIONS and i.requested not in clusterings)
    return frozenset(i.requested for i in pending if now_ms - heartbeats.get(i.requested, 0) > tolerated)

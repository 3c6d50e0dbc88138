"""A write that is to be rolled back, and what that does."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.paths import inside

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.rollback_metadata import RollbackPlan


@attrs.frozen
class FailedWrite:
    """A write to undo: how, by which rollback if one was begun, and all files (store path -> bytes) near it.

    ``base`` is what paths in the plan of its rollback are compared with.
    """

    base: str
    plan: RollbackPlan
    rollback: Instant | None
    sizes: Mapping[str, int]

    @property
    def instant(self) -> str:
        """The requested time of the write."""
        return self.plan.instant

    def deletes(self) -> Iterator[tuple[str, str, str]]:
        """The partition, the path as the rollback names it and the store path of every file that goes."""
        for request in self.plan.requests:
            for file in request.files:
                yield request.partition, file, inside(self.base, file)

    def blocks(self) -> list[tuple[str, str, str]]:
        """The slices that get a rollback block: partition, file id, instant of the slice."""
        return sorted((r.partition, r.file_id, r.base_instant) for r in self.plan.requests if r.log_blocks)

"""Runs groups of a rewrite, here or on workers, and adds up how far they have come (I/O)."""

from __future__ import annotations

import secrets
import threading
from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import LakemetaError
from lakemeta.events import Progress
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, RewrittenGroup, rewrite_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.iceberg.rewrite.bin_pack import RewriteGroup


@attrs.frozen(eq=False)
class Failure:
    """What went wrong with a group; a value, because other groups may go on."""

    group: int
    error: LakemetaError


class GroupProgress:
    """Tells a listener, from any thread but one at a time, how much of some groups has been done."""

    def __init__(self, groups: Sequence[RewriteGroup], listener: Callable[[Progress], None] | None) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._stopped = False
        self._left = {group.group: sum(task.length for task in group.tasks) for group in groups}
        self._groups = len(groups)
        self._bytes = sum(self._left.values())

    def read(self, group: int, size: int) -> None:
        """So many bytes of a group's input have been worked on; raises LakemetaError once nobody wants more."""
        if self._stopped:
            raise LakemetaError("the rewrite was interrupted; run it again")
        with self._lock:
            if group in self._left:
                self._left[group] -= min(size, self._left[group])
                self._tell()

    def finished(self, group: int) -> None:
        """A group has ended, well or not; it may be told more than once."""
        with self._lock:
            if self._left.pop(group, None) is not None:
                self._tell()

    def stop(self) -> None:
        """Make the groups under way give up: their result is not wanted any more."""
        self._stopped = True

    def _tell(self) -> None:
        if self._listener is not None:
            done = self._groups - len(self._left)
            self._listener(Progress(done, self._groups, self._bytes - sum(self._left.values()), self._bytes))


def rewrite_here(
    job: RewriteJob, finished: dict[int, RewrittenGroup], progress: GroupProgress, groups: Sequence[RewriteGroup]
) -> Iterator[RewrittenGroup | Failure]:
    """Rewrite groups in this process; ``finished`` takes what is written, also if nobody asks for the result."""
    for group in groups:
        try:
            result = rewrite_group(job, group, read=partial(progress.read, group.group))
            finished[group.group] = result
            progress.finished(group.group)
            yield result
        except LakemetaError as error:
            progress.finished(group.group)
            yield Failure(group.group, error)


def rewrite_elsewhere(job: RewriteJob, groups: Sequence[RewriteGroup]) -> Iterator[RewrittenGroup | Failure]:
    """Rewrite groups on a worker, which may be one of two at the same group: attempts have numbers of their own."""
    attempt = secrets.randbelow(1 << 31)
    for group in groups:
        try:
            yield rewrite_group(job, group, attempt)
        except LakemetaError as error:
            yield Failure(group.group, error)

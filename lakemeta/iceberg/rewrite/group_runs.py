"""Runs groups of a rewrite, here or on workers, checks their rows, and adds up how far they have come (I/O)."""

from __future__ import annotations

import secrets
import threading
from collections.abc import Generator
from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.events import Progress
from lakemeta.executor import LocalExecutor, batched, hearing_of_batches, ships
from lakemeta.iceberg.commit.committer import remove_files
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, RewrittenGroup, rewrite_group
from lakemeta.iceberg.rows.row_account import check_group

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.rewrite.groups import RewriteGroup
    from lakemeta.iceberg.rewrite.options import JobOptions

    RewriteBatch = Callable[[Sequence[RewriteGroup]], Iterator["RewrittenGroup | Failure"]]


@attrs.frozen(eq=False)
class Failure:
    """What went wrong with a group; a value, because other groups may go on."""

    group: int
    error: LakemetaError


class GroupProgress:
    """Reports to a listener, from any thread but one at a time, how much of some groups has been done."""

    def __init__(self, groups: Sequence[RewriteGroup], listener: Callable[[Progress], None] | None) -> None:
        self._listener = listener
        self._lock = threading.Lock()
        self._stopped = False
        self._left = {group.group: sum(task.length for task in group.tasks) for group in groups}
        self._groups = len(groups)
        self._bytes = sum(self._left.values())

    def read(self, group: int, size: int) -> None:
        """So many bytes of a group's input have been worked on; raises LakemetaError once no more is wanted."""
        if self._stopped:
            raise LakemetaError("the rewrite was interrupted; run it again")
        with self._lock:
            if size and group in self._left:
                self._left[group] -= min(size, self._left[group])
                self._report_progress()

    def finished(self, group: int) -> None:
        """A group has ended, well or not; more than one call for a group is allowed."""
        with self._lock:
            if self._left.pop(group, None) is not None:
                self._report_progress()

    def stop(self) -> None:
        """Make the groups under way give up: their result is not wanted any more."""
        self._stopped = True

    def _report_progress(self) -> None:
        if self._listener is not None:
            done = self._groups - len(self._left)
            self._listener(Progress(done, self._groups, self._bytes - sum(self._left.values()), self._bytes))


@attrs.frozen(eq=False, kw_only=True)
class GroupRuns:
    """The groups of one rewrite as they are run on an executor; None is threads of this process.

    ``unsettled`` has, by number, groups that are written and not yet handed to a commit: the caller takes them out.
    ``reported`` has all results that came back. ``door`` lets the new data files of this rewrite go.
    """

    groups: Sequence[RewriteGroup]
    work: RewriteJob
    job: JobOptions
    executor: Executor | None
    progress: GroupProgress
    door: Door
    unsettled: dict[int, RewrittenGroup] = attrs.field(factory=dict, init=False)
    reported: list[RewrittenGroup] = attrs.field(factory=list, init=False)

    @property
    def ships(self) -> bool:
        """False if groups are rewritten in this process."""
        return self.executor is not None and ships(self.executor)

    def results(self) -> Generator[tuple[RewriteGroup, RewrittenGroup | Failure], None, None]:
        """The groups with what became of them; closing it waits for those under way."""
        executor, rewrite, at_once = self._way()
        for part in batched(self.groups, at_once):
            with hearing_of_batches(partial(self._ended, part)):
                results = executor.map_batches(rewrite, part, batch_size=1)
            try:
                for group, result in zip(part, results, strict=True):
                    self.progress.finished(group.group)
                    if isinstance(result, RewrittenGroup):
                        self.unsettled[group.group] = result
                        self.reported.append(result)
                    yield group, self.accounted(group, result)
            finally:
                if isinstance(results, Generator):
                    results.close()

    def accounted(self, group: RewriteGroup, result: RewrittenGroup | Failure) -> RewrittenGroup | Failure:
        """A group's result, or a failure, with its files removed, if the rows of its files do not add up."""
        if isinstance(result, Failure):
            return result
        try:
            check_group(group.tasks, result.inputs, result.files)
        except CorruptMetadataError as error:
            remove_files(self.door, [file.file_path for file in self.unsettled.pop(group.group).files])
            return Failure(group.group, error)
        return result

    def _way(self) -> tuple[Executor, RewriteBatch, int]:
        """Where groups are rewritten, by which function, and how many are handed out at a time."""
        if self.executor is None or not self.ships:
            here = partial(rewrite_here, self.work, self.unsettled, self.progress)
            return LocalExecutor(self.job.threads, self.progress.stop), here, len(self.groups)
        at_once = self.job.max_concurrent or len(self.groups)
        return self.executor, partial(rewrite_elsewhere, self.work), at_once

    def _ended(self, part: Sequence[RewriteGroup], number: int) -> None:
        self.progress.finished(part[number].group)


def rewrite_here(
    job: RewriteJob, finished: dict[int, RewrittenGroup], progress: GroupProgress, groups: Sequence[RewriteGroup]
) -> Iterator[RewrittenGroup | Failure]:
    """Rewrite groups in this process; ``finished`` takes what is written, also if the result is never asked for."""
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

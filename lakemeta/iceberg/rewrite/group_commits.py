"""Commits rewritten groups, and removes deletes that apply to nothing after that (I/O)."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CommitStateUnknownError, LakemetaError
from lakemeta.iceberg.commit.committer import remove_files
from lakemeta.iceberg.commit.snapshot_commit import commit_update, without_deletes
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.commit.summary import ENGINE
from lakemeta.iceberg.manifests.entries import file_key
from lakemeta.iceberg.rewrite.options import MAX_COMMITS, PARTIAL
from lakemeta.iceberg.rewrite.outcome import files_of
from lakemeta.iceberg.scan.stored_scan import find_dangling
from lakemeta.iceberg.service.branches import branch_head

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakemeta.deletion import Door
    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.inputs import Inputs
    from lakemeta.iceberg.rewrite.options import JobOptions
    from lakemeta.iceberg.rewrite.outcome import Outcome, Result
    from lakemeta.iceberg.rewrite.unfinished import RunMarker
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata

_log = logging.getLogger(__name__)


@attrs.frozen(eq=False, kw_only=True)
class GroupCommits:
    """Commits the groups of one rewrite, and keeps ``outcome`` up to date.

    ``door`` lets the new data files of this rewrite go. ``marker`` names each commit before its first file is written.
    """

    operations: TableOperations
    job: JobOptions
    inputs: Inputs
    executor: Executor | None
    env: Environment
    marker: RunMarker
    door: Door
    outcome: Outcome

    def commit(self, batch: Sequence[Result]) -> None:
        """Commit some groups. With partial progress a commit that certainly failed is noted, and the others go on."""
        vectors = _deletion_vectors(batch)
        try:
            self.outcome.snapshot = self._replace(batch, vectors)
        except CommitStateUnknownError:
            raise
        except LakemetaError as error:
            remove_files(self.door, [file.file_path for file in files_of(result for _, result in batch)])
            if not self.job.partial_progress:
                raise
            _log.warning("a commit of %d groups failed: %s", len(batch), error)
            self.outcome.notes.append(f"a commit of {len(batch)} groups failed: {error}")
            return
        self.outcome.commits += 1
        self.outcome.committed += batch
        self.outcome.removed_deletes += len(vectors)

    def check_failed(self) -> None:
        """Raise if more commits failed than the job allows; groups that were not rewritten make theirs fail."""
        if not self.job.partial_progress:
            return
        failed = min(len(self.inputs.groups), self.job.max_commits) - self.outcome.commits
        if failed > self.job.max_failed_commits:
            raise LakemetaError(
                f"{PARTIAL} is true but {failed} rewrite commits failed. This is more than the maximum allowed "
                f"failures of {self.job.max_failed_commits}. If this is persistent it may help to increase "
                f"{MAX_COMMITS}; {'; '.join(self.outcome.notes)}"
            )

    def remove_dangling(self) -> None:
        """Remove deletes that apply to nothing, in a commit of its own; looked for anew on every attempt."""
        removed: list[DataFile] = []

        def find(metadata: TableMetadata) -> SnapshotUpdate | None:
            head = branch_head(metadata, self.job.branch, "rewrite data files")
            assert head is not None, "a table that was just rewritten has a snapshot"
            found = find_dangling(self.operations.storage, metadata, head, self.executor)
            removed[:] = [entry.data_file for entry in found]
            return without_deletes(removed, head, self.job.branch) if removed else None

        self.outcome.in_commit = True
        try:
            self.outcome.snapshot = self._update(find) or self.outcome.snapshot
        except CommitStateUnknownError:
            raise
        except LakemetaError as error:  # the rewrite itself is committed
            self.outcome.notes.append(f"dangling deletes were not removed: {error}")
            return
        self.outcome.in_commit = False
        self.outcome.removed_deletes += len(removed)

    def _replace(self, batch: Sequence[Result], vectors: tuple[DataFile, ...]) -> Snapshot | None:
        sequence = self.inputs.head.sequence_number if self.job.use_starting_sequence_number else None
        removed = tuple(task.data_file for group, _ in batch for task in group.tasks)
        update = SnapshotUpdate(
            added=tuple(files_of(result for _, result in batch)),
            removed=removed,
            removed_deletes=vectors,
            starting_snapshot_id=self.inputs.head.snapshot_id,
            data_sequence_number=sequence,
            branch=self.job.branch,
            properties=ENGINE,
            hints=frozenset(self.inputs.manifest_of[file.file_path] for file in removed),
        )
        return self._update(lambda _: update)

    def _update(self, update_of: Callable[[TableMetadata], SnapshotUpdate | None]) -> Snapshot | None:
        """Commit the update that a function gives for a version of the table; None is nothing to do."""
        return commit_update(self.operations, update_of, self.env, self.executor, self.marker.committing)


def _deletion_vectors(batch: Sequence[Result]) -> tuple[DataFile, ...]:
    """The deletion vectors of the files that a batch replaces; they go with their files."""
    deletes = (delete for group, _ in batch for task in group.tasks for delete in task.deletes)
    return tuple({file_key(delete): delete for delete in deletes if delete.is_deletion_vector}.values())

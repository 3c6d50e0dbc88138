"""Applies a plan of rewrite_data_files: rewrites its groups on an executor and commits them (I/O).

The inputs of a plan are looked up in the newest snapshot, with all deletes that apply to them there, so a plan is stale
only if one of its files is gone. What comes after that is found out when committing.
"""

from __future__ import annotations

import logging
from collections.abc import Generator
from contextlib import closing
from functools import partial
from typing import TYPE_CHECKING, Any

import attrs

from lakemeta import __version__
from lakemeta.errors import CommitStateUnknownError, CorruptMetadataError, LakemetaError, StalePlanError
from lakemeta.executor import LocalExecutor, batched, hearing_of_batches
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.commit.committer import commit, new_snapshot_id, remove_files
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import Base, Draft, next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.entries import file_key
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.rewrite.bin_pack import RewriteGroup
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob, RewrittenGroup
from lakemeta.iceberg.rewrite.group_runs import Failure, GroupProgress, rewrite_elsewhere, rewrite_here
from lakemeta.iceberg.rewrite.inputs import Inputs, find_inputs
from lakemeta.iceberg.rewrite.options import MAX_COMMITS, PARTIAL, JobOptions
from lakemeta.iceberg.rewrite.planner import REWRITE_DATA_FILES, branch_head
from lakemeta.iceberg.rewrite.row_order import row_order
from lakemeta.iceberg.rewrite.split_combine import packing
from lakemeta.iceberg.rewrite.strays import remove_strays
from lakemeta.iceberg.rewrite.unfinished import Mark, left_behind
from lakemeta.iceberg.rows.row_account import check_group
from lakemeta.iceberg.scan.dangling import dangling_deletes
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.iceberg.write.settings import check_format
from lakemeta.plan import Rewrite
from lakemeta.report import Report

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.environment import Environment
    from lakemeta.events import Progress
    from lakemeta.executor import Executor
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.planner import Place
    from lakemeta.iceberg.scan.splits import Packing
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.plan import Plan

_log = logging.getLogger(__name__)

ENGINE = {"engine-name": "lakemeta", "engine-version": __version__}


_Rewritten = tuple[RewriteGroup, RewrittenGroup]


@attrs.define(eq=False)
class _Done:
    """What has been committed and what has failed so far."""

    groups: list[_Rewritten] = attrs.field(factory=list)
    failed: list[RewriteGroup] = attrs.field(factory=list)
    commits: int = 0
    removed_deletes: int = 0
    snapshot: Snapshot | None = None
    notes: list[str] = attrs.field(factory=list)  # of what failed
    found: list[str] = attrs.field(factory=list)  # of what rewrites before this one have left


def apply_rewrite(
    place: Place,
    plan: Plan,
    executor: Executor | None,
    env: Environment,
    on_progress: Callable[[Progress], None] | None = None,
) -> Report:
    """Apply a plan, or refuse it with nothing changed. ``on_progress`` hears how far the rewriting has come.

    Raises:
        StalePlanError: a file of the plan is no longer in the table, or the table is another one.
        CommitConflictError: another commit came in between and touched the same files; the new files are gone.
        CommitStateUnknownError: nobody can say whether a commit happened; its new files were left alone.
        UnsupportedFeatureError: the table cannot be written by lakemeta.
    """
    job = JobOptions.parse(plan.header.options)
    rewrites = [op for op in plan.operations if isinstance(op, Rewrite)]
    if plan.header.plan != REWRITE_DATA_FILES or len(rewrites) != len(plan.operations):
        raise StalePlanError(f"this is no plan of {REWRITE_DATA_FILES}; make the plan again")
    place.operations.check_writable()
    metadata = place.operations.refresh().metadata
    if plan.header.facts.get("table_uuid") != metadata.table_uuid:
        raise StalePlanError(f"the table at {place.url} is not the one that was planned; make the plan again")
    check_format(metadata.properties, write_parquet=job.write_parquet)
    done = _Done(found=left_behind(place.operations, metadata, executor))
    if rewrites:
        inputs = find_inputs(place, metadata, job, rewrites, executor)
        mark = Mark(place.operations, env.new_uuid(), env.now_ms())
        progress = GroupProgress(inputs.groups, on_progress)
        shares = packing(plan.header.options, metadata)
        _Run(place, job, shares, metadata, inputs, executor, env, done, mark, progress).all()
    return _report(plan, place, done)


@attrs.frozen(eq=False)
class _Run:
    """One application of one plan."""

    place: Place
    job: JobOptions
    packing: Packing
    metadata: TableMetadata
    inputs: Inputs
    executor: Executor | None
    env: Environment
    done: _Done
    mark: Mark  # its uuid is in the names of all new data files
    progress: GroupProgress
    unsettled: dict[int, RewrittenGroup] = attrs.field(factory=dict)  # written, and nobody tried to commit them yet
    reported: list[RewrittenGroup] = attrs.field(factory=list)

    def all(self) -> None:
        """Rewrite, commit as groups get ready, look at the result, and leave no file that is not committed."""
        self.mark.begin()
        try:
            self._rewrite()
            self._check_commits()
            if self.job.remove_dangling_deletes:
                self._remove_dangling()
        except CommitStateUnknownError:
            raise
        except LakemetaError:
            self._clean_up()
            raise
        self.done.notes += self._clean_up()

    def _clean_up(self) -> list[str]:
        """Remove strays, and the mark if none stays; sentences about those that do."""
        strays = self._remove_strays()
        if not strays:
            self.mark.end()
        return strays

    @property
    def _here(self) -> bool:
        """True if groups are rewritten in this process."""
        return self.executor is None or isinstance(self.executor, LocalExecutor)

    def _rewrite(self) -> None:
        waiting: list[_Rewritten] = []
        size = self.job.groups_per_commit(len(self.inputs.groups))
        try:
            with closing(self._rewritten()) as results:
                for group, written in results:
                    result = self._accounted(group, written)
                    if isinstance(result, Failure):
                        self._failed(group, result)
                        continue
                    waiting.append((group, result))
                    if len(waiting) == size:
                        self._commit(waiting)
                        waiting = []
            if waiting:
                self._commit(waiting)
        except (LakemetaError, KeyboardInterrupt):
            self._remove(list(self.unsettled.values()))
            raise

    def _rewritten(self) -> Generator[tuple[RewriteGroup, RewrittenGroup | Failure], None, None]:
        """The groups with what became of them; closing it waits for those under way."""
        order, order_id = row_order(self.metadata, self.job)
        # Workers need the table's shape and not its history, which may be large.
        shape = attrs.evolve(
            self.metadata, snapshots=(), refs={}, current_snapshot_id=None, snapshot_log=(), metadata_log=()
        )
        work = RewriteJob(
            self.place.operations.storage,
            shape,
            self.mark.uuid,
            order,
            order_id,
            packing=self.packing,
            sorts=self.job.strategy == "sort",
            ranges_per_file=self.job.shuffle_partitions_per_file,
        )
        here = self._here
        executor = (
            LocalExecutor(self.job.threads, self.progress.stop) if here or self.executor is None else self.executor
        )
        rewrite: Callable[[Sequence[RewriteGroup]], Iterator[RewrittenGroup | Failure]]
        rewrite = (
            partial(rewrite_here, work, self.unsettled, self.progress) if here else partial(rewrite_elsewhere, work)
        )
        at_once = self.job.max_concurrent if not here else None
        for part in batched(self.inputs.groups, at_once or len(self.inputs.groups)):
            with hearing_of_batches(partial(self._ended, part)):
                results = executor.map_batches(rewrite, part, batch_size=1)
            try:
                for group, result in zip(part, results, strict=True):
                    self.progress.finished(group.group)
                    if isinstance(result, RewrittenGroup):
                        self.unsettled[group.group] = result
                        self.reported.append(result)
                    yield group, result
            finally:
                if isinstance(results, Generator):
                    results.close()

    def _ended(self, part: Sequence[RewriteGroup], number: int) -> None:
        self.progress.finished(part[number].group)

    def _accounted(self, group: RewriteGroup, result: RewrittenGroup | Failure) -> RewrittenGroup | Failure:
        """A group's result, or a failure, with its files removed, if the rows of its files do not add up."""
        if isinstance(result, Failure):
            return result
        try:
            check_group(group.tasks, result.inputs, result.files)
        except CorruptMetadataError as error:
            self._remove([self.unsettled.pop(group.group)])
            return Failure(group.group, error)
        return result

    def _failed(self, group: RewriteGroup, failure: Failure) -> None:
        if not self.job.partial_progress:
            raise failure.error
        _log.warning("group %d was not rewritten: %s", group.group, failure.error)
        self.done.failed.append(group)
        self.done.notes.append(f"group {group.group} was not rewritten: {failure.error}")

    def _commit(self, batch: Sequence[_Rewritten]) -> None:
        """Commit some groups. With partial progress a commit that surely failed is told, and the others go on."""
        for group, _ in batch:
            del self.unsettled[group.group]
        try:
            self.done.snapshot = self._replace(batch)
        except CommitStateUnknownError:
            raise
        except LakemetaError as error:
            self._remove([result for _, result in batch])
            if not self.job.partial_progress:
                raise
            _log.warning("a commit of %d groups failed: %s", len(batch), error)
            self.done.notes.append(f"a commit of {len(batch)} groups failed: {error}")
            return
        self.done.commits += 1
        self.done.groups += batch
        self.done.removed_deletes += len(_vectors(batch))

    def _replace(self, batch: Sequence[_Rewritten]) -> Snapshot | None:
        sequence = self.inputs.head.sequence_number if self.job.use_starting_sequence_number else None
        removed = tuple(task.data_file for group, _ in batch for task in group.tasks)
        update = SnapshotUpdate(
            added=tuple(file for _, result in batch for file in result.files),
            removed=removed,
            removed_deletes=_vectors(batch),
            starting_snapshot_id=self.inputs.head.snapshot_id,
            data_sequence_number=sequence,
            branch=self.job.branch,
            properties=ENGINE,
            hints=frozenset(self.inputs.manifest_of[file.file_path] for file in removed),
        )
        return self._update(lambda _: update)

    def _update(self, update_of: Callable[[TableMetadata], SnapshotUpdate | None]) -> Snapshot | None:
        """Commit the update that a function gives for a version of the table; None is nothing to do."""
        operations = self.place.operations
        taken = operations.current().metadata.snapshots_by_id
        commit_uuid = self.env.new_uuid()
        self.mark.committing(commit_uuid)
        new = NewManifests(operations.metadata_location, commit_uuid, new_snapshot_id(self.env, taken))
        stored = StoredManifests(operations.storage, {}, self.executor)

        def change(base: Base) -> Draft | None:
            stored.specs = base.metadata.specs_by_id
            update = update_of(base.metadata)
            return None if update is None else next_snapshot(update, base, stored, new)

        return commit(operations, change, self.env)

    def _check_commits(self) -> None:
        """Raise if more commits failed than the job allows; groups that were not rewritten make theirs fail."""
        if not self.job.partial_progress:
            return
        failed = min(len(self.inputs.groups), self.job.max_commits) - self.done.commits
        if failed > self.job.max_failed_commits:
            raise LakemetaError(
                f"{PARTIAL} is true but {failed} rewrite commits failed. This is more than the maximum allowed "
                f"failures of {self.job.max_failed_commits}. If this is persistent it may help to increase "
                f"{MAX_COMMITS}; {'; '.join(self.done.notes)}"
            )

    def _remove_dangling(self) -> None:
        """Remove deletes that apply to nothing, in a commit of its own; looked for anew on every attempt."""
        removed: list[DataFile] = []

        def find(metadata: TableMetadata) -> SnapshotUpdate | None:
            head = branch_head(metadata, self.job.branch)
            assert head is not None, "a table that was just rewritten has a snapshot"
            storage = self.place.operations.storage
            deletes = live_deletes(storage, metadata, head, self.executor)
            tasks = scan(storage, metadata, head, self.executor) if deletes else iter(())
            removed[:] = dangling_deletes(tasks, deletes)
            update = SnapshotUpdate(
                removed_deletes=tuple(removed),
                starting_snapshot_id=head.snapshot_id,
                branch=self.job.branch,
                properties=ENGINE,
            )
            return update if removed else None

        try:
            self.done.snapshot = self._update(find) or self.done.snapshot
        except CommitStateUnknownError:
            raise
        except LakemetaError as error:  # the rewrite itself is committed
            self.done.notes.append(f"dangling deletes were not removed: {error}")
            return
        self.done.removed_deletes += len(removed)

    def _remove(self, results: Sequence[RewrittenGroup]) -> None:
        files = [file.file_path for result in results for file in result.files]
        remove_files(data_door(self.place.operations.storage, self.metadata, self.mark.uuid), files)

    def _remove_strays(self) -> list[str]:
        """Remove files of attempts that were lost elsewhere; in this process an attempt removes its own."""
        if self._here:
            return []
        notes = remove_strays(
            self.place.operations.storage,
            self.metadata,
            self.mark.uuid,
            [file.file_path for result in self.reported for file in result.files],
            [file.file_path for _, result in self.done.groups for file in result.files],
            everywhere=len(self.reported) < len(self.inputs.groups),
        )
        for note in notes:
            _log.warning("%s", note)
        return notes


def _vectors(batch: Sequence[_Rewritten]) -> tuple[DataFile, ...]:
    """The deletion vectors of the files that a batch replaces; they go with their files."""
    deletes = (delete for group, _ in batch for task in group.tasks for delete in task.deletes)
    return tuple({file_key(delete): delete for delete in deletes if delete.is_deletion_vector}.values())


def _report(plan: Plan, place: Place, done: _Done) -> Report:
    result: dict[str, Any] = {
        "rewritten_data_files_count": sum(len(group.tasks) for group, _ in done.groups),
        "added_data_files_count": sum(len(result.files) for _, result in done.groups),
        "rewritten_bytes_count": sum(group.bytes for group, _ in done.groups),
        "failed_data_files_count": sum(len(group.tasks) for group in done.failed),
        "removed_delete_files_count": done.removed_deletes,
    }
    committed = None if done.snapshot is None else str(done.snapshot.snapshot_id)
    notes = (*done.found, *done.notes)
    return Report(plan.header.plan, place.url, committed, result=result, notes=notes, partial=bool(done.notes))

"""Applies a plan of rewrite_data_files: looks its inputs up, rewrites its groups and commits them (I/O).

The inputs of a plan are looked up in the newest snapshot, with all deletes that apply to them there, so a plan is stale
only if one of its files is gone (``inputs``). Groups are rewritten on an executor (``group_runs``), and committed as
they get ready (``group_commits``), which finds out what has happened to the table since.
"""

from __future__ import annotations

import logging
from contextlib import closing
from typing import TYPE_CHECKING

from lakemeta.errors import CommitStateUnknownError, LakemetaError
from lakemeta.iceberg.catalogs.doors import data_door
from lakemeta.iceberg.commit.committer import remove_files
from lakemeta.iceberg.rewrite.group_commits import GroupCommits
from lakemeta.iceberg.rewrite.group_rewriter import RewriteJob
from lakemeta.iceberg.rewrite.group_runs import Failure, GroupProgress, GroupRuns
from lakemeta.iceberg.rewrite.inputs import find_inputs
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.outcome import Outcome, files_of
from lakemeta.iceberg.rewrite.planner import REWRITE_DATA_FILES
from lakemeta.iceberg.rewrite.row_order import row_order
from lakemeta.iceberg.rewrite.split_combine import packing
from lakemeta.iceberg.rewrite.strays import remove_strays
from lakemeta.iceberg.rewrite.unfinished import RunMarker, left_behind
from lakemeta.iceberg.service.dangling import remove_dangling
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.iceberg.write.settings import check_format
from lakemeta.plan_operations import Remove, Rewrite

if TYPE_CHECKING:
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.rewrite.groups import RewriteGroup
    from lakemeta.iceberg.rewrite.outcome import Result
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan import Plan
    from lakemeta.report import Report

_log = logging.getLogger(__name__)


def apply_rewrite(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed.

    Raises:
        StalePlanError: a file of the plan is no longer in the table, or the table is another one.
        CommitConflictError: another commit came in between and touched the same files; the new files are gone.
        CommitStateUnknownError: it is unknown whether a commit happened; its new files were left alone.
        UnsupportedFeatureError: the table cannot be written by lakemeta.
    """
    place, plan, executor, env = request.place, request.plan, request.executor, request.env
    job = JobOptions.parse(plan.header.options)
    metadata = open_plan(request, REWRITE_DATA_FILES, (Rewrite, Remove)).metadata
    check_format(metadata.properties, write_parquet=job.write_parquet)
    outcome = Outcome(left_behind=left_behind(place.operations, metadata, executor))
    rewrites = [op for op in plan.operations if isinstance(op, Rewrite)]
    if rewrites:
        inputs = find_inputs(place, metadata, job, rewrites, executor)
        marker = RunMarker(place.operations, env.new_uuid(), env.now_ms(), inputs.head.snapshot_id)
        door = data_door(place.operations.storage, metadata, marker.uuid)
        runs = GroupRuns(
            groups=inputs.groups,
            work=_work(place, plan, job, metadata, marker.uuid),
            job=job,
            executor=executor,
            progress=GroupProgress(inputs.groups, request.on_progress),
            door=door,
        )
        commits = GroupCommits(
            operations=place.operations,
            job=job,
            inputs=inputs,
            executor=executor,
            env=env,
            marker=marker,
            door=door,
            outcome=outcome,
        )
        _rewrite(runs, commits, marker)
    elif job.remove_dangling_deletes:
        outcome.snapshot, removed = remove_dangling(request, job.branch)
        outcome.removed_deletes = len(removed)
    return outcome.report(plan, place.url)


def _work(place: Place, plan: Plan, job: JobOptions, metadata: TableMetadata, uuid: str) -> RewriteJob:
    """What all groups have in common."""
    order, order_id = row_order(metadata, job)
    return RewriteJob(
        place.operations.storage,
        metadata.without_history(),
        uuid,
        order,
        order_id,
        packing=packing(plan.header.options, metadata),
        sorts=job.strategy == "sort",
        ranges_per_file=job.shuffle_partitions_per_file,
    )


def _rewrite(runs: GroupRuns, commits: GroupCommits, marker: RunMarker) -> None:
    """Rewrite, commit as groups get ready, look at the result, and leave no file that is not committed."""
    marker.begin()
    try:
        _commit_as_ready(runs, commits)
        commits.check_failed()
        if commits.job.remove_dangling_deletes:
            commits.remove_dangling()
    except CommitStateUnknownError:
        raise
    except KeyboardInterrupt:
        if not commits.outcome.in_commit:  # else it is unknown whether a snapshot names the new files
            _clean_up(runs, commits.outcome, marker)
        raise
    except LakemetaError:
        _clean_up(runs, commits.outcome, marker)
        raise
    commits.outcome.notes += _clean_up(runs, commits.outcome, marker)


def _commit_as_ready(runs: GroupRuns, commits: GroupCommits) -> None:
    waiting: list[Result] = []
    size = commits.job.groups_per_commit(len(runs.groups))
    try:
        with closing(runs.results()) as results:
            for group, result in results:
                if isinstance(result, Failure):
                    _note_failure(group, result, commits)
                    continue
                waiting.append((group, result))
                if len(waiting) == size:
                    _commit(waiting, runs, commits)
                    waiting = []
        if waiting:
            _commit(waiting, runs, commits)
    except (LakemetaError, KeyboardInterrupt):
        remove_files(runs.door, [file.file_path for file in files_of(runs.unsettled.values())])
        raise


def _commit(batch: list[Result], runs: GroupRuns, commits: GroupCommits) -> None:
    commits.outcome.in_commit = True
    for group, _ in batch:
        del runs.unsettled[group.group]
    commits.commit(batch)
    commits.outcome.in_commit = False


def _note_failure(group: RewriteGroup, failure: Failure, commits: GroupCommits) -> None:
    if not commits.job.partial_progress:
        raise failure.error
    _log.warning("group %d was not rewritten: %s", group.group, failure.error)
    commits.outcome.failed.append(group)
    commits.outcome.notes.append(f"group {group.group} was not rewritten: {failure.error}")


def _clean_up(runs: GroupRuns, outcome: Outcome, marker: RunMarker) -> list[str]:
    """Remove strays, and the marker if none stays; sentences about those that do."""
    strays = _remove_strays(runs, outcome)
    if not strays:
        marker.end()
    return strays


def _remove_strays(runs: GroupRuns, outcome: Outcome) -> list[str]:
    """Remove files of attempts that were lost elsewhere; in this process an attempt removes its own."""
    if not runs.ships:
        return []
    notes = remove_strays(
        runs.work.storage,
        runs.work.metadata,
        runs.work.uuid,
        [file.file_path for file in files_of(runs.reported)],
        [file.file_path for file in outcome.committed_files],
        everywhere=len(runs.reported) < len(runs.groups),
    )
    for note in notes:
        _log.warning("%s", note)
    return notes

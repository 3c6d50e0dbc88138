"""Says whether rewrite-data-files takes a data file, and why (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.filters.strict import all_rows_match
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.planner import planner_of
from lakemeta.iceberg.rewrite.verdict import SENTENCES
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.filters.expressions import Expression
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


def why_rewritten(request: PlanRequest, location: str) -> str:
    """The end of a sentence on a data file. Raises OptionError if the branch does not have it."""
    place, options, where, executor = request.place, request.options, request.where, request.executor
    storage, metadata = place.operations.storage, place.operations.refresh().metadata
    job = JobOptions.parse(options)
    planner = planner_of(options, metadata)
    head = branch_head(metadata, job.branch, "rewrite data files")
    expression = TRUE if where is None else parse_where(where, metadata.schema)
    tasks = [] if head is None else list(scan(storage, metadata, head, executor))
    if head is None or _task(tasks, location) is None:
        raise OptionError(f"{location} is no data file of the branch {job.branch} of {place.url}")
    selected = tasks if where is None else list(scan(storage, metadata, head, executor, expression))
    task = _task(selected, location)
    if task is None:
        return "stays: no row of it can match the filter"
    verdict = planner.judge(metadata, selected, task)
    reason = SENTENCES[verdict.reason].format_map(verdict.numbers)
    if verdict.group is None:
        return f"stays: {reason}"
    matching = "" if where is None else _matching(task.data_file, metadata, expression)
    size = count_of(len(verdict.group.tasks), "file")
    return f"would be rewritten: {reason}{matching}; group {verdict.group.group} has {size}"


def _task(tasks: Sequence[FileScanTask], path: str) -> FileScanTask | None:
    return next((task for task in tasks if task.data_file.file_path == path), None)


def _matching(file: DataFile, metadata: TableMetadata, where: Expression) -> str:
    if all_rows_match(where, metadata.specs_by_id[file.spec_id], metadata.schema)(file):
        return "; all of its rows match the filter"
    return "; some of its rows may not match the filter, and whole files are rewritten"

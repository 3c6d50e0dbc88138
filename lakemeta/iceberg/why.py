"""Says in one sentence whether a rewrite would take one file, and why (I/O: reads the current snapshot)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.filters.strict import all_rows_match
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.planner import planner_of
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.filters.expressions import Expression
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.verdict import Reason
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


_SENTENCES: Final[Mapping[Reason, str]] = {
    "too small": "its {bytes} bytes are below min-file-size-bytes ({least})",
    "too large": "its {bytes} bytes are above max-file-size-bytes ({most})",
    "rewrite all": "rewrite-all is set",
    "many deletes": "{deletes} delete files apply to it",
    "good size": "its {bytes} bytes lie from {least} to {most}, and few deletes apply to it",
    "poor group": (
        "its {bytes} bytes are outside {least} to {most}, but its group has too few files or bytes "
        "(min-input-files is {min_input_files})"
    ),
    "limit reached": "the files that are rewritten before it reach max-files-to-rewrite ({max_files})",
    "cut": "its {bytes} bytes are cut into {bins} bins of target-file-size-bytes ({target})",
    "combined": "its {bytes} bytes are combined with other files in a bin of target-file-size-bytes ({target})",
    "alone in partition": "it is the only file of its partition",
    "alone in bin": "its {bytes} bytes have a bin of target-file-size-bytes ({target}) to themselves",
}


def why(place: Place, file: str, options: Mapping[str, str], where: str | None, executor: Executor) -> str:
    """One sentence on a data or delete file of the current snapshot.

    Raises OptionError if the snapshot has no such file.
    """
    metadata = place.operations.refresh().metadata
    job = JobOptions.parse(options)
    planner = planner_of(options, metadata)
    head = branch_head(metadata, job.branch, "rewrite data files")
    path = file if file.startswith("/") or ":/" in file else f"{metadata.location.rstrip('/')}/{file}"
    if head is None:
        raise OptionError(f"{file} is no file of {place.url}: the table is empty")
    expression = TRUE if where is None else parse_where(where, metadata.schema)
    tasks = list(scan(place.operations.storage, metadata, head, executor))
    if _task(tasks, path) is None:
        return f"{file} {_delete_file(place, metadata, head, path, tasks, executor)}"
    selected = tasks if where is None else list(scan(place.operations.storage, metadata, head, executor, expression))
    task = _task(selected, path)
    if task is None:
        return f"{file} stays: no row of it can match the filter"
    verdict = planner.judge(metadata, selected, task)
    reason = _SENTENCES[verdict.reason].format_map(verdict.numbers)
    if verdict.group is None:
        return f"{file} stays: {reason}"
    matching = "" if where is None else _matching(task.data_file, metadata, expression)
    size = count_of(len(verdict.group.tasks), "file")
    return f"{file} would be rewritten: {reason}{matching}; group {verdict.group.group} has {size}"


def _task(tasks: Sequence[FileScanTask], path: str) -> FileScanTask | None:
    return next((task for task in tasks if task.data_file.file_path == path), None)


def _matching(file: DataFile, metadata: TableMetadata, where: Expression) -> str:
    if all_rows_match(where, metadata.specs_by_id[file.spec_id], metadata.schema)(file):
        return "; all of its rows match the filter"
    return "; some of its rows may not match the filter, and whole files are rewritten"


def _delete_file(
    place: Place,
    metadata: TableMetadata,
    head: Snapshot,
    path: str,
    tasks: list[FileScanTask],
    executor: Executor,
) -> str:
    deletes = live_deletes(place.operations.storage, metadata, head, executor)
    if not any(entry.data_file.file_path == path for entry in deletes):
        raise OptionError(f"{path} is no live file of snapshot {head.snapshot_id}; give a path that the table lists")
    applied = sum(any(delete.file_path == path for delete in task.deletes) for task in tasks)
    if applied:
        return f"stays: it is a delete file that applies to {applied} data files, and goes once none is left"
    return "stays until it ages or remove-dangling-deletes is set: it is a delete file that applies to no data file"

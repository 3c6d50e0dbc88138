"""Says in one sentence whether a rewrite would take one file, and why (I/O: reads the current snapshot)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.filters.strict import all_rows_match
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
from lakemeta.iceberg.rewrite.options import JobOptions
from lakemeta.iceberg.rewrite.planner import branch_head, find_groups
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.executor import Executor
    from lakemeta.iceberg.filters.expressions import Expression
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.planner import Place
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


def why(place: Place, file: str, options: Mapping[str, str], where: str | None, executor: Executor) -> str:
    """One sentence on a data or delete file of the current snapshot.

    Raises OptionError if the snapshot has no such file.
    """
    metadata = place.operations.refresh().metadata
    job = JobOptions.parse(options)
    parsed = RewriteOptions.parse(options, metadata)
    head = branch_head(metadata, job.branch)
    path = file if file.startswith("/") or ":/" in file else f"{metadata.location.rstrip('/')}/{file}"
    if head is None:
        raise OptionError(f"{file} is no file of {place.url}: the table is empty")
    expression = TRUE if where is None else parse_where(where, metadata.schema)
    tasks = list(scan(place.operations.storage, metadata, head, executor))
    task = next((t for t in tasks if t.data_file.file_path == path), None)
    if task is None:
        return f"{file} {_delete_file(place, metadata, head, path, tasks, executor)}"
    selected = scan(place.operations.storage, metadata, head, executor, expression)
    if path not in {t.data_file.file_path for t in selected}:
        return f"{file} stays: no row of it can match the filter"
    for group in find_groups(place, metadata, head, options, expression, executor):
        found = next((t.data_file for t in group.tasks if t.data_file.file_path == path), None)
        if found is not None:
            matching = "" if where is None else _matching(found, metadata, expression)
            size = count_of(len(group.tasks), "file")
            return f"{file} would be rewritten: {_reason(task, parsed)}{matching}; group {group.group} has {size}"
    return f"{file} stays: {_stays(task, parsed)}"


def _matching(file: DataFile, metadata: TableMetadata, where: Expression) -> str:
    if all_rows_match(where, metadata.specs_by_id[file.spec_id], metadata.schema)(file):
        return "; all of its rows match the filter"
    return "; some of its rows may not match the filter, and whole files are rewritten"


def _reason(task: FileScanTask, options: RewriteOptions) -> str:
    least, most = options.min_file_size_bytes, options.max_file_size_bytes
    if task.length < least:
        return f"its {task.length} bytes are below min-file-size-bytes ({least})"
    if task.length > most:
        return f"its {task.length} bytes are above max-file-size-bytes ({most})"
    return "rewrite-all is set" if options.rewrite_all else f"{len(task.deletes)} delete files apply to it"


def _stays(task: FileScanTask, options: RewriteOptions) -> str:
    least, most = options.min_file_size_bytes, options.max_file_size_bytes
    if least <= task.length <= most:
        return f"its {task.length} bytes lie from {least} to {most}, and few deletes apply to it"
    return (
        f"its {task.length} bytes are outside {least} to {most}, but its group has too few files or bytes "
        f"(min-input-files is {options.min_input_files})"
    )


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

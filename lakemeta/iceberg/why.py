"""Says in one sentence what a service would do with one file or snapshot, and why (I/O).

With options of expire-snapshots, of snapshots, and of files that are not live in the current one, expire-snapshots is
asked; otherwise rewrite-data-files.
"""

from __future__ import annotations

import re
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.expire.options import KNOWN
from lakemeta.iceberg.expire.planner import EXPIRE_SNAPSHOTS
from lakemeta.iceberg.expire.why import why_file, why_snapshot
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

    from lakemeta.iceberg.filters.expressions import Expression
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.verdict import Reason
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_SNAPSHOT: Final = re.compile("-?[0-9]{1,19}")

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


def why(request: PlanRequest, what: str) -> str:
    """One sentence on a snapshot, given by its id, or a file.

    Raises OptionError if no snapshot has such a file.
    """
    place, options = request.place, request.options
    metadata = place.operations.refresh().metadata
    if _SNAPSHOT.fullmatch(what):
        request.refuse_where(EXPIRE_SNAPSHOTS)
        return why_snapshot(request, int(what))
    path = what if what.startswith("/") or ":/" in what else f"{metadata.location.rstrip('/')}/{what}"
    if not options.keys().isdisjoint(KNOWN):
        request.refuse_where(EXPIRE_SNAPSHOTS)
        return f"{what} {why_file(request, path)}"
    return _of_rewrite(request, metadata, what, path)


def _of_rewrite(request: PlanRequest, metadata: TableMetadata, file: str, path: str) -> str:
    place, options, where, executor = request.place, request.options, request.where, request.executor
    storage = place.operations.storage
    job = JobOptions.parse(options)
    planner = planner_of(options, metadata)
    head = branch_head(metadata, job.branch, "rewrite data files")
    if head is None:
        raise OptionError(f"{file} is no file of {place.url}: the table is empty")
    expression = TRUE if where is None else parse_where(where, metadata.schema)
    tasks = list(scan(storage, metadata, head, executor))
    if _task(tasks, path) is None:
        is_delete = any(e.data_file.file_path == path for e in live_deletes(storage, metadata, head, executor))
        found = _delete_file(path, tasks) if is_delete else why_file(attrs.evolve(request, options={}), path)
        return f"{file} {found}"
    selected = tasks if where is None else list(scan(storage, metadata, head, executor, expression))
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


def _delete_file(path: str, tasks: list[FileScanTask]) -> str:
    applied = sum(any(delete.file_path == path for delete in task.deletes) for task in tasks)
    if applied:
        return f"stays: it is a delete file that applies to {applied} data files, and goes once none is left"
    return "stays until it ages or remove-dangling-deletes is set: it is a delete file that applies to no data file"

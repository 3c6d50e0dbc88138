"""Converts equality deletes to position deletes or deletion vectors, in batch and without Flink (I/O).

Rules of this module:

1. The rows that an equality delete deletes are looked for in every data file that a reader applies it to: those with a
   smaller data sequence number, of its partition, or of the whole table if its spec is unpartitioned.
2. Rows that are deleted by position already are named once. New deletes get the new snapshot's sequence number; no data
   file is written, so rows keep their ids and the sequence numbers of their last change.
3. All in one commit, whose operation is ``replace`` because it changes no row: readers of a stream pass over it. It is
   tried again after another commit only if all converted files and all data files with new deletes are there still,
   without newer vectors, and if it came on top of what was planned.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta import binpack
from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.iceberg.delete_rewrite.commits import DeleteCommits
from lakemeta.iceberg.delete_rewrite.groups import check_readable, partition_of
from lakemeta.iceberg.delete_rewrite.inputs import applied_tasks
from lakemeta.iceberg.delete_rewrite.jobs import delete_job
from lakemeta.iceberg.delete_rewrite.options import DEFAULT_TARGET_FILE_SIZE, TARGET_FILE_SIZE
from lakemeta.iceberg.delete_rewrite.runs import UnitRuns
from lakemeta.iceberg.delete_rewrite.units import DeleteUnit
from lakemeta.iceberg.filters.expressions import TRUE
from lakemeta.iceberg.filters.sql import parse_where
from lakemeta.iceberg.manifests.entries import FileContent, file_key
from lakemeta.iceberg.rewrite.options import max_concurrent
from lakemeta.iceberg.rewrite.unfinished import RunMarker, left_behind
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.iceberg.service.delete_lines import LiveDeletes, removal
from lakemeta.iceberg.service.option_tables import reject_others
from lakemeta.iceberg.service.plans import header_of, id_of, open_plan, report_of
from lakemeta.iceberg.spec import options as given
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH
from lakemeta.iceberg.write.settings import WRITE_PARQUET, check_format
from lakemeta.plan import Plan
from lakemeta.plan_operations import Remove

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.iceberg.delete_rewrite.groups import PartitionKey
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.report import Report

CONVERT: Final = "convert-equality-deletes"
_WORK: Final = "convert equality deletes"
_UNIT_BYTES: Final = 512 * 1024 * 1024  # of data files that one unit reads, and
_UNIT_FILES: Final = 1_000


@attrs.frozen(slots=True)
class ConvertOptions:
    """``branch`` is an argument; ``max_concurrent`` is how many units are worked on at a time on this machine."""

    branch: str = MAIN_BRANCH
    max_concurrent: int | None = None
    write_parquet: bool = False

    @classmethod
    def parse(cls, options: Mapping[str, str]) -> ConvertOptions:
        """Read the options; raises OptionError for an unknown or impossible one."""
        reject_others(CONVERT, options)
        write_parquet = given.truth(options, WRITE_PARQUET, False)
        return cls(options.get("branch", MAIN_BRANCH), max_concurrent(options), write_parquet)


def plan_convert_equality_deletes(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table: a line for each equality delete file that leaves it.

    ``where`` picks whole delete files, by their partition. The header says how many data files are to be read. Raises
    OptionError for options or a filter that make no sense.
    """
    operations, options = request.place.operations, ConvertOptions.parse(request.options)
    metadata = operations.refresh().metadata
    _check_format(metadata, options)
    head = branch_head(metadata, options.branch, _WORK)
    where = TRUE if request.where is None else parse_where(request.where, metadata.schema)
    found, tasks = [], []
    if head is not None:
        deletes = live_deletes(operations.storage, metadata, head, request.executor, where)
        found = [entry.data_file for entry in deletes if entry.data_file.content == FileContent.EQUALITY_DELETES]
        LiveDeletes.of(deletes, metadata)
        keys = set(map(file_key, found))
        scanned = scan(operations.storage, metadata, head, request.executor) if keys else ()
        tasks = [task for task in scanned if any(file_key(delete) in keys for delete in task.deletes)]
    applied = {file_key(delete) for task in tasks for delete in task.deletes}
    into = "becomes deletion vectors" if metadata.format_version >= 3 else "becomes position deletes"
    facts = {
        "branch": options.branch,
        "snapshot_id": id_of(head),
        "where": request.where,
        "data_files": len(tasks),
        "data_bytes": sum(task.length for task in tasks),
    }
    lines = [removal(f, into if file_key(f) in applied else "applies to no data file", metadata) for f in found]
    return Plan(header_of(request, CONVERT, metadata, head, facts), lines)


def apply_convert_equality_deletes(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed.

    Raises:
        StalePlanError: an equality delete file of the plan is no longer in the table, or the table is another one.
        CommitConflictError: another commit came in between and touched the same files; the new files are gone.
        CommitStateUnknownError: it is unknown whether the commit happened; its new files were left alone.
        CorruptMetadataError: a file is not what the metadata says, or rows would not add up; nothing was committed.
        UnsupportedFeatureError: the table cannot be written by lakemeta, or the keys of the deletes need more memory.
    """
    options = ConvertOptions.parse(request.plan.header.options)
    metadata = open_plan(request, CONVERT, (Remove,)).metadata
    _check_format(metadata, options)
    names = [op.path for op in request.plan.operations if isinstance(op, Remove)]
    notes = left_behind(request.place.operations, metadata, request.executor)
    if not names:
        return _report(request, None, 0, 0, notes)
    head = metadata.branch_head(options.branch)
    if head is None:
        raise StalePlanError(f"the branch {options.branch} of the plan is gone or empty; make the plan again")
    converted = _planned(request, metadata, head, names)
    marker = RunMarker(request.place.operations, request.env.new_uuid(), request.env.now_ms(), head.snapshot_id)
    commits = DeleteCommits(request, marker, head, options.branch, tuple(converted), requires_data=True)
    tasks = applied_tasks(request, metadata, head, set(map(file_key, converted)))
    units = _units(converted, tasks, metadata)
    job = delete_job(request, metadata, marker.uuid)
    runs = UnitRuns(request, job, units, marker, commits.commit, len(units), threads=options.max_concurrent)
    runs.run()
    added = sum(len(written.files) for _, written in runs.committed)
    return _report(request, commits.snapshot, len(converted), added, [*notes, *runs.notes])


def _planned(request: ApplyRequest, metadata: TableMetadata, head: Snapshot, names: Sequence[str]) -> list[DataFile]:
    deletes = live_deletes(request.place.operations.storage, metadata, head, request.executor)
    found = [entry.data_file for entry in LiveDeletes.of(deletes, metadata).named(names)]
    for file in found:
        if file.content != FileContent.EQUALITY_DELETES:
            raise CorruptMetadataError(f"{file.file_path} holds no equality deletes; make the plan again")
        check_readable(file)
    return found


def _units(converted: Sequence[DataFile], tasks: Iterable[FileScanTask], metadata: TableMetadata) -> list[DeleteUnit]:
    """Data files to read together, of one partition each; a unit without data files if there is none at all."""
    keys = {file_key(file): file for file in converted}
    limit = given.whole(metadata.properties, TARGET_FILE_SIZE, DEFAULT_TARGET_FILE_SIZE)
    partitions: dict[PartitionKey, list[FileScanTask]] = {}
    for task in tasks:
        partitions.setdefault(partition_of(task.data_file), []).append(task)
    packed = [
        part
        for files in partitions.values()
        for part in binpack.pack(files, lambda t: t.length, target=_UNIT_BYTES, max_items=_UNIT_FILES)
    ]
    units = []
    for number, part in enumerate(packed or [[]]):
        mine = {file_key(d): keys[file_key(d)] for task in part for d in task.deletes if file_key(d) in keys}
        units.append(DeleteUnit(number, tuple(mine.values()), tuple(part), None, max(1, limit)))
    return units


def _check_format(metadata: TableMetadata, options: ConvertOptions) -> None:
    if metadata.format_version < 3:
        check_format(metadata.properties, write_parquet=options.write_parquet, deletes=True)


def _report(request: ApplyRequest, snapshot: Snapshot | None, converted: int, added: int, notes: list[str]) -> Report:
    result = {"converted_equality_delete_files_count": converted, "added_position_delete_files_count": added}
    return report_of(request, id_of(snapshot), result, notes)

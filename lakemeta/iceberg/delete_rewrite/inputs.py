"""The delete files of a plan, looked up in the newest snapshot with the data files that they apply to (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.delete_rewrite.groups import PartitionKey, check_readable, partition_of
from lakemeta.iceberg.delete_rewrite.units import DeleteUnit, names_rows
from lakemeta.iceberg.manifests.entries import FileKey, file_key
from lakemeta.iceberg.manifests.lines import check_snapshots
from lakemeta.iceberg.manifests.store import read_snapshot
from lakemeta.iceberg.rewrite.inputs import check_transforms
from lakemeta.iceberg.rows.row_account import inputs_by_path
from lakemeta.iceberg.scan.stored_scan import live_deletes, scan
from lakemeta.iceberg.service.delete_lines import LiveDeletes

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.manifests.entries import ManifestEntry
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.plan_operations import Rewrite


def find_units(
    request: ApplyRequest, metadata: TableMetadata, head: Snapshot, groups: Sequence[Rewrite]
) -> list[DeleteUnit]:
    """The groups of a plan as work to do; where vectors are written, the groups of one partition are one unit.

    Two groups may hold deletes of one data file, which gets one vector.

    Raises StalePlanError if a delete file is gone, CorruptMetadataError if the plan cannot have been made by lakemeta,
    or the table's metadata contradicts itself.
    """
    entries = _planned(request, metadata, head, groups)
    if metadata.format_version >= 3:
        merged: dict[PartitionKey, tuple[list[ManifestEntry], int]] = {}
        for found, op in zip(entries, groups, strict=True):
            merged.setdefault(partition_of(found[0].data_file), ([], _limit(op)))[0].extend(found)
        parts = list(merged.values())
    else:
        parts = [(found, _limit(op)) for found, op in zip(entries, groups, strict=True)]
    wanted = {file_key(entry.data_file) for found, _ in parts for entry in found}
    tasks: dict[PartitionKey, list[FileScanTask]] = {}
    for task in applied_tasks(request, metadata, head, wanted):
        tasks.setdefault(partition_of(task.data_file), []).append(task)
    return [_unit(n, found, tasks, limit) for n, (found, limit) in enumerate(parts)]


def _planned(
    request: ApplyRequest, metadata: TableMetadata, head: Snapshot, groups: Sequence[Rewrite]
) -> list[list[ManifestEntry]]:
    storage = request.place.operations.storage
    check_snapshots(read_snapshot(storage, head), head, metadata)
    live = LiveDeletes.of(live_deletes(storage, metadata, head, request.executor), metadata)
    found = iter(live.named([name for op in groups for name in op.inputs]))
    entries = [[next(found) for _ in op.inputs] for op in groups]
    if not all(entries) or len({op.group for op in groups}) < len(groups):
        raise CorruptMetadataError("the plan has two groups of one number, or one of no files; make the plan again")
    for group in entries:
        partitions = {partition_of(entry.data_file) for entry in group}
        if len(partitions) != 1 or not all(names_rows(entry.data_file) for entry in group):
            raise CorruptMetadataError(
                "a group of the plan is not of position deletes of one partition; make the plan again"
            )
    return entries


def applied_tasks(
    request: ApplyRequest, metadata: TableMetadata, head: Snapshot, deletes: AbstractSet[FileKey]
) -> list[FileScanTask]:
    """The data files that a reader applies one of some delete files to, with all that applies to them.

    Raises UnsupportedFeatureError if one is encrypted, or no new deletes may be written for it, CorruptMetadataError if
    the metadata contradicts itself.
    """
    scanned = scan(request.place.operations.storage, metadata, head, request.executor)
    applied = (task for task in scanned if any(file_key(delete) in deletes for delete in task.deletes))
    found = list(inputs_by_path(applied, head.sequence_number).values())
    for task in found:
        for file in (task.data_file, *task.deletes):
            check_readable(file)
    for spec_id in {task.data_file.spec_id for task in found}:
        check_transforms(metadata.specs_by_id[spec_id])
    return found


def _unit(
    number: int, entries: list[ManifestEntry], tasks: Mapping[PartitionKey, list[FileScanTask]], limit: int
) -> DeleteUnit:
    deletes = tuple(entry.data_file for entry in entries)
    keys = frozenset(map(file_key, deletes))
    near = tasks.get(partition_of(deletes[0]), ())
    mine = tuple(task for task in near if any(file_key(delete) in keys for delete in task.deletes))
    sequence = max(entry.sequence_number or 0 for entry in entries)
    return DeleteUnit(number, deletes, mine, sequence, limit)


def _limit(op: Rewrite) -> int:
    return max(1, op.max_output_size or op.bytes)

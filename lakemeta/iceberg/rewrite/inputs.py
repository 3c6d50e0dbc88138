"""The inputs of a plan of rewrite_data_files, looked up in the newest snapshot (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError, StalePlanError, UnsupportedFeatureError
from lakemeta.iceberg.manifests.lines import check_snapshots
from lakemeta.iceberg.manifests.store import read_snapshot
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.rows.row_account import inputs_by_path
from lakemeta.iceberg.scan.stored_scan import scan
from lakemeta.iceberg.service.branches import branch_head
from lakemeta.iceberg.spec.locations import file_key, whole

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.manifests.entries import ManifestEntry, ManifestFile
    from lakemeta.iceberg.rewrite.options import JobOptions
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.plan_operations import Rewrite


@attrs.frozen(eq=False)
class Inputs:
    """The groups of a plan as they are in the newest snapshot, and which manifest each of their files is in."""

    head: Snapshot
    groups: list[RewriteGroup]
    manifest_of: Mapping[str, str]


def find_inputs(
    place: Place, metadata: TableMetadata, job: JobOptions, rewrites: Sequence[Rewrite], executor: Executor | None
) -> Inputs:
    """The groups of a plan, with all deletes that apply to their files now.

    Raises StalePlanError if a file or partition spec is gone, CorruptMetadataError if rows would be lost or doubled.
    """
    named = [whole(metadata.location, path) for op in rewrites for path in op.inputs]
    wanted = set(named)
    if len(wanted) < len(named):
        raise CorruptMetadataError("the plan names a file twice, so its rows would be doubled; make the plan again")
    if len({op.group for op in rewrites}) < len(rewrites) or not all(op.inputs for op in rewrites):
        raise CorruptMetadataError("the plan has two groups of one number, or one of no files; make the plan again")
    spellings = {file_key(path): path for path in wanted}
    manifest_of: dict[str, str] = {}

    def keep(manifest: ManifestFile, entry: ManifestEntry) -> bool:
        path = entry.data_file.file_path
        if entry.is_live and spellings.get(file_key(path), path) != path:
            raise CorruptMetadataError(
                f"{path} and {spellings[file_key(path)]} are one file, which is listed twice among the live files, so "
                f"its rows count twice; nothing was rewritten"
            )
        found = entry.is_live and path in wanted
        if found:
            manifest_of[path] = manifest.manifest_path
        return found

    head = branch_head(metadata, job.branch, "rewrite data files")
    storage = place.operations.storage
    found: Iterable[FileScanTask] = ()
    if head is not None:
        manifests = read_snapshot(storage, head)
        check_snapshots(manifests, head, metadata)
        found = scan(storage, metadata, head, executor, keep=keep, manifests=manifests)
    tasks = inputs_by_path(found, head.sequence_number if head else 0)
    missing = sorted(wanted - tasks.keys())
    if head is None or missing:
        raise StalePlanError(
            f"{len(missing)} of the {len(wanted)} planned files are no longer in the table, the first of them "
            f"{missing[0]}; make the plan again"
        )
    unknown = sorted({op.spec_id for op in rewrites} - metadata.specs_by_id.keys())
    if unknown:
        raise StalePlanError(f"the table no longer has partition spec {unknown[0]} of the plan; make the plan again")
    for op in rewrites:
        check_transforms(metadata.specs_by_id[op.spec_id])
    return Inputs(head, [_group(op, metadata, tasks) for op in rewrites], manifest_of)


def check_transforms(spec: PartitionSpec) -> None:
    """Raise UnsupportedFeatureError for a partition spec in which no new files may be written."""
    strange = [field for field in spec.fields if not field.transform.is_known]
    if strange:
        raise UnsupportedFeatureError(
            f"partition field {strange[0].name} has the transform {str(strange[0].transform)!r:.100}, which is not "
            "known; use a newer lakemeta for this table"
        )


def _group(op: Rewrite, metadata: TableMetadata, tasks: dict[str, FileScanTask]) -> RewriteGroup:
    found = [tasks[whole(metadata.location, path)] for path in op.inputs]
    return RewriteGroup(
        group=op.group,
        partition=found[0].data_file.partition,
        spec_id=op.spec_id,
        tasks=tuple(found),
        bytes=op.bytes,
        split_size=op.split_size or op.bytes,
        expected_outputs=op.expected_outputs,
        max_output_size=op.max_output_size or op.bytes,
    )

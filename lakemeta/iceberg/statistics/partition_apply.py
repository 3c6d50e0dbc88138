"""Applies a plan of compute_partition_stats: counts from manifests, a file, one change of metadata (I/O).

Rules of this module:

1. No data file is read. Manifests are those of the snapshot, or with statistics of an ancestor those that the snapshots
   since have added.
2. What an ancestor's file gives must agree with the manifest list: as many data and delete files as live in the
   snapshot, and no count below zero. A file that is damaged, or does not agree, is left aside, and all is counted anew.
3. The new file is read again before the commit, and must hold the rows that were counted.
"""

from __future__ import annotations

import logging
from itertools import chain
from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, LakemetaError
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.service.plans import open_plan, report_of
from lakemeta.iceberg.spec.locations import store_path
from lakemeta.iceberg.spec.table_metadata import StatisticsFile
from lakemeta.iceberg.statistics.commit import commit_statistics, planned_snapshot
from lakemeta.iceberg.statistics.partition_counts import COUNTS, PartitionRow, count, files, in_order, merged
from lakemeta.iceberg.statistics.partition_file import read_rows, write_rows
from lakemeta.iceberg.statistics.partition_type import UnifiedPartition
from lakemeta.iceberg.statistics.planner import PARTITION_STATS, nearest_statistics
from lakemeta.plan_operations import WriteStatistics

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.report import Report
    from lakemeta.storage.contract import Storage

_log = logging.getLogger(__name__)


def apply_partition_stats(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed; the report names the file of the snapshot's statistics.

    Raises:
        StalePlanError: the snapshot has expired, or the table is another one.
        CommitConflictError: the snapshot expired in between; the new file is gone.
        CommitStateUnknownError: it is unknown whether the commit happened; the new file was left alone.
        CorruptMetadataError: a manifest is damaged.
        UnsupportedFeatureError: the table cannot be written by lakemeta.
    """
    metadata = open_plan(request, PARTITION_STATS, (WriteStatistics,)).metadata
    snapshot = planned_snapshot(request, metadata, "partition")
    if snapshot is None:
        return _report(request, None)
    nearest = nearest_statistics(metadata.partition_statistics, metadata, snapshot)
    if nearest is not None and nearest.snapshot_id == snapshot.snapshot_id:
        return _report(request, nearest)
    work = _Counting(request, metadata, snapshot)
    rows = work.incremental(nearest) if nearest is not None else None
    rows = in_order(work.full() if rows is None else rows)
    if not rows:
        return _report(request, None)
    data = write_rows(rows, work.unified.struct, metadata.format_version)
    location = request.place.operations.metadata_location(
        f"partition-stats-{snapshot.snapshot_id}-{request.env.new_uuid()}.parquet"
    )
    if repr(read_rows(data, work.unified.struct, location)) != repr(rows):  # which a NaN equals
        raise CorruptMetadataError(f"{location} would not have held the statistics counted; nothing was committed")
    file = StatisticsFile(snapshot.snapshot_id, location, len(data))
    commit_statistics(request, data, partition=file)
    return _report(request, file, is_new=True)


class _Counting:
    """Counts the partitions of one snapshot."""

    def __init__(self, request: ApplyRequest, metadata: TableMetadata, snapshot: Snapshot) -> None:
        self._storage: Storage = request.place.operations.storage
        self._metadata, self._snapshot = metadata, snapshot
        self._stored = StoredManifests(self._storage, metadata.specs_by_id, request.executor)
        self.unified = UnifiedPartition.of(metadata)

    def full(self) -> list[PartitionRow]:
        """From all manifests of the snapshot."""
        return self._count(self._stored.of(self._snapshot), incremental=False)

    def incremental(self, nearest: StatisticsFile) -> list[PartitionRow] | None:
        """From an ancestor's statistics and the manifests added since; None if these statistics are no good."""
        path = store_path(self._storage.scheme, nearest.statistics_path)
        try:
            old = read_rows(self._storage.read(path), self.unified.struct, path)
        except LakemetaError as error:
            _log.warning("statistics are counted anew, as those of an ancestor cannot be read: %s", error)
            return None
        since: list[Snapshot] = []
        for ancestor in self._metadata.ancestors(self._snapshot.snapshot_id):
            if ancestor.snapshot_id == nearest.snapshot_id:
                break
            since.append(ancestor)
        added = [m for s in since for m in self._stored.of(s) if m.added_snapshot_id == s.snapshot_id]
        rows = merged(old, self._count(added, incremental=True))
        if not self._agrees(rows):
            _log.warning("statistics are counted anew, as those of %s do not agree with the manifest list", path)
            return None
        return rows

    def _count(self, manifests: Sequence[ManifestFile], *, incremental: bool) -> list[PartitionRow]:
        entries = chain.from_iterable(self._stored.stream(manifests, frozenset()))
        return count(entries, self.unified, self._metadata.snapshots_by_id, incremental=incremental)

    def _agrees(self, rows: Sequence[PartitionRow]) -> bool:
        live = [0, 0]
        for manifest in self._stored.of(self._snapshot):
            if manifest.added_files_count is None or manifest.existing_files_count is None:
                return False
            live[manifest.content] += manifest.added_files_count + manifest.existing_files_count
        return files(rows) == tuple(live) and all(getattr(row, name) >= 0 for row in rows for name in COUNTS)


def _report(request: ApplyRequest, file: StatisticsFile | None, *, is_new: bool = False) -> Report:
    result = {"partition_statistics_file": None if file is None else file.statistics_path}
    return report_of(request, file.snapshot_id if file is not None and is_new else None, result)

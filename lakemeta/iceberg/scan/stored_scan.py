"""Scans of stored snapshots: manifests are read ahead, in parallel (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.iceberg.filters.expressions import TRUE, Expression
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.scan.dangling import dangling_deletes
from lakemeta.iceberg.scan.file_tasks import PartitionFilters, plan_files

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.manifests.entries import ManifestEntry, ManifestFile
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.storage import Storage


def scan(
    storage: Storage,
    metadata: TableMetadata,
    snapshot: Snapshot,
    executor: Executor | None = None,
    where: Expression = TRUE,
    keep: Callable[[ManifestFile, ManifestEntry], bool] | None = None,
    manifests: Sequence[ManifestFile] | None = None,
) -> Iterator[FileScanTask]:
    """The files of a snapshot that may hold rows matching ``where``, with their deletes, in manifest-list order.

    ``keep`` sees every entry of data manifests as it comes by, and drops it by returning False. ``manifests`` are the
    snapshot's, where its manifest list has been read.
    """
    stored = StoredManifests(storage, metadata.specs_by_id, executor)

    def read(manifests: Sequence[ManifestFile], metrics: frozenset[int] | None) -> Iterator[Sequence[ManifestEntry]]:
        for manifest, entries in zip(manifests, stored.stream(manifests, metrics), strict=True):
            if keep is None or manifest.is_deletes:
                yield entries
            else:
                yield [entry for entry in entries if keep(manifest, entry)]

    return plan_files(metadata, stored.of(snapshot) if manifests is None else manifests, read, where)


def live_deletes(
    storage: Storage,
    metadata: TableMetadata,
    snapshot: Snapshot,
    executor: Executor | None = None,
    where: Expression = TRUE,
) -> list[ManifestEntry]:
    """The live delete files of a snapshot, in manifest-list order, in partitions that may hold rows matching ``where``.

    They come without metrics, and name the one data file they are about if they are about one.
    """
    stored, filters = StoredManifests(storage, metadata.specs_by_id, executor), PartitionFilters(metadata, where)
    listed = [m for m in stored.of(snapshot) if m.is_deletes and filters.may_match(m)]
    found: list[ManifestEntry] = []
    for manifest, entries in zip(listed, stored.stream(listed, frozenset()), strict=True):
        wanted = filters.in_partition(manifest.partition_spec_id)
        found += [entry for entry in entries if entry.is_live and wanted(entry.data_file)]
    return found


def find_dangling(
    storage: Storage, metadata: TableMetadata, snapshot: Snapshot, executor: Executor | None = None
) -> list[ManifestEntry]:
    """The live delete files of a snapshot that apply to none of its data files, in manifest-list order."""
    deletes = live_deletes(storage, metadata, snapshot, executor)
    return dangling_deletes(scan(storage, metadata, snapshot, executor), deletes) if deletes else []

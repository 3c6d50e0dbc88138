"""Scans of stored snapshots: manifests are read ahead in parallel, in the order in which planning wants them (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.iceberg.evaluators import manifest_may_match, project
from lakemeta.iceberg.expressions import TRUE, Expression
from lakemeta.iceberg.scan import plan_files
from lakemeta.iceberg.stored_manifests import StoredManifests

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.manifest import ManifestEntry, ManifestFile
    from lakemeta.iceberg.metadata import Snapshot, TableMetadata
    from lakemeta.iceberg.scan import FileScanTask
    from lakemeta.storage import Storage


def scan(
    storage: Storage,
    metadata: TableMetadata,
    snapshot: Snapshot,
    executor: Executor | None = None,
    where: Expression = TRUE,
    keep: Callable[[ManifestFile, ManifestEntry], bool] | None = None,
) -> Iterator[FileScanTask]:
    """The files of a snapshot that may hold rows matching ``where``, with their deletes, in manifest-list order.

    ``keep`` sees every entry as it comes by, and drops it by returning False.
    """
    stored = StoredManifests(storage, metadata.specs_by_id, executor)
    listed = [m for m in stored.of(snapshot) if m.may_have_live_files and _may_match(m, metadata, where)]
    ordered = sorted(listed, key=lambda m: not m.is_deletes)
    entries = stored.stream(ordered)

    def read(manifest: ManifestFile, metrics: frozenset[int] | None) -> Iterable[ManifestEntry]:  # noqa: ARG001
        found = next(entries)
        return found if keep is None else [entry for entry in found if keep(manifest, entry)]

    return plan_files(metadata, ordered, read, where)


def live_deletes(
    storage: Storage, metadata: TableMetadata, snapshot: Snapshot, executor: Executor | None = None
) -> list[ManifestEntry]:
    """The live delete files of a snapshot."""
    stored = StoredManifests(storage, metadata.specs_by_id, executor)
    listed: Sequence[ManifestFile] = [m for m in stored.of(snapshot) if m.is_deletes and m.may_have_live_files]
    return [entry for entries in stored.stream(listed) for entry in entries if entry.is_live]


def _may_match(manifest: ManifestFile, metadata: TableMetadata, where: Expression) -> bool:
    spec = metadata.specs_by_id.get(manifest.partition_spec_id)
    # A manifest of an unknown spec goes on, for the scan to refuse it by name.
    return spec is None or manifest_may_match(project(where, spec, metadata.schema), spec, manifest.partitions)

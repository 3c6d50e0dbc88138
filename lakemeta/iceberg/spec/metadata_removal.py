"""Table metadata without some snapshots, refs, schemas and partition specs (Iceberg's TableMetadata.Builder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec.metadata_update import metadata_log_after

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.spec.table_metadata import SnapshotLogEntry, TableMetadata


@attrs.frozen
class Removal:
    """What a version of a table loses, by ids and names."""

    snapshots: frozenset[int] = frozenset()
    refs: frozenset[str] = frozenset()
    schemas: frozenset[int] = frozenset()
    specs: frozenset[int] = frozenset()


def remove(metadata: TableMetadata, location: str, removal: Removal, now_ms: int) -> TableMetadata:
    """The metadata after a removal at ``now_ms``; ``location`` is the file it is based on.

    Statistics of removed snapshots go with them, and the snapshot log loses everything up to the last of them: it would
    say that the snapshot before was the current one all the time. Raises CorruptMetadataError if a ref would name a
    snapshot that is gone, or the log would not end in the current snapshot.
    """
    refs = {name: ref for name, ref in metadata.refs.items() if name not in removal.refs}
    dangling = [name for name, ref in refs.items() if ref.snapshot_id in removal.snapshots]
    if dangling or metadata.current_snapshot_id in removal.snapshots:
        raise CorruptMetadataError(f"the ref {dangling[0] if dangling else 'main'} names a snapshot that was to go")
    return attrs.evolve(
        metadata,
        last_updated_ms=now_ms,
        schemas=tuple(s for s in metadata.schemas if s.schema_id not in removal.schemas),
        partition_specs=tuple(s for s in metadata.partition_specs if s.spec_id not in removal.specs),
        snapshots=tuple(s for s in metadata.snapshots if s.snapshot_id not in removal.snapshots),
        refs=refs,
        snapshot_log=_log(metadata, removal.snapshots),
        metadata_log=metadata_log_after(metadata, location),
        statistics=tuple(s for s in metadata.statistics if s.snapshot_id not in removal.snapshots),
        partition_statistics=tuple(s for s in metadata.partition_statistics if s.snapshot_id not in removal.snapshots),
    )


def _log(metadata: TableMetadata, gone: AbstractSet[int]) -> tuple[SnapshotLogEntry, ...]:
    if not gone:
        return metadata.snapshot_log
    known = metadata.snapshots_by_id.keys() - gone
    last = max((n for n, entry in enumerate(metadata.snapshot_log) if entry.snapshot_id not in known), default=-1)
    left = metadata.snapshot_log[last + 1 :]
    current = metadata.current_snapshot_id
    if metadata.snapshot_log and current is not None and (not left or left[-1].snapshot_id != current):
        raise CorruptMetadataError(
            "Cannot set invalid snapshot log: latest entry is not the current snapshot; nothing was changed, let an "
            "engine commit to the table first"
        )
    return left

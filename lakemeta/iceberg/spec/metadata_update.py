"""Table metadata with one snapshot more, or other statistics (Iceberg's TableMetadata.Builder)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.spec.properties import int_property
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH, MetadataLogEntry, SnapshotLogEntry, SnapshotRef

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.spec.table_metadata import Snapshot, StatisticsFile, TableMetadata


def add_snapshot(metadata: TableMetadata, location: str, snapshot: Snapshot, branch: str) -> TableMetadata:
    """The metadata after ``snapshot`` became the head of ``branch``.

    ``location`` is the file it is based on.

    The snapshot log follows the main branch only, the metadata log holds at most
    ``write.metadata.previous-versions-max`` files, and rows that a version 3 snapshot gave ids to move
    ``next-row-id``. Raises OptionError if ``branch`` is a tag.
    """
    ref = metadata.refs.get(branch)
    if ref is not None and not ref.is_branch:
        raise OptionError(f"{branch} is a tag, not a branch; name a branch")
    on_main = branch == MAIN_BRANCH
    log = (SnapshotLogEntry(snapshot.timestamp_ms, snapshot.snapshot_id),) if on_main else ()
    head = attrs.evolve(ref, snapshot_id=snapshot.snapshot_id) if ref else SnapshotRef(snapshot.snapshot_id, "branch")
    return attrs.evolve(
        metadata,
        last_updated_ms=snapshot.timestamp_ms,
        last_sequence_number=snapshot.sequence_number,
        current_snapshot_id=snapshot.snapshot_id if on_main else metadata.current_snapshot_id,
        snapshots=(*metadata.snapshots, snapshot),
        refs={**metadata.refs, branch: head},
        snapshot_log=(*metadata.snapshot_log, *log),
        metadata_log=metadata_log_after(metadata, location),
        next_row_id=None if metadata.next_row_id is None else metadata.next_row_id + (snapshot.added_rows or 0),
    )


def set_statistics(
    metadata: TableMetadata,
    location: str,
    now_ms: int,
    *,
    table: StatisticsFile | None = None,
    partition: StatisticsFile | None = None,
) -> TableMetadata:
    """The metadata with a file of table or partition statistics in place of what its snapshot had of that kind.

    ``location`` is the file it is based on.
    """
    return attrs.evolve(
        metadata,
        last_updated_ms=now_ms,
        metadata_log=metadata_log_after(metadata, location),
        statistics=_replaced(metadata.statistics, table),
        partition_statistics=_replaced(metadata.partition_statistics, partition),
    )


def _replaced(files: tuple[StatisticsFile, ...], new: StatisticsFile | None) -> tuple[StatisticsFile, ...]:
    if new is None:
        return files
    return (*(file for file in files if file.snapshot_id != new.snapshot_id), new)


def metadata_log_after(metadata: TableMetadata, location: str) -> tuple[MetadataLogEntry, ...]:
    """The metadata log of the version after ``metadata``, which was read from ``location``."""
    entry = MetadataLogEntry(metadata.last_updated_ms, location)
    return (*metadata.metadata_log, entry)[-_previous_versions_max(metadata.properties) :]


def _previous_versions_max(properties: Mapping[str, str]) -> int:
    return max(1, int_property(properties, "write.metadata.previous-versions-max", 100))

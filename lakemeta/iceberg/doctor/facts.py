"""What an Iceberg table is and how healthy it is (I/O: all manifests of the current snapshot, and some footers)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import attrs

from lakemeta.iceberg.doctor.footers import look_into_footers
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.rewrite.bin_pack import RewriteOptions
from lakemeta.words import facts_html

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

_MOST_FOOTERS: Final = 100  # doctor reads them all


@attrs.frozen
class IcebergFacts:
    """The facts of one table; sizes are bytes, times are ms since the epoch.

    ``small_files`` are data files below the size at which a rewrite with default options would leave them alone.
    ``footers_read`` says into how many Parquet files it was looked: at most 100 of those that lakemeta wrote, or that
    came with a snapshot that is no longer known. ``lost_rows`` are rows of these that parquet-java never reads.
    """

    location: str
    uuid: str | None
    format_version: int
    metadata_file: str
    partition_by: tuple[str, ...]
    sort_order: tuple[str, ...]
    snapshots: int
    branches: tuple[str, ...]
    tags: tuple[str, ...]
    current_snapshot_id: int | None
    last_updated_ms: int
    data_manifests: int
    delete_manifests: int
    data_files: int
    records: int
    bytes: int
    small_files: int
    small_bytes: int
    position_delete_files: int
    deletion_vectors: int
    equality_delete_files: int
    footers_read: int
    files_with_lost_rows: int
    lost_rows: int

    def to_json(self) -> dict[str, Any]:
        """The facts as a JSON object."""
        return attrs.asdict(self)

    def _repr_html_(self) -> str:
        return facts_html(self.location, self.to_json())


def inspect(place: Place, executor: Executor) -> IcebergFacts:
    """Load the newest metadata and read the manifests of the current snapshot."""
    loaded = place.operations.refresh()
    metadata, head = loaded.metadata, loaded.metadata.current_snapshot
    stored = StoredManifests(place.operations.storage, metadata.specs_by_id, executor)
    manifests = stored.of(head) if head else ()
    entries = (entry for part in stored.stream(manifests) for entry in part if entry.is_live)
    suspects = _Suspects(metadata)
    counts = _counts(suspects.met(entries), RewriteOptions.parse({}, metadata).min_file_size_bytes)
    looks = list(look_into_footers(place.operations.storage, suspects.files, executor))
    return IcebergFacts(
        location=metadata.location,
        uuid=metadata.table_uuid,
        format_version=metadata.format_version,
        metadata_file=loaded.location,
        partition_by=tuple(f"{f.transform}({f.name})" for f in metadata.spec.fields),
        sort_order=tuple(_sort_fields(metadata)),
        snapshots=len(metadata.snapshots),
        branches=tuple(sorted(name for name, ref in metadata.refs.items() if ref.is_branch)),
        tags=tuple(sorted(name for name, ref in metadata.refs.items() if not ref.is_branch)),
        current_snapshot_id=metadata.current_snapshot_id,
        last_updated_ms=metadata.last_updated_ms,
        data_manifests=sum(not m.is_deletes for m in manifests),
        delete_manifests=sum(m.is_deletes for m in manifests),
        footers_read=sum(look.problem is None for look in looks),
        files_with_lost_rows=sum(look.lost > 0 for look in looks),
        lost_rows=sum(look.lost for look in looks),
        **counts,
    )


class _Suspects:
    """Remembers the first few of the data files that lakemeta may have written, as they pass."""

    def __init__(self, metadata: TableMetadata) -> None:
        self._others = {s.snapshot_id for s in metadata.snapshots if s.summary.get("engine-name") != "lakemeta"}
        self.files: list[DataFile] = []

    def met(self, entries: Iterable[ManifestEntry]) -> Iterator[DataFile]:
        """The files of live entries."""
        for entry in entries:
            suspect = entry.data_file.content == FileContent.DATA and entry.snapshot_id not in self._others
            if suspect and len(self.files) < _MOST_FOOTERS:
                self.files.append(entry.data_file)
            yield entry.data_file


def _counts(files: Iterator[DataFile], small: int) -> Mapping[str, int]:
    names = ("data_files", "records", "bytes", "small_files", "small_bytes")
    counts = dict.fromkeys((*names, "position_delete_files", "deletion_vectors", "equality_delete_files"), 0)
    for file in files:
        if file.content == FileContent.EQUALITY_DELETES:
            counts["equality_delete_files"] += 1
        elif file.content == FileContent.POSITION_DELETES:
            counts["deletion_vectors" if file.is_deletion_vector else "position_delete_files"] += 1
        else:
            size = file.file_size_in_bytes
            below = size < small
            for name, number in zip(names, (1, file.record_count, size, below, size * below), strict=True):
                counts[name] += number
    return counts


def _sort_fields(metadata: TableMetadata) -> Iterator[str]:
    for field in metadata.sort_order.fields:
        name = metadata.schema.names.get(field.source_id, f"field {field.source_id}")
        column = name if str(field.transform) == "identity" else f"{field.transform}({name})"
        yield f"{column} {field.direction} {field.null_order}"

"""Planning which files of a snapshot a job reads, with the deletes that apply to each. Reading is the caller's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.filters.expressions import TRUE, Expression, field_ids
from lakemeta.iceberg.filters.inclusive import file_may_match, manifest_may_match, partition_filter, project
from lakemeta.iceberg.scan.delete_index import DeleteFileIndex

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.iceberg.manifests.entries import DataFile, ManifestEntry, ManifestFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


@attrs.frozen(slots=True, weakref_slot=False, hash=False)
class FileScanTask:
    """One live data file, its data sequence number, and the delete files that apply to it."""

    data_file: DataFile
    sequence_number: int
    deletes: tuple[DataFile, ...] = ()

    @property
    def length(self) -> int:
        """Size of the data file in bytes."""
        return self.data_file.file_size_in_bytes


class ReadManifests(Protocol):
    """Gives the entries of each of some manifests, in order, with what they inherit."""

    def __call__(
        self, manifests: Sequence[ManifestFile], metrics: frozenset[int] | None
    ) -> Iterable[Iterable[ManifestEntry]]:
        """Everything if ``metrics`` is None (``codec.read_manifest``), else what planning needs of files.

        That is, of data files, with metrics of those columns (``fast_reader.scan_manifest``); of delete files
        (``delete_entries.scan_delete_manifest``).
        """
        ...


def plan_files(
    metadata: TableMetadata,
    manifests: Iterable[ManifestFile],
    read: ReadManifests,
    where: Expression = TRUE,
) -> Iterator[FileScanTask]:
    """The live data files of a snapshot that may hold rows matching ``where``, in manifest-list order.

    ``manifests`` is the snapshot's manifest list. Delete manifests are read first, then data manifests one by
    one, so that memory holds all delete files and the manifests that ``read`` reads ahead. Those that have no live
    files by their counts are read like the others: a wrong count would lose rows, or bring deleted ones back.
    """
    filters = PartitionFilters(metadata, where)
    matching = [m for m in manifests if filters.may_match(m)]
    deletes = [m for m in matching if m.is_deletes]
    index = DeleteFileIndex(metadata, (e for entries in read(deletes, frozenset()) for e in entries if e.is_live))
    data = [m for m in matching if not m.is_deletes]
    for manifest, entries in zip(data, read(data, field_ids(where) | index.equality_ids), strict=True):
        wanted = filters.test(manifest.partition_spec_id)
        yield from (_task(entry, index) for entry in entries if entry.is_live and wanted(entry.data_file))


class PartitionFilters:
    """A row filter projected on each partition spec, once."""

    def __init__(self, metadata: TableMetadata, where: Expression) -> None:
        self.metadata, self.where = metadata, where
        self.projected: dict[int, Expression] = {}

    def may_match(self, manifest: ManifestFile) -> bool:
        """False if the manifest's partition summaries rule out every file."""
        spec_id = manifest.partition_spec_id
        spec = self.metadata.specs_by_id.get(spec_id)
        if spec is None:
            raise CorruptMetadataError(f"{manifest.manifest_path} is of spec {spec_id}, which the table does not have")
        if spec_id not in self.projected:
            self.projected[spec_id] = project(self.where, spec, self.metadata.schema)
        return manifest_may_match(self.projected[spec_id], spec, manifest.partitions)

    def test(self, spec_id: int) -> Callable[[DataFile], bool]:
        """A test of the data files of one spec: their partition, then their metrics."""
        where, in_partition = self.where, self.in_partition(spec_id)
        return in_partition if where == TRUE else lambda file: in_partition(file) and file_may_match(where, file)

    def in_partition(self, spec_id: int) -> Callable[[DataFile], bool]:
        """A test of the files of one spec, of which ``may_match`` has seen a manifest: their partition alone."""
        if self.where == TRUE:
            return lambda _: True
        holds = partition_filter(self.projected[spec_id], self.metadata.specs_by_id[spec_id], null_is_least=True)
        return lambda file: holds(file.partition)


def _task(entry: ManifestEntry, index: DeleteFileIndex) -> FileScanTask:
    sequence = entry.sequence_number
    if sequence is None:
        raise CorruptMetadataError(f"{entry.data_file.file_path} has no data sequence number in its manifest")
    return FileScanTask(entry.data_file, sequence, index.for_file(sequence, entry.data_file))

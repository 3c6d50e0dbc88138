"""Reading manifest lists and manifests from a table's store, many at once (I/O)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, TypeVar

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.executor import Executor, LocalExecutor, nearby
from lakemeta.iceberg.manifests.codec import read_manifest, read_manifest_list
from lakemeta.iceberg.manifests.delete_entries import scan_delete_manifest
from lakemeta.iceberg.manifests.entries import EntryColumns
from lakemeta.iceberg.manifests.entry_writer import EntryLayout
from lakemeta.iceberg.manifests.fast_reader import scan_manifest
from lakemeta.iceberg.manifests.lines import check_entries, checked_lines
from lakemeta.iceberg.manifests.raw_copy import live_to_move, read_columns, read_to_move
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.manifests.entries import FileContent, ManifestEntry, ManifestFile
    from lakemeta.iceberg.manifests.list_reader import ManifestLists
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.storage.contract import Storage

T = TypeVar("T")

BATCH_SIZE = 4
_FEW = 16  # manifests, and
_SMALL = 2**20  # bytes, which threads have read before a cluster has begun


class StoredManifests:
    """Remembers what it read: for one plan or one commit with all its attempts.

    A manifest with other entries than its line in the manifest list says raises CorruptMetadataError.
    """

    def __init__(self, storage: Storage, specs: Mapping[int, PartitionSpec], executor: Executor | None = None) -> None:
        """``specs`` are the table's partition specs by id."""
        self.specs = specs
        self._storage = storage
        self._executor = executor or LocalExecutor()
        self._lists: dict[int, tuple[ManifestFile, ...]] = {}
        self._entries: dict[str, tuple[ManifestEntry, ...]] = {}
        self._moving: dict[tuple[str, str], tuple[ManifestEntry, ...]] = {}

    def of(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in list order."""
        if snapshot.snapshot_id not in self._lists:
            self._lists[snapshot.snapshot_id] = read_snapshot(self._storage, snapshot)
        return self._lists[snapshot.snapshot_id]

    def holding(
        self, manifests: Sequence[ManifestFile], paths: AbstractSet[str] | None = None
    ) -> Sequence[ManifestFile]:
        """Those of some manifests that hold a live file, with one of these paths if any are given."""

        def wanted(entry: ManifestEntry) -> bool:
            return entry.is_live and (paths is None or entry.data_file.file_path in paths)

        read = zip(manifests, self.stream(manifests, frozenset()), strict=True)
        return [manifest for manifest, entries in read if any(map(wanted, entries))]

    def entries(self, manifests: Sequence[ManifestFile]) -> Sequence[Sequence[ManifestEntry]]:
        """All entries of each manifest, in file order, with what they inherit filled in."""
        missing = [m for m in manifests if m.manifest_path not in self._entries]
        for manifest, entries in zip(missing, self.stream(missing), strict=True):
            self._entries[manifest.manifest_path] = entries
        return [self._entries[m.manifest_path] for m in manifests]

    def to_move(self, manifests: Sequence[ManifestFile], metadata: TableMetadata) -> Sequence[Sequence[ManifestEntry]]:
        """As ``entries``, to be written into new manifests of this version of the table (``raw_copy``)."""
        layouts = {m.partition_spec_id: EntryLayout.of(metadata, m.partition_spec_id).canonical for m in manifests}
        keys = [(m.manifest_path, layouts[m.partition_spec_id]) for m in manifests]
        missing = {key: m for key, m in zip(keys, manifests, strict=True) if key not in self._moving}
        read = partial(_read_to_move, self._storage, self.specs, layouts)
        self._moving.update(zip(missing, self._spread(read, missing.values()), strict=True))
        return [self._moving[key] for key in keys]

    def live_to_move(self, manifests: Sequence[ManifestFile], metadata: TableMetadata) -> Iterator[EntryColumns]:
        """The live entries of each manifest, to be written into new ones of this version of the table."""
        layouts = {m.partition_spec_id: EntryLayout.of(metadata, m.partition_spec_id) for m in manifests}
        return self._spread(partial(_read_live, self._storage, self.specs, layouts), manifests)

    def columns(self, manifests: Collection[ManifestFile]) -> Iterator[EntryColumns]:
        """What the lines of some manifests say of their entries, of each entry; read ahead but not remembered."""
        return self._spread(partial(_read_columns, self._storage, self.specs), manifests)

    def stream(
        self, manifests: Collection[ManifestFile], metrics: frozenset[int] | None = None
    ) -> Iterator[tuple[ManifestEntry, ...]]:
        """The entries of each manifest, read ahead but not remembered.

        With ``metrics``, just what planning needs of files, and of data files metrics of those columns.
        """
        read = partial(_read_batch, self._storage, self.specs, metrics)
        return self._spread(read, manifests)

    def _spread(
        self,
        read: Callable[[Sequence[ManifestFile]], Iterable[T]],
        manifests: Collection[ManifestFile],
    ) -> Iterator[T]:
        few = len(manifests) <= _FEW and sum(m.manifest_length for m in manifests) <= _SMALL
        executor = nearby(self._executor) if few else self._executor
        return executor.map_batches(read, manifests, batch_size=BATCH_SIZE)


def read_snapshot(storage: Storage, snapshot: Snapshot) -> tuple[ManifestFile, ...]:
    """Read the manifest list of a snapshot; raises UnsupportedFeatureError if it has none.

    Raises CorruptMetadataError for a list that contradicts itself.
    """
    path = _list_path(storage, snapshot)
    return checked_lines(read_manifest_list(storage.read(path), path))


def read_list(storage: Storage, snapshot: Snapshot, lists: ManifestLists) -> tuple[int, tuple[ManifestFile, ...]]:
    """As :func:`read_snapshot`, with the size of the list in bytes; for reading many lists of one table."""
    path = _list_path(storage, snapshot)
    data = storage.read(path)
    return len(data), lists.read(data, path)


def _list_path(storage: Storage, snapshot: Snapshot) -> str:
    if snapshot.manifest_list is None:
        raise UnsupportedFeatureError(
            f"snapshot {snapshot.snapshot_id} has no manifest list, as in very old tables; append to the table "
            f"with a newer Iceberg first"
        )
    return store_path(storage.scheme, snapshot.manifest_list)


def live_files(
    storage: Storage, specs: Mapping[int, PartitionSpec], manifests: Sequence[ManifestFile]
) -> Iterator[list[tuple[str, int, FileContent]]]:
    """Location, size in bytes and content of each live file, data or delete, of each manifest."""
    for manifest, spec, data in _read(storage, specs, manifests):
        entries = _checked(manifest, scan_manifest(data, manifest, spec, frozenset()))
        files = (entry.data_file for entry in entries if entry.is_live)
        yield [(file.file_path, file.file_size_in_bytes, file.content) for file in files]


def _read_batch(
    storage: Storage,
    specs: Mapping[int, PartitionSpec],
    metrics: frozenset[int] | None,
    manifests: Sequence[ManifestFile],
) -> Iterator[tuple[ManifestEntry, ...]]:
    for manifest, spec, data in _read(storage, specs, manifests):
        if metrics is None:
            yield _checked(manifest, read_manifest(data, manifest, spec))
        elif manifest.is_deletes:
            yield _checked(manifest, scan_delete_manifest(data, manifest, spec))
        else:
            yield _checked(manifest, scan_manifest(data, manifest, spec, metrics))


def _read_to_move(
    storage: Storage,
    specs: Mapping[int, PartitionSpec],
    layouts: Mapping[int, str],
    manifests: Sequence[ManifestFile],
) -> Iterator[tuple[ManifestEntry, ...]]:
    for manifest, spec, data in _read(storage, specs, manifests):
        yield _checked(manifest, read_to_move(data, manifest, spec, layouts[manifest.partition_spec_id]))


def _read_live(
    storage: Storage,
    specs: Mapping[int, PartitionSpec],
    layouts: Mapping[int, EntryLayout],
    manifests: Sequence[ManifestFile],
) -> Iterator[EntryColumns]:
    for manifest, spec, data in _read(storage, specs, manifests):
        yield live_to_move(data, manifest, spec, layouts[manifest.partition_spec_id])


def _read_columns(
    storage: Storage, specs: Mapping[int, PartitionSpec], manifests: Sequence[ManifestFile]
) -> Iterator[EntryColumns]:
    for manifest, spec, data in _read(storage, specs, manifests):
        columns = read_columns(data, manifest, spec)
        check_entries(manifest, columns)
        yield columns


def _checked(manifest: ManifestFile, entries: list[ManifestEntry]) -> tuple[ManifestEntry, ...]:
    check_entries(manifest, EntryColumns.of(entries))
    return tuple(entries)


def _read(
    storage: Storage, specs: Mapping[int, PartitionSpec], manifests: Sequence[ManifestFile]
) -> Iterator[tuple[ManifestFile, PartitionSpec, bytes]]:
    for manifest in manifests:
        spec = specs.get(manifest.partition_spec_id)
        if spec is None:
            raise CorruptMetadataError(
                f"{manifest.manifest_path} is of partition spec {manifest.partition_spec_id}, which the table lacks"
            )
        yield manifest, spec, storage.read(store_path(storage.scheme, manifest.manifest_path))

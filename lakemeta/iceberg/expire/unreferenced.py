"""Which files nothing names any more once some snapshots of a table are gone (I/O: reads manifest lists and manifests).

Rules of this module:

1. A file goes only if a snapshot that goes names it (data and delete files: as live), and no snapshot that stays names
   its path as anything, in whatever manifest. Which snapshot removed a file, and how often it was added again, plays
   no part. The vectors of one Puffin file share its path. Paths that lead to one file through links are one path.
2. Most manifests are those of snapshots on both sides, and their files stay. So of snapshots that go only the others
   are read, and where there are none, no manifest is read at all.
3. It fails closed: a list or manifest of either side that cannot be read, or contradicts its line, raises. Of snapshots
   that are gone already (``former``), what is missing had its turn before: an interrupted run deletes files before the
   manifests that name them, and these before their lists.
4. What stays is held as 8 bytes a file, and what goes as a value each, as the plan has it. Manifests are streamed.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import PathNotFoundError
from lakemeta.executor import Executor, LocalExecutor
from lakemeta.iceberg.expire.digests import Digests, pack
from lakemeta.iceberg.expire.places import RealPlaces
from lakemeta.iceberg.manifests.entries import FileContent
from lakemeta.iceberg.manifests.list_reader import ManifestLists
from lakemeta.iceberg.manifests.store import BATCH_SIZE, live_files, read_list
from lakemeta.iceberg.spec.locations import file_key

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import Snapshot, StatisticsFile, TableMetadata
    from lakemeta.storage.contract import Storage

Kind = Literal[
    "data_file", "position_delete_file", "equality_delete_file", "manifest", "manifest_list", "statistics_file"
]

CONTENT: Final[frozenset[Kind]] = frozenset({"data_file", "position_delete_file", "equality_delete_file"})
_KINDS: Final[Mapping[FileContent, Kind]] = {
    FileContent.DATA: "data_file",
    FileContent.POSITION_DELETES: "position_delete_file",
    FileContent.EQUALITY_DELETES: "equality_delete_file",
}


@attrs.define(slots=True, eq=False)
class Unreferenced:
    """A file that nothing names any more: its location as a snapshot names it, and its size in bytes.

    ``holder`` is the newest snapshot that names it, and ``alone`` says that there is no other.
    """

    location: str
    size: int
    kind: Kind
    holder: int
    alone: bool = True


@attrs.define(slots=True, eq=False)
class _Lone:
    """A manifest that only snapshots that go have."""

    manifest: ManifestFile
    holder: int
    alone: bool = True
    former: bool = False


class Retained:
    """What the snapshots that stay name. More snapshots can be added; a manifest is read once."""

    def __init__(self, storage: Storage, executor: Executor | None) -> None:
        """Nothing is read yet."""
        self.storage, self.executor = storage, executor or LocalExecutor()
        self.snapshots: set[int] = set()
        self.spec_ids: set[int] = set()
        self.manifests: dict[str, ManifestFile] = {}
        self.lists = ManifestLists()
        self._named = Digests()
        self._places = RealPlaces(storage)
        self._read: set[str] = set()
        self._heads: dict[int, tuple[str, ...]] = {}
        self._bytes: dict[str, int] = {}

    def add(self, metadata: TableMetadata, snapshot_ids: Collection[int]) -> None:
        """Add snapshots, of which lists are read and manifests not yet, and what the metadata itself names."""
        new = [metadata.snapshots_by_id[i] for i in snapshot_ids if i not in self.snapshots]
        heads = {ref.snapshot_id for ref in metadata.refs.values()} | {metadata.current_snapshot_id}
        for snapshot, (_, manifests) in zip(new, _lists(self, new), strict=True):
            self.snapshots.add(snapshot.snapshot_id)
            if snapshot.snapshot_id in heads:
                self._heads[snapshot.snapshot_id] = tuple(manifest.manifest_path for manifest in manifests)
            self._add([snapshot.manifest_list or ""])
            for manifest in manifests:
                if self.manifests.setdefault(manifest.manifest_path, manifest) is manifest:
                    self.spec_ids.add(manifest.partition_spec_id)
                    self._add([manifest.manifest_path])
        self._add(file.statistics_path for file in _statistics(metadata, self.snapshots))
        self._add(entry.metadata_file for entry in metadata.metadata_log)

    def read_manifests(self, specs: Mapping[int, PartitionSpec]) -> None:
        """Take in the live files of all manifests that have not been read."""
        new = [m for path, m in self.manifests.items() if path not in self._read]
        read = partial(_packed, self.storage, specs)
        found = self.executor.map_batches(read, new, batch_size=BATCH_SIZE)
        for manifest, (digests, size) in zip(new, found, strict=True):
            self._named.add_packed(digests)
            self._bytes[manifest.manifest_path] = size
        self._read.update(self.manifests)

    @property
    def head_bytes(self) -> int:
        """The bytes of the live files of the largest head of a branch or tag, once manifests have been read."""
        return max((sum(self._bytes.get(path, 0) for path in paths) for paths in self._heads.values()), default=0)

    def names(self, location: str) -> bool:
        """True if anything that stays names a location, however spelled; data files once manifests have been read."""
        return any(name in self._named for name in self._places.beside([location]))

    def _add(self, locations: Iterable[str]) -> None:
        self._named.add(self._places.beside(locations))


@attrs.frozen(eq=False)
class Going:
    """Snapshots that go, and a version of the table that has them; ``former`` ones are gone from the newest version."""

    version: TableMetadata
    snapshots: Collection[int]
    former: bool = False


def find_unreferenced(retained: Retained, going: Sequence[Going]) -> list[Unreferenced]:
    """The files that nothing names once some snapshots are gone; those of the last version count as newest."""
    manifests, found = _manifests(retained, going)
    specs = {i: spec for part in going for i, spec in part.version.specs_by_id.items()}
    if manifests:
        retained.read_manifests(specs)
    content = _content(retained, manifests.values(), specs, _ages(going))
    found += [_of_manifest(one) for one in manifests.values()]
    # What is no data file may be named as one, by damage or on purpose.
    return content + [file for file in found if not retained.names(file.location)]


def _manifests(retained: Retained, going: Sequence[Going]) -> tuple[dict[str, _Lone], list[Unreferenced]]:
    """The manifests that only snapshots that go have, by key, and lists and statistics of these snapshots."""
    manifests: dict[str, _Lone] = {}
    found: dict[str, Unreferenced] = {}
    for part in going:
        snapshots = [s for s in part.version.snapshots if s.snapshot_id in part.snapshots]
        lists = _lists(retained, snapshots, may_miss=part.former)
        for snapshot, (size, listed) in zip(snapshots, lists, strict=True):
            _note(found, snapshot.manifest_list or "", size, "manifest_list", snapshot.snapshot_id)
            for manifest in listed:
                _take(manifests, retained, manifest, snapshot.snapshot_id, part.former)
        for file in _statistics(part.version, part.snapshots):
            _note(found, file.statistics_path, file.file_size_in_bytes, "statistics_file", file.snapshot_id)
    return manifests, list(found.values())


def _take(
    manifests: dict[str, _Lone], retained: Retained, manifest: ManifestFile, snapshot_id: int, former: bool
) -> None:
    key = file_key(manifest.manifest_path)
    known = manifests.get(key)
    if known is not None:
        known.alone, known.holder = known.alone and known.holder == snapshot_id, snapshot_id
        known.former = known.former and former
    elif manifest.manifest_path not in retained.manifests and not retained.names(manifest.manifest_path):
        manifests[key] = _Lone(manifest, snapshot_id, former=former)


def _note(found: dict[str, Unreferenced], location: str, size: int, kind: Kind, holder: int) -> None:
    known = found.setdefault(file_key(location), Unreferenced(location, size, kind, holder))
    known.alone, known.holder = known.alone and known.holder == holder, holder


def _ages(going: Sequence[Going]) -> dict[int, int]:
    """A number for each snapshot that goes, the greater the newer it is."""
    snapshots = (snapshot for part in going for snapshot in part.version.snapshots)
    return {snapshot.snapshot_id: age for age, snapshot in enumerate(snapshots)}


def _content(
    retained: Retained,
    manifests: Collection[_Lone],
    specs: Mapping[int, PartitionSpec],
    ages: Mapping[int, int],
) -> list[Unreferenced]:
    found: dict[str, Unreferenced] = {}
    read = partial(_live, retained.storage, specs)
    items = [(one.manifest, one.former) for one in manifests]
    for one, files in zip(manifests, retained.executor.map_batches(read, items, batch_size=BATCH_SIZE), strict=True):
        for location, size, content in files:
            if retained.names(location):
                continue
            file = Unreferenced(location, size, _KINDS[content], one.holder, one.alone)
            known = found.setdefault(file_key(location), file)
            if known is not file:
                known.alone = known.alone and one.alone and known.holder == one.holder
                known.holder = max(known.holder, one.holder, key=ages.__getitem__)
    return list(found.values())


def _of_manifest(one: _Lone) -> Unreferenced:
    manifest = one.manifest
    return Unreferenced(manifest.manifest_path, manifest.manifest_length, "manifest", one.holder, one.alone)


def _statistics(metadata: TableMetadata, snapshot_ids: Collection[int]) -> Iterator[StatisticsFile]:
    for file in (*metadata.statistics, *metadata.partition_statistics):
        if file.snapshot_id in snapshot_ids:
            yield file


def _lists(
    retained: Retained, snapshots: Sequence[Snapshot], *, may_miss: bool = False
) -> Iterator[tuple[int, tuple[ManifestFile, ...]]]:
    read = partial(_read_lists, retained.storage, retained.lists, may_miss)
    return retained.executor.map_batches(read, snapshots, batch_size=BATCH_SIZE)


def _read_lists(
    storage: Storage, lists: ManifestLists, may_miss: bool, snapshots: Sequence[Snapshot]
) -> Iterator[tuple[int, tuple[ManifestFile, ...]]]:
    for snapshot in snapshots:
        try:
            yield read_list(storage, snapshot, lists)
        except PathNotFoundError:
            if not may_miss:
                raise
            yield 0, ()


def _packed(
    storage: Storage, specs: Mapping[int, PartitionSpec], manifests: Sequence[ManifestFile]
) -> Iterator[tuple[bytes, int]]:
    places = RealPlaces(storage)
    for files in live_files(storage, specs, manifests):
        yield pack(places.beside(location for location, _, _ in files)), sum(size for _, size, _ in files)


def _live(
    storage: Storage, specs: Mapping[int, PartitionSpec], manifests: Sequence[tuple[ManifestFile, bool]]
) -> Iterator[list[tuple[str, int, FileContent]]]:
    for manifest, may_miss in manifests:
        try:
            yield from live_files(storage, specs, [manifest])
        except PathNotFoundError:
            if not may_miss:
                raise
            yield []


def spec_ids(retained: Retained, metadata: TableMetadata, snapshot_ids: Collection[int]) -> set[int]:
    """The partition specs of all manifests of some snapshots."""
    snapshots = [metadata.snapshots_by_id[i] for i in snapshot_ids]
    lists = _lists(retained, snapshots)
    return {manifest.partition_spec_id for _, manifests in lists for manifest in manifests}

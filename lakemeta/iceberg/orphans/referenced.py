"""What a table's metadata names: every file that is no orphan (I/O; Iceberg's ReachableFileUtil, BaseSparkAction).

Rules of this module:

1. Named are the current metadata file and those of its log, the version hint, the statistics of both kinds, and of all
   snapshots the manifest lists, the manifests in them, and the live files in those.
2. All of it is read, or nothing is an orphan: a list or manifest that is missing or damaged raises. So are manifests
   of which their lines say that no file in them is live.
3. Of a newer version only what no earlier one named is read. A manifest never changes.
4. On disks, a location with symbolic links on its way names the place that they lead to as well: there a listing shows
   the file.
"""

from __future__ import annotations

from collections import defaultdict
from functools import partial
from typing import TYPE_CHECKING, Final

import attrs
import pyarrow as pa

from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.hadoop import HINT
from lakemeta.iceberg.manifests.store import StoredManifests, read_snapshot
from lakemeta.iceberg.orphans.uris import Prefix, split_location
from lakemeta.iceberg.service.neighbours import known_metadata

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.table_metadata import Snapshot
    from lakemeta.storage.contract import Storage

    Named = tuple[Prefix, pa.Array]  # a prefix, and paths under it

_LISTS: Final = 4  # in one batch of work
_MANIFESTS: Final = 4


@attrs.define(eq=False)
class References:
    """Reads what versions of one table name, each thing once."""

    storage: Storage
    executor: Executor
    roots: Sequence[Root]
    _snapshots: set[int] = attrs.field(factory=set)
    _manifests: set[str] = attrs.field(factory=set)
    _last: str | None = None

    def knows(self, loaded: LoadedTable) -> bool:
        """True if all that a version names has been given."""
        return loaded.location == self._last

    def of(self, loaded: LoadedTable) -> Iterator[Named]:
        """What a version names that none before it did, grouped by prefix. Raises as rule 2 says."""
        if self.knows(loaded):
            return
        metadata = loaded.metadata
        group = Grouping.of(self.storage, self.roots)
        snapshots = [s for s in metadata.snapshots if s.snapshot_id not in self._snapshots]
        yield from group(_of_metadata(loaded, snapshots))
        fresh: list[ManifestFile] = []
        lists = self.executor.map_batches(partial(_read_lists, self.storage), snapshots, batch_size=_LISTS)
        for manifests in lists:
            for manifest in manifests:
                if manifest.manifest_path not in self._manifests:
                    self._manifests.add(manifest.manifest_path)
                    fresh.append(manifest)
        yield from group(manifest.manifest_path for manifest in fresh)
        read = partial(_read_manifests, self.storage, group, metadata.specs_by_id)
        for named in self.executor.map_batches(read, fresh, batch_size=_MANIFESTS):
            yield from named
        self._snapshots.update(s.snapshot_id for s in snapshots)
        self._last = loaded.location


def _of_metadata(loaded: LoadedTable, snapshots: Sequence[Snapshot]) -> Iterator[str]:
    metadata = loaded.metadata
    yield from known_metadata(loaded)
    yield f"{loaded.location.rpartition('/')[0]}/{HINT}"
    yield f"{metadata.location.rstrip('/')}/metadata/{HINT}"
    yield from (file.statistics_path for file in (*metadata.statistics, *metadata.partition_statistics))
    yield from (snapshot.manifest_list for snapshot in snapshots if snapshot.manifest_list is not None)


@attrs.frozen
class Grouping:
    """Groups locations by their prefixes, by rule 4; ``links`` is the store if it has links at all.

    ``roots`` are the listed directories, and where each of them lies once links are followed.
    """

    links: Storage | None
    roots: tuple[tuple[str, str], ...]

    @classmethod
    def of(cls, storage: Storage, roots: Sequence[Root]) -> Grouping:
        """For files of a store that may lie in some directories."""
        if storage.scheme != "file":
            return cls(None, ())
        return cls(storage, tuple((root.path, storage.resolve(root.path)) for root in roots))

    def __call__(self, locations: Iterable[str]) -> list[Named]:
        """Prefixes, each with the paths under it."""
        found: defaultdict[Prefix, list[str]] = defaultdict(list)
        folders: dict[str, list[str]] = {}
        for location in locations:
            prefix, path = split_location(location)
            found[prefix].append(path)
            if self.links is not None:
                folder, _, name = path.rpartition("/")
                if folder not in folders:
                    folders[folder] = self._aliases(self.links, folder)
                found[prefix] += [f"{other}/{name}" for other in folders[folder]]
        return [(prefix, pa.array(paths, pa.string())) for prefix, paths in found.items()]

    def _aliases(self, storage: Storage, folder: str) -> list[str]:
        """Other paths of the same directory: none where no links are on the way."""
        real = storage.resolve(folder or "/")
        below = [root + real[len(place) :] for root, place in self.roots if f"{real}/".startswith(f"{place}/")]
        return sorted({real, *below} - {folder or "/"})


def _read_lists(storage: Storage, snapshots: Sequence[Snapshot]) -> Iterator[tuple[ManifestFile, ...]]:
    return (read_snapshot(storage, snapshot) for snapshot in snapshots)


def _read_manifests(
    storage: Storage, group: Grouping, specs: Mapping[int, PartitionSpec], manifests: Sequence[ManifestFile]
) -> Iterator[list[Named]]:
    stored = StoredManifests(storage, specs, LocalExecutor(threads=1))
    for entries in stored.stream(manifests, frozenset()):
        yield group(entry.data_file.file_path for entry in entries if entry.is_live)

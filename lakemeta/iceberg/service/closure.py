"""What snapshots name, held against the files that there are, before any file of a table is deleted (I/O).

Rules of this module:

1. It reads manifest lists and manifests in full, and shares neither the fast reader nor what an expire or a removal of
   orphan files has made of them.
2. Everything (``full``) is the lists, the manifests, the live files in them and the statistics of all snapshots that
   stay. They are sorted by directory, on disk if they are many, and each directory is listed once for every
   ``_CHUNK`` of them; a few files of a directory are looked up one by one. Memory does not grow with the table.
3. A sample is of ``_SNAPSHOTS`` snapshots, heads of refs first, of ``_MANIFESTS`` of their manifests and of ``_FILES``
   of the live files in those, at random from a seed that the report names. They are looked up one by one.
4. A file is there with the size that its entry recorded, and the plan does not delete it.
"""

from __future__ import annotations

import random
from contextlib import suppress
from functools import partial
from itertools import groupby, islice
from operator import itemgetter
from typing import TYPE_CHECKING, Final, NamedTuple

import attrs
import pyarrow as pa

from lakemeta.errors import CorruptMetadataError, PathNotFoundError
from lakemeta.external_sort import sort_batches
from lakemeta.iceberg.manifests.store import StoredManifests, read_snapshot
from lakemeta.iceberg.spec.locations import file_key, store_path
from lakemeta.row_sort import SortKey
from lakemeta.safeguards import Proved, damaged

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence
    from collections.abc import Set as AbstractSet

    from lakemeta.executor import Executor
    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

_SNAPSHOTS: Final = 8
_MANIFESTS: Final = 8
_FILES: Final = 200
_CHUNK: Final = 50_000  # files of one directory that are looked for in one listing
_FEW: Final = 3  # files of a directory that are not worth a listing
_BUDGET: Final = 64 * 2**20  # bytes that are sorted in memory
_ROWS: Final = 16_384
_UNKNOWN: Final = -1
_SCHEMA: Final = pa.schema([("folder", pa.string()), ("name", pa.string()), ("size", pa.int64()), ("by", pa.int64())])


class _Kept(NamedTuple):
    """A file that stays: its location, its size in bytes or ``_UNKNOWN``, and a snapshot that names it."""

    location: str
    size: int
    by: int


class _Lookup(NamedTuple):
    """A directory, by its store path, and files in it: their names, sizes and snapshots."""

    folder: str
    files: list[tuple[str, int, int]]


@attrs.frozen(eq=False)
class Closure:
    """What some snapshots of a version of a table name; ``planned`` are the keys (``file_key``) of what is to go."""

    storage: Storage
    url: str
    metadata: TableMetadata
    snapshots: Collection[int]
    planned: AbstractSet[str]
    executor: Executor

    def prove(self, proof: str, seed: int) -> Proved:
        """Raise CorruptMetadataError for the first file that is not as it should be, or that the plan deletes."""
        if proof == "off":
            return Proved(proof, 0, "")
        if proof == "full":
            files = self._look_up(self._by_folder(self._checked(self._everything())))
            return Proved(proof, files, f"of {len(self.snapshots)} snapshots, by listing")
        found = list(self._checked(self._sample(random.Random(seed))))
        files = self._look_up(_Lookup(row[0], [row[1:]]) for row in map(self._split, found))
        return Proved(proof, files, f"of {len(self.snapshots)} snapshots, at random from seed {seed}, one by one")

    def _everything(self) -> Iterator[_Kept]:
        manifests: dict[str, tuple[ManifestFile, int]] = {}
        for snapshot_id in sorted(self.snapshots):
            yield from self._list(snapshot_id, manifests)
        for file in (*self.metadata.statistics, *self.metadata.partition_statistics):
            if file.snapshot_id in self.snapshots:
                yield _Kept(file.statistics_path, file.file_size_in_bytes, file.snapshot_id)
        yield from self._entries(list(manifests.values()))

    def _sample(self, chance: random.Random) -> Iterator[_Kept]:
        heads = sorted({ref.snapshot_id for ref in self.metadata.refs.values()} & set(self.snapshots))
        others = sorted(set(self.snapshots) - set(heads))
        chosen = chance.sample(heads, min(len(heads), _SNAPSHOTS))
        chosen += chance.sample(others, min(len(others), _SNAPSHOTS - len(chosen)))
        manifests: dict[str, tuple[ManifestFile, int]] = {}
        for snapshot_id in chosen:
            for kept in self._list(snapshot_id, manifests):
                self._refuse_planned(kept)  # all of them, of which few are looked up
        few = chance.sample(sorted(manifests), min(len(manifests), _MANIFESTS))
        yield from (_Kept(path, manifests[path][0].manifest_length, manifests[path][1]) for path in few)
        files = list(self._checked(self._entries([manifests[path] for path in few])))
        yield from chance.sample(files, min(len(files), _FILES))

    def _list(self, snapshot_id: int, manifests: dict[str, tuple[ManifestFile, int]]) -> Iterator[_Kept]:
        """A manifest list, and those of its manifests that are new, which are added."""
        snapshot = self.metadata.snapshots_by_id[snapshot_id]
        location = snapshot.manifest_list or ""
        yield _Kept(location, _UNKNOWN, snapshot_id)
        try:
            lines = read_snapshot(self.storage, snapshot)
        except PathNotFoundError:
            raise damaged(location, f"snapshot {snapshot_id} names, is not there", self.url) from None
        for manifest in lines:
            if manifest.manifest_path not in manifests:
                manifests[manifest.manifest_path] = (manifest, snapshot_id)
                yield _Kept(manifest.manifest_path, manifest.manifest_length, snapshot_id)

    def _entries(self, manifests: Sequence[tuple[ManifestFile, int]]) -> Iterator[_Kept]:
        stored = StoredManifests(self.storage, self.metadata.specs_by_id, self.executor)
        read = stored.stream([manifest for manifest, _ in manifests])
        for _, by in manifests:
            try:
                entries = next(read)
            except PathNotFoundError as error:
                raise damaged(str(error), f"a manifest that snapshot {by} names, is not there", self.url) from None
            files = (entry.data_file for entry in entries if entry.is_live)
            yield from (_Kept(file.file_path, file.file_size_in_bytes, by) for file in files)

    def _checked(self, files: Iterable[_Kept]) -> Iterator[_Kept]:
        for kept in files:
            self._refuse_planned(kept)
            yield kept

    def _refuse_planned(self, kept: _Kept) -> None:
        if file_key(kept.location) in self.planned:
            raise CorruptMetadataError(
                f"the plan deletes {kept.location}, which snapshot {kept.by} names and the table is to keep; nothing "
                "was deleted; make the plan again"
            )

    def _split(self, kept: _Kept) -> tuple[str, str, int, int]:
        folder, _, name = store_path(self.storage.scheme, kept.location).rpartition("/")
        return folder, name, kept.size, kept.by

    def _by_folder(self, files: Iterable[_Kept]) -> Iterator[_Lookup]:
        """All files by their directories, each file once."""
        keys = [SortKey("folder"), SortKey("name")]
        batches = (_batch(rows) for rows in _batched(map(self._split, files)))
        tables = sort_batches(batches, keys, budget=_BUDGET)
        rows = (row for table in tables for row in zip(*table.to_pydict().values(), strict=True))
        for folder, found in groupby(rows, key=itemgetter(0)):
            once = (next(same)[1:] for _, same in groupby(found, key=itemgetter(1)))
            while chunk := list(islice(once, _CHUNK)):
                yield _Lookup(folder, chunk)

    def _look_up(self, lookups: Iterable[_Lookup]) -> int:
        """How many files there are; raises for the first that is not as it should be."""
        count = 0
        for files, wrong in self.executor.map_batches(partial(_look, self.storage), lookups, batch_size=_FEW):
            count += files
            if wrong is not None:
                path, by, what = wrong
                raise damaged(self.storage.url(path), f"snapshot {by} names, {what}", self.url)
        return count


def _batched(rows: Iterator[tuple[str, str, int, int]]) -> Iterator[list[tuple[str, str, int, int]]]:
    while batch := list(islice(rows, _ROWS)):
        yield batch


def _batch(rows: Iterable[tuple[str, str, int, int]]) -> pa.RecordBatch:
    return pa.RecordBatch.from_arrays([pa.array(column) for column in zip(*rows, strict=True)], schema=_SCHEMA)


def _look(storage: Storage, lookups: Sequence[_Lookup]) -> Iterator[tuple[int, tuple[str, int, str] | None]]:
    """For each directory how many files were looked for; the first that is not right, its snapshot, what is wrong."""
    for folder, files in lookups:
        sizes = _listed(storage, folder) if len(files) > _FEW else _one_by_one(storage, folder, files)
        wrong = ((f"{folder}/{name}", by, _problem(sizes.get(name), size)) for name, size, by in files)
        yield len(files), next(((path, by, what) for path, by, what in wrong if what is not None), None)


def _problem(found: int | None, recorded: int) -> str | None:
    if found is None:
        return "is not there"
    return None if recorded in (found, _UNKNOWN) else f"has {found:,} bytes instead of {recorded:,}"


def _listed(storage: Storage, folder: str) -> dict[str, int]:
    try:
        return {entry.name: entry.size for entry in storage.list_dir(folder) if not entry.is_dir}
    except PathNotFoundError:
        return {}


def _one_by_one(storage: Storage, folder: str, files: Sequence[tuple[str, int, int]]) -> dict[str, int]:
    found = {}
    for name, _, _ in files:
        with suppress(PathNotFoundError):
            found[name] = storage.size(f"{folder}/{name}")
    return found

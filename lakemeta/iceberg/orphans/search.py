"""Looks for orphan files: what was listed or nominated, against what the newest metadata names (I/O).

Rules of this module:

1. Files are listed before the metadata is read, so that what is committed meanwhile is named by it. Marks of rewrites
   are read in between: one that ends after that has committed before the metadata is read.
2. Both sides are spread over partitions on disk and joined there: memory does not grow with the table.
3. The catalog is asked for its other tables (``others``) only if something was found.
4. An inventory nominates: of each orphan the store itself says whether it is there, and how old it is.
"""

from __future__ import annotations

from collections import Counter
from functools import partial
from itertools import groupby
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import PathNotFoundError
from lakemeta.iceberg.orphans.inventory import nominated
from lakemeta.iceberg.orphans.join import Join, Orphan
from lakemeta.iceberg.orphans.listing import Counts, Listing, missing
from lakemeta.iceberg.orphans.names import HiddenNames, Spared
from lakemeta.iceberg.orphans.others import refuse_others
from lakemeta.iceberg.orphans.referenced import References
from lakemeta.iceberg.rewrite.unfinished import unfinished_uuids
from lakemeta.iceberg.service.neighbours import Neighbours, metadata_directory
from lakemeta.iceberg.spec.locations import store_path, whole, within
from lakemeta.paths import is_rooted
from lakemeta.spooled import deletes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.orphans.options import OrphanOptions
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan_operations import Delete
    from lakemeta.storage.contract import Storage

REASON: Final = "no metadata of the table names it"
_STATS: Final = 64  # in one batch of work


@attrs.frozen
class Found:
    """What a search has found: lines of a plan, how many files were looked at, and how many orphans stay, by reason."""

    loaded: LoadedTable
    lines: Sequence[Delete]
    counts: Counts
    spared: dict[str, int]


@attrs.frozen(eq=False)
class Search:
    """A search for files last changed before ``cutoff_ms`` in some directories of a table."""

    place: Place
    options: OrphanOptions
    roots: Sequence[Root]
    cutoff_ms: int
    executor: Executor

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.place.operations.storage

    def run(self, metadata: TableMetadata) -> Found:
        """Search; ``metadata`` is from before, and says what is hidden.

        Raises UnsupportedFeatureError if another table lies there, CatalogError if the catalog cannot say so,
        CorruptMetadataError if prefixes conflict or the metadata is damaged.
        """
        rooted = is_rooted(self.storage.scheme)
        with Join.opened(self.options.rules, rooted=rooted) as join:
            counts, tables = self._list(metadata, join)
            uuids = unfinished_uuids(self.storage, metadata_directory(self.storage, metadata))
            loaded = self.place.operations.refresh()
            neighbours = neighbours_of(self.storage, loaded, self.options)
            neighbours.refuse(tables, self.executor)
            for prefix, keys in References(self.storage, self.executor, self.roots).of(loaded):
                join.named.add(prefix, keys)
            reasons = Counter[str]()
            kept = self._sift(join.orphans(), Spared.of(loaded.metadata, uuids), reasons)
            if self.options.inventory is not None:
                kept = self._looked_up(kept)
            named = ((name_of(self.storage, loaded.metadata, self.roots, o.path), o.size) for o in kept)
            lines = deletes(named, REASON)
        if self.options.inventory is not None:
            for root in self.roots:
                paths = (path_of(self.storage, loaded.metadata, op.path) for op in lines)
                neighbours.refuse_near(root.path, filter(root.holds, paths), self.executor)
        if lines:
            refuse_others(self.place.operations, loaded, self.roots, self.options)
        return Found(loaded, lines, counts, dict(sorted(reasons.items())))

    def _list(self, metadata: TableMetadata, join: Join) -> tuple[Counts, list[str]]:
        """Put candidates into a join; how many files there were, and the store paths of those named as metadata."""
        if self.options.inventory is not None:
            return nominated(self.storage, self.options.inventory, self.roots, self.cutoff_ms, join.listed), []
        counts, tables = Counts(), list[str]()
        hidden = HiddenNames.of(metadata)
        for root in self.roots:
            listing = Listing(self.storage, root.path, hidden, self.cutoff_ms)
            try:
                for chunk in listing.chunks(self.executor, flat=self.options.prefix_listing):
                    counts = counts.plus(chunk.counts)
                    tables += chunk.metadata
                    join.add_listed(root, self.storage.scheme, chunk.paths, chunk.sizes)
            except PathNotFoundError:
                if root.must_exist:
                    raise missing(root.location) from None
        return counts, tables

    def _sift(self, found: Iterable[Orphan], spared: Spared, reasons: Counter[str]) -> Iterator[Orphan]:
        """The orphans that do not stay for a reason; each reason is counted."""
        for orphan in found:
            root = next(root for root in self.roots if root.holds(orphan.path))
            why = spared.why(orphan.path[len(root.path) + 1 :])
            if why is None:
                yield orphan
            else:
                reasons[why] += 1

    def _looked_up(self, found: Iterable[Orphan]) -> Iterator[Orphan]:
        """Those that the store has and that are old enough, each once: an inventory may name one again."""
        once = (path for path, _ in groupby(op.path for op in deletes(((o.path, o.size) for o in found), REASON)))
        look = partial(_look_up, self.storage, self.cutoff_ms)
        return (o for o in self.executor.map_batches(look, once, batch_size=_STATS) if o is not None)


def neighbours_of(storage: Storage, loaded: LoadedTable, options: OrphanOptions) -> Neighbours:
    """The guard against other tables in the directories of this one."""
    where = f"orphan files of the table at {loaded.metadata.location} are looked for"
    return Neighbours.of(storage, loaded, options.foreign_uuids, f"{where}, and its files would be taken for them")


def name_of(storage: Storage, metadata: TableMetadata, roots: Sequence[Root], path: str) -> str:
    """What a plan calls the file at a store path: the part below the table's location, or its full location."""
    table = store_path(storage.scheme, metadata.location).rstrip("/")
    if path.startswith(f"{table}/"):
        return within(metadata.location, f"{metadata.location.rstrip('/')}/{path[len(table) + 1 :]}")
    root = next(root for root in roots if root.holds(path))
    return f"{root.location}/{path[len(root.path) + 1 :]}"


def path_of(storage: Storage, metadata: TableMetadata, name: str) -> str:
    """The store path of a file by its name in a plan; raises as :func:`store_path`."""
    return store_path(storage.scheme, whole(metadata.location, name))


def _look_up(storage: Storage, cutoff_ms: int, paths: Sequence[str]) -> Iterator[Orphan | None]:
    for path in paths:
        try:
            entry = storage.stat(path)
        except PathNotFoundError:
            yield None
        else:
            yield Orphan(path, entry.size) if 0 < entry.modified_ms < cutoff_ms else None

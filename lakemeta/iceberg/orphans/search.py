"""Looks for orphan files: what was listed or nominated, against what the newest metadata names (I/O).

Rules of this module:

1. Files are listed before the metadata is read, so that what is committed meanwhile is named by it. Marks of rewrites
   are read in between: one that ends after that has committed before the metadata is read.
2. Both sides are spread over partitions on disk and joined there: memory does not grow with the table.
3. The catalog is asked for its other tables (``others``) only if something was found.
4. An inventory nominates: of each orphan the store itself says whether it is there, and how old it is.
"""

from __future__ import annotations

from functools import partial
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
from lakemeta.paths import is_rooted

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.orphans.options import OrphanOptions
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.storage.contract import Storage

_STATS: Final = 64  # in one batch of work


@attrs.frozen
class Found:
    """What a search has found: orphans, how many files were looked at, and how many orphans stay, by reason."""

    loaded: LoadedTable
    orphans: list[Orphan]
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
            found, reasons = self._sift(join.orphans(), Spared.of(loaded.metadata, uuids))
        if self.options.inventory is not None:
            found = self._looked_up(found)
            for root in self.roots:
                neighbours.refuse_near(root.path, (o.path for o in found if root.holds(o.path)), self.executor)
        if found:
            refuse_others(self.place.operations, loaded, self.roots, self.options)
        return Found(loaded, found, counts, reasons)

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

    def _sift(self, found: Iterable[Orphan], spared: Spared) -> tuple[list[Orphan], dict[str, int]]:
        kept: list[Orphan] = []
        reasons: dict[str, int] = {}
        for orphan in found:
            root = next(root for root in self.roots if root.holds(orphan.path))
            why = spared.why(orphan.path[len(root.path) + 1 :])
            if why is None:
                kept.append(orphan)
            else:
                reasons[why] = reasons.get(why, 0) + 1
        return kept, dict(sorted(reasons.items()))

    def _looked_up(self, found: Sequence[Orphan]) -> list[Orphan]:
        look = partial(_look_up, self.storage, self.cutoff_ms)
        found = list(dict.fromkeys(found))
        return [orphan for orphan in self.executor.map_batches(look, found, batch_size=_STATS) if orphan is not None]


def neighbours_of(storage: Storage, loaded: LoadedTable, options: OrphanOptions) -> Neighbours:
    """The guard against other tables in the directories of this one."""
    where = f"orphan files of the table at {loaded.metadata.location} are looked for"
    return Neighbours.of(storage, loaded, options.foreign_uuids, f"{where}, and its files would be taken for them")


def _look_up(storage: Storage, cutoff_ms: int, found: Sequence[Orphan]) -> Iterator[Orphan | None]:
    for orphan in found:
        try:
            entry = storage.stat(orphan.path)
        except PathNotFoundError:
            yield None
        else:
            yield Orphan(orphan.path, entry.size) if 0 < entry.modified_ms < cutoff_ms else None

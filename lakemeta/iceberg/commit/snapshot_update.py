"""What a new snapshot takes out of a table and puts in (Iceberg's SnapshotUpdate)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, Protocol

import attrs

from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH, Snapshot

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.manifests.entries import DataFile, EntryColumns, ManifestEntry, ManifestFile
    from lakemeta.iceberg.spec.table_metadata import TableMetadata


class Manifests(Protocol):
    """Reads manifest lists and manifests: many at once, and each only once."""

    def of(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in list order."""
        ...

    def holding(
        self, manifests: Sequence[ManifestFile], paths: AbstractSet[str] | None = None
    ) -> Sequence[ManifestFile]:
        """Those that hold a live file, with one of these paths if any are given; far cheaper than entries."""
        ...

    def entries(self, manifests: Sequence[ManifestFile]) -> Sequence[Sequence[ManifestEntry]]:
        """All entries of each manifest, in file order, with what they inherit filled in."""
        ...

    def to_move(self, manifests: Sequence[ManifestFile], metadata: TableMetadata) -> Sequence[Sequence[ManifestEntry]]:
        """As ``entries``, to be written into new manifests of this version of the table; files may lack metrics."""
        ...

    def live_to_move(self, manifests: Sequence[ManifestFile], metadata: TableMetadata) -> Iterator[EntryColumns]:
        """The live entries of each manifest, to be written into new ones of this version of the table."""
        ...


@attrs.frozen(eq=False)
class SnapshotUpdate:
    """The change that one snapshot makes.

    With operation ``replace`` other files hold the same rows (Iceberg's RewriteFiles). ``data_sequence_number`` is what
    the new data files get, None to give them the new snapshot's; ``added_deletes`` say that each for itself. Deletes
    that came after ``starting_snapshot_id`` are looked for; None takes any in the table's history for a new one.
    ``referenced`` are data files that added deletes are about: they must still be there, without newer vectors.
    ``properties`` stand in the summary. ``hints`` are paths of manifests in which the removed data files were seen.
    """

    operation: Literal["append", "replace", "overwrite", "delete"] = "replace"
    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    added_deletes: tuple[tuple[DataFile, int | None], ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    starting_snapshot_id: int | None = None
    data_sequence_number: int | None = None
    branch: str = MAIN_BRANCH
    properties: Mapping[str, str] = attrs.field(factory=dict)
    hints: frozenset[str] = frozenset()
    referenced: frozenset[str] = frozenset()

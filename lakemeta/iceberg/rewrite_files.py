"""What a replace takes out of a table and puts in (Iceberg's RewriteFiles)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol

import attrs

from lakemeta.iceberg.metadata import MAIN_BRANCH, Snapshot

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.manifest import DataFile, ManifestEntry, ManifestFile


class Manifests(Protocol):
    """Reads manifest lists and manifests: many at once, and each only once."""

    def of(self, snapshot: Snapshot) -> Sequence[ManifestFile]:
        """The manifests of a snapshot, in list order."""
        ...

    def entries(self, manifests: Sequence[ManifestFile]) -> Sequence[Sequence[ManifestEntry]]:
        """All entries of each manifest, in file order, with what they inherit filled in."""
        ...


@attrs.frozen(eq=False)
class RewriteFiles:
    """Replace files by others with the same rows.

    ``data_sequence_number`` is what the new data files get, None to give them the new snapshot's. Deletes
    that came after ``starting_snapshot_id`` are looked for; None takes any delete in the table's history
    for a new one. ``properties`` stand in the summary. ``hints`` are paths of manifests in which the
    removed data files were seen.
    """

    removed: tuple[DataFile, ...] = ()
    added: tuple[DataFile, ...] = ()
    removed_deletes: tuple[DataFile, ...] = ()
    starting_snapshot_id: int | None = None
    data_sequence_number: int | None = None
    branch: str = MAIN_BRANCH
    properties: Mapping[str, str] = attrs.field(factory=dict)
    hints: frozenset[str] = frozenset()

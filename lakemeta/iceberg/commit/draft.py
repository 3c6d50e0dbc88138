"""What a change is applied to, and the version that it gives."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


@attrs.frozen(slots=True, eq=False)
class Base:
    """What a change is applied to: the newest metadata, the location it was read from, and the time (ms)."""

    metadata: TableMetadata
    location: str
    now_ms: int


@attrs.frozen(slots=True, eq=False)
class Draft:
    """A version that could be committed: its metadata, its new snapshot, and its new files by location.

    A change without a new snapshot says by ``arrived`` whether what it was to do is done in a version of the table; it
    is asked only where the answer to a commit was lost.
    """

    metadata: TableMetadata
    snapshot: Snapshot | None
    files: Mapping[str, bytes]
    arrived: Callable[[TableMetadata], bool] | None = None

    def has_arrived(self, current: TableMetadata) -> bool:
        """True if a version of the table surely has this change."""
        if self.snapshot is not None:
            return self.snapshot.snapshot_id in current.snapshots_by_id
        return self.arrived is not None and self.arrived(current)

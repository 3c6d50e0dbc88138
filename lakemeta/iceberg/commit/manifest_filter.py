"""Taking files out of manifests (Iceberg's ManifestFilterManager).

A manifest that loses a file is written anew: files that stay become EXISTING, files that go become DELETED,
and what was DELETED before is forgotten. A manifest that loses nothing is kept as it is.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.iceberg.manifests.entries import DataFile, EntryStatus, FileKey, ManifestEntry, file_key

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence


@attrs.frozen(slots=True)
class Removal:
    """Which files go.

    Of delete files also those with a data sequence number below ``min_sequence_number``, which can match no
    row any more, and deletion vectors of the data files ``without``.
    """

    keys: frozenset[FileKey]
    min_sequence_number: int = 0
    without: frozenset[str] = frozenset()

    @property
    def is_empty(self) -> bool:
        """True if nothing is named; age alone is no reason to open a manifest."""
        return not self.keys and not self.without

    def takes(self, entry: ManifestEntry) -> bool:
        """True if the file of this live entry goes."""
        file = entry.data_file
        if file_key(file) in self.keys:
            return True
        if file.is_deletion_vector and file.referenced_data_file in self.without:
            return True
        return 0 < (entry.sequence_number or 0) < self.min_sequence_number


@attrs.frozen
class Filtered:
    """What is left of a manifest that lost files.

    Its new entries, the files removed, how many came up twice.
    """

    entries: tuple[ManifestEntry, ...]
    removed: tuple[DataFile, ...]
    duplicates: int


def filter_entries(entries: Sequence[ManifestEntry], removal: Removal, snapshot_id: int) -> Filtered | None:
    """The entries without the files that go, removed by ``snapshot_id``; None if no live file goes."""
    live = [entry for entry in entries if entry.is_live]
    if not any(map(removal.takes, live)):
        return None
    kept: list[ManifestEntry] = []
    removed: dict[FileKey, DataFile] = {}
    duplicates = 0
    for entry in live:
        if not removal.takes(entry):
            kept.append(entry.changed(EntryStatus.EXISTING, entry.snapshot_id, entry.stored))
            continue
        kept.append(entry.changed(EntryStatus.DELETED, snapshot_id, entry.stored))
        duplicates += file_key(entry.data_file) in removed
        removed.setdefault(file_key(entry.data_file), entry.data_file)
    return Filtered(tuple(kept), tuple(removed.values()), duplicates)


def merge_entries(manifests: Iterable[Sequence[ManifestEntry]], snapshot_id: int) -> list[ManifestEntry]:
    """The entries of several manifests in one: only changes of ``snapshot_id`` are still changes."""
    merged: list[ManifestEntry] = []
    for entries in manifests:
        for entry in entries:
            if entry.snapshot_id == snapshot_id or entry.status == EntryStatus.EXISTING:
                merged.append(entry)
            elif entry.is_live:
                merged.append(entry.changed(EntryStatus.EXISTING, entry.snapshot_id, entry.stored))
    return merged

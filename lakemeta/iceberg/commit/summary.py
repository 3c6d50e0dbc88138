"""Snapshot summaries: what a commit added and removed, and the totals after it.

Keys and arithmetic are those of Iceberg's SnapshotSummary and SnapshotProducer: a counter stands in the
summary only if it is above zero, a total only if the parent had it. Sizes are bytes; of a deletion vector
only its own blob counts.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from typing import Final

import attrs

from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.version import __version__

ENGINE: Final = {"engine-name": "lakemeta", "engine-version": __version__}
TOTALS: Final = {
    "total-records": ("added-records", "deleted-records"),
    "total-files-size": ("added-files-size", "removed-files-size"),
    "total-data-files": ("added-data-files", "deleted-data-files"),
    "total-delete-files": ("added-delete-files", "removed-delete-files"),
    "total-position-deletes": ("added-position-deletes", "removed-position-deletes"),
    "total-equality-deletes": ("added-equality-deletes", "removed-equality-deletes"),
}

PartitionPath = Callable[[DataFile], str]


@attrs.frozen
class Changes:
    """The files a commit adds and removes.

    ``duplicates`` are further entries of files removed once already.
    """

    added: tuple[DataFile, ...] = ()
    removed: tuple[DataFile, ...] = ()
    duplicates: int = 0

    def counters(self) -> dict[str, str]:
        """The counters of the summary, those above zero."""
        return _texts(_count(self.added, self.removed))

    def partition_entries(self, path: PartitionPath, limit: int) -> dict[str, str]:
        """``changed-partition-count``, and one entry a partition if there are at most ``limit``.

        ``limit`` is the table's ``write.summary.partition-limit``, 0 if not set: no partition entries.
        """
        changed: dict[str, tuple[list[DataFile], list[DataFile]]] = {}
        for side, files in enumerate((self.added, self.removed)):
            for file in files:
                changed.setdefault(path(file), ([], []))[side].append(file)
        entries = {"changed-partition-count": str(len(changed))}
        if changed and len(changed) <= limit:
            entries["partition-summaries-included"] = "true"
            for name, sides in changed.items():
                if name:
                    counts = _texts(_count(*sides)).items()
                    entries[f"partitions.{name}"] = ",".join(f"{key}={value}" for key, value in counts)
        return entries


def totals(previous: Mapping[str, str] | None, current: Mapping[str, str]) -> dict[str, str]:
    """The totals after a commit; ``previous`` is the summary of the branch head, None for a first snapshot."""
    before = dict.fromkeys(TOTALS, "0") if previous is None else previous
    after: dict[str, str] = {}
    for total, (added, removed) in TOTALS.items():
        value = _total(before.get(total), current.get(added), current.get(removed))
        if value is not None:
            after[total] = str(value)
    return after


def _total(before: str | None, added: str | None, removed: str | None) -> int | None:
    """The new total; None where the old one is absent, no number, or would fall below zero."""
    try:
        value = int(before or "")
    except ValueError:
        return None
    value += int(added or 0) - int(removed or 0)
    return value if value >= 0 else None


def _count(added: Iterable[DataFile], removed: Iterable[DataFile]) -> Counter[str]:
    counts: Counter[str] = Counter()
    for file in added:
        counts["added-files-size"] += _size(file)
        counts.update(_added(file))
    for file in removed:
        counts["removed-files-size"] += _size(file)
        counts.update(_removed(file))
    return counts


def _size(file: DataFile) -> int:
    return file.content_size_in_bytes or 0 if file.is_deletion_vector else file.file_size_in_bytes


def _added(file: DataFile) -> dict[str, int]:
    if file.content == FileContent.DATA:
        return {"added-data-files": 1, "added-records": file.record_count}
    if file.content == FileContent.EQUALITY_DELETES:
        return {
            "added-delete-files": 1,
            "added-equality-delete-files": 1,
            "added-equality-deletes": file.record_count,
        }
    kind = "added-dvs" if file.is_deletion_vector else "added-position-delete-files"
    return {"added-delete-files": 1, kind: 1, "added-position-deletes": file.record_count}


def _removed(file: DataFile) -> dict[str, int]:
    if file.content == FileContent.DATA:
        return {"deleted-data-files": 1, "deleted-records": file.record_count}
    if file.content == FileContent.EQUALITY_DELETES:
        return {
            "removed-delete-files": 1,
            "removed-equality-delete-files": 1,
            "removed-equality-deletes": file.record_count,
        }
    kind = "removed-dvs" if file.is_deletion_vector else "removed-position-delete-files"
    return {"removed-delete-files": 1, kind: 1, "removed-position-deletes": file.record_count}


def _texts(counts: Counter[str]) -> dict[str, str]:
    return {key: str(value) for key, value in sorted(counts.items()) if value > 0}

"""Which files of a listing are looked at, by name, and which unreferenced ones stay all the same.

Rules of this module:

1. Names that begin with ``_`` or ``.`` are hidden, with all that is below them, except those that begin with
   ``<field>=`` for a partition field of any of the table's specs (PartitionAwareHiddenPathFilter). The location itself
   may be hidden.
2. Beyond the engine: what carries a uuid of a rewrite of ours that has not ended, begins with the id of a Flink job
   that has written to the table, or lies in a quarantine folder, stays.
3. So does what has a name that no plan can hold or no door lets through: not UTF-8, or with empty or dot parts.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.paths import is_text

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.iceberg.spec.table_metadata import TableMetadata

OURS: Final = ".lakemeta-"
FLINK_JOB: Final = "flink.job-id"
_HIDDEN: Final = ("_", ".")
_NO_PARTS: Final = frozenset({"", ".", ".."})


@attrs.frozen
class HiddenNames:
    """Rule 1; ``shown`` are the beginnings of names that are listed although they look hidden."""

    shown: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: TableMetadata) -> HiddenNames:
        """What is hidden in a table."""
        names = {field.name for spec in metadata.partition_specs for field in spec.fields}
        return cls(tuple(sorted(f"{name}=" for name in names if name.startswith(_HIDDEN))))

    def hide(self, name: str) -> bool:
        """True for one part of a path that is hidden."""
        return name.startswith(_HIDDEN) and not (self.shown and name.startswith(self.shown))


@attrs.frozen
class Spared:
    """Rules 2 and 3: names that stay; ``uuids`` are those of rewrites that have not ended."""

    uuids: tuple[str, ...] = ()
    flink_jobs: tuple[str, ...] = ()

    @classmethod
    def of(cls, metadata: TableMetadata, uuids: Iterable[str]) -> Spared:
        """What stays of a table, given the uuids of its rewrites that have not ended."""
        jobs = {snapshot.summary.get(FLINK_JOB) for snapshot in metadata.snapshots}
        return cls(tuple(sorted(uuids)), tuple(sorted(job for job in jobs if job)))

    def why(self, path: str) -> str | None:
        """Why a file stays, in a few words; None if it need not. ``path`` is the part below the listed location."""
        parts = path.split("/")
        name = parts[-1]
        if not is_text(path) or "\0" in path or not _NO_PARTS.isdisjoint(parts):
            return "has a name that no plan can hold"
        if any(part.startswith(OURS) for part in parts):
            return "is lakemeta's own"
        if any(uuid in name for uuid in self.uuids):
            return "is of a rewrite that has not ended"
        if self.flink_jobs and name.startswith(self.flink_jobs):
            return "may be of a running Flink job"
        return None

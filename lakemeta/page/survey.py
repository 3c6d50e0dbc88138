"""What a page shows of a table: sizes of its files, its partitions, and its history."""

from __future__ import annotations

from collections import Counter

import attrs


@attrs.frozen
class Moment:
    """One instant (Hudi) or snapshot (Iceberg), and the files and bytes that it added or still holds.

    ``ms`` is its time in ms since the epoch, None for an instant, whose name is its time. ``names`` are branches, tags
    or states that it has.
    """

    name: str
    ms: int | None
    what: str
    files: int
    bytes: int
    names: tuple[str, ...] = ()


def bin_of(size: int) -> int:
    """The bin of a size in bytes: files from 2^(n-1) to below 2^n bytes are in bin n, empty ones in bin 0."""
    return max(0, size).bit_length()


@attrs.define
class Counts:
    """Files as they are counted up: of how many each bin has, of partitions, and sizes by path of those asked for.

    Counts of parts of a table are added to each other.
    """

    bins: Counter[int] = attrs.field(factory=Counter)
    files: Counter[str] = attrs.field(factory=Counter)
    bytes: Counter[str] = attrs.field(factory=Counter)
    sizes: dict[str, int] = attrs.field(factory=dict)

    def add(self, partition: str, size: int) -> None:
        """Count one file."""
        self.bins[bin_of(size)] += 1
        self.files[partition] += 1
        self.bytes[partition] += size

    def update(self, other: Counts) -> None:
        """Add what another part of the table has."""
        self.bins.update(other.bins)
        self.files.update(other.files)
        self.bytes.update(other.bytes)
        self.sizes.update(other.sizes)


@attrs.frozen
class Survey:
    """A table as it is now; ``moments`` are in order of time.

    ``holds`` says in words what the files and bytes of a moment are.
    """

    counts: Counts
    moments: tuple[Moment, ...]
    holds: str

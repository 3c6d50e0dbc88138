"""Which files share a manifest: cut into ranges of their partitions, as the engine's range partitioning cuts them.

Rules of this module (RewriteManifestsSparkAction, and Spark's RangePartitioner where all rows are sampled):

1. As many manifests are wanted as the old ones' bytes fill at the target size, rounded up.
2. Files of a partitioned spec are sorted by partition, field by field in the order of the fields' ids (or of
   ``sort_by``), nulls first, NaN last, and cut after the first partition with which a range holds its share of all
   files. A partition is never cut by this, so there may be fewer ranges than wanted.
3. Files of an unpartitioned spec are cut evenly, in their order.
4. A range that would fill more than 1.2 times the target goes on in another manifest after a multiple of 250 files.
   How many bytes a file takes is the old manifests' mean.
"""

from __future__ import annotations

from bisect import bisect_left
from collections import defaultdict
from itertools import pairwise
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.spec.values import order_key

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import ManifestFile
    from lakemeta.iceberg.spec.partitioning import PartitionSpec
    from lakemeta.iceberg.spec.types import Value

Key = tuple[tuple[bool, bool, "Value"], ...]
_ROLL_FACTOR: Final = 1.2
_ROLL_FILES: Final = 250


@attrs.frozen
class Clustering:
    """How the files of some manifests of one spec and content are spread.

    ``fields`` are positions of partition fields to sort by; none for an unpartitioned spec. ``files_a_manifest`` is
    where rule 4 cuts.
    """

    fields: tuple[int, ...]
    wanted: int
    files_a_manifest: int

    @classmethod
    def of(
        cls, manifests: Sequence[ManifestFile], spec: PartitionSpec, sort_by: Sequence[str] | None, target: int
    ) -> Clustering:
        """The clustering of the files of ``manifests``; ``target`` is bytes."""
        size = sum(m.manifest_length for m in manifests)
        files = sum(
            (m.added_files_count or 0) + (m.existing_files_count or 0) + (m.deleted_files_count or 0) for m in manifests
        )
        steps = int(_ROLL_FACTOR * target) * max(1, files) / max(1, size) / _ROLL_FILES
        return cls(_fields(spec, sort_by), -(-size // target), max(1, -int(-steps // 1)) * _ROLL_FILES)

    def outputs(self, partitions: Sequence[tuple[Value, ...]]) -> list[list[int]]:
        """The positions of files, given the partition of each, manifest by manifest, in each sorted by partition."""
        ranges = self._ranges(partitions) if self.fields else _even(len(partitions), self.wanted)
        limit = self.files_a_manifest
        return [found[at : at + limit] for found in ranges for at in range(0, len(found), limit)]

    def _ranges(self, partitions: Sequence[tuple[Value, ...]]) -> list[list[int]]:
        by_partition: defaultdict[tuple[Value, ...], list[int]] = defaultdict(list)
        for at, partition in enumerate(partitions):
            by_partition[partition].append(at)
        by_key: defaultdict[Key, list[int]] = defaultdict(list)
        for partition, found in by_partition.items():
            by_key[self.key(partition)] += found
        ordered = {key: sorted(by_key[key]) for key in sorted(by_key)}
        bounds = range_bounds({key: len(found) for key, found in ordered.items()}, self.wanted)
        ranges: list[list[int]] = [[] for _ in range(len(bounds) + 1)]
        for key, found in ordered.items():
            ranges[bisect_left(bounds, key)] += found
        return [found for found in ranges if found]

    def key(self, partition: tuple[Value, ...]) -> Key:
        """What a partition is sorted by."""
        return tuple(order_key(partition[at]) for at in self.fields)


def range_bounds(counts: Mapping[Key, int], wanted: int) -> list[Key]:
    """The last keys of all ranges but the last, given how many files have each key, in key order."""
    total = sum(counts.values())
    parts = min(wanted, total)
    bounds: list[Key] = []
    if parts < 2:
        return bounds
    step = target = total / parts
    seen = 0
    for key, count in counts.items():
        seen += count
        if seen >= target and len(bounds) < parts - 1:
            bounds.append(key)
            target += step
    return bounds


def _fields(spec: PartitionSpec, sort_by: Sequence[str] | None) -> tuple[int, ...]:
    if spec.is_unpartitioned:
        return ()
    if sort_by is not None:
        at = {field.name: i for i, field in enumerate(spec.fields)}
        return tuple(at[name] for name in sort_by)
    return tuple(sorted(range(len(spec.fields)), key=lambda i: spec.fields[i].field_id))


def _even(files: int, wanted: int) -> list[list[int]]:
    parts = min(wanted, files)
    cuts = [files * part // parts for part in range(parts + 1)] if parts else [0]
    return [list(range(start, end)) for start, end in pairwise(cuts)]

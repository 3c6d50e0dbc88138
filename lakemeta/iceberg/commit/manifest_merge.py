"""Which manifests of a new snapshot are merged into one.

``commit.manifest.*`` (Iceberg's ManifestMergeManager).

Manifests of one partition spec are packed from the end of the list, one open bin at a time, by their length
in bytes; so the bin that stays small is the newest one. The bin with the newest manifest is merged only
once it holds ``min-count-to-merge`` manifests; every other bin of more than one is merged.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.iceberg.spec.properties import bool_property, int_property

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from lakemeta.iceberg.manifests.entries import ManifestFile


@attrs.frozen(slots=True)
class MergePolicy:
    """The table's manifest merging properties; the target is bytes."""

    enabled: bool = True
    target_size_bytes: int = 8 * 1024 * 1024
    min_count_to_merge: int = 100

    @classmethod
    def of(cls, properties: Mapping[str, str]) -> MergePolicy:
        """The policy of a table; raises OptionError if a property is not a number."""
        return cls(
            bool_property(properties, "commit.manifest-merge.enabled", True),
            int_property(properties, "commit.manifest.target-size-bytes", 8 * 1024 * 1024),
            int_property(properties, "commit.manifest.min-count-to-merge", 100),
        )


def merge_bins(manifests: Sequence[ManifestFile], policy: MergePolicy) -> list[list[ManifestFile]]:
    """The manifests in the order of the new list; a bin of more than one is to be merged into one manifest.

    Specs come highest first, as Iceberg writes them.
    """
    if not policy.enabled or not manifests:
        return [[manifest] for manifest in manifests]
    bins: list[list[ManifestFile]] = []
    for spec_id in sorted({m.partition_spec_id for m in manifests}, reverse=True):
        group = [m for m in manifests if m.partition_spec_id == spec_id]
        for packed in _pack_from_end(group, policy.target_size_bytes):
            if manifests[0] in packed and len(packed) < policy.min_count_to_merge:
                bins += [[manifest] for manifest in packed]
            else:
                bins.append(packed)
    return bins


def _pack_from_end(manifests: Sequence[ManifestFile], target: int) -> list[list[ManifestFile]]:
    bins: list[list[ManifestFile]] = []
    room = -1
    for manifest in reversed(manifests):
        if not bins or manifest.manifest_length > room:
            bins.append([])
            room = target
        bins[-1].append(manifest)
        room -= manifest.manifest_length
    return [bin_[::-1] for bin_ in reversed(bins)]

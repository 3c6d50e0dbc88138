"""Plans a rewrite of manifests: which are replaced, and by how many (I/O: reads metadata and manifests)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.manifest_rewrite.clustering import Clustering
from lakemeta.iceberg.manifest_rewrite.gain import Opened, in_order
from lakemeta.iceberg.manifest_rewrite.options import ManifestOptions
from lakemeta.iceberg.manifests.codec import summarise
from lakemeta.iceberg.manifests.entries import ManifestContent, ManifestFile
from lakemeta.iceberg.manifests.lines import check_snapshots
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.service.plans import header_of, id_of
from lakemeta.iceberg.spec.locations import within
from lakemeta.plan import Plan
from lakemeta.plan_operations import RewriteManifests

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.service.requests import PlanRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata

REWRITE_MANIFESTS: Final = "rewrite-manifests"


Kept = Literal["there are none", "there is no other", "no gain"]


@attrs.frozen
class Found:
    """Manifests of one spec and content that are to be replaced, and what a query opens before and after that."""

    spec_id: int
    content: ManifestContent
    manifests: tuple[ManifestFile, ...]
    expected_outputs: int
    before: Opened
    after: Opened


def plan_rewrite_manifests(request: PlanRequest) -> Plan:
    """Plan on the newest version of the table; one without current snapshot gives an empty plan.

    Raises OptionError for options that make no sense, in the engine's words where it has any, and
    UnsupportedFeatureError for a manifest list that does not count files.
    """
    request.refuse_where(REWRITE_MANIFESTS)
    operations = request.place.operations
    metadata = operations.refresh().metadata
    options = ManifestOptions.parse(request.options, metadata)
    head = metadata.current_snapshot
    stored = StoredManifests(operations.storage, metadata.specs_by_id, request.executor)
    listed = () if head is None else stored.of(head)
    if head is not None:
        check_snapshots(listed, head, metadata)
    found = [
        group
        for content in ManifestContent
        for spec_id in options.spec_ids
        if isinstance(group := judge(spec_id, content, listed, options, metadata, stored), Found)
    ]
    facts = {
        "snapshot_id": id_of(head),
        "manifests": len(listed),
        "opened_by_a_query_of_one_partition": [
            {
                "spec_id": group.spec_id,
                "content": group.content.name.lower(),
                "before": group.before.describe(),
                "after": group.after.describe(),
            }
            for group in found
        ],
    }
    header = header_of(request, REWRITE_MANIFESTS, metadata, head, facts)
    return Plan(header, [_operation(group, metadata) for group in found])


def judge(
    spec_id: int,
    content: ManifestContent,
    listed: Sequence[ManifestFile],
    options: ManifestOptions,
    metadata: TableMetadata,
    stored: StoredManifests,
) -> Found | Kept:
    """What a plan does with the manifests of one spec and content: how they are replaced, or why they stay."""
    manifests = [m for m in listed if m.content == content and m.partition_spec_id == spec_id]
    if not manifests:
        return "there are none"
    refuse_uncounted(manifests)
    clustering = Clustering.of(manifests, metadata.specs_by_id[spec_id], options.sort_by, options.target_size_bytes)
    if clustering.wanted == 1 and len(manifests) == 1:
        return "there is no other"
    read = stored.columns(manifests)  # also without partitions: a line may count what is not there
    partitions = [partition for entries in read for partition in entries.live_partitions]
    outputs, types = clustering.outputs(partitions), metadata.partition_types(spec_id)
    counted = in_order(partitions, clustering.key)
    before = Opened.count([m.partitions for m in manifests], types, counted)
    after = Opened.count([summarise(types, [partitions[at] for at in found]) for found in outputs], types, counted)
    if options.only_if_gained and not before.is_gain(after):
        return "no gain"
    return Found(spec_id, content, tuple(manifests), len(outputs), before, after)


def refuse_uncounted(manifests: Sequence[ManifestFile]) -> None:
    """Raise UnsupportedFeatureError for a manifest whose files the list does not count, as of very old tables."""
    for manifest in manifests:
        if None in (manifest.added_files_count, manifest.existing_files_count, manifest.deleted_files_count):
            raise UnsupportedFeatureError(f"No file counts in manifest: {manifest.manifest_path}; nothing was done")


def _operation(group: Found, metadata: TableMetadata) -> RewriteManifests:
    return RewriteManifests(
        spec_id=group.spec_id,
        content=group.content.name.lower(),
        inputs=[within(metadata.location, m.manifest_path) for m in group.manifests],
        bytes=sum(m.manifest_length for m in group.manifests),
        expected_outputs=group.expected_outputs,
    )

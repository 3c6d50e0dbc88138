"""Says whether rewrite-manifests takes a manifest, and why (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.errors import OptionError
from lakemeta.iceberg.manifest_rewrite.options import ONLY_IF_GAINED, ManifestOptions
from lakemeta.iceberg.manifest_rewrite.planner import REWRITE_MANIFESTS, Found, Kept, judge
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.service.requests import PlanRequest

_REASONS: Final[Mapping[Kept, str]] = {
    "there is no other": "it is the only manifest of its partition spec and content, and fits into one",
    "no gain": f"with the others of its partition spec it is clustered well enough for {ONLY_IF_GAINED}",
}


def why_manifest(request: PlanRequest, location: str) -> str:
    """The end of a sentence on a manifest. Raises OptionError if the current snapshot does not have it."""
    request.refuse_where(REWRITE_MANIFESTS)
    operations = request.place.operations
    metadata = operations.refresh().metadata
    options, head = ManifestOptions.parse(request.options, metadata), metadata.current_snapshot
    stored = StoredManifests(operations.storage, metadata.specs_by_id, request.executor)
    listed = () if head is None else stored.of(head)
    manifest = next((m for m in listed if file_key(m.manifest_path) == file_key(location)), None)
    if manifest is None:
        raise OptionError(f"{location} is no manifest of the current snapshot of {request.place.url}")
    spec_id = manifest.partition_spec_id
    if spec_id not in options.spec_ids:
        asked = ", ".join(map(str, options.spec_ids))
        return f"stays: its partition spec is {spec_id}, and manifests of {asked} are asked for"
    judged = judge(spec_id, manifest.content, listed, options, metadata, stored)
    if not isinstance(judged, Found):
        return f"stays: {_REASONS[judged]}"
    manifests = count_of(len(judged.manifests), f"{manifest.content.name.lower()} manifest")
    size = sum(one.manifest_length for one in judged.manifests)
    return (
        f"would be rewritten: {manifests} of partition spec {spec_id}, of {size} bytes, become "
        f"{judged.expected_outputs} of about {options.target_size_bytes} bytes; a query of one partition opens "
        f"{judged.before.describe()}, and then {judged.after.describe()}"
    )

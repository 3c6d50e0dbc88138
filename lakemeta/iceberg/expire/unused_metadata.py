"""Which schemas and partition specs nothing needs once snapshots have expired (``clean_expired_metadata``).

Iceberg's rule: needed are the current schema and the default spec, the schemas of the snapshots that the retention
rules keep, and the specs of these snapshots' manifests. A snapshot that the rules would keep counts also if it is named
to go.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

if TYPE_CHECKING:
    from collections.abc import Set as AbstractSet

    from lakemeta.iceberg.spec.table_metadata import TableMetadata


@attrs.frozen
class Unused:
    """Ids of schemas and partition specs that can go."""

    schemas: tuple[int, ...] = ()
    specs: tuple[int, ...] = ()


def unused(metadata: TableMetadata, ruled: AbstractSet[int], spec_ids: AbstractSet[int]) -> Unused:
    """What can go, given the snapshots that stay and the partition specs of all their manifests."""
    kept = (metadata.snapshots_by_id[i] for i in ruled)
    schemas = {snapshot.schema_id for snapshot in kept} | {metadata.current_schema_id}
    specs = {*spec_ids, metadata.default_spec_id}
    return Unused(
        tuple(sorted(metadata.schemas_by_id.keys() - schemas)), tuple(sorted(metadata.specs_by_id.keys() - specs))
    )

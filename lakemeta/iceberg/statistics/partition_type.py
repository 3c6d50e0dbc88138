"""The one struct in which partitions of all specs of a table are written (Iceberg's Partitioning.partitionType)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.spec.types import NestedField, StructType

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.partitioning import PartitionField
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value


@attrs.frozen
class UnifiedPartition:
    """The struct, and where each spec's values stand in it (None: the struct has no such field)."""

    struct: StructType
    places: dict[int, tuple[int | None, ...]]

    @classmethod
    def of(cls, metadata: TableMetadata) -> UnifiedPartition:
        """Every partition field whose column the current schema has, by field id, named as in the newest spec.

        Raises UnsupportedFeatureError if two specs give one field id to different things, as version 1 tables may.
        """
        known: dict[int, tuple[PartitionField, NestedField]] = {}
        for spec in sorted(metadata.partition_specs, key=lambda s: -s.spec_id):
            for field, kind in zip(spec.fields, metadata.partition_types(spec.spec_id), strict=True):
                if metadata.schema.field(field.source_id) is None:
                    continue
                other, found = known.get(field.field_id, (field, NestedField(field.field_id, field.name, kind)))
                _check_same(field, other)
                if other.transform.name == "void":
                    other, found = field, attrs.evolve(found, type=kind)
                known[field.field_id] = other, found
        ordered = sorted(known)
        places = {field_id: place for place, field_id in enumerate(ordered)}
        return cls(
            StructType(tuple(known[field_id][1] for field_id in ordered)),
            {s.spec_id: tuple(places.get(f.field_id) for f in s.fields) for s in metadata.partition_specs},
        )

    def coerced(self, spec_id: int, partition: tuple[Value, ...]) -> tuple[Value, ...]:
        """A partition of a spec in terms of the struct; fields that the spec lacks are null."""
        found: list[Value] = [None] * len(self.struct.fields)
        for place, value in zip(self.places[spec_id], partition, strict=True):
            if place is not None:
                found[place] = value
        return tuple(found)


def _check_same(one: PartitionField, other: PartitionField) -> None:
    transforms = {one.transform, other.transform}
    if one.source_id == other.source_id and len({t for t in transforms if t.name != "void"}) < 2:
        return
    texts = [f"'{f.field_id}: {f.name}: {f.transform}({f.source_id})'" for f in (one, other)]
    raise UnsupportedFeatureError(f"Conflicting partition fields: [{', '.join(texts)}]; nothing was done")

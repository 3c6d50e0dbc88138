"""Partition specs and sort orders, their JSON form, and the paths of partitions."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal
from urllib.parse import quote_plus

import attrs

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.iceberg.spec.json_object import JsonObject
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import UNKNOWN, Json, Type, Value

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.iceberg.spec.schema import Schema

PARTITION_DATA_ID_START = 1000


@attrs.frozen(slots=True)
class PartitionField:
    """One partition column: a transform of a source column."""

    source_id: int
    field_id: int
    name: str
    transform: Transform
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)


@attrs.frozen(slots=True)
class PartitionSpec:
    """How files are partitioned. A partition is a tuple of values in the order of ``fields``."""

    spec_id: int
    fields: tuple[PartitionField, ...] = ()
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @property
    def is_unpartitioned(self) -> bool:
        """True without fields, or with dropped (void) ones only."""
        return all(f.transform.name == "void" for f in self.fields)

    def types(self, schema: Schema) -> tuple[Type, ...]:
        """The types of the partition values."""
        return tuple(f.transform.result_type(_source_type(schema, f.source_id)) for f in self.fields)

    def path(self, schema: Schema, partition: tuple[Value, ...]) -> str:
        """The directory of a partition, ``a=1/b=x%2Fy`` (engine: PartitionSpec.partitionToPath)."""
        rows = zip(self.fields, self.types(schema), partition, strict=True)
        return "/".join(f"{_escape(f.name)}={_escape(f.transform.human(t, v))}" for f, t, v in rows)

    def identity_values(self, partition: tuple[Value, ...]) -> dict[int, Value]:
        """The values of columns that a file's partition gives for all of its rows, by column id."""
        pairs = zip(self.fields, partition, strict=True)
        return {field.source_id: value for field, value in pairs if field.transform.name == "identity"}


@attrs.frozen(slots=True)
class SortField:
    """One key of a sort order."""

    source_id: int
    transform: Transform
    direction: Literal["asc", "desc"] = "asc"
    null_order: Literal["nulls-first", "nulls-last"] = "nulls-first"
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)


@attrs.frozen(slots=True)
class SortOrder:
    """How rows are sorted in files; order 0 has no fields."""

    order_id: int
    fields: tuple[SortField, ...] = ()
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @property
    def is_sorted(self) -> bool:
        """True if there is anything to sort by."""
        return bool(self.fields)


def spec_from_json(value: Json) -> PartitionSpec:
    """Read an item of ``partition-specs``."""
    parts = JsonObject(value, "a partition spec")
    spec_id = parts.need("spec-id", int)
    return PartitionSpec(spec_id, spec_fields_from_json(parts.need("fields", list)), parts.rest)


def spec_to_json(spec: PartitionSpec) -> dict[str, Json]:
    """A spec as ``partition-specs`` holds it."""
    return {"spec-id": spec.spec_id, "fields": spec_fields_to_json(spec), **spec.extras}


def spec_fields_from_json(fields: list[Json]) -> tuple[PartitionField, ...]:
    """Read the fields of a spec; ids, which version 1 tables may leave out, count up from 1000."""
    return tuple(_field_from_json(f, PARTITION_DATA_ID_START + i) for i, f in enumerate(fields))


def spec_fields_to_json(spec: PartitionSpec) -> list[Json]:
    """The fields of a spec, as manifests and version 1 metadata hold them."""
    return [
        {
            "name": f.name,
            "transform": str(f.transform),
            "source-id": f.source_id,
            "field-id": f.field_id,
            **f.extras,
        }
        for f in spec.fields
    ]


def sort_order_from_json(value: Json) -> SortOrder:
    """Read an item of ``sort-orders``."""
    parts = JsonObject(value, "a sort order")
    return SortOrder(parts.need("order-id", int), parts.items("fields", _sort_field_from_json), parts.rest)


def sort_order_to_json(order: SortOrder) -> dict[str, Json]:
    """A sort order as ``sort-orders`` holds it."""
    return {
        "order-id": order.order_id,
        "fields": [_sort_field_to_json(f) for f in order.fields],
        **order.extras,
    }


def _field_from_json(value: Json, default_id: int) -> PartitionField:
    parts = JsonObject(value, "a partition field")
    name = parts.need("name", str)
    field_id = parts.take("field-id", int)
    return PartitionField(
        source_id=_source_id(parts, f"partition field {name}"),
        field_id=default_id if field_id is None else field_id,
        name=name,
        transform=Transform.parse(parts.need("transform", str)),
        extras=parts.rest,
    )


def _sort_field_from_json(value: Json) -> SortField:
    parts = JsonObject(value, "a sort field")
    direction, nulls = parts.need("direction", str).lower(), parts.need("null-order", str).lower()
    return SortField(
        source_id=_source_id(parts, "a sort field"),
        transform=Transform.parse(parts.need("transform", str)),
        direction="desc" if direction == "desc" else "asc",
        null_order="nulls-last" if nulls == "nulls-last" else "nulls-first",
        extras=parts.rest,
    )


def _sort_field_to_json(field: SortField) -> dict[str, Json]:
    return {
        "transform": str(field.transform),
        "source-id": field.source_id,
        "direction": field.direction,
        "null-order": field.null_order,
        **field.extras,
    }


def _source_id(parts: JsonObject, what: str) -> int:
    several = parts.rest.get("source-ids")
    if several is not None and len(several) != 1:
        raise UnsupportedFeatureError(f"{what} has several source columns, which lakemeta does not handle")
    return parts.need("source-id", int) if several is None else int(several[0])


def _source_type(schema: Schema, source_id: int) -> Type:
    field = schema.field(source_id)
    return UNKNOWN if field is None else field.type


def _escape(text: str) -> str:
    """Encode as java.net.URLEncoder does."""
    return quote_plus(text, safe="*").replace("~", "%7E")

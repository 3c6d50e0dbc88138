"""Schemas and their JSON form (spec: "Appendix C: JSON serialization"), and name mappings."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.spec import values
from lakemeta.iceberg.spec.json_object import JsonObject, present
from lakemeta.iceberg.spec.types import (
    Json,
    ListType,
    MapType,
    NestedField,
    StructType,
    Type,
    primitive_from_name,
)
from lakemeta.json_text import parse_json

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


@attrs.frozen(slots=False)
class Schema:
    """The columns of a table at one time; columns are known by field id, names may change.

    A nested field's full name joins the names on the way with dots; list elements and map sides are called
    ``element``, ``key`` and ``value``.
    """

    fields: tuple[NestedField, ...]
    schema_id: int = 0
    identifier_field_ids: tuple[int, ...] = ()
    extras: Mapping[str, Json] = attrs.field(factory=dict, hash=False)

    @property
    def struct(self) -> StructType:
        """The columns as one struct."""
        return StructType(self.fields)

    @cached_property
    def by_id(self) -> Mapping[int, NestedField]:
        """Every field by id, nested ones too; list elements and map sides count as fields."""
        return {field.field_id: field for _, field in _walk(self.fields, "")}

    @cached_property
    def names(self) -> Mapping[int, str]:
        """Full name by field id."""
        return {field.field_id: name for name, field in _walk(self.fields, "")}

    @cached_property
    def ids(self) -> Mapping[str, int]:
        """Field id by full name."""
        return {name: field.field_id for name, field in _walk(self.fields, "")}

    def check_unique(self) -> None:
        """Raise CorruptMetadataError if two columns share an id or a full name, as Iceberg does (IndexByName)."""
        found = list(_walk(self.fields, ""))
        for what, values_ in (("id", [f.field_id for _, f in found]), ("name", [name for name, _ in found])):
            twice = [value for value, count in Counter(values_).items() if count > 1]
            if twice:
                raise CorruptMetadataError(f"schema {self.schema_id} has several columns with the {what} {twice[0]}")

    def field(self, field_id: int) -> NestedField | None:
        """The field with this id, or None."""
        return self.by_id.get(field_id)

    def find(self, name: str) -> NestedField | None:
        """The field with this full name, else the only one that differs just in case, else None."""
        if name in self.ids:
            return self.by_id[self.ids[name]]
        close = [i for full, i in self.ids.items() if full.lower() == name.lower()]
        return self.by_id[close[0]] if len(close) == 1 else None


def schema_from_json(value: Json) -> Schema:
    """Read a schema object of table metadata; raises CorruptMetadataError or UnsupportedFeatureError."""
    parts = JsonObject(value, "the schema")
    parts.rest.pop("type", None)
    schema_id = parts.take("schema-id", int) or 0
    parts.what = f"schema {schema_id}"
    return Schema(
        fields=tuple(_field_from_json(f) for f in parts.need("fields", list)),
        schema_id=schema_id,
        identifier_field_ids=parts.ints("identifier-field-ids"),
        extras=parts.rest,
    )


def schema_to_json(schema: Schema) -> dict[str, Json]:
    """A schema as table metadata holds it."""
    out: dict[str, Json] = {"type": "struct", "schema-id": schema.schema_id}
    if schema.identifier_field_ids:
        out["identifier-field-ids"] = list(schema.identifier_field_ids)
    return {**out, "fields": [_field_to_json(f) for f in schema.fields], **schema.extras}


def type_from_json(value: Json) -> Type:
    """Read a type: a name, or an object for struct, list and map."""
    if isinstance(value, str):
        return primitive_from_name(value)
    parts = JsonObject(value, "a type of the schema")
    kind = parts.need("type", str)
    if kind == "struct":
        return StructType(tuple(_field_from_json(f) for f in parts.need("fields", list)))
    if kind == "list":
        element = type_from_json(parts.rest.get("element"))
        return ListType(parts.need("element-id", int), element, parts.need("element-required", bool))
    if kind == "map":
        return MapType(
            parts.need("key-id", int),
            type_from_json(parts.rest.get("key")),
            parts.need("value-id", int),
            type_from_json(parts.rest.get("value")),
            parts.need("value-required", bool),
        )
    return primitive_from_name(kind)


def type_to_json(kind: Type) -> Json:
    """A type as table metadata holds it."""
    if isinstance(kind, StructType):
        return {"type": "struct", "fields": [_field_to_json(f) for f in kind.fields]}
    if isinstance(kind, ListType):
        return {
            "type": "list",
            "element-id": kind.element_id,
            "element": type_to_json(kind.element),
            "element-required": kind.element_required,
        }
    if isinstance(kind, MapType):
        return {
            "type": "map",
            "key-id": kind.key_id,
            "key": type_to_json(kind.key),
            "value-id": kind.value_id,
            "value": type_to_json(kind.value),
            "value-required": kind.value_required,
        }
    return str(kind)


@attrs.frozen(slots=True)
class MappedField:
    """Names under which data files without field ids hold one column; ``field_id`` None hides a name."""

    field_id: int | None
    names: tuple[str, ...]
    fields: tuple[MappedField, ...] = ()


def name_mapping_from_json(text: str) -> tuple[MappedField, ...]:
    """Read the table property ``schema.name-mapping.default`` (spec: "Name Mapping Serialization")."""
    try:
        value = parse_json(text)
    except ValueError as error:
        raise CorruptMetadataError("the property schema.name-mapping.default is not JSON") from error
    if not isinstance(value, list):
        raise CorruptMetadataError("the property schema.name-mapping.default is not a list")
    return tuple(_mapped_from_json(v) for v in value)


def _mapped_from_json(value: Json) -> MappedField:
    parts = JsonObject(value, "a field of schema.name-mapping.default")
    names = parts.texts("names")
    return MappedField(parts.take("field-id", int), names, parts.items("fields", _mapped_from_json))


def _walk(fields: tuple[NestedField, ...], prefix: str) -> Iterator[tuple[str, NestedField]]:
    for field in fields:
        name = prefix + field.name
        yield name, field
        yield from _walk(_parts(field.type), name + ".")


def _parts(kind: Type) -> tuple[NestedField, ...]:
    if isinstance(kind, StructType):
        return kind.fields
    if isinstance(kind, ListType):
        return (NestedField(kind.element_id, "element", kind.element, kind.element_required),)
    if isinstance(kind, MapType):
        value = NestedField(kind.value_id, "value", kind.value, kind.value_required)
        return (NestedField(kind.key_id, "key", kind.key, required=True), value)
    return ()


def _field_from_json(value: Json) -> NestedField:
    parts = JsonObject(value, "a field of the schema")
    name = parts.need("name", str)
    parts.what = f"field {name} of the schema"
    if "type" not in parts.rest:
        raise CorruptMetadataError(f"{parts.what} has no type")
    kind = type_from_json(parts.rest.pop("type"))
    return NestedField(
        field_id=parts.need("id", int),
        name=name,
        type=kind,
        required=parts.need("required", bool),
        doc=parts.take("doc", str),
        initial_default=values.from_json(kind, parts.rest.pop("initial-default", None)),
        write_default=values.from_json(kind, parts.rest.pop("write-default", None)),
        extras=parts.rest,
    )


def _field_to_json(field: NestedField) -> dict[str, Json]:
    out = {
        "id": field.field_id,
        "name": field.name,
        "required": field.required,
        "type": type_to_json(field.type),
    }
    more = present(
        doc=field.doc,
        initial_default=values.to_json(field.type, field.initial_default),
        write_default=values.to_json(field.type, field.write_default),
    )
    return {**out, **more, **field.extras}

"""Which columns table statistics are of (Iceberg's ComputeTableStats), in the schema of the snapshot."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError
from lakemeta.iceberg.service.arguments import texts
from lakemeta.iceberg.spec.options import check
from lakemeta.iceberg.spec.types import UNKNOWN, ListType, MapType, StructType, is_primitive

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata
    from lakemeta.iceberg.spec.types import NestedField, Type


def schema_of(snapshot: Snapshot, metadata: TableMetadata) -> Schema:
    """The schema that a snapshot was written with; of very old ones, which do not say, the current one."""
    found = None if snapshot.schema_id is None else metadata.schemas_by_id.get(snapshot.schema_id)
    return found or metadata.schema


def chosen_columns(options: Mapping[str, str], schema: Schema) -> tuple[NestedField, ...]:
    """The columns that ``columns`` names, or all of primitive types that are in no struct.

    Raises OptionError, in the engine's words where it has any.
    """
    if "columns" not in options:
        found = tuple(field for field in schema.fields if is_primitive(field.type) and field.type != UNKNOWN)
        check(bool(found), "No columns found to compute stats")
        return found
    check(bool(options["columns"].strip()), "Columns cannot be null/empty")
    names = dict.fromkeys(texts(options, "columns"))
    return tuple(_column(name, schema) for name in names)


def _column(name: str, schema: Schema) -> NestedField:
    field = schema.field(schema.ids.get(name, 0))
    if field is None:
        raise OptionError(f"Can't find column {name} in {_text(schema)}")
    if not is_primitive(field.type):
        raise OptionError(f"Can't compute stats on non-primitive type column: {name} ({_type_text(field.type)})")
    check(_lies_in_structs(field.field_id, schema.fields), f"Can't compute stats on {name}, which a list or map holds")
    check(field.type != UNKNOWN, f"Can't compute stats on {name}, whose type is not known")
    return field


def _lies_in_structs(field_id: int, fields: Iterable[NestedField]) -> bool:
    return any(
        f.field_id == field_id or (isinstance(f.type, StructType) and _lies_in_structs(field_id, f.type.fields))
        for f in fields
    )


def _text(schema: Schema) -> str:
    """A schema as the engine writes it in messages."""
    ids = schema.identifier_field_ids
    lines = [f"  {_field_text(field)}{' (id)' if field.field_id in ids else ''}" for field in schema.fields]
    return "\n".join(("table {", *lines, "}"))


def _field_text(field: NestedField) -> str:
    doc = "" if field.doc is None else f" ({field.doc})"
    return (
        f"{field.field_id}: {field.name}: {'required' if field.required else 'optional'} {_type_text(field.type)}{doc}"
    )


def _type_text(kind: Type) -> str:
    if isinstance(kind, StructType):
        return f"struct<{', '.join(map(_field_text, kind.fields))}>"
    if isinstance(kind, ListType):
        return f"list<{_type_text(kind.element)}>"
    if isinstance(kind, MapType):
        return f"map<{_type_text(kind.key)}, {_type_text(kind.value)}>"
    return str(kind)

"""Schemas, partition specs, sort orders and name mappings."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.iceberg_values import SCHEMA, spec, table

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.partitioning import (
    PartitionSpec,
    sort_order_from_json,
    sort_order_to_json,
    spec_from_json,
    spec_to_json,
)
from lakemeta.iceberg.spec.schema import (
    MappedField,
    Schema,
    name_mapping_from_json,
    schema_from_json,
    schema_to_json,
    type_from_json,
    type_to_json,
)

NAMES = ["boolean", "int", "long", "float", "double", "date", "time", "timestamp", "timestamptz", "timestamp_ns"]
NAMES += ["timestamptz_ns", "string", "uuid", "binary", "unknown", "variant", "geometry", "geography"]
NAMES += ["fixed[16]", "decimal(38, 10)", "geometry(srid:3857)", "geography(OGC:CRS84, vincenty)"]
TYPES: st.SearchStrategy[t.Type] = st.recursive(
    st.sampled_from(NAMES).map(t.primitive_from_name),
    lambda inner: st.one_of(
        st.builds(t.ListType, st.integers(1, 2**31 - 1), inner, st.booleans()),
        st.builds(t.MapType, st.integers(1, 2**31 - 1), inner, st.integers(1, 2**31 - 1), inner, st.booleans()),
        st.lists(st.builds(t.NestedField, st.integers(1, 2**31 - 1), st.text(), inner, st.booleans()), max_size=3).map(
            lambda fields: t.StructType(tuple(fields))
        ),
    ),
    max_leaves=6,
)
NESTED: dict[str, Any] = {
    "type": "struct",
    "schema-id": 3,
    "identifier-field-ids": [1],
    "fields": [
        {"id": 1, "name": "id", "required": True, "type": "long", "doc": "key", "write-default": 7},
        {
            "id": 2,
            "name": "points",
            "required": False,
            "type": {
                "type": "list",
                "element-id": 3,
                "element-required": True,
                "element": {"type": "struct", "fields": [{"id": 4, "name": "x", "required": True, "type": "double"}]},
            },
        },
        {
            "id": 5,
            "name": "tags",
            "required": False,
            "type": {
                "type": "map",
                "key-id": 6,
                "key": "string",
                "value-id": 7,
                "value": "date",
                "value-required": False,
            },
            "initial-default": {"keys": ["a"], "values": ["1970-01-02"]},
            "engine-hint": {"kept": True},
        },
    ],
    "future": 1,
}


@given(TYPES)
def test_types_round_trip(kind: t.Type) -> None:
    """Every type comes back from its JSON form."""
    assert type_from_json(type_to_json(kind)) == kind


def test_a_schema_comes_back_with_what_nobody_knows() -> None:
    """Docs, defaults, identifier fields and unknown keys of schemas and fields survive."""
    assert schema_to_json(schema_from_json(NESTED)) == NESTED


def test_fields_are_found_by_id_and_by_full_name() -> None:
    """Nested fields too; list elements and map sides count as fields."""
    schema = schema_from_json(NESTED)
    assert schema.names[4] == "points.element.x"
    assert [schema.names[i] for i in (3, 6, 7)] == ["points.element", "tags.key", "tags.value"]
    found = schema.find("points.element.x")
    assert found is not None
    assert found.type == t.DOUBLE
    assert schema.field(99) is None
    assert schema.find("nothing") is None


def test_case_matters_only_if_it_must() -> None:
    """A name that differs in case is found if there is one such column alone."""
    schema = Schema((t.NestedField(1, "Id", t.LONG), t.NestedField(2, "a", t.INT), t.NestedField(3, "A", t.INT)))
    assert schema.find("ID") == schema.fields[0]
    assert schema.find("A") == schema.fields[2]
    assert Schema(schema.fields[1:]).find("b") is None


def test_defaults_are_values_of_the_fields_type() -> None:
    """initial-default of a map of dates is pairs of text and days."""
    field = schema_from_json(NESTED).fields[2]
    assert field.initial_default == (("a", 1),)


@pytest.mark.parametrize("name", ["blob", "decimal(39, 1)", "decimal(3,5)", "fixed", "list"])
def test_unknown_types_are_refused_by_name(name: str) -> None:
    """A type that no specification has up to version 3."""
    with pytest.raises((UnsupportedFeatureError, CorruptMetadataError), match=name.split("(")[0]):
        t.primitive_from_name(name)


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ({"type": "struct", "fields": [{"id": 1, "name": "a", "required": True}]}, "field a .* has no type"),
        ({"type": "struct", "fields": [{"name": "a", "required": True, "type": "int"}]}, "has no id"),
        ({"type": "struct", "fields": [{"id": "1", "name": "a", "required": True, "type": "int"}]}, "not a whole"),
        ({"type": "struct"}, "has no fields"),
        ([], "not a JSON object"),
    ],
)
def test_broken_schemas_are_corrupt(value: Any, message: str) -> None:
    """The message says what is missing and where."""
    with pytest.raises(CorruptMetadataError, match=message):
        schema_from_json(value)


def test_partition_paths_are_url_encoded_as_java_does() -> None:
    """Names and values are encoded: slash, blank, tilde and percent; dot, dash, star and underscore are not."""
    made = spec((2, "identity"), (3, "day"), (1, "bucket[4]"))
    assert made.path(SCHEMA, ("a/b c~%.-*_ü", 17486, None)) == "p0=a%2Fb+c%7E%25.-*_%C3%BC/p1=2017-11-16/p2=null"


def test_an_unpartitioned_spec() -> None:
    """A spec without fields is unpartitioned, and so is one with dropped fields alone."""
    assert PartitionSpec(0).is_unpartitioned
    assert spec((1, "void")).is_unpartitioned
    assert not spec((1, "void"), (2, "identity")).is_unpartitioned


def test_specs_round_trip() -> None:
    """With unknown keys; ids that old tables leave out count up from 1000."""
    value = {
        "spec-id": 4,
        "fields": [{"name": "b", "transform": "bucket[8]", "source-id": 1, "field-id": 1003, "x": 1}],
        "y": 2,
    }
    assert spec_to_json(spec_from_json(value)) == value
    old = {"spec-id": 0, "fields": [{"name": n, "transform": "identity", "source-id": 1} for n in "ab"]}
    assert [f.field_id for f in spec_from_json(old).fields] == [1000, 1001]


def test_several_source_columns_are_refused() -> None:
    """A transform of more than one column is known from version 3 and not handled."""
    field = {"name": "b", "transform": "bucket[8]", "source-ids": [1, 2], "field-id": 1000}
    with pytest.raises(UnsupportedFeatureError, match="partition field b has several source columns"):
        spec_from_json({"spec-id": 0, "fields": [field]})


def test_types_of_partitions_outlive_their_column() -> None:
    """The type of a dropped source column comes from the last schema that had it."""
    newer = Schema(SCHEMA.fields[1:], schema_id=1)
    metadata = table(spec((1, "identity"), (9, "identity"), (9, "day")))
    from attrs import evolve

    metadata = evolve(metadata, schemas=(SCHEMA, newer), current_schema_id=1)
    assert metadata.partition_types(0) == (t.LONG, t.UNKNOWN, t.DATE)


def test_sort_orders_round_trip() -> None:
    """With unknown keys; order 0 sorts nothing."""
    field = {"transform": "identity", "source-id": 3, "direction": "desc", "null-order": "nulls-last", "x": 1}
    value = {"order-id": 1, "fields": [field]}
    assert sort_order_to_json(sort_order_from_json(value)) == value
    assert sort_order_from_json(value).is_sorted
    assert not sort_order_from_json({"order-id": 0, "fields": []}).is_sorted


def test_name_mappings() -> None:
    """A name mapping gives field ids to names, nested, and may hide a name."""
    text = '[{"field-id": 1, "names": ["id", "ID"]}, {"names": ["x"], "fields": [{"field-id": 2, "names": ["y"]}]}]'
    inner = (MappedField(2, ("y",)),)
    assert name_mapping_from_json(text) == (MappedField(1, ("id", "ID")), MappedField(None, ("x",), inner))
    for broken in ("{}", "nonsense"):
        with pytest.raises(CorruptMetadataError, match="name-mapping"):
            name_mapping_from_json(broken)

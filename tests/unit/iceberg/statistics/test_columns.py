"""Which columns are sketched."""

from __future__ import annotations

import pytest

from lakemeta.errors import OptionError
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import INT, STRING, UNKNOWN, ListType, NestedField, StructType
from lakemeta.iceberg.statistics.columns import chosen_columns

SCHEMA = Schema(
    (
        NestedField(1, "a", INT, required=True, doc="the key"),
        NestedField(2, "s", StructType((NestedField(3, "b", STRING),))),
        NestedField(4, "l", ListType(5, STRING)),
        NestedField(6, "u", UNKNOWN),
    ),
    identifier_field_ids=(1,),
)


def test_all_columns_of_primitive_types_by_default():
    """Those in structs only by name; a name that comes twice counts once."""
    assert [field.name for field in chosen_columns({}, SCHEMA)] == ["a"]
    assert [field.field_id for field in chosen_columns({"columns": "s.b, a,s.b"}, SCHEMA)] == [3, 1]


TABLE = """Can't find column A in table {
  1: a: required int (the key) (id)
  2: s: optional struct<3: b: optional string>
  4: l: optional list<string>
  6: u: optional unknown
}"""


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("s", "Can't compute stats on non-primitive type column: s (struct<3: b: optional string>)"),
        ("l.element", "Can't compute stats on l.element, which a list or map holds"),
        ("u", "Can't compute stats on u, whose type is not known"),
        (
            "A",
            TABLE,
        ),
    ],
)
def test_columns_are_refused(name, message):
    """In the engine's words where it has any."""
    with pytest.raises(OptionError) as refusal:
        chosen_columns({"columns": name}, SCHEMA)
    assert refusal.value.args[0] == message


def test_a_table_without_such_columns_is_refused():
    """There is nothing to count."""
    with pytest.raises(OptionError, match="No columns found to compute stats"):
        chosen_columns({}, Schema(SCHEMA.fields[1:]))

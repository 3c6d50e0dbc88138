"""Files of any age as rows of one schema."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import attrs
import pyarrow as pa
import pytest

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.rows.arrow import arrow_schema, arrow_type, parquet_schema
from lakemeta.iceberg.rows.projection import LINEAGE, Lineage, projection
from lakemeta.iceberg.rows.promotion import may_become
from lakemeta.iceberg.spec import types as t
from lakemeta.iceberg.spec.schema import MappedField
from lakemeta.iceberg.spec.types import NestedField as Field


def file_of(rows: list[dict[str, Any]], *fields: Field) -> pa.RecordBatch:
    """A batch as a data file written with ``fields`` gives it."""
    return pa.RecordBatch.from_pylist(rows, schema=arrow_schema(fields))


def project(batch: pa.RecordBatch, *fields: Field, **more: Any) -> list[dict[str, Any]]:
    plan = projection(batch.schema, fields, where="f.parquet", **more)
    out = plan.apply(batch.select(list(plan.columns)), 0, None)
    out.validate(full=True)
    assert out.schema.equals(arrow_schema(fields), check_metadata=True)
    found: list[dict[str, Any]] = out.to_pylist()
    return found


def test_columns_are_known_by_id() -> None:
    """A renamed column keeps its values, a new column of an old name starts empty, order is the schema's."""
    batch = file_of([{"a": 1, "b": "x"}], Field(1, "a", t.LONG), Field(2, "b", t.STRING))
    assert project(batch, Field(2, "a", t.STRING), Field(3, "b", t.STRING), Field(1, "c", t.LONG)) == [
        {"a": "x", "b": None, "c": 1}
    ]


@pytest.mark.parametrize(
    ("old", "new", "before", "after"),
    [
        (t.INT, t.LONG, -5, -5),
        (t.FLOAT, t.DOUBLE, 0.5, 0.5),
        (t.DecimalType(9, 2), t.DecimalType(38, 2), Decimal("-1.25"), Decimal("-1.25")),
    ],
)
def test_promoted_columns_are_widened(old: Any, new: Any, before: Any, after: Any) -> None:
    """Every promotion of the specification, null stays null."""
    batch = file_of([{"a": before}, {"a": None}], Field(1, "a", old))
    assert project(batch, Field(1, "a", new)) == [{"a": after}, {"a": None}]


TYPES: tuple[Any, ...] = (
    t.BOOLEAN, t.INT, t.LONG, t.FLOAT, t.DOUBLE, t.DATE, t.TIME, t.TIMESTAMP, t.TIMESTAMPTZ, t.STRING, t.BINARY, t.UUID,
    t.FixedType(16), t.FixedType(3), t.DecimalType(9, 2), t.DecimalType(9, 3),
    t.StructType((Field(2, "x", t.INT),)), t.ListType(3, t.INT), t.MapType(4, t.STRING, 5, t.INT),
)  # fmt: skip
LEGAL = {
    ("int", "long"), ("float", "double"), ("date", "timestamp"), ("timestamp", "timestamptz"),
    ("timestamptz", "timestamp"), ("binary", "string"), ("long", "time"), ("binary", "uuid"), ("binary", "fixed[16]"),
    ("binary", "fixed[3]"), ("uuid", "fixed[16]"), ("fixed[16]", "uuid"),
}  # fmt: skip


@pytest.mark.parametrize("old", TYPES, ids=str)
@pytest.mark.parametrize("nested", [False, True])
def test_a_column_cannot_become_one_of_any_type(old: Any, nested: bool) -> None:
    """But for what the specification promotes, and what formats hold alike, the id is that of another column.

    Also where values could be cast; else texts became of numbers, and the schema's mistake was written down for good.
    """

    def column(kind: Any) -> Field:
        return Field(9, "s", t.StructType((Field(1, "a", kind),))) if nested else Field(1, "a", kind)

    batch = file_of([], column(old))
    for new in TYPES:
        if new == old or (str(old), str(new)) in LEGAL:
            project(batch, column(new))
            continue
        with pytest.raises(CorruptMetadataError, match=r"^f.parquet has values of type .* in column a, which is "):
            project(batch, column(new))


def test_what_other_writers_hold_otherwise() -> None:
    """Imported files have small integers, large texts, dictionaries and marked uuids; wider integers are not cut."""
    for held, kind in (
        (pa.int8(), t.INT), (pa.uint16(), t.LONG), (pa.uint32(), t.LONG), (pa.large_string(), t.STRING),
        (pa.dictionary(pa.int8(), pa.string()), t.STRING), (pa.uuid(), t.UUID), (pa.null(), t.INT),
        (pa.timestamp("ms"), t.TIMESTAMP), (pa.time32("ms"), t.TIME), (pa.large_list(pa.int32()), t.ListType(3, t.INT)),
    ):  # fmt: skip
        assert may_become(held, kind)
    for held, kind in ((pa.uint32(), t.INT), (pa.uint64(), t.LONG), (pa.float16(), t.FLOAT), (pa.date64(), t.DATE)):
        assert not may_become(held, kind)


@pytest.mark.parametrize(("kind", "unit"), [(t.TIMESTAMP, 10**6), (t.TIMESTAMP_NS, 10**9)])
def test_dates_become_timestamps(kind: Any, unit: int) -> None:
    """Version 3 promotes date to timestamp: midnight."""
    batch = pa.RecordBatch.from_arrays(
        [pa.array([-1, None, 3], pa.date32())], schema=arrow_schema([Field(1, "a", t.DATE)])
    )
    out = projection(batch.schema, [Field(1, "a", kind)], where="f").apply(batch, 0, None)
    assert out.column(0).view(pa.int64()).to_pylist() == [-86400 * unit, None, 3 * 86400 * unit]


def test_nested_fields_follow_the_schema() -> None:
    """Inside structs, lists and maps fields are renamed, widened, added and dropped as on top."""
    old = [
        Field(1, "s", t.StructType((Field(2, "x", t.INT), Field(3, "gone", t.STRING)))),
        Field(4, "l", t.ListType(5, t.StructType((Field(6, "k", t.INT),)))),
        Field(7, "m", t.MapType(8, t.STRING, 9, t.StructType((Field(10, "q", t.FLOAT),)))),
    ]
    new = [
        Field(1, "s", t.StructType((Field(11, "z", t.DOUBLE), Field(2, "xx", t.LONG)))),
        Field(4, "l", t.ListType(5, t.StructType((Field(6, "k", t.LONG), Field(12, "w", t.STRING))))),
        Field(7, "m", t.MapType(8, t.STRING, 9, t.StructType((Field(10, "q", t.DOUBLE),)))),
    ]
    rows = [
        {"s": {"x": 1, "gone": "g"}, "l": [{"k": 1}, None, {"k": None}], "m": [("a", {"q": 0.5}), ("b", None)]},
        {"s": None, "l": None, "m": None},
        {"s": {"x": None, "gone": None}, "l": [], "m": []},
    ]
    wanted = [
        {
            "s": {"z": None, "xx": 1},
            "l": [{"k": 1, "w": None}, None, {"k": None, "w": None}],
            "m": [("a", {"q": 0.5}), ("b", None)],
        },
        {"s": None, "l": None, "m": None},
        {"s": {"z": None, "xx": None}, "l": [], "m": []},
    ]
    assert project(file_of(rows, *old), *new) == wanted
    padded = file_of([rows[0], *rows], *old)
    assert project(padded.slice(1), *new) == wanted, "a slice starts in the middle of its buffers"
    assert project(padded.slice(2, 1), *new) == [wanted[1]]


def test_what_a_file_lacks() -> None:
    """The value of the identity partition field, else the initial default, else null."""
    batch = file_of([{"a": 1}, {"a": 2}], Field(1, "a", t.LONG))
    new = [
        Field(2, "region", t.STRING),
        Field(3, "day", t.DATE, initial_default=5),
        Field(4, "price", t.DecimalType(9, 2), initial_default=Decimal("1.50")),
        Field(5, "note", t.STRING),
    ]
    out = projection(batch.schema, new, where="f", constants={2: "eu"}).apply(batch.select([]), 0, None)
    assert out.num_rows == 2
    assert out.column(1).view(pa.int32()).to_pylist() == [5, 5]
    row = out.to_pylist()[1]
    assert (row["region"], row["price"], row["note"]) == ("eu", Decimal("1.50"), None)


def test_a_partition_value_is_for_missing_columns_only() -> None:
    """A column that is in the file is read from the file."""
    batch = file_of([{"region": "EU"}], Field(2, "region", t.STRING))
    assert project(batch, Field(2, "region", t.STRING), constants={2: "eu"}) == [{"region": "EU"}]


def test_a_required_column_without_values_is_damage() -> None:
    """There is nothing to put into it."""
    batch = file_of([{"a": 1}], Field(1, "a", t.LONG))
    with pytest.raises(CorruptMetadataError, match="column b, which is required"):
        project(batch, Field(2, "b", t.LONG, required=True))


INNER = t.StructType((Field(4, "x", t.STRING, required=True), Field(5, "y", t.ListType(6, t.INT), required=True)))
OUTER = Field(2, "s", t.StructType((Field(3, "in", INNER, required=True), Field(7, "z", t.DOUBLE))))


def loose(field: Field) -> Field:
    """The field as ORC files have it, which know no required columns."""
    kind = field.type
    if isinstance(kind, t.StructType):
        kind = t.StructType(tuple(map(loose, kind.fields)))
    return attrs.evolve(field, type=kind, required=False)


def test_a_null_struct_needs_no_values_of_required_fields() -> None:
    """Older files lack the struct, ORC files have nulls below null structs: both are null structs, at any depth."""
    full = {"s": {"in": {"x": "a", "y": [1]}, "z": None}}
    batch = file_of([full, {"s": None}, full], loose(OUTER))
    assert project(batch, OUTER) == [full, {"s": None}, full]
    assert project(batch.slice(1), OUTER) == [{"s": None}, full]
    assert project(file_of([{"a": 1}], Field(1, "a", t.LONG)), OUTER) == [{"s": None}]
    older = file_of([{"s": None}], Field(2, "s", t.StructType((Field(7, "z", t.DOUBLE),))))
    assert project(older, OUTER) == [{"s": None}]


def test_a_struct_that_is_there_needs_its_required_fields() -> None:
    """Null or missing, there is nothing to put into them; so for elements, values and columns."""
    older = file_of([{"s": {"z": 1.0}}], Field(2, "s", t.StructType((Field(7, "z", t.DOUBLE),))))
    null = file_of([{"s": {"in": None}}], loose(OUTER))
    for batch in (older, null):
        with pytest.raises(CorruptMetadataError, match="column in, which is required"):
            project(batch, OUTER)
    items = file_of([{"l": [1, None]}], Field(1, "l", t.ListType(2, t.INT)))
    with pytest.raises(CorruptMetadataError, match="column element, which is required"):
        project(items, Field(1, "l", t.ListType(2, t.INT, True)))
    with pytest.raises(CorruptMetadataError, match="column a, which is required"):
        project(file_of([{"a": None}], Field(1, "a", t.LONG)), Field(1, "a", t.LONG, required=True))


def test_fields_of_unknown_type_are_not_there() -> None:
    """As in Iceberg's own files, at any depth; what would have nothing left, or holds them, cannot be written."""
    kind = t.StructType((Field(3, "u", t.UNKNOWN), Field(4, "x", t.INT), Field(5, "v", t.UNKNOWN)))
    schema = pa.schema([("s", pa.struct([("u", pa.null()), ("x", pa.int32())]))])
    batch = pa.RecordBatch.from_pylist([{"s": {"u": None, "x": 7}}], schema=schema)
    mapping = [MappedField(2, ("s",), (MappedField(4, ("x",)),))]
    assert project(batch, Field(2, "s", kind), name_mapping=mapping) == [{"s": {"x": 7}}]
    held = file_of([{"s": {"x": 7, "y": 8}}], Field(2, "s", t.StructType((Field(4, "x", t.INT), Field(5, "y", t.INT)))))
    for unknown in (Field(2, "s", t.UNKNOWN), Field(2, "s", kind)):
        with pytest.raises(CorruptMetadataError, match=r"f.parquet has values of type .* which is unknown"):
            project(held, unknown)
    empty = t.StructType((Field(3, "u", t.UNKNOWN),))
    for bad in (empty, t.ListType(3, t.UNKNOWN), t.MapType(3, t.STRING, 4, t.UNKNOWN)):
        with pytest.raises(UnsupportedFeatureError, match="unknown"):
            arrow_type(bad)


def test_files_without_ids_are_read_by_name_mapping() -> None:
    """Imported files: names at any depth, one of several; a name that is not mapped is not a column."""
    kind = pa.struct([("x", pa.int64()), ("other", pa.int64())])
    rows = [{"A": 1, "s": {"x": 2, "other": 3}, "l": [{"x": 4, "other": 5}], "m": [("k", 6)], "id": 9}]
    schema = pa.schema(
        [
            ("A", pa.int64()),
            ("s", kind),
            ("l", pa.list_(kind)),
            ("m", pa.map_(pa.string(), pa.int64())),
            ("id", pa.int64()),
        ]
    )
    batch = pa.RecordBatch.from_pylist(rows, schema=schema)
    inner = (MappedField(3, ("x",)),)
    mapping = (
        MappedField(1, ("a", "A")),
        MappedField(2, ("s",), inner),
        MappedField(4, ("l",), (MappedField(5, ("element",), (MappedField(6, ("x",)),)),)),
        MappedField(7, ("m",), (MappedField(8, ("key",)), MappedField(9, ("value",)))),
    )
    fields = (
        Field(1, "id", t.LONG),
        Field(2, "s", t.StructType((Field(3, "x", t.LONG),))),
        Field(4, "l", t.ListType(5, t.StructType((Field(6, "x", t.LONG),)))),
        Field(7, "m", t.MapType(8, t.STRING, 9, t.LONG)),
    )
    found = project(batch, *fields, name_mapping=mapping)
    assert found == [{"id": 1, "s": {"x": 2}, "l": [{"x": 4}], "m": [("k", 6)]}]
    with pytest.raises(CorruptMetadataError, match=r"f\.parquet has no field ids"):
        project(batch, *fields)


def test_row_lineage_is_inherited_where_it_is_not_written() -> None:
    """Row ids count on from the file's first, and every row keeps its own if it has one (spec: Row Lineage)."""
    fields = [Field(1, "a", t.LONG), *LINEAGE]
    batch = file_of([{"a": 7}, {"a": 8}], Field(1, "a", t.LONG))
    plan = projection(batch.schema, fields, where="f")
    out = plan.apply(batch, 10, Lineage(100, 4))
    assert (out.column(1).to_pylist(), out.column(2).to_pylist()) == ([110, 111], [4, 4])
    rows = [{"a": 7, "_row_id": 3, "_last_updated_sequence_number": None}, {"a": 8, "_row_id": None}]
    batch = file_of([{**rows[1], **row} for row in rows], *fields)
    out = projection(batch.schema, fields, where="f").apply(batch, 10, Lineage(100, 4))
    assert (out.column(1).to_pylist(), out.column(2).to_pylist()) == ([3, 111], [4, 4])
    out = plan.apply(file_of([{"a": 7}], Field(1, "a", t.LONG)), 0, Lineage(None, 4))
    assert (out.column(1).to_pylist(), out.column(2).to_pylist()) == ([None], [4])


def test_types_have_one_arrow_form() -> None:
    """A uuid is 16 bytes in memory and marked in Parquet, also in nested types; unknown columns are not stored."""
    fields = [Field(1, "u", t.UUID), Field(2, "l", t.ListType(3, t.UUID)), Field(4, "n", t.UNKNOWN)]
    fields.append(Field(5, "m", t.MapType(6, t.UUID, 7, t.StructType((Field(8, "u", t.UUID),)))))
    plain, marked = arrow_schema(fields), parquet_schema(fields)
    assert plain.names == marked.names == ["u", "l", "m"]
    assert (plain.field("u").type, marked.field("u").type) == (pa.binary(16), pa.uuid())
    assert marked.field("l").type.value_type == marked.field("m").type.key_type == pa.uuid()
    assert marked.field("m").type.item_type.field("u").type == pa.uuid()
    with pytest.raises(UnsupportedFeatureError, match="variant"):
        arrow_type(t.VARIANT)

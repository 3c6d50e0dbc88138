"""Files of partition statistics, written and read again."""

from __future__ import annotations

import io
import math
from decimal import Decimal

import attrs
import pyarrow.parquet as pq
import pytest

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.spec.partitioning import PartitionField, PartitionSpec, SortOrder
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.table_metadata import TableMetadata
from lakemeta.iceberg.spec.transforms import Transform
from lakemeta.iceberg.spec.types import DATE, INT, LONG, STRING, NestedField, StructType, primitive_from_name
from lakemeta.iceberg.statistics.partition_counts import PartitionRow, in_order, merged
from lakemeta.iceberg.statistics.partition_file import fields_of, read_rows, write_rows
from lakemeta.iceberg.statistics.partition_type import UnifiedPartition

VALUES = {
    "boolean": True,
    "int": -7,
    "long": 2**62,
    "float": 0.5,
    "double": math.nan,
    "date": -1,
    "time": 86_399_999_999,
    "timestamp": -1,
    "timestamptz": 2**50,
    "timestamp_ns": -(2**62),
    "timestamptz_ns": 1,
    "string": "é\0",
    "uuid": bytes(range(16)),
    "binary": b"\xff",
    "fixed[3]": b"abc",
    "decimal(38, 5)": Decimal("-1.00001"),
}


@pytest.mark.parametrize("version", [2, 3])
def test_rows_come_back_as_they_were(version):
    """Partitions of every type, and nulls; the order is kept."""
    struct = StructType(tuple(NestedField(1000 + i, f"f{i}", primitive_from_name(t)) for i, t in enumerate(VALUES)))
    full = PartitionRow(tuple(VALUES.values()), 3, 1, 2, 3, 4, 5, 6, 7, None, 8, 9)
    rows = [full, PartitionRow((None,) * len(VALUES), 0)]
    data = write_rows(rows, struct, version)
    assert repr(read_rows(data, struct, "f")) == repr(rows)
    schema = pq.ParquetFile(io.BytesIO(data)).schema_arrow
    assert schema.names == [field.name for field in fields_of(struct, version)]
    assert ("dv_count" in schema.names) == (version == 3)


def test_fields_are_found_by_their_ids():
    """A struct that has been renamed, widened and given a field since reads what there is."""
    old = StructType((NestedField(1000, "p", STRING), NestedField(1001, "n", INT)))
    new = StructType((NestedField(1001, "m", LONG), NestedField(1002, "d", DATE)))
    data = write_rows([PartitionRow(("a", 5), 0, 1)], old, 2)
    assert read_rows(data, new, "f") == [PartitionRow((5, None), 0, 1)]


def test_damage_is_named():
    """What is no Parquet, or lacks columns, is refused."""
    struct = StructType((NestedField(1000, "p", STRING),))
    data = write_rows([PartitionRow(("a",), 0)], struct, 2)
    strange = without(data, "data_file_count")
    for wrong in (b"", data[:-1], data[4:], strange):
        with pytest.raises(CorruptMetadataError, match="f is no file of partition statistics"):
            read_rows(wrong, struct, "f")


@pytest.mark.parametrize(("name", "value"), [("string", 3), ("int", "a"), ("int", 2**40), ("decimal(38, 5)", "1")])
def test_values_of_another_type_are_refused(name, value):
    """A manifest of a spec whose transform is damaged gives values that are not of the struct's types."""
    struct = StructType((NestedField(1000, "p", primitive_from_name(name)),))
    with pytest.raises(CorruptMetadataError, match="a value of the partition field p that is no"):
        write_rows([PartitionRow((value,), 0, 1)], struct, 2)


def without(data: bytes, column: str) -> bytes:
    out = io.BytesIO()
    table = pq.read_table(io.BytesIO(data)).drop_columns([column, "spec_id"])
    pq.write_table(table, out)
    return out.getvalue()


def table_with(*specs: PartitionSpec) -> TableMetadata:
    schema = Schema((NestedField(1, "a", STRING), NestedField(2, "b", INT)))
    return TableMetadata(2, "u", "/t", 0, 2, (schema,), 0, specs, specs[-1].spec_id, 1002, (SortOrder(0),), 0)


def field(source: int, field_id: int, name: str, transform: str = "identity") -> PartitionField:
    return PartitionField(source, field_id, name, Transform.parse(transform))


def test_one_struct_for_all_specs():
    """Fields by id, named as in the newest spec, of the type that they had before they were dropped."""
    one = PartitionSpec(0, (field(1, 1000, "a"), field(2, 1001, "b_bucket", "bucket[4]")))
    two = PartitionSpec(1, (field(2, 1001, "b_bucket", "void"), field(1, 1000, "renamed"), field(9, 1002, "lost")))
    unified = UnifiedPartition.of(table_with(one, two))
    assert [(f.field_id, f.name, f.type) for f in unified.struct.fields] == [
        (1000, "renamed", STRING),
        (1001, "b_bucket", INT),
    ]
    assert unified.coerced(0, ("x", 3)) == ("x", 3)
    assert unified.coerced(1, (None, "x", 5)) == ("x", None)


def test_fields_that_contradict_each_other_are_refused():
    """One id for two columns or transforms, as version 1 tables may have it."""
    one = PartitionSpec(0, (field(1, 1000, "a"),))
    for other in (field(2, 1000, "b"), field(1, 1000, "a_trunc", "truncate[2]")):
        with pytest.raises(UnsupportedFeatureError, match="Conflicting partition fields"):
            UnifiedPartition.of(table_with(one, PartitionSpec(1, (other,))))


def test_rows_are_merged_and_sorted():
    """Changes are added to rows of the same partition and spec; nulls come first, NaN last."""
    old = [PartitionRow((math.nan,), 0, 5, 2, 100, last_updated_at=5, last_updated_snapshot_id=1)]
    change = PartitionRow((math.nan,), 0, -1, -1, -40, last_updated_at=4, last_updated_snapshot_id=2)
    other = PartitionRow((None,), 0, 1, 1, 1)
    rows = in_order(merged(old, [change, other, attrs.evolve(other, spec_id=1)]))
    assert [(row.spec_id, row.data_record_count, row.last_updated_snapshot_id) for row in rows] == [
        (0, 1, None),
        (1, 1, None),
        (0, 4, 1),
    ]
    assert old[0].data_record_count == 5

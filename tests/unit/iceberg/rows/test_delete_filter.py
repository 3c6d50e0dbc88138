"""Equality and position deletes, applied to batches."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.iceberg.rows.delete_filter import DeletedRows, add_position_deletes, equality_deletes, key_columns
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import LONG, STRING, NestedField, StructType

KEYS = st.tuples(st.none() | st.integers(0, 3), st.none() | st.sampled_from(["", "a", "b"]), st.none() | st.booleans())
TYPES = (pa.int64(), pa.string(), pa.bool_())


def columns(rows: list[tuple[Any, ...]], width: int) -> list[pa.Array]:
    return [pa.array([row[i] for row in rows], TYPES[i]) for i in range(width)]


@given(st.lists(KEYS, max_size=8), st.lists(KEYS, max_size=40), st.integers(1, 3))
def test_rows_with_a_deleted_key_go(deleted: list[Any], rows: list[Any], width: int) -> None:
    """A row goes if all its key columns equal those of a deleted row; null equals null."""
    table = pa.Table.from_arrays(columns(deleted, width), names=[str(i) for i in range(width)])
    (deletes,) = equality_deletes([(tuple(range(width)), table)], budget=10**6, where="f")
    gone = {row[:width] for row in deleted}
    assert deletes.keep(columns(rows, width)).to_pylist() == [row[:width] not in gone for row in rows]


def test_each_combination_of_columns_is_a_set_of_its_own() -> None:
    """Keys of several files over the same columns are one set; files with a budget between them."""
    ids, pairs = pa.table({"a": [1, 2]}), pa.table({"a": [3], "b": ["x"]})
    sets = equality_deletes([((1,), ids), ((1, 2), pairs), ((1,), pa.table({"a": [9]}))], budget=10**6, where="f")
    assert [(s.field_ids, s.keys.num_rows) for s in sets] == [((1,), 3), ((1, 2), 1)]
    with pytest.raises(UnsupportedFeatureError, match="equality deletes of f take"):
        equality_deletes([((1,), ids)], budget=3, where="f")


def test_key_columns_may_lie_in_structs() -> None:
    """A column of a null struct is null, and whether the struct is there counts; a dot in a name is part of it."""
    inner = StructType((NestedField(3, "x", LONG), NestedField(4, "y", StructType((NestedField(5, "z", STRING),)))))
    schema = Schema((NestedField(1, "a.b", LONG), NestedField(2, "s", inner)))
    rows = [{"a.b": 1, "s": {"x": 2, "y": {"z": "t"}}}, {"a.b": 3, "s": None}]
    kind = pa.struct([("x", pa.int64()), ("y", pa.struct([("z", pa.string())]))])
    batch = pa.RecordBatch.from_pylist(rows, schema=pa.schema([("a.b", pa.int64()), ("s", kind)]))
    found = [column.to_pylist() for column in key_columns(batch, schema, [1, 3, 5])]
    assert found == [[1, 3], [True, False], [2, None], [True, False], ["t", None]]
    for wrong in (2, 4, 9):
        with pytest.raises(UnsupportedFeatureError, match="is no single value"):
            key_columns(batch, schema, [wrong])


def test_position_deletes_are_for_the_files_they_name() -> None:
    """A delete file may name many files, in any order; only those that it is applied to are touched."""
    targets = {"a": DeletedRows(10), "b": DeletedRows(10)}
    paths, positions = ["a", "a", "other", "b", "a"], [1, 3, 5, 7, 9]
    add_position_deletes(pa.RecordBatch.from_arrays([pa.array(paths), pa.array(positions)], ["p", "n"]), targets, "d")
    kept = {path: rows.keep(0, 10) for path, rows in targets.items()}
    gone = {path: [n for n, keep in enumerate(mask.to_pylist()) if not keep] for path, mask in kept.items() if mask}
    assert gone == {"a": [1, 3, 9], "b": [7]}


@pytest.mark.parametrize(("path", "position"), [("a", -1), ("a", None), (None, 1), ("other", -(2**63))])
def test_position_deletes_that_name_no_row_are_refused(path: str | None, position: int | None) -> None:
    """A negative position is damage, as in Iceberg, and a missing one; one behind the end of a file is nothing."""
    batch = pa.RecordBatch.from_arrays([pa.array([path], pa.string()), pa.array([position], pa.int64())], ["p", "n"])
    with pytest.raises(CorruptMetadataError, match=r"position delete file d\.parquet"):
        add_position_deletes(batch, {"a": DeletedRows(10)}, "d.parquet")

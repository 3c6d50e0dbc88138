"""Thrift structs without a schema."""

from __future__ import annotations

from io import BytesIO

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.parquet import thrift

LONGS = st.integers(-(2**63), 2**63 - 1)
FLAGS = st.booleans().map(lambda flag: (thrift.TRUE if flag else thrift.FALSE, flag))
SCALARS = (
    st.tuples(st.sampled_from([thrift.I16, thrift.I32, thrift.I64]), LONGS)
    | st.tuples(st.just(thrift.BINARY), st.binary(max_size=200))
    | st.tuples(st.just(thrift.DOUBLE), st.binary(min_size=8, max_size=8))
    | st.tuples(st.just(thrift.BYTE), st.binary(min_size=1, max_size=1))
    | FLAGS
)


def containers(values: st.SearchStrategy[thrift.Struct]) -> st.SearchStrategy[tuple[int, object]]:
    lists = st.lists(values, max_size=20).map(lambda items: (thrift.LIST, (thrift.STRUCT, items)))
    longs = st.lists(LONGS, max_size=20).map(lambda items: (thrift.SET, (thrift.I64, items)))
    flags = st.lists(st.booleans(), max_size=20).map(lambda items: (thrift.LIST, (thrift.TRUE, items)))
    maps = st.lists(st.tuples(st.binary(max_size=4), LONGS), min_size=1, max_size=4).map(
        lambda pairs: (thrift.MAP, (thrift.BINARY, thrift.I64, pairs))
    )
    return lists | longs | flags | maps | values.map(lambda value: (thrift.STRUCT, value))


STRUCTS = st.recursive(
    st.dictionaries(st.integers(1, 40), SCALARS, max_size=4),
    lambda inner: st.dictionaries(st.integers(1, 300), SCALARS | containers(inner), max_size=4),
    max_leaves=12,
)


@given(STRUCTS)
def test_what_is_written_is_read(struct: thrift.Struct) -> None:
    """Every struct comes back as it was."""
    assert thrift.loads(thrift.dumps(struct)) == struct


def test_the_footer_of_a_real_file_keeps_its_bytes() -> None:
    """Reading and writing a Parquet footer changes no byte."""
    out = BytesIO()
    pq.write_table(pa.table({f"c{i}": [1, None, i] for i in range(20)}), out, write_page_index=True)
    data = out.getvalue()
    footer = data[-8 - int.from_bytes(data[-8:-4], "little") : -8]
    assert thrift.dumps(thrift.loads(footer)) == footer


@given(STRUCTS.filter(bool), st.data())
def test_a_cut_struct_is_damage(struct: thrift.Struct, data: st.DataObject) -> None:
    """No part of a struct reads as a whole one."""
    whole = thrift.dumps(struct)
    with pytest.raises(CorruptMetadataError, match="truncated"):
        thrift.loads(whole[: data.draw(st.integers(0, len(whole) - 1))])


def test_a_footer_that_is_nested_too_deep_is_damage() -> None:
    """A stranger's footer may not exhaust the stack; no writer has ten values within values."""
    with pytest.raises(CorruptMetadataError, match="damaged"):
        thrift.loads(b"\x1c" * 5000)

"""Writing Parquet on several threads, and the statistics that come with it."""

from __future__ import annotations

import io
import struct
import uuid
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from inspect import signature
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.examples import examples

from lakemeta.errors import UnsupportedFeatureError
from lakemeta.parquet import thrift
from lakemeta.parquet.footer import ColumnStats, FileStats, WriteOptions
from lakemeta.parquet.reader import open_parquet, read_batches
from lakemeta.parquet.writer import ParquetWriter

if TYPE_CHECKING:
    from collections.abc import Sequence


def field(name: str, kind: pa.DataType, number: int) -> pa.Field:
    return pa.field(name, kind, metadata={"PARQUET:field_id": str(number)})


def write(
    tables: Sequence[pa.Table], options: WriteOptions | None = None, threads: int = 0, schema: pa.Schema = None
) -> tuple[bytes, FileStats]:
    """The bytes and statistics of a file with one row group a table."""
    sink = io.BytesIO()
    schema = schema or tables[0].schema
    if not threads:
        return finish(ParquetWriter(sink, schema, options or WriteOptions()), tables, sink)
    with ThreadPoolExecutor(threads) as pool:
        return finish(ParquetWriter(sink, schema, options or WriteOptions(), pool), tables, sink)


def finish(writer: ParquetWriter, tables: Sequence[pa.Table], sink: io.BytesIO) -> tuple[bytes, FileStats]:
    for table in tables:
        writer.write(table)
        writer.settle()
    stats = writer.close()
    return sink.getvalue(), stats


def column(stats: FileStats, *path: str) -> ColumnStats:
    return next(c for c in stats.columns if c.path == path)


NESTED = pa.schema(
    [
        field("id", pa.int64(), 1),
        field("s", pa.struct([field("x", pa.float64(), 3), field("y.z", pa.string(), 4)]), 2),
        field("l", pa.list_(field("element", pa.int32(), 6)), 5),
        field("m", pa.map_(field("key", pa.string(), 8).with_nullable(False), field("value", pa.float32(), 9)), 7),
        field("d", pa.decimal128(30, 2), 10),
        field("e", pa.decimal128(9, 2), 11),
        field("ok", pa.bool_(), 12),
    ]
)


def row(n: int) -> dict[str, Any]:
    if n % 5 == 0:
        return dict.fromkeys(NESTED.names)
    return {
        "id": n - 50,
        "s": {"x": n / 7, "y.z": f"t{n}"} if n % 3 else None,
        "l": list(range(n % 4)),
        "m": [(f"k{n}", n / 2)],
        "d": Decimal(n - 40).scaleb(-2),
        "e": Decimal(n - 40).scaleb(-2),
        "ok": n % 2 == 0,
    }


def nested(start: int, end: int) -> pa.Table:
    return pa.Table.from_pylist([row(n) for n in range(start, end)], schema=NESTED)


def test_a_file_of_several_row_groups_reads_as_it_was_written() -> None:
    """Columns that were encoded apart come back together, in every row group."""
    tables = [nested(0, 40), nested(40, 41), nested(41, 100)]
    data, stats = write(tables)
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.read().equals(pa.concat_tables(tables))
    assert [file.metadata.row_group(i).num_rows for i in range(3)] == [40, 1, 59]
    assert (stats.rows, stats.size) == (100, len(data))
    assert stats.split_offsets[0] == 4
    assert file.read_row_group(2).equals(tables[2])


def test_threads_change_no_byte() -> None:
    """The bytes of a file are the same for any number of threads."""
    tables = [nested(0, 500), nested(500, 900)]
    assert write(tables)[0] == write(tables, threads=1)[0] == write(tables, threads=3)[0]


def test_column_chunks_lie_in_schema_order_without_a_gap() -> None:
    """Whatever the sizes of columns: parquet-java counts a row group to a split by the start of its first column's
    chunk plus half the row group's size, so chunks in another order are rows that nobody reads."""
    rows = 500
    texts = [[f"{width}-{n % (width + 2)}" * width for n in range(rows)] for width in (1, 40, 3, 90, 0, 7)]
    table = pa.table({f"c{i}": text for i, text in enumerate(texts)} | {"n": nested(0, rows).column("s")})
    options = WriteOptions(codec="none", bloom_filters={"c1": {"ndv": 10, "fpp": 0.1}, "c3": {"ndv": 10, "fpp": 0.1}})
    data, stats = write([table, table.slice(0, 50), table], options)
    metadata = pq.read_metadata(io.BytesIO(data))
    at, starts = 4, []
    for group in map(metadata.row_group, range(3)):
        starts.append(at)
        for chunk in map(group.column, range(group.num_columns)):
            assert at == min(chunk.data_page_offset, chunk.dictionary_page_offset or chunk.data_page_offset)
            at += chunk.total_compressed_size
    assert stats.split_offsets == tuple(starts)
    filters = [metadata.row_group(i).column(c).bloom_filter_offset for i in range(3) for c in (1, 3)]
    assert at == filters[0]
    assert filters == sorted(filters)
    assert pq.read_table(io.BytesIO(data)).equals(pa.concat_tables([table, table.slice(0, 50), table]))


def test_field_ids_and_key_values_are_in_the_footer() -> None:
    """Field ids of nested columns too; Arrow's own schema is left out."""
    data, stats = write([nested(0, 10)], WriteOptions(key_values={"iceberg.schema": "é"}))
    file = pq.ParquetFile(io.BytesIO(data))
    assert file.metadata.metadata == {b"iceberg.schema": "é".encode()}
    assert {c.field_id: ".".join(c.path) for c in stats.columns} == {
        1: "id",
        3: "s.x",
        4: "s.y.z",
        6: "l.list.element",
        8: "m.key_value.key",
        9: "m.key_value.value",
        10: "d",
        11: "e",
        12: "ok",
    }


def test_statistics_cover_all_row_groups() -> None:
    """Counts add up, bounds are the least and greatest of all row groups, negative decimals below positive ones."""
    stats = write([nested(0, 50), nested(50, 100)])[1]
    ids = column(stats, "id")
    assert (ids.values, ids.nulls) == (100, 20)
    assert struct.unpack("<qq", (ids.lower or b"") + (ids.upper or b"")) == (-49, 49)
    big, small = column(stats, "d"), column(stats, "e")
    assert int.from_bytes(big.lower or b"", "big", signed=True) == -39
    assert int.from_bytes(big.upper or b"", "big", signed=True) == 59
    assert struct.unpack("<ii", (small.lower or b"") + (small.upper or b"")) == (-39, 59)
    assert (column(stats, "ok").lower, column(stats, "ok").upper) == (b"\0", b"\1")
    assert column(stats, "s", "x").nans == 0
    assert column(stats, "id").nans is None


def test_nans_are_counted_and_bound_nothing() -> None:
    """NaN is no bound; a row group of nothing but NaN and null leaves the others' bounds alone."""
    nan = float("nan")
    parts = [[nan, None, nan], [1.5, nan], [None], [-2.0]]
    stats = write([pa.table({"x": pa.array(p, pa.float64())}) for p in parts])[1].columns[0]
    assert (stats.values, stats.nulls, stats.nans) == (7, 2, 3)
    assert struct.unpack("<dd", (stats.lower or b"") + (stats.upper or b"")) == (-2.0, 1.5)
    only = write([pa.table({"x": pa.array([nan, None])})])[1].columns[0]
    assert (only.lower, only.upper, only.nans) == (None, None, 1)


def test_zero_bounds_keep_their_sign() -> None:
    """As Java orders them, -0.0 is below 0.0, in one row group and over several; a footer alone would say both."""
    for kind, form in ((pa.float64(), "<dd"), (pa.float32(), "<ff")):
        for parts, expected in (
            ([[0.0, 1.0]], (0.0, 1.0)),
            ([[-0.0, 1.0]], (-0.0, 1.0)),
            ([[0.0, None, -1.0]], (-1.0, 0.0)),
            ([[-0.0, -1.0, float("nan")]], (-1.0, -0.0)),
            ([[0.0], [-0.0]], (-0.0, 0.0)),
            ([[-0.0], [0.0]], (-0.0, 0.0)),
        ):
            tables = [pa.table({"s": pa.array([{"x": v} for v in p], pa.struct([("x", kind)]))}) for p in parts]
            stats = column(write(tables)[1], "s", "x")
            assert (stats.lower or b"") + (stats.upper or b"") == struct.pack(form, *expected), parts


def test_floats_without_statistics_are_measured_all_the_same() -> None:
    """Iceberg counts and bounds floating-point columns itself, whatever the file says of them."""
    inner = pa.array([{"x": 1.5}, None, {"x": None}], pa.struct([("x", pa.float64())]))
    options = WriteOptions(columns_without_statistics=frozenset({"d", "s.x", "n"}))
    stats = write([pa.table({"d": [1.0, None, 2.0], "s": inner, "n": [1, None, 2]})], options)[1]
    d, x, n = stats.columns
    assert (d.nulls, d.nans, d.lower, d.upper) == (1, 0, struct.pack("<d", 1.0), struct.pack("<d", 2.0))
    assert (x.nulls, x.nans, x.lower) == (2, 0, struct.pack("<d", 1.5))
    assert (n.nulls, n.lower) == (None, None)


def test_values_too_long_for_parquet_statistics_have_bounds() -> None:
    """pyarrow drops bounds over 4096 bytes; they are found all the same."""
    long = "b" * 5000
    inner = pa.struct([pa.field("t", pa.string())])
    tables = [
        pa.table({"t": ["a", long], "s": pa.array([{"t": long}, None], inner)}),
        pa.table({"t": ["c", None], "s": pa.array([{"t": "a"}, None], inner)}),
    ]
    stats = write(tables)[1]
    top, below = column(stats, "t"), column(stats, "s", "t")
    assert (top.lower, top.upper) == (b"a", b"c")
    assert (below.lower, below.upper, below.nulls) == (b"a", long.encode(), 2)


def test_columns_without_statistics_have_sizes_alone() -> None:
    """What one asks not to measure is not guessed."""
    table = pa.table({"a": [1, 2], "b": [3, None]})
    a, b = write([table], WriteOptions(columns_without_statistics=frozenset({"a"})))[1].columns
    assert (a.nulls, a.lower, a.values) == (None, None, 2)
    assert a.compressed_bytes > 0
    assert b.nulls == 1


def test_options_reach_the_encoder() -> None:
    """Codec, page version, dictionaries and bloom filters are what was asked for."""
    options = WriteOptions(
        codec="gzip", level=1, plain_columns=frozenset({"b"}), bloom_filters={"a": {"ndv": 100, "fpp": 0.01}}
    )
    data, _ = write([pa.table({"a": [1, 2] * 9, "b": [3, 3] * 9, "c": ["x", "x"] * 9})] * 2, options)
    for group in range(2):
        a, b, c = (pq.read_metadata(io.BytesIO(data)).row_group(group).column(i) for i in range(3))
        assert {a.compression, b.compression, c.compression} == {"GZIP"}
        assert (a.has_dictionary_page, b.has_dictionary_page, c.has_dictionary_page) == (True, False, True)
        at, size = a.bloom_filter_offset, a.bloom_filter_length
        assert (b.bloom_filter_offset, c.bloom_filter_offset) == (None, None)
        assert data[at : at + 1] == b"\x15"  # a bloom filter starts with its header, an i32 field
        assert size > 32


def test_what_pyarrow_cannot_write_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A bloom filter that a table asks for is not left out in silence where pyarrow is too old to write it."""
    options = WriteOptions(bloom_filters={"a": {"ndv": 1, "fpp": 0.1}})
    assert write([pa.table({"a": [1]})], options)[1].rows == 1
    monkeypatch.setattr("lakemeta.parquet.writer.signature", lambda _: signature(lambda: None))
    with pytest.raises(UnsupportedFeatureError, match="newer pyarrow"):
        write([pa.table({"a": [1]})], options)


def test_a_uuid_is_marked_as_one() -> None:
    """The file's schema may say more than the tables: 16 bytes are written as a UUID."""
    values = [uuid.UUID(int=n).bytes for n in (1, 2**127)]
    table = pa.table({"u": pa.array(values, pa.binary(16))})
    data, stats = write([table], schema=pa.schema([pa.field("u", pa.uuid())]))
    assert str(pq.ParquetFile(io.BytesIO(data)).schema.column(0).logical_type) == "UUID"
    assert (stats.columns[0].lower, stats.columns[0].upper) == (values[0], values[1])


@pytest.mark.parametrize(
    "nest",
    [
        lambda kind: pa.struct([("u", kind)]),
        pa.list_,
        lambda kind: pa.map_(pa.string(), kind),
        lambda kind: pa.map_(kind, pa.string()),
        lambda kind: pa.list_(pa.struct([("u", kind)])),
    ],
    ids=["struct", "list", "value", "key", "list-of-structs"],
)
def test_a_uuid_is_marked_inside_other_types(nest: Any) -> None:
    """A schema with UUIDs in structs, lists and maps makes a file, though Arrow has no empty array of such a type."""
    table = pa.table({"n": pa.nulls(3, nest(pa.binary(16)))})
    data, _ = write([table], schema=pa.schema([pa.field("n", nest(pa.uuid()))]))
    schema = pq.ParquetFile(io.BytesIO(data)).schema
    assert "UUID" in {str(schema.column(i).logical_type) for i in range(len(schema))}


@settings(max_examples=examples(40))
@given(
    st.lists(
        st.lists(st.none() | st.text(max_size=5) | st.sampled_from(["z" * 4097, "", "y" * 5000]), max_size=6),
        min_size=1,
        max_size=4,
    )
)
def test_bounds_are_those_of_the_values(parts: list[list[str | None]]) -> None:
    """Whatever the row groups: counts and bounds are those of all values."""
    parts = [part for part in parts if part] or [[None]]
    stats = write([pa.table({"t": pa.array(part, pa.string())}) for part in parts])[1].columns[0]
    known = [text.encode() for part in parts for text in part if text is not None]
    assert (stats.values, stats.nulls) == (sum(map(len, parts)), stats.values - len(known))
    assert (stats.lower, stats.upper) == (min(known, default=None), max(known, default=None))


def test_pages_of_large_values_end_soon() -> None:
    """A page holds few values beyond its size, as in Iceberg's files, also in structs and lists."""
    texts = pa.array([f"{n:08}" * 8_192 for n in range(200)])  # of 64 KiB
    lists = pa.ListArray.from_arrays(pa.array(range(201), pa.int32()), texts)
    table = pa.table({"t": texts, "s": pa.StructArray.from_arrays([texts], ["t"]), "l": lists, "n": range(200)})
    data, _ = write([table], WriteOptions(codec="none", page_bytes=128 * 1024))
    group = thrift.loads(data[-8 - int.from_bytes(data[-8:-4], "little") : -8])[4][1][1][0]
    for chunk in group[1][1][1][:3]:
        offset, size = chunk[4][1], chunk[5][1]
        assert 8 <= len(thrift.loads(data[offset : offset + size])[1][1][1]) <= 16


def test_batches_come_in_order_and_by_column() -> None:
    """Reading streams the wanted columns."""
    data, _ = write([nested(0, 30), nested(30, 60)])
    for source in (data, io.BytesIO(data)):
        batches = list(read_batches(open_parquet(source, "f"), ["id"], 25))
        assert [name for batch in batches for name in batch.schema.names] == ["id"] * len(batches)
        ids = [value for batch in batches for value in batch.column(0).to_pylist()]
        assert ids == [row(n)["id"] for n in range(60)]

"""What table properties say about new files."""

from __future__ import annotations

import attrs
import pytest

from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg.spec.schema import Schema
from lakemeta.iceberg.spec.types import BOOLEAN, INT, STRING, UNKNOWN, ListType, MapType, NestedField, StructType
from lakemeta.iceberg.write.rollover import BufferLimits
from lakemeta.iceberg.write.settings import (
    buffer_limits,
    check_format,
    data_location,
    file_name,
    parquet_options,
    with_bloom_paths,
)


def test_tables_without_a_codec_are_old_and_mean_gzip() -> None:
    """Iceberg writes zstd into the properties of every table since 1.4; its default without is gzip."""
    assert (parquet_options({}, {}).codec, parquet_options({}, {}).level) == ("gzip", 6)


@pytest.mark.parametrize(
    ("codec", "level", "expected"),
    [
        ("zstd", None, ("zstd", 3)),
        ("ZSTD", "9", ("zstd", 9)),
        ("snappy", "9", ("snappy", None)),
        ("uncompressed", None, ("none", None)),
        ("lz4_raw", None, ("lz4", None)),
    ],
)
def test_codecs_have_pyarrow_names(codec: str, level: str | None, expected: tuple[str, int | None]) -> None:
    """A level counts for codecs that have levels."""
    properties = {"write.parquet.compression-codec": codec}
    if level:
        properties["write.parquet.compression-level"] = level
    options = parquet_options(properties, {})
    assert (options.codec, options.level) == expected


@pytest.mark.parametrize("level", [-2, 10, 99])
def test_levels_that_gzip_does_not_have(level: int) -> None:
    """Said before anything is written; zstd takes the nearest that it has."""
    properties = {"write.parquet.compression-codec": "gzip", "write.parquet.compression-level": str(level)}
    with pytest.raises(OptionError, match=f"compression-level is {level}"):
        parquet_options(properties, {})
    assert parquet_options({**properties, "write.parquet.compression-codec": "zstd"}, {}).level == level


def test_sizes_and_columns_are_honoured() -> None:
    """Page, dictionary and row group sizes, and columns without dictionary or statistics."""
    properties = {
        "write.parquet.page-size-bytes": "4096",
        "write.parquet.dict-size-bytes": "8192",
        "write.parquet.page-row-limit": "100",
        "write.parquet.row-group-size-bytes": "65536",
        "write.parquet.page-version": "v2",
        "write.parquet.dict-encoding-enabled.column.a": "false",
        "write.parquet.dict-encoding-enabled.column.b": "true",
        "write.parquet.stats-enabled.column.s.x": "False",
    }
    options = parquet_options(properties, {"k": "v"})
    assert (options.page_bytes, options.dictionary_bytes, options.page_rows) == (4096, 8192, 100)
    assert (options.page_version, options.plain_columns, options.columns_without_statistics) == (
        "2.0",
        frozenset({"a"}),
        frozenset({"s.x"}),
    )
    assert buffer_limits(properties).row_group_bytes == 65536
    assert buffer_limits({}) == BufferLimits(128 * 1024**2, 1024**2, 20_000, 100, 10_000)
    assert parquet_options({}, {}).page_rows is None


def test_bloom_filters_are_no_larger_than_allowed() -> None:
    """A filter is sized by its number of values if that is given, and cut to the greatest size."""
    column = "write.parquet.bloom-filter-enabled.column."
    properties = {column + "a": "true", column + "b": "true", column + "c": "false"}
    properties |= {"write.parquet.bloom-filter-ndv.column.b": "10", "write.parquet.bloom-filter-fpp.column.b": "0.1"}
    blooms = parquet_options(properties, {}).bloom_filters
    assert set(blooms) == {"a", "b"}
    assert blooms["b"] == {"ndv": 10, "fpp": 0.1}
    small = parquet_options({**properties, "write.parquet.bloom-filter-max-bytes": "1024"}, {}).bloom_filters
    assert small["a"]["ndv"] < blooms["a"]["ndv"] / 1000
    for wrong in ("much", "0", "1"):
        with pytest.raises(OptionError, match="bloom-filter-fpp"):
            parquet_options({**properties, "write.parquet.bloom-filter-fpp.column.a": wrong}, {})


def test_bloom_filters_are_found_by_column_names() -> None:
    """Properties name columns as Iceberg does, also in lists and maps; booleans and what is no column have none."""
    item = StructType((NestedField(4, "i", INT), NestedField(5, "b", BOOLEAN)))
    fields = (
        NestedField(1, "id", INT),
        NestedField(2, "flag", BOOLEAN),
        NestedField(3, "s", item),
        NestedField(6, "l", ListType(7, attrs.evolve(item, fields=(NestedField(8, "x", INT),)))),
        NestedField(9, "m", MapType(10, STRING, 11, INT)),
        NestedField(12, "nothing", UNKNOWN),
    )
    names = ("id", "flag", "s", "s.i", "s.b", "l", "l.element.x", "m.key", "m.value", "nothing", "gone")
    wanted = {f"write.parquet.bloom-filter-enabled.column.{name}": "true" for name in names}
    options = with_bloom_paths(parquet_options(wanted, {}), Schema(fields))
    assert set(options.bloom_filters) == {"id", "s.i", "l.list.element.x", "m.key_value.key", "m.key_value.value"}


def test_unknown_codecs_and_formats_are_refused() -> None:
    """Nothing is written in another way than the table asks for, unless one says so."""
    with pytest.raises(UnsupportedFeatureError, match="compression-codec is lzo"):
        parquet_options({"write.parquet.compression-codec": "lzo"}, {})
    with pytest.raises(UnsupportedFeatureError, match=r"write\.format\.default is orc.*lakemeta\.write-parquet=true"):
        check_format({"write.format.default": "ORC"}, write_parquet=False)
    check_format({"write.format.default": "orc"}, write_parquet=True)
    check_format({"write.format.default": "Parquet"}, write_parquet=False)
    check_format({}, write_parquet=False)


def test_files_are_named_as_iceberg_names_them() -> None:
    """Group and attempt stand for Spark's partition and task."""
    assert file_name(3, 7, "uuid", 1) == "00003-7-uuid-00001.parquet"


def test_files_lie_where_the_table_wants_them() -> None:
    """Below the table's data directory or the one it names, in directories of their partition."""
    assert data_location("s3://b/t", {}, "", "f") == "s3://b/t/data/f"
    assert data_location("s3://b/t", {}, "p=1", "f") == "s3://b/t/data/p=1/f"
    assert data_location("s3://b/t", {"write.data.path": "s3://other/d/"}, "p=1", "f") == "s3://other/d/p=1/f"


@pytest.mark.parametrize(
    ("name", "hashed"),
    [
        ("a", "0101/0110/1001/10110010"),
        ("b", "1110/0111/1110/00000011"),
        ("c", "0010/1101/0110/01011111"),
        ("d", "1001/0001/0100/01110011"),
    ],
)
def test_object_store_layout(name: str, hashed: str) -> None:
    """Directories are the engine's hash of the name, so that requests spread (engine: TestLocationProvider)."""
    on = {"write.object-storage.enabled": "true"}
    flat = {**on, "write.object-storage.partitioned-paths": "false"}
    assert data_location("s3://b/t", on, "", name) == f"s3://b/t/data/{hashed}/{name}"
    assert data_location("s3://b/t", flat, "p=1", name) == f"s3://b/t/data/{hashed}-{name}"
    away = {**on, "write.data.path": "s3://other/d"}
    assert data_location("s3://b/db/t", away, "", name) == f"s3://other/d/{hashed}/db/t/{name}"


def test_object_store_layout_with_partitions() -> None:
    """The partition is part of the hashed name, and stands behind the hash."""
    placed = data_location("s3://b/t", {"write.object-storage.enabled": "true"}, "p=1", "f").split("/")
    assert placed[-2:] == ["p=1", "f"]
    assert [len(part) for part in placed[5:9]] == [4, 4, 4, 8]


def test_places_only_another_engine_knows_are_refused() -> None:
    """A Java class cannot be run; properties that Iceberg no longer takes are not taken."""
    with pytest.raises(UnsupportedFeatureError, match=r"write\.location-provider\.impl"):
        data_location("/t", {"write.location-provider.impl": "x.Y"}, "", "f")
    with pytest.raises(UnsupportedFeatureError, match="no longer supported"):
        data_location("/t", {"write.object-storage.path": "/o"}, "", "f")

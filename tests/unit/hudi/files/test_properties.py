from __future__ import annotations

import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError, LakemetaError, UnsupportedFeatureError
from lakemeta.hudi.files.properties import TableConfig, format_properties, parse_properties, parse_table_config

NAMED = {"hoodie.table.name": "t", "hoodie.table.version": "9", "hoodie.table.type": "COPY_ON_WRITE"}


def config(**more: str) -> TableConfig:
    properties = {**NAMED, **{f"hoodie.{k.replace('_', '.')}": v for k, v in more.items()}}
    return parse_table_config(format_properties(properties, "c"), "t/hoodie.properties")


@given(st.dictionaries(st.text(min_size=1), st.text()))
def test_properties_read_back(properties: dict[str, str]) -> None:
    """Whatever is in names and values, also beyond 16 bits, blanks at the ends and separators, reads back."""
    assert parse_properties(format_properties(properties, "a comment"), "x") == properties


@pytest.mark.parametrize(
    ("line", "key", "value"),
    [
        ("a=b", "a", "b"),
        ("a = b", "a", "b"),
        ("a:b=c", "a", "b=c"),
        ("  a=b ", "a", "b "),
        ("a\\=b=c", "a=b", "c"),
        ("a=file\\:/x", "a", "file:/x"),
        ("a=\\u00fc\\t", "a", "ü\t"),
        ("a=\\ud83d\\ude00", "a", "😀"),
        ("a=", "a", ""),
        ("a=1\r\nb=2", "b", "2"),
    ],
)
def test_lines_as_java_writes_them(line: str, key: str, value: str) -> None:
    """Either separator, escapes, blanks around keys, either end of line."""
    assert parse_properties(f"#c\n!c\n\n{line}\n".encode(), "x")[key] == value


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"a=b\nhoodie.tab", "line 2 of x is not key=value"),
        (b"a=\xff", "x is not text .byte 2."),
    ],
)
def test_lines_that_are_none(content: bytes, words: str) -> None:
    """A cut-off line and bytes that are no text are told with their place."""
    with pytest.raises(CorruptMetadataError, match=words):
        parse_properties(content, "x")


@pytest.mark.parametrize("missing", list(NAMED))
def test_a_table_has_name_version_and_type(missing: str) -> None:
    """A file without one of them is cut off or no table's."""
    content = format_properties({k: v for k, v in NAMED.items() if k != missing}, "c")
    with pytest.raises(CorruptMetadataError, match=f"has no {missing}"):
        parse_table_config(content, "x")


@pytest.mark.parametrize(
    ("key", "value", "error", "words"),
    [
        ("hoodie.table.version", "5", UnsupportedFeatureError, "upgrade the table"),
        ("hoodie.table.version", "7", UnsupportedFeatureError, "upgrade the table"),
        ("hoodie.table.version", "10", UnsupportedFeatureError, "use a newer lakemeta"),
        ("hoodie.table.version", "nine", CorruptMetadataError, "is no number"),
        ("hoodie.table.type", "COPY", CorruptMetadataError, "hoodie.table.type=COPY"),
        ("hoodie.table.checksum", "1", CorruptMetadataError, "hoodie.table.checksum=1 but"),
        ("hoodie.table.base.file.format", "ORC", UnsupportedFeatureError, "ORC"),
        ("hoodie.table.multiple.base.file.formats.enable", "TRUE", UnsupportedFeatureError, "several base file"),
        ("hoodie.table.format", "iceberg", UnsupportedFeatureError, "table format iceberg"),
    ],
)
def test_what_is_refused(key: str, value: str, error: type[LakemetaError], words: str) -> None:
    """Other versions, formats and contradictions are refused by name, with the file."""
    with pytest.raises(error, match=words) as raised:
        parse_table_config(format_properties({**NAMED, key: value}, "c"), "t/hoodie.properties")
    assert "t/hoodie.properties" in str(raised.value)


def test_the_checksum_is_of_the_names() -> None:
    """CRC32 of ``<database>.<table>``."""
    assert config(table_checksum=str(zlib.crc32(b".t"))).name == "t"
    assert config(database_name="d", table_checksum=str(zlib.crc32(b"d.t"))).name == "t"


@pytest.mark.parametrize(
    ("version", "properties", "timeline", "archive"),
    [
        ("6", {}, ".hoodie", ".hoodie"),
        ("6", {"hoodie.archivelog.folder": "archived"}, ".hoodie", ".hoodie/archived"),
        ("6", {"hoodie.archivelog.folder": "history"}, ".hoodie", ".hoodie/history"),
        ("8", {}, ".hoodie/timeline", ".hoodie/timeline/history"),
        ("9", {"hoodie.timeline.path": "tl", "hoodie.timeline.history.path": "h"}, ".hoodie/tl", ".hoodie/tl/h"),
    ],
)
def test_where_instants_lie(version: str, properties: dict[str, str], timeline: str, archive: str) -> None:
    """Layout 1 up to version 7, layout 2 from version 8 on; folders are properties."""
    found = TableConfig({**NAMED, "hoodie.table.version": version, **properties})
    assert (found.timeline_folder, found.archive_folder) == (timeline, archive)
    assert found.layout == (1 if version == "6" else 2)


def test_what_we_act_on() -> None:
    """Defaults are the engine's."""
    plain = config()
    assert (plain.table_type, plain.is_partitioned, plain.timezone, plain.has_metadata_table) == (
        "COPY_ON_WRITE", False, "LOCAL", False,
    )  # fmt: skip
    full = config(
        table_partition_fields="a,b", table_timeline_timezone="utc", table_metadata_partitions="files, column_stats,",
        table_metadata_partitions_inflight="record_index",
    )  # fmt: skip
    assert (full.is_partitioned, full.timezone) == (True, "UTC")
    assert full.metadata_partitions == ("files", "column_stats")
    assert full.metadata_partitions_inflight == ("record_index",)
    assert full.has_metadata_table
    assert config(table_metadata_partitions_inflight="files").has_metadata_table

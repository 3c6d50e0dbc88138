"""HFiles: reading, writing, seeking, and every kind of damage."""

from __future__ import annotations

import random
import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.hbase_files import cell, hbase_file, varint

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.metadata_table.hfile import open_hfile
from lakemeta.hudi.metadata_table.hfile_format import (
    BLOCK_HEADER,
    CELL_SUFFIX,
    ROOT_INDEX,
    TRAILER_MAGIC,
    TRAILER_SIZE,
    corrupt,
    read_hadoop_vint,
)
from lakemeta.hudi.metadata_table.hfile_writer import BLOCK_SIZE, write_hfile
from lakemeta.varint import read_varint

SCHEMA = '"string"'
ENTRIES = [(b"a", b"1"), (b"b", b""), (b"c" * 200, b"3" * 1000)]
many_entries = st.dictionaries(st.binary(min_size=1, max_size=40), st.binary(max_size=100), min_size=1, max_size=30)
codecs = st.sampled_from(["GZ", "NONE"])


@given(many_entries, codecs)
def test_entries_come_back(entries: dict[bytes, bytes], codec: str) -> None:
    """Scanning gives every pair in order, seeking every value, and absent keys are absent."""
    file = open_hfile(write_hfile(sorted(entries.items()), SCHEMA, 1, codec=codec), "x")
    assert list(file.entries()) == sorted(entries.items())
    assert all(file.get(key) == value for key, value in entries.items())
    assert file.get(b"") is None
    assert file.get(max(entries) + b"\0") is None
    assert file.schema == SCHEMA


@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_a_large_file_has_many_blocks(codec: str) -> None:
    """Blocks end at 64 KiB, and both scan and seek go over all of them."""
    values = random.Random(3)
    entries = [(b"%08d" % i, values.randbytes(100)) for i in range(5000)]
    file = open_hfile(write_hfile(entries, SCHEMA, 1, codec=codec), "x")
    assert len(file.index) == 10
    assert list(file.entries()) == entries
    assert all(file.get(key) == value for key, value in entries[::97])


def test_the_last_entry_of_a_block_is_longer_than_its_checksums() -> None:
    """Hudi's reader stops that many bytes before the end of a block, and would lose a shorter entry."""
    entries = [(b"%08d" % i, b"v" * (BLOCK_SIZE * 3 if i % 3 == 0 else 1)) for i in range(30)]
    data = write_hfile(entries, SCHEMA, 1, codec="NONE")
    file = open_hfile(data, "x")
    keys = [key for key, _ in entries]
    lasts = [keys[keys.index(entry.key) - 1] for entry in file.index[1:]] + keys[-1:]
    for entry, last in zip(file.index, lasts, strict=True):
        _, on_disk, size, _, _, _, _ = BLOCK_HEADER.unpack_from(data, entry.offset)
        assert len(cell(last, dict(entries)[last])) > on_disk - size


def test_the_same_entries_give_the_same_bytes() -> None:
    """No clock and no randomness but the creation time given."""
    assert write_hfile(ENTRIES, SCHEMA, 1) == write_hfile(ENTRIES, SCHEMA, 1)
    info = open_hfile(write_hfile(ENTRIES, SCHEMA, 77), "x").info
    assert struct.unpack(">q", info["hfile.CREATE_TIME_TS"]) == (77,)


def test_index_keys_are_whole_cell_keys() -> None:
    """HBase's reader fails every seek without the suffix of the cell key."""
    data = write_hfile([(b"abc", b"1")], SCHEMA, 1, codec="NONE")
    key = struct.pack(">H", 3) + b"abc" + CELL_SUFFIX
    index_at = data.index(ROOT_INDEX)
    assert data[index_at + 33 + 12 :].startswith(bytes([len(key)]) + key)
    assert open_hfile(data, "x").info["hfile.LASTKEY"] == key


@pytest.mark.parametrize("bad", [[(b"b", b""), (b"a", b"")], [(b"a", b""), (b"a", b"")], [(b"k" * 40000, b"")], []])
def test_entries_that_make_no_file_are_refused(bad: list) -> None:
    """Keys must be sorted, unique and short, and there must be one."""
    with pytest.raises(ValueError, match="HFile"):
        write_hfile(bad, SCHEMA, 1)


def test_only_two_codecs_are_written() -> None:
    """GZ and NONE need no other library."""
    with pytest.raises(ValueError, match="ZSTD"):
        write_hfile(ENTRIES, SCHEMA, 1, codec="ZSTD")


@pytest.mark.parametrize("levels", [1, 2, 3])
@pytest.mark.parametrize("checksum", [0, 1, 2])
def test_indexes_of_several_levels_are_read(levels: int, checksum: int) -> None:
    """Large files of HBase's writer have leaf and intermediate indexes."""
    data, pairs = hbase_file(levels, checksum)
    file = open_hfile(data, "x")
    assert dict(file.entries()) == pairs
    assert all(file.get(key) == value for key, value in pairs.items())
    assert file.get(b"key0005") is None


def test_a_wrong_crc32_is_noticed() -> None:
    """A block with CRC32 checksums is checked even where the codec would not notice."""
    data, _ = hbase_file(1, checksum=1)
    with pytest.raises(CorruptMetadataError, match=r"x is damaged at byte 0: the checksum"):
        list(open_hfile(data.replace(b"value0", b"valuE0"), "x").entries())


def test_a_scan_that_misses_entries_is_noticed() -> None:
    """The trailer says how many there are."""
    data, _ = hbase_file(1)
    at = data.rindex(bytes([7 << 3, 32]))
    with pytest.raises(CorruptMetadataError, match="holds 32 entries, the trailer says 33"):
        list(open_hfile(data[:at] + bytes([7 << 3, 33]) + data[at + 2 :], "x").entries())


def test_keys_out_of_order_are_noticed() -> None:
    """A seek in such a file would miss entries."""
    data = write_hfile([(b"a", b"1"), (b"b", b"2")], SCHEMA, 1, codec="NONE")
    swapped = data.replace(cell(b"a", b"1"), cell(b"c", b"1"), 1)
    with pytest.raises(CorruptMetadataError, match="not in order"):
        list(open_hfile(swapped, "x").entries())


@pytest.mark.parametrize("number", [0, 3, 4, 5, 6])
def test_other_codecs_are_refused_by_name(number: int) -> None:
    """LZO, SNAPPY, LZ4, BZIP2 and ZSTD exist, but are not read."""
    data = write_hfile(ENTRIES, SCHEMA, 1)
    at = data.rindex(bytes([12 << 3, 1]))
    with pytest.raises(UnsupportedFeatureError, match=["LZO", "", "", "SNAPPY", "LZ4", "BZIP2", "ZSTD"][number]):
        open_hfile(data[: at + 1] + bytes([number]) + data[at + 2 :], "x")


def test_another_version_is_refused() -> None:
    """HFile version 2 has another trailer."""
    data = write_hfile(ENTRIES, SCHEMA, 1)
    with pytest.raises(UnsupportedFeatureError, match="HFile version 2"):
        open_hfile(data[:-1] + b"\2", "x")


@pytest.mark.parametrize("codec", ["GZ", "NONE"])
def test_every_truncation_is_noticed(codec: str) -> None:
    """A file cut anywhere is refused when it is opened, with its name and a byte."""
    data = write_hfile(ENTRIES, SCHEMA, 1, codec=codec)
    for length in [*range(0, len(data) - TRAILER_SIZE, 7), *range(len(data) - TRAILER_SIZE, len(data), 131)]:
        with pytest.raises(CorruptMetadataError, match="dir/x is damaged at byte"):
            open_hfile(data[:length], "dir/x")


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damage_gives_no_other_error(at: int, flip: int) -> None:
    """One damaged byte in a compressed file: an error of ours, or a byte that nothing depends on."""
    data = bytearray(write_hfile(ENTRIES, SCHEMA, 1))
    used = len(data) - TRAILER_SIZE + 120
    data[at % used] ^= flip
    with suppress(CorruptMetadataError, UnsupportedFeatureError):
        file = open_hfile(bytes(data), "x")
        assert list(file.entries()) == ENTRIES
        assert file.get(b"b") == b""


@given(st.integers(0, 10**6), st.integers(1, 255), st.integers(1, 3))
def test_damage_without_compression_gives_no_other_error(at: int, flip: int, levels: int) -> None:
    """The same where no codec notices, with indexes of several levels."""
    data = bytearray(hbase_file(levels)[0])
    data[at % (len(data) - TRAILER_SIZE + 60)] ^= flip
    with suppress(CorruptMetadataError, UnsupportedFeatureError):
        file = open_hfile(bytes(data), "x")
        list(file.entries())
        file.get(b"key007")


@given(st.binary(max_size=300))
def test_junk_is_refused(junk: bytes) -> None:
    """Random bytes before, within and as the trailer."""
    trailer = TRAILER_MAGIC + junk.ljust(TRAILER_SIZE - 12, b"\0") + struct.pack(">I", 3)
    for data in (junk, junk + trailer):
        with pytest.raises((CorruptMetadataError, UnsupportedFeatureError)):
            open_hfile(data, "x")


@pytest.mark.parametrize(
    ("raw", "value"),
    [(b"\x7f", 127), (b"\x90", -112), (b"\x8f\xff", 255), (b"\x8e\x01\x00", 256), (b"\x87\x7f", -128)],
)
def test_hadoop_numbers(raw: bytes, value: int) -> None:
    """WritableUtils: one byte up to 127, else a length byte and the magnitude."""
    assert read_hadoop_vint(raw, 0) == (value, len(raw))


def test_numbers_that_do_not_end() -> None:
    """No endless loop and no number without bounds."""
    with pytest.raises(ValueError, match="too long"):
        read_varint(b"\xff" * 100, 0)
    with pytest.raises(ValueError, match="past the end"):
        read_hadoop_vint(b"\x8e\x01", 0)
    assert "x is damaged at byte 3: why" in str(corrupt("x", 3, "why"))


def test_long_keys_have_long_index_entries() -> None:
    """A key length over 127 takes more than one byte in the index."""
    entries = [(b"k" * 300, b"1"), (b"l" * 30000, b"2")]
    file = open_hfile(write_hfile(entries, SCHEMA, 1), "x")
    assert file.get(b"k" * 300) == b"1"
    assert list(file.entries()) == entries


def test_a_file_without_schema_is_damage() -> None:
    """Values cannot be read without."""
    with pytest.raises(CorruptMetadataError, match="no Avro schema"):
        _ = open_hfile(hbase_file(1)[0], "x").schema


@pytest.mark.parametrize(
    ("field", "error", "match"),
    [
        (bytes([8 << 3, 99]), CorruptMetadataError, "99 index levels"),
        (bytes([12 << 3, 77]), CorruptMetadataError, "codec 77"),
        (bytes([13 << 3, 1]), UnsupportedFeatureError, "encrypted"),
        (bytes([2 << 3, 0]), CorruptMetadataError, "root index was expected"),
        (bytes([1 << 3, 0]), CorruptMetadataError, "file info was expected"),
    ],
)
def test_trailers_of_other_files_are_refused(field: bytes, error: type[Exception], match: str) -> None:
    """A later field of a protobuf message wins over an earlier one."""
    data, _ = hbase_file(1)
    start = len(data) - TRAILER_SIZE + len(TRAILER_MAGIC)
    length, at = read_varint(data, start)
    longer = data[:start] + varint(length + 2) + data[at : at + length] + field + data[at + length :]
    with pytest.raises(error, match=match):
        open_hfile(longer[: len(data) - 4] + data[-4:], "x")


@pytest.mark.parametrize("name", ["DATA_BLOCK_ENCODING", "hfile.MAX_TAGS_LEN"])
def test_encoded_or_tagged_cells_are_refused(name: str) -> None:
    """Their cells have another form."""
    with pytest.raises(UnsupportedFeatureError, match="tagged or encoded"):
        open_hfile(hbase_file(1, info=(name.encode(), b"FAST_DIFF"))[0], "x")

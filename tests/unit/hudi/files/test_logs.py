"""Hudi's log file format."""

from __future__ import annotations

import struct
from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.files.logs import (
    MAGIC,
    BlockType,
    CorruptBlock,
    HeaderKey,
    LogBlock,
    encode_block,
    read_blocks,
)

headers = st.dictionaries(st.sampled_from(sorted(HeaderKey)), st.text(max_size=20))
contents = st.binary(max_size=60).filter(lambda content: MAGIC not in content)
blocks = st.tuples(st.sampled_from(sorted(BlockType)), headers, contents)
HEADER = {HeaderKey.INSTANT_TIME: "20260101000000000", HeaderKey.SCHEMA: '"int"'}


def block(content: bytes = b"content", kind: BlockType = BlockType.AVRO_DATA) -> bytes:
    return encode_block(kind, HEADER, content)


@given(st.lists(blocks, max_size=4))
def test_blocks_come_back(written: list) -> None:
    """Type, header and content of every block, in order, at its offset."""
    parts = [encode_block(*one) for one in written]
    found = list(read_blocks(b"".join(parts), "x"))
    assert [(b.type, b.header, b.content) for b in found] == written
    assert [b.offset for b in found] == [sum(map(len, parts[:i])) for i in range(len(parts))]


def test_the_layout_is_hudis() -> None:
    """Byte for byte: sizes, version 1, type, header map, content, empty footer map, reverse pointer."""
    data = encode_block(BlockType.DELETE, {HeaderKey.INSTANT_TIME: "ab"}, b"XYZ")
    body = struct.pack(">ii", 1, 1) + struct.pack(">iii", 1, 0, 2) + b"ab" + struct.pack(">q", 3) + b"XYZ" + bytes(4)
    assert data == MAGIC + struct.pack(">q", len(body) + 8) + body + struct.pack(">q", len(body) + 14)


def test_properties_of_a_block() -> None:
    """The header's instant and schema; only rollback commands have a target."""
    (data,) = read_blocks(block(), "x")
    assert isinstance(data, LogBlock)
    assert (data.instant_time, data.schema, data.rolled_back_instant) == ("20260101000000000", '"int"', None)
    command = {HeaderKey.TARGET_INSTANT_TIME: "7", HeaderKey.COMMAND_BLOCK_TYPE: "0"}
    (rollback,) = read_blocks(encode_block(BlockType.COMMAND, command, b""), "x")
    assert rollback.rolled_back_instant == "7"


def test_a_torn_block_is_skipped_to_the_next_magic() -> None:
    """What a writer left that died mid-write is reported, with its instant, and the blocks after it are read."""
    whole, torn = block(), block(b"z" * 100)[:-20]
    found = list(read_blocks(whole + torn + whole, "x"))
    assert [type(b) for b in found] == [LogBlock, CorruptBlock, LogBlock]
    assert (found[1].offset, found[1].end) == (len(whole), len(whole + torn))
    assert found[1].instant_time == "20260101000000000"


@given(st.integers(1, 200))
def test_a_cut_file_never_reads_as_whole(cut: int) -> None:
    """A file cut within its last block ends in a CorruptBlock."""
    whole, last = block(), block(b"some more content")
    kept = max(1, len(last) - cut)
    found = list(read_blocks(whole + last[:kept], "x")) if kept >= len(MAGIC) else []
    if found:
        assert isinstance(found[0], LogBlock)
        assert isinstance(found[1], CorruptBlock)
        assert len(found) == 2


@given(st.integers(0, 10**6), st.integers(1, 255))
def test_damage_is_reported_or_raised_but_nothing_else(at: int, flip: int) -> None:
    """One damaged byte never hangs the reader and never raises another error."""
    data = bytearray(block() + block(b"second") + block(b""))
    data[at % len(data)] ^= flip
    with suppress(CorruptMetadataError):
        assert len(list(read_blocks(bytes(data), "x"))) <= 3


@given(st.binary(max_size=120))
def test_junk_behind_a_magic_is_a_corrupt_block(junk: bytes) -> None:
    """Random bytes give corrupt blocks or an error that names file and byte."""
    with suppress(CorruptMetadataError):
        assert all(isinstance(b, CorruptBlock) for b in read_blocks(MAGIC + junk, "x"))


def test_a_file_of_something_else_is_refused() -> None:
    """A log file starts with the magic; an empty one holds nothing."""
    assert list(read_blocks(b"", "x")) == []
    with pytest.raises(CorruptMetadataError, match="x is damaged at byte 0"):
        list(read_blocks(b"PAR1" + bytes(50), "x"))


@pytest.mark.parametrize(("at", "what"), [(14, "log format version 9"), (18, "block type 9")])
def test_unknown_versions_and_types_are_refused(at: int, what: str) -> None:
    """A newer format is not skipped as if it were damage."""
    data = bytearray(block())
    data[at : at + 4] = struct.pack(">i", 9)
    with pytest.raises(CorruptMetadataError, match=what):
        list(read_blocks(bytes(data), "x"))

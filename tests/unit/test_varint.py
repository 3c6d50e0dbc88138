"""Numbers in seven bits a byte."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.parquet import thrift
from lakemeta.varint import read_varint, write_varint


@given(st.lists(st.integers(0, 2**64 - 1)))
def test_what_is_written_is_read(numbers: list[int]) -> None:
    """Any numbers of 64 bits, one after the other."""
    out = bytearray()
    for number in numbers:
        write_varint(out, number)
    at, found = 0, []
    while at < len(out):
        number, at = read_varint(bytes(out), at)
        found.append(number)
    assert found == numbers


@pytest.mark.parametrize(
    ("data", "number"), [(b"\x00", 0), (b"\x7f", 127), (b"\x80\x01", 128), (b"\xac\x02", 300), (b"\x80\x00", 0)]
)
def test_examples_of_the_formats(data: bytes, number: int) -> None:
    """Protobuf's own example is 300; a longer spelling of a number is one of it."""
    assert read_varint(data, 0) == (number, len(data))


def test_a_number_that_does_not_end_is_damage() -> None:
    """At the end of the data, or past 64 bits: a damaged Parquet footer made numbers of any length."""
    with pytest.raises(IndexError):
        read_varint(b"\x80", 0)
    with pytest.raises(ValueError, match="too long"):
        read_varint(b"\xff" * 11, 0)
    with pytest.raises(CorruptMetadataError, match="truncated or damaged"):
        thrift.loads(b"\x16" + b"\xff" * 40 + b"\x01\x00")

"""Messages of protocol buffers: what is written is read, and what is none is refused."""

from __future__ import annotations

import pytest

from lakemeta.protobuf import read_fields, write_fields

FIELDS = [(1, 0), (2, b""), (2, b"abc"), (300, 2**63), (15, b"x" * 200)]


def test_fields_come_back_in_order() -> None:
    """Repeated ones too; the bytes are those of the encoding's own example."""
    assert list(read_fields(write_fields(FIELDS))) == FIELDS
    assert write_fields([(1, 150), (2, b"testing")]) == bytes.fromhex("089601") + b"\x12\x07testing"


def test_fields_of_fixed_width_are_read_where_they_may_be() -> None:
    """Eight and four bytes, by their wire types 1 and 5."""
    data = b"\x09" + b"8" * 8 + b"\x15" + b"4" * 4
    assert list(read_fields(data, fixed=True)) == [(1, b"8" * 8), (2, b"4" * 4)]
    with pytest.raises(ValueError, match="wire type 1 is not used here"):
        list(read_fields(data))


@pytest.mark.parametrize("data", [b"\x12\x02a", b"\x12", b"\x08", b"\x0b", b"\x09" + b"8" * 7, b"\xff" * 11])
def test_what_is_no_message_is_refused(data: bytes) -> None:
    """Fields that run past the end, groups, and numbers without end."""
    with pytest.raises((ValueError, IndexError)):
        list(read_fields(data, fixed=True))

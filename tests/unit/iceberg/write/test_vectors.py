"""Deletion vectors and Puffin files, read back by readers that share no code with their writers."""

from __future__ import annotations

import io
import json
import struct

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support import iceberg_checker

from lakemeta.iceberg.rows.deletion_vectors import deletion_vector
from lakemeta.iceberg.write.puffin import Blob, PuffinWriter
from lakemeta.iceberg.write.vectors import encode_vector

# Lone rows, stretches of rows, and every third row of a stretch: lists, runs and bits.
STRETCHES = st.lists(
    st.tuples(st.integers(0, 2**34), st.sampled_from([1, 2, 90, 5_000, 70_000]), st.sampled_from([1, 3])),
    min_size=1,
    max_size=4,
)


def encoded(positions: list[int]) -> bytes:
    return encode_vector(pa.array(positions, pa.int64()))


@settings(max_examples=25, deadline=None)
@given(STRETCHES)
def test_rows_come_back(stretches: list[tuple[int, int, int]]) -> None:
    """Two readers, the product's and the checker's, find exactly the rows of a vector in all kinds of containers."""
    rows = sorted({at for first, length, step in stretches for at in range(first, first + length, step)})
    blob = encoded(rows)
    assert list(iceberg_checker.deletion_vector(blob)) == rows
    counted = sum(int.from_bytes(bits, "little").bit_count() for _, bits in deletion_vector(blob, "here"))
    assert counted == len(rows)


@pytest.mark.parametrize(
    ("rows", "size"), [([0, 1, 2, 4, 5], 50), ([0, 1, 2, 3, 4, 5], 39), ([0], 42), ([0, 1, 3, 4], 48), ([0, 1, 99], 46)]
)
def test_vectors_are_as_short_as_icebergs(rows: list[int], size: int) -> None:
    """The sizes are those of recorded vectors: runs where they are shorter than a list, else the list."""
    assert len(encoded(rows)) == size


@pytest.mark.parametrize("rows", [[1, 1], [2, 1], [-1, 3]])
def test_rows_in_another_order_are_refused(rows: list[int]) -> None:
    """A vector of rows that do not ascend would name other rows."""
    with pytest.raises(ValueError, match="must ascend"):
        encoded(rows)


def test_a_puffin_file_says_where_its_blobs_are() -> None:
    """The footer gives offset and length of each blob between two magics, by the layout of the specification."""
    sink = io.BytesIO()
    writer = PuffinWriter(sink)
    first = writer.add(Blob("a", (1,), properties={"k": "ä"}), b"first")
    places = [(first, 5), (writer.add(Blob("b", (2, 3)), b""), 0)]
    size = writer.finish()
    data = sink.getvalue()
    assert len(data) == size
    (length,) = struct.unpack("<i", data[-12:-8])
    assert data[:4] == data[-4:] == data[-16 - length : -12 - length] == b"PFA1"
    assert data[-8:-4] == bytes(4)
    footer = json.loads(data[-12 - length : -12])
    assert [(blob["offset"], blob["length"]) for blob in footer["blobs"]] == places
    assert data[4:9] == b"first"
    assert footer["blobs"][0] == {
        "type": "a", "fields": [1], "snapshot-id": -1, "sequence-number": -1, "offset": 4, "length": 5,
        "properties": {"k": "ä"},
    }  # fmt: skip
    assert footer["properties"]["created-by"].startswith("lakemeta ")

"""Deletion vectors: Roaring bitmaps of every shape, and blobs that are not what they should be."""

from __future__ import annotations

import struct

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from support.deletion_vectors import blob_of, run_containers, vector
from support.examples import examples

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.rows.delete_filter import DeletedRows
from lakemeta.iceberg.rows.deletion_vectors import deletion_vector

ROWS = 200_000
POSITIONS = st.builds(
    lambda single, runs: sorted({*single, *(n for start, size in runs for n in range(start, start + size))}),
    st.sets(st.integers(0, ROWS - 1), max_size=50),
    st.lists(st.tuples(st.integers(0, ROWS - 9000), st.integers(1, 9000)), max_size=3),
)


def decoded(blob: bytes) -> list[int]:
    return [
        start + n
        for start, bits in deletion_vector(blob, "x.puffin")
        for n in range(65536)
        if bits[n >> 3] >> (n & 7) & 1
    ]


@settings(max_examples=examples(30))
@given(POSITIONS, st.booleans())
def test_every_kind_of_container_is_read(positions: list[int], runs: bool) -> None:
    """Arrays, bitmaps and runs hold the positions that were put in."""
    assert decoded(vector(positions, runs=runs)) == positions


def test_positions_beyond_32_bits_and_many_containers() -> None:
    """A vector has a part for every 2^32 rows; from four containers on, runs have offsets too."""
    positions = [5, 70_000, 140_000, 210_000, 280_000, (1 << 32) + 7]
    assert decoded(vector(positions, runs=True)) == decoded(vector(positions, runs=False)) == positions


@given(st.data())
@settings(max_examples=examples(50))
def test_a_damaged_blob_is_refused(data: st.DataObject) -> None:
    """A changed byte anywhere, or a missing end, is damage that names the file."""
    blob = vector([1, 5, 6, 7, 100_000], runs=True)
    at = data.draw(st.integers(0, len(blob) - 1))
    changed = blob[:at] + bytes([blob[at] ^ 1 << data.draw(st.integers(0, 7))]) + blob[at + 1 :]
    for bad in (changed, blob[:at]):
        with pytest.raises(CorruptMetadataError, match=r"x\.puffin"):
            list(deletion_vector(bad, "x.puffin"))


def test_a_bitmap_that_ends_early_is_refused() -> None:
    """A right checksum over too few containers is still damage."""
    blob = blob_of(struct.pack("<QI", 2, 0) + struct.pack("<II", 12346, 0))
    with pytest.raises(CorruptMetadataError, match="cut off"):
        list(deletion_vector(blob, "x.puffin"))


ONE_PART = struct.pack("<QI", 1, 0)
BAD_BITMAPS = {
    "goes up to 65536, beyond its container": ONE_PART + run_containers((0, [(65535, 1)])),
    "goes up to 65537": ONE_PART + run_containers((0, [(2, 65535)])),
    "runs overlap": ONE_PART + run_containers((0, [(5, 5), (7, 1)])),
    "containers are not in order": ONE_PART + run_containers((1, [(0, 0)]), (0, [(0, 0)])),
    "parts are not in order": struct.pack("<QI", 2, 3)
    + run_containers((0, [(0, 0)]))
    + struct.pack("<I", 3)
    + run_containers((0, [(1, 0)])),
    "starts with 7": ONE_PART + struct.pack("<II", 7, 0),
    "says that it has 65537 containers": ONE_PART + struct.pack("<II", 12346, 65537),
    "cut off": struct.pack("<Q", 2**63),
}


@pytest.mark.parametrize(("sentence", "body"), BAD_BITMAPS.items(), ids=list(BAD_BITMAPS))
def test_a_bitmap_that_contradicts_itself_is_refused(sentence: str, body: bytes) -> None:
    """A right checksum does not make a right bitmap: runs past 65535, twice the same rows, more than can be."""
    with pytest.raises(CorruptMetadataError, match=sentence):
        list(deletion_vector(blob_of(body), "x.puffin"))


@pytest.mark.slow
def test_a_small_blob_may_stand_for_many_rows() -> None:
    """Full runs of a few bytes are 8 KiB of bits each, so they come one at a time."""
    body = ONE_PART + run_containers(*((key, [(0, 65535)]) for key in range(65535)))
    found = deletion_vector(blob_of(body), "x.puffin")
    assert [next(found)[0] for _ in range(3)] == [0, 65536, 131072]


@given(st.sets(st.integers(0, 99)), st.integers(0, 99), st.integers(1, 100))
def test_the_mask_of_a_batch(positions: set[int], start: int, rows: int) -> None:
    """A batch keeps the rows that are not deleted, wherever in the file it starts."""
    rows = min(rows, 100 - start)
    deleted = DeletedRows(100)
    deleted.add_positions([*positions, 100, 1 << 40])
    mask = deleted.keep(start, rows)
    kept = [n not in positions for n in range(start, start + rows)]
    assert deleted.count == len(positions)
    assert kept == (mask.to_pylist() if mask is not None else [True] * rows)


def test_a_vector_may_be_longer_than_its_file() -> None:
    """A container covers 65536 rows, the file perhaps fewer."""
    deleted = DeletedRows(70_001)
    for start, bits in deletion_vector(vector([3, 70_000, 70_001, 131_000, 10**6], runs=False), "x"):
        deleted.add_bits(start, bits)
    mask = deleted.keep(70_000, 1)
    assert mask is not None
    assert mask.to_pylist() == [False]
    assert deleted.keep(8, 60_000) is None
    assert deleted.count == 2

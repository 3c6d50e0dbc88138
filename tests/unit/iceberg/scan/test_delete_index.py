"""Which deletes apply to which data files."""

from __future__ import annotations

import struct
from typing import Any

import pytest
from support.iceberg_manifests import written
from support.iceberg_values import added, data_file, delete_file, spec, table

from lakemeta.errors import CorruptMetadataError
from lakemeta.iceberg.manifests.codec import read_manifest
from lakemeta.iceberg.manifests.delete_entries import partition_key, referenced_data_file, scan_delete_manifest
from lakemeta.iceberg.manifests.entries import FILE_PATH_ID, DataFile, FileContent, ManifestContent
from lakemeta.iceberg.scan.delete_index import DeleteFileIndex

PARTITIONED = table(spec((2, "identity")))
EQUALITY = FileContent.EQUALITY_DELETES


def applied(
    file: DataFile, sequence: int, deletes: list[tuple[DataFile, int]], metadata: Any = PARTITIONED
) -> list[str]:
    """Names of the deletes that apply to a file with this sequence number."""
    index = DeleteFileIndex(metadata, [added(d, s) for d, s in deletes])
    return [d.file_path.rpartition("/")[2] for d in index.for_file(sequence, file)]


def equality(name: str, **more: Any) -> DataFile:
    return delete_file(name, EQUALITY, **({"equality_ids": (1,), "partition": ("a",)} | more))


def _bounded(path: bytes) -> dict[str, Any]:
    return {"lower_bounds": {FILE_PATH_ID: path}, "upper_bounds": {FILE_PATH_ID: path}}


def vector(name: str, path: str, **more: Any) -> DataFile:
    return delete_file(name, file_format="PUFFIN", referenced_data_file=path, **({"partition": ("a",)} | more))


FILE = data_file("f", partition=("a",))


def test_position_deletes_reach_their_partition_up_to_their_own_sequence() -> None:
    """Same or older data of the same partition and spec; nothing newer, nothing elsewhere."""
    deletes = [(delete_file(f"d{s}", partition=("a",)), s) for s in (3, 1, 2)]
    deletes.append((delete_file("elsewhere", partition=("b",)), 9))
    assert applied(FILE, 2, deletes) == ["d2", "d3"]
    assert applied(FILE, 4, deletes) == []


def test_a_position_delete_that_names_a_file_reaches_that_file_alone() -> None:
    """It may be named by referenced_data_file, or by equal bounds of file_path."""
    path = FILE.file_path.encode()
    bounds = {"lower_bounds": {FILE_PATH_ID: path}, "upper_bounds": {FILE_PATH_ID: path}}
    by_bounds, by_name = (
        delete_file("b", partition=("a",), **bounds),
        delete_file("n", partition=("a",), referenced_data_file=FILE.file_path),
    )
    wider = delete_file("w", partition=("a",), lower_bounds=bounds["lower_bounds"], upper_bounds={FILE_PATH_ID: b"~"})
    deletes = [(by_bounds, 1), (by_name, 1), (wider, 1)]
    assert applied(FILE, 1, deletes) == ["w", "b", "n"]
    assert applied(data_file("other", partition=("a",)), 1, deletes) == ["w"]
    assert [referenced_data_file(d) for d, _ in deletes] == [FILE.file_path, FILE.file_path, None]
    for wrong, words in ({"referenced_data_file": "other"}, "says they are of 'other'"), (_bounded(b"\xff"), "no text"):
        with pytest.raises(CorruptMetadataError, match=words):
            referenced_data_file(delete_file("x", partition=("a",), **(bounds | wrong)))
    assert referenced_data_file(equality("e")) is None


def test_equality_deletes_reach_older_data_only() -> None:
    """An equality delete does not touch data of its own commit."""
    deletes = [(equality(f"e{s}"), s) for s in (1, 2, 3)]
    assert applied(FILE, 2, deletes) == ["e3"]


def test_equality_deletes_of_an_unpartitioned_spec_reach_everything() -> None:
    """They are global, whatever the partition of the data."""
    metadata = table(spec(spec_id=0), spec((2, "identity"), spec_id=1))
    deletes = [(equality("e", partition=()), 2)]
    assert applied(data_file(spec_id=1, partition=("a",)), 1, deletes, metadata) == ["e"]


def test_a_deletion_vector_replaces_other_position_deletes() -> None:
    """Equality deletes still apply, position deletes of the file or its partition no longer do."""
    deletes = [
        (delete_file("p", partition=("a",)), 5),
        (delete_file("n", partition=("a",), referenced_data_file=FILE.file_path), 5),
        (vector("v", FILE.file_path), 5),
        (equality("e"), 5),
    ]
    assert applied(FILE, 1, deletes) == ["e", "v"]


@pytest.mark.parametrize(
    "deletes",
    [
        [(vector("v", FILE.file_path), 1), (vector("w", FILE.file_path), 1)],
        [(vector("v", FILE.file_path), 0)],
        [(vector("v", FILE.file_path, partition=("b",)), 2)],
        [(delete_file("n", partition=("b",), referenced_data_file=FILE.file_path), 2)],
        [(delete_file("n", partition=("a",), file_format="PUFFIN"), 2)],
        [(FILE, 2)],
        [(equality("e", equality_ids=(99,)), 2)],
    ],
)
def test_contradictions_are_corrupt(deletes: list[tuple[DataFile, int]]) -> None:
    """Two vectors for a file, a vector older than its file, deletes in another partition, unknown fields."""
    with pytest.raises(CorruptMetadataError):
        applied(FILE, 1, deletes)


@pytest.mark.parametrize("value", [b"a", 1, 0.5, True])
@pytest.mark.parametrize("path", [None, FILE.file_path])
def test_a_partition_of_another_type_is_corrupt(value: Any, path: str | None) -> None:
    """Such a delete file would apply to no data file, and its deleted rows would come back."""
    delete = delete_file("d", partition=(value,), referenced_data_file=path)
    with pytest.raises(CorruptMetadataError, match=r"d is of partition .* which is no string"):
        applied(FILE, 1, [(delete, 2)])


def bounds(low: int, high: int, nulls: int = 0, count: int = 10) -> dict[str, Any]:
    packed = [{1: struct.pack("<q", v)} for v in (low, high)]
    counts = {"value_counts": {1: count}, "null_value_counts": {1: nulls}}
    return {"lower_bounds": packed[0], "upper_bounds": packed[1], **counts} if nulls < count else counts


OPTIONAL = table(spec((1, "identity")))


@pytest.mark.parametrize(
    ("data", "deleted", "touched"),
    [
        (bounds(1, 5), bounds(5, 9), True),
        (bounds(1, 5), bounds(6, 9), False),
        (bounds(7, 9), bounds(1, 6), False),
        ({}, bounds(1, 6), True),
        (bounds(1, 5), {}, True),
        (bounds(0, 0, nulls=10), bounds(1, 6), False),
        (bounds(1, 6), bounds(0, 0, nulls=10), False),
        (bounds(1, 5, nulls=1), bounds(7, 9, nulls=1), True),
        (bounds(1, 5, nulls=1), bounds(7, 9), False),
    ],
)
def test_metrics_prune_equality_deletes(data: Any, deleted: Any, touched: bool) -> None:
    """A delete is left out where ranges do not meet, unless null was deleted and may be there."""
    from lakemeta.iceberg.spec.schema import Schema
    from lakemeta.iceberg.spec.types import LONG, NestedField

    metadata = table(schema=Schema((NestedField(1, "id", LONG),)))
    found = applied(data_file(**data), 1, [(equality("e", partition=(), **deleted), 2)], metadata)
    assert found == (["e"] if touched else [])


def test_required_columns_hold_no_null() -> None:
    """For a required column, ranges decide alone."""
    files = data_file(partition=("a",), lower_bounds={1: struct.pack("<q", 1)}, upper_bounds={1: struct.pack("<q", 2)})
    low = {"lower_bounds": {1: struct.pack("<q", 3)}, "upper_bounds": {1: struct.pack("<q", 4)}}
    assert applied(files, 1, [(equality("e", **low), 2)]) == []


def test_an_empty_index_knows_it() -> None:
    """And the columns of equality deletes are known, whose metrics the scan must read."""
    assert DeleteFileIndex(PARTITIONED, []).is_empty
    index = DeleteFileIndex(PARTITIONED, [added(equality("e", equality_ids=(1, 2)), 1)])
    assert index.equality_ids == {1, 2}


def test_partitions_compare_as_in_the_engine() -> None:
    """NaN is one partition, and zero and minus zero are two."""
    nan = float("nan")
    assert partition_key((nan,)) == partition_key((float("nan"),))
    assert partition_key((0.0,)) != partition_key((-0.0,))
    assert partition_key((1, "a")) == (1, "a")


def test_planning_reads_less_of_delete_files_and_plans_the_same() -> None:
    """Position deletes are read without metrics and still name their file; equality deletes keep what prunes them."""
    path = FILE.file_path + "x" * 200
    bounds = {"lower_bounds": {FILE_PATH_ID: path.encode()}, "upper_bounds": {FILE_PATH_ID: path.encode()}}
    listed = [delete_file("p", **bounds), delete_file("q"), delete_file("e", EQUALITY, lower_bounds={1: b"low"})]
    data, line = written([added(d) for d in listed], content=ManifestContent.DELETES)
    one, other, compared = (entry.data_file for entry in scan_delete_manifest(data, line, spec()))
    assert (one.referenced_data_file, one.lower_bounds) == (path, None)
    assert other.referenced_data_file is None
    assert compared == read_manifest(data, line, spec())[2].data_file


def test_planning_reads_deletion_vectors_whole() -> None:
    """A manifest of deletion vectors alone is read with all that a deletion vector has."""
    listed = [vector("v", "/" + "x" * 300, partition=(), content_offset=4, content_size_in_bytes=40)]
    data, line = written([added(d) for d in listed], version=3, content=ManifestContent.DELETES)
    assert scan_delete_manifest(data, line, spec()) == read_manifest(data, line, spec())

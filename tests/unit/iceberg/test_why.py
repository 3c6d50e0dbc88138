"""What is told of a table and of one of its files: facts, and why a rewrite takes the file or leaves it."""

from __future__ import annotations

import re

import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import OptionError
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}


@pytest.fixture
def small(tmp_path) -> SmallTable:
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    return small


def opened(small: SmallTable) -> IcebergTable:
    return IcebergTable.open(small.root)


def state(small: SmallTable) -> TableState:
    return TableState.local(small.root)


def test_inspect_counts_what_is_live(small):
    """Facts of the current snapshot: files by kind, small files, refs."""
    small.delete_positions(small.data_files()[0], [1])
    small.delete_ids(5, partition=("b",))
    facts = opened(small).inspect()
    assert (facts.data_files, facts.records, facts.small_files) == (6, 18, 6)
    assert (facts.position_delete_files, facts.equality_delete_files, facts.deletion_vectors) == (1, 1, 0)
    assert (facts.data_manifests, facts.delete_manifests, facts.snapshots) == (3, 2, 5)
    assert facts.partition_by == ("identity(p)",)
    assert facts.to_json()["branches"] == ("main",)


@pytest.mark.parametrize(
    ("options", "where", "sentence"),
    [
        ({"min-input-files": "2"}, None, "would be rewritten: its .* bytes are below min-file-size-bytes"),
        ({}, None, "stays: its .* bytes are outside .* but its group has too few files"),
        (ALL, "p = 'zzz'", "stays: no row of it can match the filter"),
        (
            {"target-file-size-bytes": "1000", "min-file-size-bytes": "1"},
            None,
            "stays: its .* bytes lie from 1 to 1800",
        ),
    ],
)
def test_why(small, options, where, sentence):
    """One sentence on a data file."""
    path = small.data_files()[0].file_path.removeprefix(small.root + "/")
    found = opened(small).why(path, options, where)
    assert found.startswith(path)
    assert re.search(sentence, found), found


def test_why_says_that_the_limit_is_reached(small):
    """A file of a good group that max-files-to-rewrite leaves out is not blamed on its group."""
    options = {"min-input-files": "2", "max-files-to-rewrite": "3"}
    table = opened(small)
    (taken,) = table.plan_rewrite_data_files(options).operations
    told = [table.why(path, options) for path in state(small).paths(0) if not path.endswith(tuple(taken.inputs))]
    assert len(told) == 3
    assert all("stays: the files that are rewritten before it reach max-files-to-rewrite (3)" in t for t in told)


@pytest.mark.parametrize(
    ("options", "where", "sentence"),
    [
        ({}, None, r"would be rewritten: its \d+ bytes are combined with other files in a bin of .* \(134217728\); "),
        ({}, "p = 'zzz'", "stays: no row of it can match the filter"),
        ({"read.split.open-file-cost": "1", "target-file-size-bytes": "100"}, None, r"its \d+ bytes are cut into \d+ "),
        ({"target-file-size-bytes": "5000"}, None, r"stays: its \d+ bytes have a bin of .* \(5000\) to themselves"),
    ],
)
def test_why_of_the_older_planner(small, options, where, sentence):
    """The reason is that planner's own: it packs bins, and knows no least size, deletes or fewest files."""
    table, options = opened(small), {"planner": "split-combine", **options}
    taken = {path for group in table.plan_rewrite_data_files(options, where).operations for path in group.inputs}
    for file in small.data_files():
        told = table.why(file.file_path, options, where)
        assert re.search(sentence, told), told
        assert ("would be rewritten" in told) == (file.file_path.removeprefix(small.root + "/") in taken)


def test_why_of_delete_files_and_strangers(small):
    """A delete file is said to be one; a file that the snapshot does not list is refused."""
    small.delete_positions(small.data_files()[0], [1])
    (delete,) = state(small).paths(1)
    assert "applies to 1 data files" in opened(small).why(delete)
    with pytest.raises(OptionError, match=r"no snapshot of .* names .*; remove-orphan-files looks for such files"):
        opened(small).why("data/stranger.parquet")

"""What is told of a table and of one of its files: facts, and why a rewrite takes the file or leaves it."""

from __future__ import annotations

import re
from pathlib import Path

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


@pytest.mark.slow
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


def test_why_of_strangers(small):
    """What nothing names is for remove-orphan-files, and what is not there is refused."""
    Path(small.root, "data", "stranger.parquet").write_bytes(b"x")
    assert "stays: it was changed 20" in opened(small).why("data/stranger.parquet")
    with pytest.raises(OptionError, match=r"there is no file .*/data/nothing.parquet, and nothing in .* names one"):
        opened(small).why("data/nothing.parquet")
    with pytest.raises(OptionError, match="compute-table-stats says nothing of single files; known are convert-"):
        opened(small).why("data/stranger.parquet", service="compute-table-stats")


@pytest.mark.slow
@pytest.mark.parametrize(("version", "options"), [(2, {}), (3, {"min-input-files": "2"}), (2, ALL)])
def test_why_of_position_deletes(tmp_path, version, options):
    """As the plan has it: taken with its group, or left for the reason that the planner has."""
    small = create_table(LocalStorage(), str(tmp_path / "t"), version=version, partitioned=True)
    small.append([(1, "a", 0.5), (2, "a", 0.5)], [(5, "b", 1.5)])
    first, second = small.data_files()
    deletes = [small.delete_positions(file, [at]) for file, at in ((first, 0), (first, 1), (second, 0))]
    assert len(deletes) == len(state(small).paths(1)) == 3
    table, service = opened(small), "rewrite-position-deletes"
    taken = {path for op in table.plan(service, options).operations for path in op.inputs}
    for path in state(small).paths(1):
        for sentence in (table.why(path, options), table.why(path, options, service=service)):
            assert ("would be rewritten" in sentence) == (path.removeprefix(small.root + "/") in taken), sentence
        assert "it applies to 1 data file, and goes once none is left" in table.why(path, options)
        assert "stays: it applies to 1 data file" in table.why(path, service="remove-dangling-deletes")
        assert "stays: it holds position deletes already" in table.why(path, service="convert-equality-deletes")
    if not taken:
        assert "too few files or bytes (min-input-files is 5)" in sentence
    assert "cannot match" in table.why(path, options, "p = 'z'", service=service)


def test_why_of_equality_deletes(small):
    """Converted while it applies to a data file; taken out of the table by either service once it does not."""
    small.delete_ids(5, partition=("b",))
    (path,) = state(small).paths(2)
    table = opened(small)
    told = table.why(path)
    assert "would be converted: it becomes position deletes (convert-equality-deletes); it applies to 3" in told
    assert "stays: it holds equality deletes" in table.why(path, service="rewrite-position-deletes")
    assert "stays: its partition cannot match" in table.why(path, {}, "p = 'a'", service="convert-equality-deletes")
    small.remove(*[file for file in small.data_files() if file.partition == ("b",)])
    assert "it applies to no data file, so remove-dangling-deletes takes it out of the table" in table.why(path)
    told = table.why(path, service="remove-dangling-deletes")
    assert "would be taken out of the table: it applies to no data file" in told
    with pytest.raises(OptionError, match="is no delete file of the branch main"):
        table.why(small.data_files()[0].file_path, service="remove-dangling-deletes")


def test_why_of_manifests(small):
    """Taken with those of its spec and content, or left as the only one, or where nothing is gained."""
    table = opened(small)
    (path, *others) = [manifest["manifest_path"] for manifest in state(small).manifests]
    assert len(others) == 2
    told = table.why(path)
    assert re.search(r"would be rewritten: 3 data manifests of partition spec 0, of \d+ bytes, become 1 of about", told)
    kept = table.why(path, {"lakemeta.only-if-gained": "true"})
    taken = bool(table.plan("rewrite-manifests", {"lakemeta.only-if-gained": "true"}).operations)
    assert ("would be rewritten" in kept) == taken
    table.apply(table.plan("rewrite-manifests"))
    assert "would be deleted" in table.why(path, {"older_than": "2100-01-01", "retain_last": "1"})
    (path,) = [manifest["manifest_path"] for manifest in state(small).manifests]
    assert "stays: it is the only manifest of its partition spec" in table.why(path)
    with pytest.raises(OptionError, match="is no manifest of the current snapshot"):
        table.why(small.data_files()[0].file_path, service="rewrite-manifests")

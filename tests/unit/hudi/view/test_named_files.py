"""What any plan may name: data files in their partitions that neither savepoints nor pending operations name."""

from __future__ import annotations

import pytest
from support.builders import at, base, log

from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi.view.named_files import NamedFiles

NAMED = NamedFiles.of("the plan", "/t", {at(1): {base("s", 1)}}, {log("c", 1): f"compaction {at(2)}"}, "or plan again")


@pytest.mark.parametrize("root", ["/t", "bucket/t"])
@pytest.mark.parametrize("name", [base("a", 1), log("a", 1)])
@pytest.mark.parametrize("partition", ["", "p1", "p=1/q=2"])
def test_data_files_in_their_partitions_may_be_named(root: str, partition: str, name: str) -> None:
    """Base and log files, directly in the partition's directory; a table without partitions has them in its own."""
    named = NamedFiles.of("the plan", root, {}, {}, "or plan again")
    folder = named.folder(partition)
    assert folder == (f"{root}/{partition}" if partition else root)
    assert named.file(partition, folder, f"{folder}/{name}").name == name


@pytest.mark.parametrize(
    ("partition", "words"),
    [
        (".hoodie", "the plan reaches into .hoodie, the table's own metadata"),
        ("p1/.HOODIE/x", "own metadata"),
        ("..", "does not lie inside"),
        ("p1/", "does not lie inside"),
        ("p1/../p2", "does not lie inside"),
    ],
)
def test_partitions_that_no_plan_may_name(partition: str, words: str) -> None:
    """Elsewhere than in the table, in its metadata in any case of letters, or written in an odd way."""
    with pytest.raises(CorruptMetadataError, match=words):
        NAMED.folder(partition)


@pytest.mark.parametrize(
    ("path", "words"),
    [
        (f"/t/p2/{base('a', 1)}", "the plan lists /t/p2/.* under partition 'p1'; nothing was done"),
        (f"/t/p1/q/{base('a', 1)}", "under partition 'p1'"),
        ("/t/p1/notes.txt", "the plan deletes /t/p1/notes.txt, which is no data file; nothing was done"),
        ("/t/p1/.hoodie_partition_metadata", "no data file"),
        (f"/t/p1/{base('s', 1)}", f"savepoint {at(1)} needs; delete the savepoint with Hudi, or plan again"),
        (f"/t/p1/{log('c', 1)}", f"the pending compaction {at(2)} reads; have Hudi run that, or plan again"),
    ],
)
def test_files_that_no_plan_may_name(path: str, words: str) -> None:
    """Of another partition, no data file, pinned by a savepoint, or named in the plan of a pending operation."""
    with pytest.raises(CorruptMetadataError, match=words):
        NAMED.file("p1", "/t/p1", path)

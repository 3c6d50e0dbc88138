from __future__ import annotations

from lakemeta.iceberg.commit.summary import Changes, totals
from lakemeta.iceberg.manifests.entries import DataFile, FileContent


def file(content=FileContent.DATA, *, records=10, size=100, partition=("a",), form="PARQUET", blob=None):
    return DataFile(content, "f", form, 0, partition, records, size, content_size_in_bytes=blob)


def path(data_file):
    return f"p={data_file.partition[0]}"


def test_only_counters_above_zero_stand_in_the_summary():
    """What did not happen is not mentioned."""
    assert Changes((file(),)).counters() == {
        "added-data-files": "1",
        "added-records": "10",
        "added-files-size": "100",
    }


def test_each_kind_of_delete_file_has_its_counters():
    """Position deletes, deletion vectors and equality deletes are counted apart and together."""
    kinds = (
        file(FileContent.POSITION_DELETES, records=1),
        file(FileContent.POSITION_DELETES, records=2, form="PUFFIN", size=999, blob=7),
        file(FileContent.EQUALITY_DELETES, records=4),
    )
    assert Changes(removed=kinds).counters() == {
        "removed-delete-files": "3",
        "removed-position-delete-files": "1",
        "removed-dvs": "1",
        "removed-equality-delete-files": "1",
        "removed-position-deletes": "3",
        "removed-equality-deletes": "4",
        "removed-files-size": "207",
    }
    assert Changes(added=kinds).counters()["added-dvs"] == "1"


def test_changed_partitions_are_counted():
    """A partition counts once, whatever happened to it."""
    changes = Changes((file(),), (file(), file(partition=("b",))))
    assert changes.partition_entries(path, 0) == {"changed-partition-count": "2"}


def test_partition_entries_up_to_the_limit():
    """write.summary.partition-limit adds one entry a partition, if no more partitions changed."""
    changes = Changes((file(),))
    assert changes.partition_entries(path, 1) == {
        "changed-partition-count": "1",
        "partition-summaries-included": "true",
        "partitions.p=a": "added-data-files=1,added-files-size=100,added-records=10",
    }


def test_totals_follow_the_parent():
    """A total is the parent's plus what was added less what was removed."""
    before = {"total-records": "50", "total-data-files": "5"}
    now = {"added-records": "10", "deleted-records": "20", "added-data-files": "1"}
    assert totals(before, now) == {"total-records": "40", "total-data-files": "6"}


def test_totals_start_at_zero():
    """The first snapshot has all totals."""
    assert totals(None, {"added-records": "3"})["total-records"] == "3"
    assert totals(None, {})["total-position-deletes"] == "0"


def test_totals_that_make_no_sense_are_left_out():
    """A total that is no number, or would be negative, is dropped rather than written wrong."""
    assert totals({"total-records": "x", "total-data-files": "1"}, {"deleted-data-files": "2"}) == {}

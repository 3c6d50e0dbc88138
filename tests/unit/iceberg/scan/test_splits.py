"""Sharing a group's files out among tasks, as a scan of the engine does."""

from __future__ import annotations

from lakemeta.iceberg.manifests.entries import DataFile, FileContent
from lakemeta.iceberg.scan.file_tasks import FileScanTask
from lakemeta.iceberg.scan.splits import FileSplit, Packing, scan_tasks


def task(name: str, size: int, offsets: tuple[int, ...] | None = None, deletes: int = 0, kind: str = "PARQUET"):
    file = DataFile(FileContent.DATA, name, kind, 0, (), 10, size, split_offsets=offsets)
    delete = DataFile(FileContent.POSITION_DELETES, f"{name}-d", "PARQUET", 0, (), 1, deletes)
    return FileScanTask(file, 1, (delete,) if deletes else ())


def shape(tasks: list[list[FileSplit]]) -> list[list[tuple[str, int, int, bool]]]:
    return [[(s.task.data_file.file_path, s.start, s.end, s.is_whole) for s in part] for part in tasks]


def test_a_file_is_cut_at_its_split_offsets_and_put_together_where_parts_meet() -> None:
    """Parts that follow each other in a task are one; a file that stays in one piece is read whole."""
    found = scan_tasks([task("a", 304, (4, 104, 204)), task("b", 54, (4,))], 250, Packing())
    assert shape(found) == [[("a", 0, 204, False), ("b", 0, 54, True)], [("a", 204, 304, False)]]
    assert shape(scan_tasks([task("a", 304, (4, 104, 204))], 300, Packing())) == [[("a", 0, 304, True)]]


def test_the_parts_of_a_file_are_all_of_it() -> None:
    """What lies before the first offset is read with the first part, and weighs nothing, as in Iceberg."""
    found = scan_tasks([task("a", 304, (104, 204))], 100, Packing())
    assert shape(found) == [[("a", 0, 204, False)], [("a", 204, 304, False)]]
    assert [split.weight for part in found for split in part] == [100, 100]


def test_a_file_without_offsets_is_cut_at_the_split_size() -> None:
    """Offsets behind the end, or out of order, are none."""
    for offsets in (None, (), (4, 304), (104, 4), (-4, 104)):
        found = scan_tasks([task("a", 304, offsets)], 200, Packing())
        assert shape(found) == [[("a", 0, 200, False)], [("a", 200, 304, False)]]


def test_other_formats_are_not_cut() -> None:
    """A format that nobody knows how to cut is read whole, whatever its size."""
    assert shape(scan_tasks([task("a", 304, kind="puffin")], 200, Packing())) == [[("a", 0, 304, True)]]


def test_deletes_weigh_and_the_lookback_keeps_tasks_open() -> None:
    """A file goes into the first of the open tasks that takes it with its deletes; the fullest is closed first."""
    files = [task("a", 64, (4,)), task("b", 74, (4,)), task("c", 34, (4,), deletes=20), task("d", 34, (4,))]
    names = [[s.task.data_file.file_path for s in part] for part in scan_tasks(files, 100, Packing())]
    assert names == [["a", "d"], ["b"], ["c"]]
    names = [[s.task.data_file.file_path for s in part] for part in scan_tasks(files, 100, Packing(lookback=1))]
    assert names == [["b"], ["a"], ["c", "d"]]


def test_opening_a_file_has_a_price_if_one_is_set() -> None:
    """Small files count for it, with their deletes."""
    files = [task(name, 14, (4,), deletes=1) for name in "abc"]
    assert len(scan_tasks(files, 40, Packing())) == 1
    assert len(scan_tasks(files, 40, Packing(open_file_cost=10))) == 2

"""How a group's files are shared out among the tasks that rewrite them (engine: TableScanUtil.planTaskGroups).

Files are cut at their split offsets, and the parts packed into tasks of the group's split size. Every task writes
files of its own, so this decides how many files a group becomes. Sizes are bytes.
"""

from __future__ import annotations

import itertools
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta import binpack

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.iceberg.scan.file_tasks import FileScanTask

SPLITTABLE: Final = ("PARQUET", "AVRO", "ORC")


@attrs.frozen(slots=True)
class Packing:
    """``lookback`` tasks are open at a time, and a file counts for ``open_file_cost`` bytes at least."""

    lookback: int = 10
    open_file_cost: int = 0


@attrs.frozen(slots=True, hash=False)
class FileSplit:
    """A part of a data file from byte ``start`` to before byte ``end``; the parts of a file are all of it.

    ``weight`` is the bytes it counts for.
    """

    task: FileScanTask
    start: int
    end: int
    weight: int

    @property
    def is_whole(self) -> bool:
        """True if it is all of the file."""
        return self.start == 0 and self.end == self.task.length

    def __str__(self) -> str:
        return self.task.data_file.file_path


def scan_tasks(tasks: Sequence[FileScanTask], split_size: int, packing: Packing) -> list[list[FileSplit]]:
    """The parts that each task reads, in order. A task takes ``split_size`` bytes of data and delete files."""

    def weight(split: FileSplit) -> int:
        deletes = split.task.deletes
        deleted = sum(d.content_size_in_bytes or d.file_size_in_bytes for d in deletes)
        return max(split.weight + deleted, (1 + len(deletes)) * packing.open_file_cost)

    packed = binpack.pack(
        (split for task in tasks for split in _splits(task, split_size)),
        weight,
        target=split_size,
        lookback=packing.lookback,
        largest_first=True,
    )
    return [_merged(part) for part in packed]


def well_defined_offsets(task: FileScanTask) -> tuple[int, ...]:
    """The split offsets of a file, or none if they can't be right (BaseFile.hasWellDefinedOffsets)."""
    offsets = tuple(task.data_file.split_offsets or ())
    right = offsets and offsets[0] >= 0 and offsets[-1] < task.length
    right = right and all(a < b for a, b in itertools.pairwise(offsets))
    return offsets if right else ()


def _splits(task: FileScanTask, split_size: int) -> Iterator[FileSplit]:
    """Every split offset begins a part; a file without offsets is cut at multiples of the split size.

    The first part begins with the file whatever the first offset is: Iceberg never reads what lies before it. It counts
    for its bytes from the offset on, as there, so that tasks are the same.
    """
    size, offsets = task.length, well_defined_offsets(task)
    if task.data_file.file_format.upper() not in SPLITTABLE or not size:
        starts: Sequence[int] = (0,)
    else:
        starts = offsets or range(0, size, split_size)
    for start, end in itertools.pairwise((*starts, size)):
        yield FileSplit(task, 0 if start == starts[0] else start, end, end - start)


def _merged(splits: Sequence[FileSplit]) -> list[FileSplit]:
    """Parts of a file that follow each other as one."""
    merged: list[FileSplit] = []
    for split in splits:
        last = merged[-1] if merged else None
        if last is not None and last.task is split.task and last.end == split.start:
            merged[-1] = FileSplit(split.task, last.start, split.end, last.weight + split.weight)
        else:
            merged.append(split)
    return merged

"""The planner of Iceberg's older rewrite action, chosen with ``planner=split-combine`` (BaseRewriteDataFilesAction).

Files of a partition are cut at their split offsets, and the parts combined into bins as a scan would combine
them. A bin with a whole lone file stays as it is; the others are rewritten, each into one file. Sizes are bytes.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta import binpack
from lakemeta.iceberg.rewrite.bin_pack import (
    DEFAULT_TARGET_FILE_SIZE,
    TARGET_FILE_SIZE,
    check_output_spec,
    group_by_partition,
    number,
)
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.rewrite.verdict import Verdict, group_of
from lakemeta.iceberg.scan.splits import SPLITTABLE, Packing, well_defined_offsets
from lakemeta.iceberg.spec import options as given

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.iceberg.rewrite.verdict import Reason
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value

_SPLIT_SIZE: Final = "read.split.target-size"
_LOOKBACK: Final = "read.split.planning-lookback"
_OPEN_COST: Final = "read.split.open-file-cost"

OPTIONS: Final = ("planner", "target-file-size-bytes", "output-spec-id", _LOOKBACK, _OPEN_COST)


def is_asked_for(options: Mapping[str, str]) -> bool:
    """True if the option ``planner`` names this planner; raises OptionError if it names none."""
    planner = options.get("planner", "bin-pack")
    given.check(planner in ("bin-pack", "split-combine"), f"planner {planner} is neither bin-pack nor split-combine")
    return planner == "split-combine"


def packing(options: Mapping[str, str], metadata: TableMetadata) -> Packing:
    """How the parts of a group's files are shared out when it is rewritten; raises OptionError.

    The newer planner looks back as the table says, and counts files as what they are.
    """
    own = _packing(options, metadata.properties)
    return own if is_asked_for(options) else Packing(own.lookback)


def _packing(options: Mapping[str, str], properties: Mapping[str, str]) -> Packing:
    lookback = given.small(options, _LOOKBACK, given.small(properties, _LOOKBACK, 10))
    cost = given.whole(options, _OPEN_COST, given.whole(properties, _OPEN_COST, 4 * 1024**2))
    given.check(lookback > 0, f"Invalid split lookback {lookback}")
    given.check(cost > 0, f"Invalid split openFileCost {cost}")
    return Packing(lookback, cost)


@attrs.frozen(slots=True)
class SplitCombineOptions:
    """``target_file_size_bytes`` is the size of bins."""

    target_file_size_bytes: int
    packing: Packing
    output_spec_id: int

    @classmethod
    def parse(cls, options: Mapping[str, str], metadata: TableMetadata) -> SplitCombineOptions:
        """Options, else table properties of the same names, else the engine's defaults; may raise OptionError.

        The target defaults to the lesser of the table's read split size (128 MiB) and target file size (512 MiB).
        """
        properties = metadata.properties
        split = given.whole(properties, _SPLIT_SIZE, 128 * 1024**2)
        written = given.whole(properties, TARGET_FILE_SIZE, DEFAULT_TARGET_FILE_SIZE)
        target = given.whole(options, "target-file-size-bytes", min(split, written))
        given.check(target > 0, f"Invalid target rewrite data file size in bytes {target}")
        spec_id = given.small(options, "output-spec-id", metadata.default_spec_id)
        check_output_spec(spec_id, metadata)
        return cls(target, _packing(options, properties), spec_id)


@attrs.frozen(slots=True, hash=False)
class _Part:
    task: FileScanTask
    length: int


def plan_split_combine(
    metadata: TableMetadata, tasks: Iterable[FileScanTask], options: SplitCombineOptions
) -> list[RewriteGroup]:
    """The groups to rewrite, numbered. Bins that share a file make one group, so that every file is read once."""
    groups = []
    for partition, files in group_by_partition(metadata, tasks):
        if len(files) > 1:
            bins = _bins(files, options)
            groups += [_group(partition, joined, options) for joined in _joined(bins)]
    return number(groups, "none")


def judge(
    metadata: TableMetadata, tasks: Sequence[FileScanTask], task: FileScanTask, options: SplitCombineOptions
) -> Verdict:
    """What ``plan_split_combine`` does with ``task``, which is one of ``tasks``, and why."""
    path = task.data_file.file_path
    group = group_of(plan_split_combine(metadata, tasks, options), path)
    partitions = [files for _, files in group_by_partition(metadata, tasks)]
    beside = next(files for files in partitions if any(t.data_file.file_path == path for t in files))
    bins = [parts for parts in _bins(beside, options) if any(p.task.data_file.file_path == path for p in parts)]
    reason: Reason
    if group is None:
        reason = "alone in bin" if len(beside) > 1 else "alone in partition"
    else:
        reason = "cut" if len(bins) > 1 else "combined"
    numbers = {"bytes": task.length, "bins": len(bins), "target": options.target_file_size_bytes}
    return Verdict(group, reason, numbers)


def _bins(tasks: Sequence[FileScanTask], options: SplitCombineOptions) -> list[list[_Part]]:
    def weight(part: _Part) -> int:
        deletes = part.task.deletes
        deleted = sum(d.content_size_in_bytes or d.file_size_in_bytes for d in deletes)
        return max(part.length + deleted, (1 + len(deletes)) * options.packing.open_file_cost)

    packed = binpack.pack(
        (part for task in tasks for part in _parts(task, options.target_file_size_bytes)),
        weight,
        target=options.target_file_size_bytes,
        lookback=options.packing.lookback,
        largest_first=True,
    )
    return [parts for parts in packed if not _is_one_whole_file(parts)]


def _parts(task: FileScanTask, target: int) -> Iterator[_Part]:
    size, offsets = task.length, well_defined_offsets(task)
    if task.data_file.file_format.upper() not in SPLITTABLE or size == 0:
        yield _Part(task, size)
    elif offsets:
        # What comes before the first offset is counted to the first part, so that the parts make up the file.
        ends = (*offsets[1:], size)
        yield from (_Part(task, end - start) for start, end in zip((0, *offsets[1:]), ends, strict=True))
    else:
        yield from (_Part(task, min(target, size - start)) for start in range(0, size, target))


def _is_one_whole_file(parts: Sequence[_Part]) -> bool:
    first = parts[0].task
    return all(p.task is first for p in parts) and sum(p.length for p in parts) == first.length


def _joined(bins: Sequence[list[_Part]]) -> list[list[list[_Part]]]:
    """Bins by connected files: a file cut over several bins holds them together."""
    owner: dict[str, int] = {}  # of a file: the number of its group
    groups: dict[int, list[list[_Part]]] = {}
    for i, parts in enumerate(bins):
        met = sorted({owner[path] for p in parts if (path := p.task.data_file.file_path) in owner})
        groups[i] = [held for group in met for held in groups.pop(group)] + [parts]
        owner.update((p.task.data_file.file_path, i) for held in groups[i] for p in held)
    return list(groups.values())


def _group(partition: tuple[Value, ...], bins: Sequence[Sequence[_Part]], options: SplitCombineOptions) -> RewriteGroup:
    tasks = {part.task.data_file.file_path: part.task for parts in bins for part in parts}
    return RewriteGroup(
        group=0,
        partition=partition,
        spec_id=options.output_spec_id,
        tasks=tuple(tasks.values()),
        bytes=sum(task.length for task in tasks.values()),
        split_size=options.target_file_size_bytes,
        expected_outputs=len(bins),
        max_output_size=options.target_file_size_bytes,
    )

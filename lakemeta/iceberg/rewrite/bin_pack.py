"""Planning rewrite_data_files: which files are rewritten together (engine: BinPackRewriteFilePlanner).

Sizes are bytes. Inside a partition, order decides what is packed together, so it is kept: manifest-list order, then
entry order. Partitions come in the order of their first file.
"""

from __future__ import annotations

from operator import attrgetter
from typing import TYPE_CHECKING, Final, Literal, cast, get_args

import attrs

from lakemeta import binpack
from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.iceberg.manifests.delete_entries import partition_key, referenced_data_file
from lakemeta.iceberg.rewrite.groups import RewriteGroup
from lakemeta.iceberg.rewrite.verdict import Verdict, group_of
from lakemeta.iceberg.rows.row_account import check_entry
from lakemeta.iceberg.spec import options as given
from lakemeta.iceberg.spec.transforms import java_float
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from lakemeta.iceberg.rewrite.verdict import Reason
    from lakemeta.iceberg.scan.file_tasks import FileScanTask
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.iceberg.spec.types import Value

JobOrder = Literal["none", "bytes-asc", "bytes-desc", "files-asc", "files-desc"]

TARGET_FILE_SIZE: Final = "write.target-file-size-bytes"
DEFAULT_TARGET_FILE_SIZE: Final = 512 * 1024 * 1024
COMPRESSION_FACTOR: Final = "compression-factor"
_SPLIT_OVERHEAD: Final = 5 * 1024
_MIN_RATIO: Final = 0.75
_LENGTH: Final = attrgetter("data_file.file_size_in_bytes")  # of a task; its own property takes three times as long
_MAX_RATIO: Final = 1.80
_GROUP_BYTES: Final = 100 * 1024**3

OPTIONS: Final = (
    "target-file-size-bytes",
    "min-file-size-bytes",
    "max-file-size-bytes",
    "min-input-files",
    "rewrite-all",
    "max-file-group-size-bytes",
    "max-file-group-input-files",
    "delete-file-threshold",
    "delete-ratio-threshold",
    "rewrite-job-order",
    "max-files-to-rewrite",
    "output-spec-id",
)


@attrs.frozen(slots=True)
class RewriteOptions:
    """The options of the bin-pack planner; ``parse`` knows their defaults."""

    target_file_size_bytes: int
    min_file_size_bytes: int
    max_file_size_bytes: int
    output_spec_id: int
    min_input_files: int = 5
    rewrite_all: bool = False
    max_file_group_size_bytes: int = _GROUP_BYTES
    max_file_group_input_files: int = LONG_MAX
    delete_file_threshold: int = 2**31 - 1
    delete_ratio_threshold: float = 0.3
    rewrite_job_order: JobOrder = "none"
    max_files_to_rewrite: int | None = None
    compression_factor: float = 1.0

    @classmethod
    def parse(
        cls, options: Mapping[str, str], metadata: TableMetadata, default_target: int | None = None
    ) -> RewriteOptions:
        """Read the options named in ``OPTIONS`` (others are left alone); raises OptionError as the engine would.

        The target is by default that of the table's data files.
        """
        if default_target is None:
            default_target = given.whole(metadata.properties, TARGET_FILE_SIZE, DEFAULT_TARGET_FILE_SIZE)
        target, least, most = _sizes(options, default_target)
        parsed = cls(
            target_file_size_bytes=target,
            min_file_size_bytes=least,
            max_file_size_bytes=most,
            output_spec_id=given.small(options, "output-spec-id", metadata.default_spec_id),
            min_input_files=given.small(options, "min-input-files", 5),
            rewrite_all=given.truth(options, "rewrite-all", False),
            max_file_group_size_bytes=given.whole(options, "max-file-group-size-bytes", _GROUP_BYTES),
            max_file_group_input_files=given.whole(options, "max-file-group-input-files", LONG_MAX),
            delete_file_threshold=given.small(options, "delete-file-threshold", 2**31 - 1),
            delete_ratio_threshold=given.fraction(options, "delete-ratio-threshold", 0.3),
            rewrite_job_order=_job_order(options.get("rewrite-job-order", "none")),
            max_files_to_rewrite=given.small(options, "max-files-to-rewrite", None),
            compression_factor=given.fraction(options, COMPRESSION_FACTOR, 1.0),
        )
        _check(parsed, metadata)
        return parsed

    @property
    def max_output_size(self) -> int:
        """The size at which a writer starts a new file: half way from target to maximum."""
        return int(self.target_file_size_bytes + (self.max_file_size_bytes - self.target_file_size_bytes) * 0.5)

    def expected_outputs(self, size: int) -> int:
        """How many files ``size`` bytes become (engine: SizeBasedFileRewritePlanner.expectedOutputFiles).

        A remainder above the minimum size makes a file of its own; a smaller one is spread over the others as
        long as they stay below 110 % of the target. Sorted data may compress otherwise: ``compression_factor``.
        """
        target, size = self.target_file_size_bytes, int(size * self.compression_factor)
        if size < target:
            return 1
        floor, remainder = divmod(size, target)
        ceiling = floor + (remainder > 0)
        if remainder > self.min_file_size_bytes:
            return ceiling
        return floor if size // floor < min(1.1 * target, float(self.max_output_size)) else ceiling

    def split_size(self, size: int) -> int:
        """Bytes of input for one output file of a group of ``size`` bytes."""
        estimate = size // self.expected_outputs(size) + _SPLIT_OVERHEAD
        return max(self.target_file_size_bytes, min(estimate, self.max_output_size))


def plan_groups(metadata: TableMetadata, tasks: Iterable[FileScanTask], options: RewriteOptions) -> list[RewriteGroup]:
    """The groups to rewrite, in the order in which to rewrite them.

    Files that are no candidates are dropped as they come, so memory holds candidates only.
    """
    candidates = tasks if options.rewrite_all else (t for t in tasks if _candidate_reason(t, options))
    chosen: list[RewriteGroup] = []
    left = options.max_files_to_rewrite
    for partition, files in group_by_partition(metadata, candidates):
        for packed in _pack(files, options):
            kept = packed if left is None else packed[:left]
            left = None if left is None else left - len(kept)
            if kept:
                chosen.append(_group(partition, kept, options))
    return number(chosen, options.rewrite_job_order)


def judge(
    metadata: TableMetadata, tasks: Sequence[FileScanTask], task: FileScanTask, options: RewriteOptions
) -> Verdict:
    """What ``plan_groups`` does with ``task``, which is one of ``tasks``, and why."""
    path = task.data_file.file_path
    group = group_of(plan_groups(metadata, tasks, options), path)
    reason = _candidate_reason(task, options) or "good size"
    if group is None and reason != "good size":
        unlimited = plan_groups(metadata, tasks, attrs.evolve(options, max_files_to_rewrite=None))
        reason = "poor group" if group_of(unlimited, path) is None else "limit reached"
    numbers = {
        "bytes": task.length,
        "deletes": len(task.deletes),
        "least": options.min_file_size_bytes,
        "most": options.max_file_size_bytes,
        "min_input_files": options.min_input_files,
        "max_files": options.max_files_to_rewrite or 0,
    }
    return Verdict(group, reason, numbers)


def group_by_partition(
    metadata: TableMetadata, tasks: Iterable[FileScanTask]
) -> list[tuple[tuple[Value, ...], list[FileScanTask]]]:
    """Tasks by partition of the default spec; those of any other spec go together under an all-null partition.

    Data of an older spec may belong to several partitions of this one. Raises UnsupportedFeatureError for
    encrypted files, CorruptMetadataError for files without size.
    """
    nulls = (None,) * len(metadata.spec.fields)
    groups: dict[tuple[Value, ...], tuple[tuple[Value, ...], list[FileScanTask]]] = {}
    for task in tasks:
        file = task.data_file
        if file.key_metadata is not None:
            raise UnsupportedFeatureError(f"{file.file_path} is encrypted, which lakemeta does not handle")
        check_entry(file)
        partition = file.partition if file.spec_id == metadata.default_spec_id else nulls
        groups.setdefault(partition_key(partition), (partition, []))[1].append(task)
    return list(groups.values())


def number(groups: Sequence[RewriteGroup], order: JobOrder) -> list[RewriteGroup]:
    """Sort groups by job order (stable) and number them from 0."""
    keys: dict[str, Callable[[RewriteGroup], int]] = {
        "bytes": lambda g: g.bytes,
        "files": lambda g: len(g.tasks),
    }
    key, _, direction = order.partition("-")
    ordered = sorted(groups, key=keys[key], reverse=direction == "desc") if key in keys else groups
    return [attrs.evolve(group, group=i) for i, group in enumerate(ordered)]


def _pack(tasks: Sequence[FileScanTask], options: RewriteOptions) -> list[list[FileScanTask]]:
    groups = binpack.pack(
        tasks,
        _LENGTH,
        target=options.max_file_group_size_bytes,
        max_items=options.max_file_group_input_files,
    )
    return [g for g in groups if options.rewrite_all or _is_worth_it(g, options)]


def wrong_size(size: int, options: RewriteOptions) -> Literal["too small", "too large"] | None:
    """What is wrong with a file of ``size`` bytes, None if nothing is."""
    if size < options.min_file_size_bytes:
        return "too small"
    return "too large" if size > options.max_file_size_bytes else None


def is_enough(files: int, size: int, options: RewriteOptions) -> bool:
    """True if so many files of together ``size`` bytes are worth a rewrite."""
    several = files > 1
    return (
        (several and files >= options.min_input_files)
        or (several and size > options.target_file_size_bytes)
        or size > options.max_file_size_bytes
    )


def _candidate_reason(task: FileScanTask, options: RewriteOptions) -> Reason | None:
    """Why a file may be rewritten, whatever its group; None if it may not."""
    wrong = wrong_size(task.length, options)
    if wrong is not None:
        return wrong
    if options.rewrite_all:
        return "rewrite all"
    return "many deletes" if _has_many_deletes(task, options) else None


def _is_worth_it(group: Sequence[FileScanTask], options: RewriteOptions) -> bool:
    size = sum(map(_LENGTH, group))
    return is_enough(len(group), size, options) or any(_has_many_deletes(task, options) for task in group)


def _has_many_deletes(task: FileScanTask, options: RewriteOptions) -> bool:
    if len(task.deletes) >= options.delete_file_threshold:
        return True
    records = task.data_file.record_count
    if not task.deletes or records == 0:
        return False
    # Only deletes that are about this file alone say how many of its rows they delete.
    deleted = sum(d.record_count for d in task.deletes if referenced_data_file(d) is not None)
    return min(deleted, records) / records >= options.delete_ratio_threshold


def _group(partition: tuple[Value, ...], tasks: Sequence[FileScanTask], options: RewriteOptions) -> RewriteGroup:
    size = sum(map(_LENGTH, tasks))
    return RewriteGroup(
        group=0,
        partition=partition,
        spec_id=options.output_spec_id,
        tasks=tuple(tasks),
        bytes=size,
        split_size=options.split_size(size),
        expected_outputs=options.expected_outputs(size),
        max_output_size=options.max_output_size,
    )


def _sizes(options: Mapping[str, str], default: int) -> tuple[int, int, int]:
    target_name, least_name, most_name = OPTIONS[:3]
    target = given.whole(options, target_name, default)
    least = given.whole(options, least_name, int(target * _MIN_RATIO))
    most = given.whole(options, most_name, int(target * _MAX_RATIO))
    given.check(target > 0, f"'{target_name}' is set to {target} but must be > 0")
    given.check(least >= 0, f"'{least_name}' is set to {least} but must be >= 0")
    smaller = "all new files will be smaller than the min threshold"
    given.check(target > least, f"'{target_name}' ({target}) must be > '{least_name}' ({least}), {smaller}")
    larger = "all new files will be larger than the max threshold"
    given.check(target < most, f"'{target_name}' ({target}) must be < '{most_name}' ({most}), {larger}")
    return target, least, most


def _job_order(name: str) -> JobOrder:
    order = name.lower().replace("_", "-")
    if order not in get_args(JobOrder):
        raise OptionError(f"Invalid rewrite job order name: {name}")
    return cast("JobOrder", order)


def _check(options: RewriteOptions, metadata: TableMetadata) -> None:
    for name in ("min-input-files", "max-file-group-size-bytes", "max-file-group-input-files"):
        value = getattr(options, name.replace("-", "_"))
        given.check(value > 0, f"'{name}' is set to {value} but must be > 0")
    check_output_spec(options.output_spec_id, metadata)
    factor = options.compression_factor
    given.check(factor > 0, f"'{COMPRESSION_FACTOR}' is set to {java_float(factor, single=False)} but must be > 0")
    files, ratio, most = options.delete_file_threshold, options.delete_ratio_threshold, options.max_files_to_rewrite
    given.check(files >= 0, f"'delete-file-threshold' is set to {files} but must be >= 0")
    set_to = f"'delete-ratio-threshold' is set to {java_float(ratio, single=False)}"
    given.check(ratio > 0, f"{set_to} but must be > 0")
    given.check(ratio <= 1, f"{set_to} but must be <= 1")
    given.check(
        most is None or most > 0,
        f"Cannot set max-files-to-rewrite to {most}, the value must be positive integer.",
    )


def check_output_spec(spec_id: int, metadata: TableMetadata) -> None:
    """Raise OptionError if the table has no partition spec with this id."""
    given.check(
        spec_id in metadata.specs_by_id,
        f"Cannot use output spec id {spec_id} because the table does not contain a reference to this spec-id.",
    )

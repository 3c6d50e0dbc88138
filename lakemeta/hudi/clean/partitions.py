"""Judges the files of partitions where they are listed (I/O; the functions are shipped to workers).

Results are plain tuples, small to ship.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple

from lakemeta.deletion import Links
from lakemeta.errors import UnsupportedFeatureError
from lakemeta.hudi.clean.rules import PartitionPlan, plan_partition
from lakemeta.hudi.view.listing import (
    BATCH,
    LeftOut,
    Subdirectories,
    behind_link,
    below,
    descend,
    directory_of,
    is_partition,
    list_partition,
)
from lakemeta.hudi.view.named_files import check_partition
from lakemeta.paths import is_text

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.storage import Entry, Storage


class FileRow(NamedTuple):
    """One judged file: delete it or keep it, its name, size in bytes, the reason and its cause."""

    delete: bool
    name: str
    size: int
    reason: str
    by: str | None


class PartitionRow(NamedTuple):
    """One planned partition; ``drop`` if its directory goes, ``note`` for a person; ``left_out`` (listing, rule 2).

    ``bytes`` are those of all its files.
    """

    partition: str
    drop: bool
    note: str | None
    files: list[FileRow]
    left_out: bool = False
    bytes: int = 0


def plan_all_partitions(
    storage: Storage,
    root: str,
    context: CleanContext,
    executor: Executor,
    wants: Callable[[str], bool],
    *,
    explain: bool,
) -> Iterator[PartitionRow]:
    """Plan every partition of the table that ``wants`` lets through, in the order in which they are found."""
    fn = partial(_plan_or_descend, storage, root, context, wants, explain=explain)
    return descend(executor, fn)


def plan_partitions(
    storage: Storage,
    root: str,
    context: CleanContext,
    executor: Executor,
    partitions: Sequence[str],
    *,
    explain: bool,
) -> Iterator[PartitionRow]:
    """Plan these partitions, in their order; one whose directory is gone has no files."""
    fn = partial(_plan_listed, storage, root, context, explain)
    return executor.map_batches(fn, partitions, batch_size=BATCH)


def plan_files(
    context: CleanContext, explain: bool, partitions: Iterable[tuple[str, Sequence[tuple[str, int]]]]
) -> Iterator[PartitionRow]:
    """Plan partitions whose files, each (name, size in bytes), are known."""
    for partition, files in partitions:
        _check_name(partition, partition)
        planned = plan_partition(context, partition, files)
        size = sum(size for _, size in files)
        yield PartitionRow(partition, planned.drop, planned.note, list(_rows(planned, explain)), bytes=size)


def _plan_or_descend(
    storage: Storage,
    root: str,
    context: CleanContext,
    wants: Callable[[str], bool],
    directories: Sequence[str],
    *,
    explain: bool,
) -> Iterator[PartitionRow | Subdirectories]:
    for directory in directories:
        entries = storage.list_dir(directory_of(root, directory))
        if not is_partition(entries):
            yield from (left_out(found) if isinstance(found, LeftOut) else found for found in below(directory, entries))
        elif wants(directory):
            yield _plan(context, directory, entries, explain)


def _plan_listed(
    storage: Storage, root: str, context: CleanContext, explain: bool, partitions: Sequence[str]
) -> Iterator[PartitionRow]:
    links = Links(storage, root)
    for partition in partitions:
        check_partition(root, partition)
        if links.hide(partition):
            yield left_out(behind_link(partition))
        else:
            yield _plan(context, partition, list_partition(storage, root, partition), explain)


def _plan(context: CleanContext, partition: str, entries: Sequence[Entry], explain: bool) -> PartitionRow:
    files = [(entry.name, entry.size) for entry in entries if not entry.is_dir]
    return next(plan_files(context, explain, [(partition, files)]))


def _check_name(name: str, partition: str) -> None:
    if not is_text(name):
        raise UnsupportedFeatureError(
            f"the name {name!r} in partition {partition!r} is not UTF-8, so no plan can hold it; rename or remove it"
        )


def _rows(planned: PartitionPlan, explain: bool) -> Iterator[FileRow]:
    for verdict in planned.verdicts:
        if verdict.delete or explain:
            for file in verdict.slice.files:
                _check_name(file.name, planned.partition)
                yield FileRow(verdict.delete, file.name, file.size, verdict.reason, verdict.by)


def left_out(found: LeftOut) -> PartitionRow:
    """The row of a directory in which nothing is cleaned."""
    return PartitionRow(found.directory, False, f"{found.sentence}; nothing in it was looked at", [], left_out=True)

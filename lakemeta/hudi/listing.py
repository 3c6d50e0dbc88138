"""Finds partitions and judges their files where they are listed (I/O; the functions are shipped to workers).

Rules of this module:

1. A directory with a partition metadata file is a partition and is not descended into; other directories are walked
   through, level by level. Each directory is listed once. Results are plain tuples, small to ship.
2. Unlike Hudi, a directory that is a symbolic link, or lies behind one, is left out and told: what is behind it may
   belong to another table, may be a partition of this one by another name, or may be a circle. So is a directory with a
   ``.hoodie`` of its own, which is another table.
3. A partition is named by a path relative to the table without empty, ``.`` or ``..`` parts, outside ``.hoodie``.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakemeta.deletion import Links
from lakemeta.errors import CorruptMetadataError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.executor import nearby
from lakemeta.hudi.clean import CleanContext, PartitionPlan, plan_partition
from lakemeta.hudi.filenames import is_partition_metadata
from lakemeta.paths import is_text, relative

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.storage import Entry, Storage

METADATA_FOLDER = ".hoodie"
_BATCH = 8
T = TypeVar("T")


class FileRow(NamedTuple):
    """One judged file: delete it or keep it, its name, size in bytes, the reason and its cause."""

    delete: bool
    name: str
    size: int
    reason: str
    by: str | None


class PartitionRow(NamedTuple):
    """One planned partition; ``drop`` if its directory goes, ``note`` for a person; ``left_out`` by rule 2."""

    partition: str
    drop: bool
    note: str | None
    files: list[FileRow]
    left_out: bool = False


class LeftOut(NamedTuple):
    """A directory that is left out (rule 2), and a sentence that says why."""

    directory: str
    sentence: str

    def row(self) -> PartitionRow:
        """The row of a partition of which nothing is cleaned."""
        return PartitionRow(self.directory, False, f"{self.sentence}; nothing in it was looked at", [], left_out=True)


class _Subdirectories(NamedTuple):
    """A directory that is no partition, and what lies in it."""

    paths: list[str]


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
    fn = partial(_plan_or_descend, storage, root, context, wants, explain)
    return _descend(executor, fn)


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
    return executor.map_batches(fn, partitions, batch_size=_BATCH)


def plan_files(
    context: CleanContext, explain: bool, partitions: Iterable[tuple[str, Sequence[tuple[str, int]]]]
) -> Iterator[PartitionRow]:
    """Plan partitions whose files, each (name, size in bytes), are known."""
    for partition, files in partitions:
        _check_name(partition, partition)
        planned = plan_partition(context, partition, files)
        yield PartitionRow(partition, planned.drop, planned.note, list(_rows(planned, explain)))


def find_partitions(storage: Storage, root: str, executor: Executor) -> Iterator[str | LeftOut]:
    """The partitions of the table, and what is left out, in the order in which they are found."""
    return _descend(executor, partial(_find, storage, root))


def list_partition(storage: Storage, root: str, partition: str) -> list[Entry]:
    """The files in the directory of a partition; none if it does not exist."""
    try:
        return [entry for entry in storage.list_dir(_directory(root, partition)) if not entry.is_dir]
    except PathNotFoundError:
        return []


def is_metadata(partition: str) -> bool:
    """True if a partition would be the metadata folder of a table or lie in one, in any case of letters."""
    return METADATA_FOLDER in partition.lower().split("/")


def other_table(storage: Storage, root: str, partition: str) -> str | None:
    """The directory on the way to a partition, itself included, that is another table; None if there is none."""
    parts = partition.split("/")
    ways = ("/".join(parts[: end + 1]) for end in range(len(parts)) if partition)
    return next((way for way in ways if storage.exists(f"{root}/{way}/{METADATA_FOLDER}/hoodie.properties")), None)


def _descend(executor: Executor, look: Callable[[Sequence[str]], Iterator[T | _Subdirectories]]) -> Iterator[T]:
    """Look at the root, then at what lies below, level by level; yield what is no mere directory.

    A directory on its own, as the root is, is not worth shipping.
    """
    level = [""]
    while level:
        level_below: list[str] = []
        where = executor if len(level) > 1 else nearby(executor)
        for found in where.map_batches(look, level, batch_size=_BATCH):
            if isinstance(found, _Subdirectories):
                level_below.extend(found.paths)
            else:
                yield found
        level = level_below


def _directory(root: str, partition: str) -> str:
    return f"{root}/{partition}" if partition else root


def _plan_or_descend(
    storage: Storage,
    root: str,
    context: CleanContext,
    wants: Callable[[str], bool],
    explain: bool,
    directories: Sequence[str],
) -> Iterator[PartitionRow | _Subdirectories]:
    for directory in directories:
        entries = storage.list_dir(_directory(root, directory))
        if not _is_partition(entries):
            yield from (found.row() if isinstance(found, LeftOut) else found for found in _below(directory, entries))
        elif wants(directory):
            yield _plan(context, directory, entries, explain)


def _find(storage: Storage, root: str, directories: Sequence[str]) -> Iterator[str | LeftOut | _Subdirectories]:
    for directory in directories:
        entries = storage.list_dir(_directory(root, directory))
        if _is_partition(entries):
            yield directory
        else:
            yield from _below(directory, entries)


def _is_partition(entries: Sequence[Entry]) -> bool:
    return any(is_partition_metadata(entry.name) and not entry.is_dir for entry in entries)


def _below(directory: str, entries: Sequence[Entry]) -> Iterator[LeftOut | _Subdirectories]:
    if directory and any(entry.name == METADATA_FOLDER and entry.is_dir for entry in entries):
        yield LeftOut(directory, f"{directory} has a {METADATA_FOLDER} of its own, so it is another table")
        return
    prefix = f"{directory}/" if directory else ""
    below = [entry for entry in entries if entry.is_dir and entry.name != METADATA_FOLDER]
    yield _Subdirectories([f"{prefix}{entry.name}" for entry in below if not entry.is_link])
    yield from (behind_link(f"{prefix}{entry.name}") for entry in below if entry.is_link)


def behind_link(directory: str) -> LeftOut:
    """What is left out because of a link."""
    return LeftOut(directory, f"{directory} is a symbolic link or lies behind one")


def _plan_listed(
    storage: Storage, root: str, context: CleanContext, explain: bool, partitions: Sequence[str]
) -> Iterator[PartitionRow]:
    links = Links(storage, root)
    for partition in partitions:
        check_partition(root, partition)
        if links.hide(partition):
            yield behind_link(partition).row()
        else:
            yield _plan(context, partition, list_partition(storage, root, partition), explain)


def _plan(context: CleanContext, partition: str, entries: Sequence[Entry], explain: bool) -> PartitionRow:
    files = [(entry.name, entry.size) for entry in entries if not entry.is_dir]
    return next(plan_files(context, explain, [(partition, files)]))


def check_partition(root: str, partition: str) -> None:
    """Raise CorruptMetadataError unless metadata may name a partition so (rule 3)."""
    if partition and METADATA_FOLDER in relative(root, f"{root}/{partition}").split("/"):
        raise CorruptMetadataError(
            f"the table's metadata names the partition {partition!r}, which lies in a {METADATA_FOLDER}; restore it"
        )


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

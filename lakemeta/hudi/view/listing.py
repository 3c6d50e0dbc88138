"""Finds partitions and lists their files (I/O; the functions are shipped to workers).

Rules of this module:

1. A directory with a partition metadata file is a partition and is not descended into; other directories are walked
   through, level by level. Each directory is listed once. Results are plain tuples, small to ship.
2. Unlike Hudi, a directory that is a symbolic link, or lies behind one, is left out and reported: what is behind it may
   belong to another table, may be a partition of this one by another name, or may be a circle. So is a directory with a
   ``.hoodie`` of its own, which is another table.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, NamedTuple, TypeVar

from lakemeta.errors import PathNotFoundError
from lakemeta.executor import nearby
from lakemeta.hudi.files.layout import METADATA_FOLDER, PROPERTIES
from lakemeta.hudi.files.names import is_partition_metadata

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.storage import Entry, Storage

BATCH = 8
T = TypeVar("T")


class LeftOut(NamedTuple):
    """A directory that is left out (rule 2), and a sentence that says why."""

    directory: str
    sentence: str


class Subdirectories(NamedTuple):
    """A directory that is no partition, and what lies in it."""

    paths: list[str]


def find_partitions(storage: Storage, root: str, executor: Executor) -> Iterator[str | LeftOut]:
    """The partitions of the table, and what is left out, in the order in which they are found."""
    return descend(executor, partial(_find, storage, root))


def list_partition(storage: Storage, root: str, partition: str) -> list[Entry]:
    """The files in the directory of a partition; none if it does not exist."""
    try:
        return [entry for entry in storage.list_dir(directory_of(root, partition)) if not entry.is_dir]
    except PathNotFoundError:
        return []


def bytes_elsewhere(storage: Storage, root: str, partitions: Collection[str], executor: Executor) -> int:
    """The bytes of the files in all partitions of the table but these."""
    others = (p for p in find_partitions(storage, root, executor) if isinstance(p, str) and p not in partitions)
    return sum(executor.map_batches(partial(_bytes, storage, root), others, batch_size=BATCH))


def _bytes(storage: Storage, root: str, partitions: Sequence[str]) -> list[int]:
    return [sum(entry.size for entry in list_partition(storage, root, partition)) for partition in partitions]


def other_table(storage: Storage, root: str, partition: str) -> str | None:
    """The directory on the way to a partition, itself included, that is another table; None if there is none."""
    parts = partition.split("/")
    ways = ("/".join(parts[: end + 1]) for end in range(len(parts)) if partition)
    return next((way for way in ways if storage.exists(f"{root}/{way}/{PROPERTIES}")), None)


def descend(executor: Executor, look: Callable[[Sequence[str]], Iterator[T | Subdirectories]]) -> Iterator[T]:
    """Look at the root, then at what lies below, level by level; yield what is no mere directory.

    A directory on its own, as the root is, is not worth shipping.
    """
    level = [""]
    while level:
        level_below: list[str] = []
        where = executor if len(level) > 1 else nearby(executor)
        for found in where.map_batches(look, level, batch_size=BATCH):
            if isinstance(found, Subdirectories):
                level_below.extend(found.paths)
            else:
                yield found
        level = level_below


def directory_of(root: str, partition: str) -> str:
    """The path of a partition's directory in its storage."""
    return f"{root}/{partition}" if partition else root


def _find(storage: Storage, root: str, directories: Sequence[str]) -> Iterator[str | LeftOut | Subdirectories]:
    for directory in directories:
        entries = storage.list_dir(directory_of(root, directory))
        if is_partition(entries):
            yield directory
        else:
            yield from below(directory, entries)


def is_partition(entries: Sequence[Entry]) -> bool:
    """True for what lies in a partition's directory: there is a partition metadata file."""
    return any(is_partition_metadata(entry.name) and not entry.is_dir for entry in entries)


def below(directory: str, entries: Sequence[Entry]) -> Iterator[LeftOut | Subdirectories]:
    """Where to look further in a directory that is no partition, and what in it is left out."""
    if directory and any(entry.name == METADATA_FOLDER and entry.is_dir for entry in entries):
        yield LeftOut(directory, f"{directory} has a {METADATA_FOLDER} of its own, so it is another table")
        return
    prefix = f"{directory}/" if directory else ""
    subdirectories = [entry for entry in entries if entry.is_dir and entry.name != METADATA_FOLDER]
    yield Subdirectories([f"{prefix}{entry.name}" for entry in subdirectories if not entry.is_link])
    yield from (behind_link(f"{prefix}{entry.name}") for entry in subdirectories if entry.is_link)


def behind_link(directory: str) -> LeftOut:
    """What is left out because of a link."""
    return LeftOut(directory, f"{directory} is a symbolic link or lies behind one")

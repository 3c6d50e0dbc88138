"""What cleans that are still to be executed will delete: their plans, to look at (I/O: lists the partitions they name).

A file of such a plan that is gone counts as done, and is left out. A plan that is empty or damaged, or names a path
outside the table, cannot be shown: executing it is refused, and says why.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.executor import nearby
from lakemeta.hudi.timeline.action_metadata import decode_cleaner_plan
from lakemeta.hudi.timeline.instants import State
from lakemeta.hudi.view.listing import list_partition
from lakemeta.paths import relative
from lakemeta.plan_operations import Delete

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.timeline.action_metadata import CleanerPlan
    from lakemeta.hudi.timeline.instants import Instant
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.storage import Storage

PENDING_CLEAN: Final = "pending_clean"
_BATCH: Final = 8


@attrs.frozen
class WaitingClean:
    """A clean that is still to be executed: its files that are there, with their bytes."""

    instant: str
    deletes: tuple[Delete, ...]

    @property
    def bytes(self) -> int:
        """What its files weigh."""
        return sum(op.size for op in self.deletes)


def waiting_cleans(place: Place, state: TableState, executor: Executor) -> Iterator[WaitingClean]:
    """The cleans that are executed before a new one, earliest first, without those that cannot be shown."""
    folder = f"{place.root}/{state.config.timeline_folder}"
    for instant in state.unfinished_cleans:
        try:
            _, plan = read_requested(place.storage, folder, instant)
            named = _named(place, plan)
        except (CorruptMetadataError, UnsupportedFeatureError, PathNotFoundError):
            continue
        where = executor if len(named) > _BATCH else nearby(executor)
        look = partial(_there, place.storage, place.root, named)
        found = where.map_batches(look, sorted(named), batch_size=_BATCH)
        deletes = tuple(Delete(p, path, size, PENDING_CLEAN, instant.requested) for p, path, size in found)
        yield WaitingClean(instant.requested, deletes)


def read_requested(storage: Storage, folder: str, pending: Instant) -> tuple[bytes, CleanerPlan]:
    """The plan of a pending clean in a timeline folder, as bytes and decoded."""
    path = f"{folder}/{pending.requested}.clean.{State.REQUESTED.name.lower()}"
    content = storage.read(path)
    if not content:
        raise CorruptMetadataError(
            f"{path} is empty, so the clean that was being requested is not known; delete that file and clean again"
        )
    return content, decode_cleaner_plan(content, path)


def _named(place: Place, plan: CleanerPlan) -> dict[str, frozenset[str]]:
    """The paths of a plan's files, relative to the table, by their directory."""
    named: dict[str, set[str]] = {}
    for file in (file for files in plan.files.values() for file in files):
        path = relative(place.base, file.path)
        named.setdefault(path.rpartition("/")[0], set()).add(path)
    return {folder: frozenset(paths) for folder, paths in named.items()}


def _there(
    storage: Storage, root: str, named: Mapping[str, frozenset[str]], folders: Sequence[str]
) -> Iterator[tuple[str, str, int]]:
    for folder in folders:
        prefix = f"{folder}/" if folder else ""
        for entry in list_partition(storage, root, folder):
            if prefix + entry.name in named[folder]:
                yield folder, prefix + entry.name, entry.size

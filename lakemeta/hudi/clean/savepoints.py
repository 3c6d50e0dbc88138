"""Whether what savepoints say of a partition fits the files that lie in it.

Rules of this module:

1. A file that a savepoint names is there. If it is not, the name may be damaged, and the file that it meant another.
2. A savepoint names every slice that was the newest at its time (``SavepointActionExecutor``), so at least one file of
   a partition that has a committed slice of that time or before, in a group that no commit had replaced by then. If it
   names none, its list was lost.

Where one of these does not hold it is not known what the savepoint needs.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.timeline.state import TableState
    from lakemeta.hudi.view.file_groups import FileGroup, FileSlice


class Doubt(NamedTuple):
    """Why it is not known what a savepoint needs: its instant, and a clause that begins with it."""

    savepoint: str
    clause: str


def partitions_named(state: TableState) -> Mapping[str, frozenset[str]]:
    """A savepoint to the partitions in which it names a file."""
    return {
        savepoint: frozenset(p for p, pinned in state.pinned.items() if not names.isdisjoint(pinned))
        for savepoint, names in state.savepoints.items()
    }


def doubt(context: CleanContext, partition: str, groups: Iterable[FileGroup], names: Collection[str]) -> Doubt | None:
    """What does not fit in a partition with these groups, made of files of these names; None if all does."""
    pinned = context.pinned.get(partition, {})
    lost = min(pinned.keys() - set(names), default=None) if pinned else None
    if lost is not None:
        return Doubt(pinned[lost], f"savepoint {pinned[lost]} names {lost}, which is not there")
    silent = [at for at, named in context.savepoint_partitions.items() if partition not in named]
    for savepoint in sorted(silent):
        for group in groups:
            of_its_time = next((s for s in group.slices if _is_of_its_time(context, group, s, savepoint)), None)
            if of_its_time is not None:
                name = of_its_time.files[0].name
                where = partition or "the table"
                return Doubt(savepoint, f"savepoint {savepoint} names no file of {where}, not even {name}")
    return None


def advice(savepoint: str) -> str:
    """How to go on without a savepoint."""
    return (
        "restore it, or delete that savepoint with Hudi if it is of no use any more: "
        f"CALL delete_savepoint(table => '...', instant_time => '{savepoint}')"
    )


def _is_of_its_time(context: CleanContext, group: FileGroup, file_slice: FileSlice, savepoint: str) -> bool:
    replaced_at = context.replaced.get((group.partition, group.file_id))
    if replaced_at is not None and replaced_at <= savepoint:
        return False
    return bool(file_slice.files) and file_slice.instant <= savepoint and context.view.counts(file_slice.instant)

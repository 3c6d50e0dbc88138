"""Proves what a rollback would delete and append, ours or another writer's, before it is begun (I/O).

Rules of this module:

1. Every path of a rollback must be a data file of the failed write, inside the table, under the partition that the
   rollback says. No savepoint may name it, and no plan of a pending compaction, log compaction or clustering.
2. Rollback blocks are for slices of tables up to version 6. The log files that they undo are the slice's, or the table
   itself, as Hudi names what it does not know.
3. A rollback undoes a write that the timeline has as pending. A crash may leave one whose write is gone from there
   already. If files of that time would count as those of an archived commit, then nothing may be left to do.
4. All of it must be what :mod:`lakemeta.hudi.files.doors` lets through, and not in another table that lies in this one.
   Where the write's markers belong is a directory or nothing.

Otherwise nothing is done.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CorruptMetadataError, PathNotFoundError
from lakemeta.hudi.files.doors import block_door, data_door, metadata_door
from lakemeta.hudi.files.layout import MARKER_FOLDER
from lakemeta.hudi.files.logs import LogBlock, read_blocks
from lakemeta.hudi.files.names import parse_log_file
from lakemeta.hudi.view.file_groups import View
from lakemeta.hudi.view.listing import other_table
from lakemeta.hudi.view.named_files import NamedFiles
from lakemeta.paths import inside

if TYPE_CHECKING:
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.rollback.failed_write import FailedWrite
    from lakemeta.hudi.timeline.rollback_metadata import RollbackRequest
    from lakemeta.hudi.timeline.state import TableState


def check_write(place: Place, write: FailedWrite, state: TableState) -> None:
    """Raise CorruptMetadataError or UnsupportedFeatureError unless the write may be rolled back as it says."""
    _check_paths(place.root, write, state)
    _check_doors(place, write)
    known = any(i.requested == write.instant for i in state.timeline)
    if not known and View.of(state.timeline).counts(write.instant):
        _check_undone(place, write)


def check_marker_folder(place: Place, instant: str) -> None:
    """Refuse what its door would refuse, and a file in its place: a rollback would stop there with the data gone."""
    folder = f"{place.root}/{MARKER_FOLDER}"
    metadata_door(place.storage, place.root).check_directory(f"{folder}/{instant}")
    try:
        entries = place.storage.list_dir(folder)
    except PathNotFoundError:
        return
    if any(entry.name == instant and not entry.is_dir for entry in entries):
        raise CorruptMetadataError(
            f"{folder}/{instant} is a file where a write has the directory of its markers; delete that file and roll "
            "back again: what the write left is then looked for in the whole table"
        )


def _check_paths(root: str, write: FailedWrite, state: TableState) -> None:
    """Raise CorruptMetadataError unless every path of the rollback is what rule 1 says."""
    what = f"the rollback of {write.instant}"
    named = NamedFiles.of(what, root, state.savepoints, state.needed, "and roll back again")
    folders = {
        partition: named.folder(partition) for partition in {request.partition for request in write.plan.requests}
    }
    for partition, _, path in write.deletes():
        if named.file(partition, folders[partition], path).instant != write.instant:
            raise CorruptMetadataError(f"{named.what} deletes {path}, a file of another write; nothing was done")
    for request in write.plan.requests:
        _check_blocks(root, write, request, state)


def _check_blocks(root: str, write: FailedWrite, request: RollbackRequest, state: TableState) -> None:
    """Refuse blocks in a table that has none, and for log files of another slice than they go to."""
    if request.log_blocks and state.config.version >= 8:
        raise CorruptMetadataError(
            f"the rollback of {write.instant} appends rollback blocks, which a table of version {state.config.version} "
            "does not have; nothing was done"
        )
    for named in request.log_blocks:
        path = _undone_file(root, write.base, request, named)
        if path != root and not _is_log_of(request, path, root):
            raise CorruptMetadataError(
                f"the rollback of {write.instant} undoes blocks of {path}, which is no log file of the slice at "
                f"{request.base_instant or None} of {request.file_id!r}; nothing was done"
            )


def _undone_file(root: str, base: str, request: RollbackRequest, named: str) -> str:
    """The store path of what is given by its name, by its path in the table or by all of its path."""
    if "/" not in named:
        return f"{request.folder(root)}/{named}"
    whole = named.startswith(("/", "file:")) or "://" in named
    return inside(base, f"{named if whole else f'{root}/{named}'}/.x").removesuffix("/.x")


def _check_doors(place: Place, write: FailedWrite) -> None:
    """Refuse what the doors would refuse once the rollback is requested, partitions behind links, and other tables."""
    data_door(place.storage, place.root).check_files(path for _, _, path in write.deletes())
    appends = (request.block_file(place.root, 1) for request in write.plan.requests if request.log_blocks)
    block_door(place.storage, place.root).check_files(appends)
    for partition in sorted({request.partition for request in write.plan.requests}):
        if (other := other_table(place.storage, place.root, partition)) is not None:
            raise CorruptMetadataError(
                f"the rollback of {write.instant} reaches into {partition}, but {other} is another table; "
                "nothing was done"
            )


def _check_undone(place: Place, write: FailedWrite) -> None:
    """Refuse what is left to do for a write that is gone from the timeline and counts as archived (rule 3)."""
    left = next((path for _, _, path in write.deletes() if path in write.sizes), None)
    for request in write.plan.requests if left is None else ():
        logs = sorted(path for path in write.sizes if request.log_blocks and _is_log_of(request, path, place.root))
        if logs and not any(_undoes(place, path, write.instant) for path in logs):
            left = logs[-1]
    if left is not None:
        raise CorruptMetadataError(
            f"the pending rollback of {write.instant}, which the timeline does not have, would still change {left}; "
            "nothing was done; delete that rollback from the timeline if the write had completed"
        )


def _is_log_of(request: RollbackRequest, path: str, root: str) -> bool:
    parent, _, name = path.rpartition("/")
    log = parse_log_file(name, 0)
    in_slice = log is not None and (log.file_id, log.instant) == (request.file_id, request.base_instant)
    return in_slice and parent == request.folder(root)


def _undoes(place: Place, path: str, instant: str) -> bool:
    blocks = read_blocks(place.storage.read(path), path)
    return any(isinstance(block, LogBlock) and block.rolled_back_instant == instant for block in blocks)

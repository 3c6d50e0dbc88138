"""Files that an earlier expire was to delete and has not: it was interrupted, or could not delete them (I/O)."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

from lakemeta.iceberg.expire.ledger import unfinished
from lakemeta.iceberg.expire.unreferenced import CONTENT, Going, Retained, Unreferenced, find_unreferenced
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.storage import Storage

_BATCH = 100


def left_by_expires(operations: TableOperations, executor: Executor) -> tuple[list[Unreferenced], str]:
    """These files, as far as they are there, and the arguments of the command that takes them up."""
    metadata = operations.current().metadata
    former, _ = unfinished(operations, metadata)
    level = next((one.level for one in former if one.snapshots), "all")
    going = [Going(one.version, one.snapshots, former=True) for one in former if one.snapshots and one.level == level]
    if not going:
        return [], ""
    retained = Retained(operations.storage, executor)
    retained.add(metadata, metadata.snapshots_by_id.keys())
    files = [f for f in find_unreferenced(retained, going) if level == "all" or f.kind not in CONTENT]
    there = executor.map_batches(partial(_there, operations.storage), files, batch_size=_BATCH)
    return list(there), "" if level == "all" else f" --set cleanup-level={level}"


def _there(storage: Storage, files: Sequence[Unreferenced]) -> Iterator[Unreferenced]:
    return (file for file in files if storage.exists(store_path(storage.scheme, file.location)))

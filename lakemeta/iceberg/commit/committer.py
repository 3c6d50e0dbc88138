"""Committing a change to a table: write its files, swap the metadata, try again after a conflict, clean up (I/O).

A change is a function of the version it is applied to, so that it can be applied anew when another commit
came first (Iceberg's SnapshotProducer.commit). What a crash leaves behind are files that nothing refers to.
"""

from __future__ import annotations

import logging
from collections import deque
from collections.abc import Callable, Mapping
from functools import partial
from typing import TYPE_CHECKING
from uuid import UUID

from lakemeta.errors import CommitConflictError, CommitStateUnknownError, LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.doors import metadata_door, metadata_folder
from lakemeta.iceberg.commit.draft import Base, Draft
from lakemeta.iceberg.commit.retry import RetryPolicy
from lakemeta.iceberg.spec.locations import store_path

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.deletion import Door
    from lakemeta.environment import Environment
    from lakemeta.iceberg.catalogs.operations import LoadedTable, TableOperations
    from lakemeta.storage.contract import Storage

_log = logging.getLogger(__name__)


def new_snapshot_id(env: Environment, taken: Mapping[int, object]) -> int:
    """A positive 63-bit id that ``taken`` does not have (Iceberg's SnapshotIdGeneratorUtil)."""
    while True:
        high, low = divmod(UUID(env.new_uuid()).int, 1 << 64)
        if (found := (high ^ low) & 0x7FFFFFFFFFFFFFFF) not in taken:
            return found


Change = Callable[[Base], Draft | None]


def commit(operations: TableOperations, change: Change, env: Environment) -> Draft | None:
    """Apply and commit a change; returns what was committed, None if there was nothing to change.

    ``change`` gives the next version, None if there is nothing to change, and raises CommitConflictError if
    the change is not allowed on top of a version; it is called again for every version that a conflict
    brings up.

    Raises CommitConflictError when the change is no longer allowed or the retries are used up: manifests
    and manifest lists of all attempts are gone then. Raises CommitStateUnknownError, with nothing removed,
    when it is unknown whether the commit happened.
    """
    written: list[str] = []
    door = metadata_door(operations.storage, metadata_folder(operations))
    try:
        draft = _with_retries(operations, door, change, env, written)
    except CommitStateUnknownError:
        raise
    except LakemetaError:
        remove_files(door, written)
        raise
    return draft


def remove_files(door: Door, locations: Sequence[str]) -> None:
    """Remove files that this run wrote and nothing refers to.

    What cannot be removed is an orphan file, and is logged.
    """
    try:
        outcomes = door.delete_files([store_path(door.storage.scheme, location) for location in locations])
    except LakemetaError as error:
        _log.warning("unused files could not be removed: %s", error)
        return
    for outcome in outcomes:
        if not outcome.done:
            _log.warning("the unused file %s could not be removed: %s", outcome.path, outcome.error)


def _with_retries(
    operations: TableOperations, door: Door, change: Change, env: Environment, written: list[str]
) -> Draft | None:
    started = env.now_ms()
    attempt = 0
    while True:
        attempt += 1
        base = operations.refresh()
        policy = RetryPolicy.of(base.metadata.properties)
        draft = change(Base(base.metadata, base.location, max(env.now_ms(), base.metadata.last_updated_ms)))
        if draft is None:
            return None
        _write_files(operations.storage, draft, written)
        try:
            _swap(operations, base, draft, env)
        except CommitConflictError as error:
            if not policy.tries_again(attempt, env.now_ms() - started):
                raise
            pause = policy.wait_ms(attempt, env.random())
            _log.info("attempt %d lost, next in %d ms: %s", attempt, pause, error)
            env.sleep(pause / 1000)
            continue
        remove_files(door, [location for location in written if location not in draft.files])
        return draft


def _write_files(storage: Storage, draft: Draft, written: list[str]) -> None:
    """Write the files that no earlier attempt has written, several at a time: a distant store answers slowly."""
    known = set(written)
    new = [location for location in draft.files if location not in known]
    written += new
    items = [(store_path(storage.scheme, location), draft.files[location]) for location in new]
    deque(LocalExecutor().map_batches(partial(_create, storage), items, batch_size=1), maxlen=0)


def _create(storage: Storage, items: Sequence[tuple[str, bytes]]) -> Iterator[None]:
    for path, data in items:
        storage.create(path, data)
        yield None


def _swap(operations: TableOperations, base: LoadedTable, draft: Draft, env: Environment) -> None:
    """Commit; if the answer was lost, the table itself says whether the change has arrived.

    It is asked after a conflict too: what carries requests to a catalog may repeat one whose answer was lost, and the
    second is then a conflict with the first. Taken for a lost race, the files of the committed snapshot would go.
    """
    try:
        operations.commit(base, draft.metadata)
    except CommitConflictError as error:
        if not _is_there_all_the_same(operations, draft, error):
            raise
    except CommitStateUnknownError:
        if not _arrives(operations, draft, RetryPolicy.of_status_checks(base.metadata.properties), env):
            raise


def _arrives(operations: TableOperations, draft: Draft, policy: RetryPolicy, env: Environment) -> bool:
    """True once the table has the change. It may be on its way still, and what keeps the table may come back."""
    started, look = env.now_ms(), 0
    while True:
        look += 1
        try:
            if draft.has_arrived(operations.refresh().metadata):
                return True
        except LakemetaError as error:
            _log.info("look %d for a commit without answer failed: %s", look, error)
        if not policy.tries_again(look, env.now_ms() - started):
            return False
        env.sleep(policy.wait_ms(look, env.random()) / 1000)


def _is_there_all_the_same(operations: TableOperations, draft: Draft, conflict: CommitConflictError) -> bool:
    if draft.snapshot is None:
        return False  # what it was to do may have been done by another
    try:
        return draft.has_arrived(operations.refresh().metadata)
    except LakemetaError as error:
        raise CommitStateUnknownError(f"{conflict}, and then the table could not be read: {error}") from error

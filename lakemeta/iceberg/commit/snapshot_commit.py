"""Committing a snapshot that takes files out of a table and puts others in (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.iceberg.commit.committer import commit, new_snapshot_id
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.commit.summary import ENGINE
from lakemeta.iceberg.manifests.store import StoredManifests

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import TableOperations
    from lakemeta.iceberg.commit.draft import Base, Draft
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


def commit_update(
    operations: TableOperations,
    update_of: Callable[[TableMetadata], SnapshotUpdate | None],
    env: Environment,
    executor: Executor | None,
    begins: Callable[[str], None] | None = None,
) -> Snapshot | None:
    """Commit the update that ``update_of`` gives for a version of the table; None is nothing to do.

    ``update_of`` is asked anew for every version that a conflict brings up. ``begins`` is called with the uuid that is
    in the names of the commit's files, before the first of them is written. Raises as ``committer.commit``.
    """
    taken = operations.current().metadata.snapshots_by_id
    commit_uuid = env.new_uuid()
    if begins is not None:
        begins(commit_uuid)
    new = NewManifests(operations.metadata_location, commit_uuid, new_snapshot_id(env, taken))
    stored = StoredManifests(operations.storage, {}, executor)

    def change(base: Base) -> Draft | None:
        stored.specs = base.metadata.specs_by_id
        update = update_of(base.metadata)
        return None if update is None else next_snapshot(update, base, stored, new)

    draft = commit(operations, change, env)
    return None if draft is None else draft.snapshot


def without_deletes(removed: Sequence[DataFile], head: Snapshot, branch: str) -> SnapshotUpdate:
    """The update that takes delete files out of the branch whose head is given."""
    return SnapshotUpdate(
        removed_deletes=tuple(removed), starting_snapshot_id=head.snapshot_id, branch=branch, properties=ENGINE
    )

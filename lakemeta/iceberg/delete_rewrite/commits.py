"""Commits new delete files in place of others (I/O)."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.iceberg.commit.snapshot_commit import commit_update
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.commit.summary import ENGINE
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH

if TYPE_CHECKING:
    from lakemeta.iceberg.delete_rewrite.runs import Batch
    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.unfinished import RunMarker
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import Snapshot


@attrs.define(eq=False)
class DeleteCommits:
    """Commits batches of units on top of ``head``; ``snapshot`` is the newest one.

    ``removed`` leave the table, too, whatever a batch says. With ``requires_data`` a data file that has gone is a
    conflict; where vectors are written it always is one.
    """

    request: ApplyRequest
    marker: RunMarker
    head: Snapshot
    branch: str = MAIN_BRANCH
    removed: tuple[DataFile, ...] = ()
    requires_data: bool = False
    snapshot: Snapshot | None = None

    def commit(self, batch: Batch) -> None:
        """Commit some units in one snapshot, which changes no row: its operation is ``replace``."""
        written = [result for _, result in batch]
        touched = (
            result.touched
            for result in written
            if self.requires_data or any(file.is_deletion_vector for file in result.files)
        )
        update = SnapshotUpdate(
            added_deletes=tuple((file, unit.sequence_number) for unit, result in batch for file in result.files),
            removed_deletes=(*self.removed, *(file for result in written for file in result.removed)),
            starting_snapshot_id=self.head.snapshot_id,
            branch=self.branch,
            referenced=frozenset().union(*touched),
            properties=ENGINE,
        )
        request, begins = self.request, self.marker.committing
        operations = request.place.operations
        self.snapshot = commit_update(operations, lambda _: update, request.env, request.executor, begins)

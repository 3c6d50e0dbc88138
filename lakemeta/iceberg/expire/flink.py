"""Which snapshots Flink jobs look for when they start again (Iceberg's IcebergFilesCommitter).

A job that is restored walks from the head of its branch through the parents to the newest snapshot that it made itself,
which says up to which checkpoint it has committed. If it finds none, it commits its files of the last checkpoints once
more. A walk ends where a parent has expired. So of each job its newest snapshot stays, and of each branch all snapshots
down to the newest one of any job.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from collections.abc import Iterator

    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata

_CHECKPOINT: Final = "flink.max-committed-checkpoint-id"


def flink_snapshots(metadata: TableMetadata) -> dict[int, str]:
    """The snapshots that stay for Flink jobs, and a sentence about each."""
    newest = {_writer(snapshot): snapshot for snapshot in metadata.snapshots if _CHECKPOINT in snapshot.summary}
    found = {s.snapshot_id: f"it is the newest of the Flink job {job}" for (job, _), s in newest.items()}
    for name, ref in metadata.refs.items():
        if ref.is_branch:
            why = f"a Flink job that is restored walks through it from the head of the branch {name}"
            for snapshot_id in _walked(metadata, ref.snapshot_id):
                found.setdefault(snapshot_id, why)
    return found


def _writer(snapshot: Snapshot) -> tuple[str, str]:
    return snapshot.summary.get("flink.job-id", ""), snapshot.summary.get("flink.operator-id", "")


def _walked(metadata: TableMetadata, head: int) -> Iterator[int]:
    """The snapshots from a head to the newest one of a Flink job, none if there is no such."""
    passed: list[int] = []
    for snapshot in metadata.ancestors(head):
        passed.append(snapshot.snapshot_id)
        if _CHECKPOINT in snapshot.summary:
            yield from passed
            return

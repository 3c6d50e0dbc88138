"""What a rewrite has done so far, and the report of it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import attrs

from lakemeta.report import Report

if TYPE_CHECKING:
    from collections.abc import Iterable

    from lakemeta.iceberg.manifests.entries import DataFile
    from lakemeta.iceberg.rewrite.group_rewriter import RewrittenGroup
    from lakemeta.iceberg.rewrite.groups import RewriteGroup
    from lakemeta.iceberg.spec.table_metadata import Snapshot
    from lakemeta.plan import Plan

    Result = tuple[RewriteGroup, RewrittenGroup]


@attrs.define(eq=False, kw_only=True)
class Outcome:
    """Groups that are committed and those that failed, the newest snapshot, and what there is to say.

    ``left_behind`` has sentences about what earlier rewrites left, ``notes`` about what failed in this one.
    ``in_commit`` is true from before a commit until it is known what became of it.
    """

    left_behind: list[str]
    committed: list[Result] = attrs.field(factory=list)
    failed: list[RewriteGroup] = attrs.field(factory=list)
    commits: int = 0
    removed_deletes: int = 0
    snapshot: Snapshot | None = None
    notes: list[str] = attrs.field(factory=list)
    in_commit: bool = False

    @property
    def committed_files(self) -> list[DataFile]:
        """The new data files that a snapshot names."""
        return files_of(result for _, result in self.committed)

    def report(self, plan: Plan, url: str) -> Report:
        """The report of the rewrite, with the counts that the engine's procedure gives."""
        result: dict[str, Any] = {
            "rewritten_data_files_count": sum(len(group.tasks) for group, _ in self.committed),
            "added_data_files_count": len(self.committed_files),
            "rewritten_bytes_count": sum(group.bytes for group, _ in self.committed),
            "failed_data_files_count": sum(len(group.tasks) for group in self.failed),
            "removed_delete_files_count": self.removed_deletes,
        }
        committed = None if self.snapshot is None else str(self.snapshot.snapshot_id)
        notes = (*self.left_behind, *self.notes)
        return Report(
            plan.header.plan,
            url,
            committed,
            result=result,
            notes=notes,
            partial=bool(self.notes),
            written_bytes=sum(file.file_size_in_bytes for file in self.committed_files),
        )


def files_of(results: Iterable[RewrittenGroup]) -> list[DataFile]:
    """The new data files of some groups, in order."""
    return [file for result in results for file in result.files]

"""The branch that a service works on."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from lakemeta.iceberg.spec.table_metadata import Snapshot, TableMetadata


def branch_head(metadata: TableMetadata, branch: str, work: str) -> Snapshot | None:
    """The head of a branch, None while the table is empty.

    Raises OptionError if there is no such branch; ``work`` is what cannot be done then, as "rewrite data files".
    """
    head = metadata.branch_head(branch)
    if head is None and metadata.current_snapshot is not None:
        raise OptionError(f"Cannot {work} for branch {branch}: branch does not exist")
    return head

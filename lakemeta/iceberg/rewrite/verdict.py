"""What a planner says about one file: the group that takes it, if any, and the reason with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

import attrs

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.iceberg.rewrite.groups import RewriteGroup

Reason = Literal[
    # of bin-pack, for a file that is rewritten
    "too small",
    "too large",
    "rewrite all",
    "many deletes",
    # of bin-pack, for a file that stays
    "good size",
    "poor group",
    "limit reached",
    # of split-combine, for a file that is rewritten
    "cut",
    "combined",
    # of split-combine, for a file that stays
    "alone in partition",
    "alone in bin",
]


@attrs.frozen(slots=True, hash=False)
class Verdict:
    """``group`` is None if the file stays; ``numbers`` are those that the decision compared, sizes in bytes."""

    group: RewriteGroup | None
    reason: Reason
    numbers: Mapping[str, int]


def group_of(groups: Iterable[RewriteGroup], path: str) -> RewriteGroup | None:
    """The group that has the data file at ``path``."""
    return next((group for group in groups if any(t.data_file.file_path == path for t in group.tasks)), None)

"""What a planner says about one file: the group that takes it, if any, and the reason with its numbers."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, Literal

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


SENTENCES: Final[Mapping[Reason, str]] = {
    "too small": "its {bytes} bytes are below min-file-size-bytes ({least})",
    "too large": "its {bytes} bytes are above max-file-size-bytes ({most})",
    "rewrite all": "rewrite-all is set",
    "many deletes": "{deletes} delete files apply to it",
    "good size": "its {bytes} bytes lie from {least} to {most}, and few deletes apply to it",
    "poor group": (
        "its {bytes} bytes are outside {least} to {most}, but its group has too few files or bytes "
        "(min-input-files is {min_input_files})"
    ),
    "limit reached": "the files that are rewritten before it reach max-files-to-rewrite ({max_files})",
    "cut": "its {bytes} bytes are cut into {bins} bins of target-file-size-bytes ({target})",
    "combined": "its {bytes} bytes are combined with other files in a bin of target-file-size-bytes ({target})",
    "alone in partition": "it is the only file of its partition",
    "alone in bin": "its {bytes} bytes have a bin of target-file-size-bytes ({target}) to themselves",
}


@attrs.frozen(slots=True, hash=False)
class Verdict:
    """``group`` is None if the file stays; ``numbers`` are those that the decision compared, sizes in bytes."""

    group: RewriteGroup | None
    reason: Reason
    numbers: Mapping[str, int]


def group_of(groups: Iterable[RewriteGroup], path: str) -> RewriteGroup | None:
    """The group that has the data file at ``path``."""
    return next((group for group in groups if any(t.data_file.file_path == path for t in group.tasks)), None)

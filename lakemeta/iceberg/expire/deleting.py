"""Deleting the files that expired snapshots alone named, kind by kind (I/O).

Rules of this module:

1. Data and delete files go first, then manifests, then manifest lists, then statistics: until the last file is gone
   that a manifest or a list names, it says which these are.
2. If any file of a kind cannot be deleted, the kinds after it stay.
"""

from __future__ import annotations

from collections import Counter
from itertools import groupby
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.iceberg.expire.unreferenced import CONTENT, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.expire.unreferenced import Unreferenced
    from lakemeta.report import Outcome

_STAGES: Final[tuple[frozenset[Kind], ...]] = (
    CONTENT,
    frozenset({"manifest"}),
    frozenset({"manifest_list"}),
    frozenset({"statistics_file"}),
)
_COUNTERS: Final[dict[Kind, str]] = {
    "data_file": "deleted_data_files_count",
    "position_delete_file": "deleted_position_delete_files_count",
    "equality_delete_file": "deleted_equality_delete_files_count",
    "manifest": "deleted_manifest_files_count",
    "manifest_list": "deleted_manifest_lists_count",
    "statistics_file": "deleted_statistics_files_count",
}


@attrs.frozen(slots=True)
class Target:
    """A file to delete, by its store path, and the door for it."""

    file: Unreferenced
    door: Door
    path: str


def delete(targets: Sequence[Target], executor: Executor) -> Iterator[tuple[Target, Outcome]]:
    """What became of each file; nothing is said of files that stay because of others (rule 2)."""
    for kinds in _STAGES:
        complete = True
        for door, group in by_door(target for target in targets if target.file.kind in kinds):
            outcomes = door.dispose([(target.path, target.file.size) for target in group], executor)
            for target, outcome in zip(group, outcomes, strict=True):
                complete = complete and outcome.done
                yield target, outcome
        if not complete:
            return


def by_door(targets: Iterable[Target]) -> Iterator[tuple[Door, list[Target]]]:
    """The files of each door."""
    ordered = sorted(targets, key=lambda target: (target.door.base, target.path))
    for _, group in groupby(ordered, key=lambda target: target.door.base):
        found = list(group)
        yield found[0].door, found


def counters(done: Iterable[Target]) -> dict[str, int]:
    """The result columns of Iceberg's procedure; files that were gone before count as deleted, as they do there."""
    found = Counter(target.file.kind for target in done)
    return {name: found[kind] for kind, name in _COUNTERS.items()}

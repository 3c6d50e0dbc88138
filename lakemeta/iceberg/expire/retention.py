"""Which snapshots and refs of a table expire (Iceberg's RemoveSnapshots).

Rules of this module, as recorded of Iceberg 1.12:

1. ``main`` never goes. Another branch or tag goes when its snapshot is older than ``max-ref-age-ms``: its own, or the
   table's ``history.expire.max-ref-age-ms``.
2. Of a branch that stays, its ancestors stay from its head on while they are fewer than the minimum to keep, or not
   older than the cutoff. The first that is neither ends the walk: what lies behind it goes, younger or not. Age and
   minimum of the branch itself come before the arguments, and these before the table's ``history.expire.*``.
3. A tag keeps its snapshot and no ancestor of it. What no ref that stays reaches is kept while it is not older than the
   cutoff; no minimum holds there.
4. A snapshot that is named goes whatever its age and its branch say, unless it is the head of a ref that stays. Naming
   snapshots does not switch the cutoff off. A name of no snapshot means nothing.
5. Beyond Iceberg: what a run needs that has not ended (``pinned``) stays, and cannot be named.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import OptionError
from lakemeta.iceberg.spec.properties import int_property
from lakemeta.iceberg.spec.table_metadata import MAIN_BRANCH
from lakemeta.typed_text import LONG_MAX

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.iceberg.expire.options import ExpireOptions
    from lakemeta.iceberg.spec.table_metadata import SnapshotRef, TableMetadata

NAMED: Final = "named"
TOO_OLD: Final = "too_old"
UNREACHABLE: Final = "unreachable"

_DAY_MS: Final = 24 * 60 * 60 * 1000


@attrs.frozen(eq=False)
class Retention:
    """What of one version of a table goes, and why the rest stays.

    ``expired`` has the reason for each snapshot that goes, in the order of the metadata; ``kept`` says of each other
    one, in words, what keeps it. ``ruled`` are the snapshots that the rules keep, those among them that were named to
    go included.
    """

    expired: Mapping[int, str]
    removed_refs: tuple[str, ...]
    kept: Mapping[int, str]
    ruled: frozenset[int]


def decide(
    metadata: TableMetadata, options: ExpireOptions, now_ms: int, pinned: Mapping[int, str] | None = None
) -> Retention:
    """What goes at the time ``now_ms`` (ms, UTC). ``pinned`` says of snapshots that have to stay, in words, why.

    Raises OptionError, in Iceberg's words, for a snapshot that is named and the head of a ref that stays.
    """
    rules = _Rules(metadata, options, now_ms)
    pinned = {i: why for i, why in (pinned or {}).items() if i in metadata.snapshots_by_id}
    refs = {name: ref for name, ref in metadata.refs.items() if rules.keeps_ref(name, ref)}
    _check_named(options.snapshot_ids, refs, pinned)
    kept = {ref.snapshot_id: _head(name, ref) for name, ref in refs.items()}
    for name, ref in refs.items():
        if ref.is_branch:
            for snapshot_id, why in rules.kept_of_branch(name, ref):
                kept.setdefault(snapshot_id, why)
    reached = rules.reached(refs)
    for snapshot_id in rules.young_ones(reached):
        kept.setdefault(snapshot_id, "no branch or tag reaches it, and it is not older than the cutoff")
    ruled = frozenset(kept)
    named = set(options.snapshot_ids)
    kept = {i: why for i, why in kept.items() if i not in named} | pinned
    gone = [s.snapshot_id for s in metadata.snapshots if s.snapshot_id not in kept]
    reasons = {i: NAMED if i in named else TOO_OLD if i in reached else UNREACHABLE for i in gone}
    return Retention(reasons, tuple(sorted(metadata.refs.keys() - refs.keys())), kept, ruled | frozenset(pinned))


def _check_named(ids: tuple[int, ...], refs: Mapping[str, SnapshotRef], pinned: Mapping[int, str]) -> None:
    for snapshot_id in ids:
        holders = sorted(name for name, ref in refs.items() if ref.snapshot_id == snapshot_id)
        if holders:
            raise OptionError(f"Cannot expire {snapshot_id}. Still referenced by refs: [{', '.join(holders)}]")
        if snapshot_id in pinned:
            raise OptionError(f"Cannot expire {snapshot_id}: {pinned[snapshot_id]}")


def _head(name: str, ref: SnapshotRef) -> str:
    return f"the branch {name} ends in it" if ref.is_branch else f"the tag {name} names it"


class _Rules:
    """The numbers by which one run decides: arguments, and the table's properties where there are none."""

    def __init__(self, metadata: TableMetadata, options: ExpireOptions, now_ms: int) -> None:
        age = int_property(metadata.properties, "history.expire.max-snapshot-age-ms", 5 * _DAY_MS)
        least = int_property(metadata.properties, "history.expire.min-snapshots-to-keep", 1)
        self.metadata, self.now_ms = metadata, now_ms
        self.cutoff = now_ms - age if options.older_than is None else options.older_than
        self.least = least if options.retain_last is None else options.retain_last
        self.ref_age = int_property(metadata.properties, "history.expire.max-ref-age-ms", LONG_MAX)

    def keeps_ref(self, name: str, ref: SnapshotRef) -> bool:
        """Rule 1."""
        age = self.ref_age if ref.max_ref_age_ms is None else ref.max_ref_age_ms
        return name == MAIN_BRANCH or self.now_ms - self.metadata.snapshot(ref.snapshot_id).timestamp_ms <= age

    def kept_of_branch(self, name: str, ref: SnapshotRef) -> Iterator[tuple[int, str]]:
        """Rule 2: the snapshots of a branch that stay, and why."""
        cutoff = self.cutoff if ref.max_snapshot_age_ms is None else self.now_ms - ref.max_snapshot_age_ms
        least = self.least if ref.min_snapshots_to_keep is None else ref.min_snapshots_to_keep
        for count, ancestor in enumerate(self.metadata.ancestors(ref.snapshot_id)):
            if count < least:
                yield ancestor.snapshot_id, f"it is one of the {least} newest of the branch {name}, which are kept"
            elif ancestor.timestamp_ms >= cutoff:
                yield ancestor.snapshot_id, f"it is not older than the cutoff of the branch {name}"
            else:
                return

    def reached(self, refs: Mapping[str, SnapshotRef]) -> set[int]:
        """The snapshots that refs reach: all ancestors of a branch, and what a tag names."""
        found: set[int] = set()
        for ref in refs.values():
            ancestors = self.metadata.ancestors(ref.snapshot_id) if ref.is_branch else ()
            found.add(ref.snapshot_id)
            found.update(ancestor.snapshot_id for ancestor in ancestors)
        return found

    def young_ones(self, reached: set[int]) -> list[int]:
        """Rule 3: snapshots that no ref reaches, and that are not older than the cutoff."""
        others = (s for s in self.metadata.snapshots if s.snapshot_id not in reached)
        return [snapshot.snapshot_id for snapshot in others if snapshot.timestamp_ms >= self.cutoff]

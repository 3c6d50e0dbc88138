"""Which files of one partition a clean deletes, and why each other file stays (``CleanPlanner``).

Rules of this module:

1. Replaced file groups go whole: at once when file versions are kept, else when the replace commit is earlier than
   the earliest commit to retain (ECT).
2. KEEP_LATEST_COMMITS and _BY_HOURS: of a live group go the slices before ECT, except the newest of them.
3. KEEP_LATEST_FILE_VERSIONS K: of a live group stay the newest K slices, less one if the group is in a pending
   compaction, whose slices are not counted.
4. A slice with a file that a savepoint names stays whole, and so does one that a pending compaction or log compaction
   needs (in live groups). Unlike Hudi, so does a slice with a file that the plan of a pending compaction, log
   compaction or clustering names, wherever it counts to: Hudi 1.0 deletes such log files (HUDI-19290), and the
   operation fails for ever.
5. A visited partition without any live group is dropped, unless a group replaced at or after ECT is still on disk.
   Unlike Hudi, one with a savepointed file is not dropped (unless asked to), and the table root never is.
6. Unlike Hudi, nothing goes of a partition where what a savepoint says does not fit the files (see
   :mod:`lakemeta.hudi.clean.savepoints`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.hudi.clean.savepoints import advice, doubt
from lakemeta.hudi.options import Policy
from lakemeta.hudi.view.file_groups import FileGroup, FileSlice, build_file_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.timeline.action_metadata import CompactionOperation

SUPERSEDED: Final = "superseded"
REPLACED: Final = "replaced"
DROPPED: Final = "no_live_file_group"
LATEST: Final = "latest_slice"
NEWEST_BEFORE: Final = "newest_before_earliest_to_retain"
RETAINED: Final = "retained_commit"
WITHIN_VERSIONS: Final = "within_versions_retained"
SAVEPOINT: Final = "pinned_by_savepoint"
COMPACTION: Final = "pinned_by_pending_compaction"
CLUSTERING: Final = "pinned_by_pending_clustering"
REPLACED_RETAINED: Final = "replaced_but_retained"
UNCOMMITTED: Final = "not_committed"


@attrs.frozen(slots=True)
class Verdict:
    """What happens to one slice: deleted or kept, the reason, and the instant or savepoint that causes it."""

    slice: FileSlice
    delete: bool
    reason: str
    by: str | None


@attrs.frozen(slots=True)
class PartitionPlan:
    """The verdicts on one partition; ``drop`` if its directory goes too, ``note`` for a person."""

    partition: str
    verdicts: tuple[Verdict, ...]
    drop: bool
    note: str | None = None


def plan_partition(context: CleanContext, partition: str, files: Iterable[tuple[str, int]]) -> PartitionPlan:
    """Judge every slice of a partition from the (name, size in bytes) of the files in its directory."""
    files = list(files)
    groups = build_file_groups(partition, files, context.view)
    unclear = doubt(context, partition, groups, {name for name, _ in files})
    if unclear is not None and (groups or not context.drop_savepointed):
        kept = tuple(Verdict(s, False, SAVEPOINT, unclear.savepoint) for group in groups for s in group.slices)
        what = f"nothing of {partition or 'the table'} is deleted: {unclear.clause}"
        return PartitionPlan(partition, kept, False, f"{what}; {advice(unclear.savepoint)}")
    replaced = [(g, at) for g in groups if (at := context.replaced.get((partition, g.file_id))) is not None]
    live = [g for g in groups if (partition, g.file_id) not in context.replaced]
    verdicts = [v for group, at in replaced for v in judge_replaced(context, group, at)]
    verdicts += [v for group in live for v in judge_live(context, group)]
    drop = not live and not any(at >= context.earliest for _, at in replaced if context.earliest)
    note = None
    if drop:
        note = _why_not_dropped(context, partition, verdicts)
    return PartitionPlan(partition, tuple(verdicts), drop and note is None, note)


def judge_replaced(context: CleanContext, group: FileGroup, replaced_at: str) -> Iterator[Verdict]:
    """The verdicts on a group that a replace commit replaced (rules 1 and 4)."""
    goes = not context.earliest or replaced_at < context.earliest
    if context.policy is not Policy.KEEP_LATEST_FILE_VERSIONS and not context.earliest:
        goes = False
    for file_slice in group.slices:
        savepoint = _savepoint(context, file_slice)
        if not context.view.counts(file_slice.instant):
            yield Verdict(file_slice, False, UNCOMMITTED, file_slice.instant)
        elif savepoint is not None:
            yield Verdict(file_slice, False, SAVEPOINT, savepoint)
        elif goes:
            yield _unless_claimed(context, Verdict(file_slice, True, REPLACED, replaced_at))
        else:
            yield Verdict(file_slice, False, REPLACED_RETAINED, replaced_at)


def judge_live(context: CleanContext, group: FileGroup) -> Iterator[Verdict]:
    """The verdicts on a group that readers see (rules 2, 3 and 4)."""
    counted = [s for s in group.slices if context.view.counts(s.instant)]
    by_policy = _by_versions if context.policy is Policy.KEEP_LATEST_FILE_VERSIONS else _by_earliest
    yield from by_policy(context, group, counted)
    for file_slice in group.slices:
        if not context.view.counts(file_slice.instant):
            yield Verdict(file_slice, False, UNCOMMITTED, file_slice.instant)


def _by_earliest(context: CleanContext, group: FileGroup, slices: Sequence[FileSlice]) -> Iterator[Verdict]:
    before = [s.instant for s in slices if s.instant < context.earliest]
    newer: str | None = None
    for file_slice in slices:
        instant = file_slice.instant
        if newer is None:
            verdict = Verdict(file_slice, False, LATEST, instant)
        elif instant >= context.earliest:
            verdict = Verdict(file_slice, False, RETAINED, instant)
        elif instant == before[0]:
            verdict = Verdict(file_slice, False, NEWEST_BEFORE, context.earliest)
        else:
            verdict = _unless_pinned(context, group, file_slice, newer)
        yield verdict
        newer = instant


def _by_versions(context: CleanContext, group: FileGroup, slices: Sequence[FileSlice]) -> Iterator[Verdict]:
    operation = context.needed.get((group.partition, group.file_id))
    # A merge that reads none of these slices keeps none of them, so all versions are still to be kept.
    to_keep = context.versions_retained - (1 if any(_is_needed(operation, s) for s in slices) else 0)
    position = 0
    newer: str | None = None
    for file_slice in slices:
        if _is_needed(operation, file_slice):
            yield Verdict(file_slice, False, COMPACTION, file_slice.instant)
        elif position < to_keep:
            position += 1
            yield Verdict(file_slice, False, WITHIN_VERSIONS if newer else LATEST, file_slice.instant)
        else:
            savepoint = _savepoint(context, file_slice)
            if savepoint is not None:
                yield Verdict(file_slice, False, SAVEPOINT, savepoint)
            else:
                yield _unless_claimed(context, Verdict(file_slice, True, SUPERSEDED, newer))
        newer = file_slice.instant


def _unless_pinned(context: CleanContext, group: FileGroup, file_slice: FileSlice, newer: str) -> Verdict:
    savepoint = _savepoint(context, file_slice)
    if savepoint is not None:
        return Verdict(file_slice, False, SAVEPOINT, savepoint)
    operation = context.needed.get((group.partition, group.file_id))
    if _is_needed(operation, file_slice):
        return Verdict(file_slice, False, COMPACTION, file_slice.instant)
    return _unless_claimed(context, Verdict(file_slice, True, SUPERSEDED, newer))


def _unless_claimed(context: CleanContext, verdict: Verdict) -> Verdict:
    """A verdict of deletion, or why the slice stays: a pending operation's plan names a file of it."""
    if not context.claimed:
        return verdict
    claim = next((c for f in verdict.slice.files if (c := context.claimed.get(f.name)) is not None), None)
    if claim is None:
        return verdict
    kind, _, instant = claim.rpartition(" ")
    return Verdict(verdict.slice, False, CLUSTERING if kind == "clustering" else COMPACTION, instant)


def _is_needed(operation: CompactionOperation | None, file_slice: FileSlice) -> bool:
    return operation is not None and file_slice.instant >= operation.base_instant


def _savepoint(context: CleanContext, file_slice: FileSlice) -> str | None:
    if not context.savepointed:
        return None
    return next((s for f in file_slice.files if (s := context.savepointed.get(f.name)) is not None), None)


def _why_not_dropped(context: CleanContext, partition: str, verdicts: Sequence[Verdict]) -> str | None:
    if not partition:
        return "the table has no partitions, so its directory stays although no file group is live"
    if context.drop_savepointed:
        return None
    pinned = next((v.by for v in verdicts if v.reason == SAVEPOINT), None)
    return f"the directory of {partition} stays: savepoint {pinned} names files in it" if pinned else None

"""What no clean may delete, whoever planned it: judged against the table as it is now.

A plan says which policy and which earliest commit to retain (ECT) it follows. With these alone, and a single version to
keep, a file of it that is still there may go only if it would go today. Rules of this module:

1. The newest committed slice of a live file group stays, and so do slices at or after ECT and the newest before it.
2. A replaced group goes whole only if the policy keeps versions or the replace commit is earlier than ECT. One that was
   replaced later is judged as it was for the plan: as a live group.
3. What a savepoint names stays, the slices of which the plan of a pending compaction, log compaction or clustering
   names a file, and what a pending compaction needs besides. Files that plans name are refused by their names alone as
   well (:mod:`lakemeta.hudi.view.named_files`).
4. Files of writes that have not completed stay.
5. Of several base files of one group and instant all are judged alike.
6. All stays where it is not known what a savepoint needs (:mod:`lakemeta.hudi.clean.savepoints`).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from lakemeta.hudi.clean import rules as clean
from lakemeta.hudi.clean.rules import judge_live, judge_replaced
from lakemeta.hudi.clean.savepoints import advice, doubt
from lakemeta.hudi.files.names import parse_base_file
from lakemeta.hudi.view.file_groups import build_file_groups

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.clean.rules import Verdict
    from lakemeta.hudi.view.file_groups import FileGroup

_WHY: Final = {
    clean.LATEST: "is in the newest committed slice of its file group",
    clean.NEWEST_BEFORE: "is what the earliest commit that the plan retains reads",
    clean.RETAINED: "is of a commit that the plan retains",
    clean.WITHIN_VERSIONS: "is in the newest committed slice of its file group",
    clean.SAVEPOINT: "savepoint {by} needs",
    clean.COMPACTION: "a pending compaction needs",
    clean.CLUSTERING: "a pending clustering needs",
    clean.UNCOMMITTED: "belongs to {by}, which has not completed",
}


def still_needed(
    context: CleanContext,
    partition: str,
    files: Iterable[tuple[str, int]],
    planned: frozenset[str],
) -> Iterator[tuple[str, str]]:
    """The planned names that must stay, each with what needs it.

    ``files`` are (name, size in bytes) of the partition's directory.
    """
    files = list(files)
    verdicts: dict[tuple[str, str], Verdict] = {}
    logs: dict[str, Verdict] = {}
    groups = build_file_groups(partition, files, context.view)
    unclear = doubt(context, partition, groups, {name for name, _ in files})
    if unclear is not None:
        what = f"may be what a savepoint needs: {unclear.clause}; {advice(unclear.savepoint)}"
        yield from ((name, what) for name in sorted(planned))
        return
    for group in groups:
        for verdict in _judge(context, group):
            verdicts[group.file_id, verdict.slice.instant] = verdict
            logs.update((log.name, verdict) for log in verdict.slice.log_files)
    for name in sorted(planned & {name for name, _ in files}):
        base = parse_base_file(name, 0)
        found = verdicts.get((base.file_id, base.instant)) if base else logs.get(name)
        if found is not None and not found.delete:
            yield name, _WHY[found.reason].format(by=found.by)


def _judge(context: CleanContext, group: FileGroup) -> Iterator[Verdict]:
    replaced_at = context.replaced.get((group.partition, group.file_id))
    if replaced_at is not None:
        verdicts = list(judge_replaced(context, group, replaced_at))
        if not any(verdict.reason == clean.REPLACED_RETAINED for verdict in verdicts):
            return iter(verdicts)
    return judge_live(context, group)

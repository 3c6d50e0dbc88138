"""What a command asks before it changes a table: what it does, to how many files of how many bytes, of which table."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any, Final

from lakemeta.plan_operations import (
    Delete,
    DeletePartition,
    Expire,
    ManyOperations,
    Remove,
    RemoveRef,
    RemoveUnused,
    Rewrite,
    RewriteManifests,
    WriteStatistics,
)
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator

    from lakemeta.plan import Plan

_WORK: Final = {
    Expire: ("expire", "snapshot", None),
    RemoveRef: ("remove", "branch or tag", "branches and tags"),
    RemoveUnused: ("remove", "unused schema or spec", "unused schemas and specs"),
    WriteStatistics: ("write", "statistics file", None),
    Rewrite: ("rewrite", "file", None),
    RewriteManifests: ("rewrite", "manifest", None),
    Remove: ("take out", "delete file", None),
    Delete: ("delete", "file", None),
    DeletePartition: ("delete", "directory", "directories"),
}
_IN_FILES: Final = (Rewrite, RewriteManifests, Remove, Delete)


def question(plan: Plan, *, quarantine: bool = False, schedule_only: bool = False) -> str:
    """``Delete 8 files (76.2 KiB) of /lake/trips?`` for a plan that is about to be applied, or only requested."""
    work = " and ".join(_clauses(plan, quarantine=quarantine)) or "apply the plan"
    if schedule_only:
        return f"Request a clean of {plan.header.table}, to {work}?"
    return f"{work[0].upper()}{work[1:]} of {plan.header.table}?"


def _clauses(plan: Plan, *, quarantine: bool) -> Iterator[str]:
    facts = plan.header.facts
    if facts.get("failed_writes"):
        yield f"roll back {count_of(len(facts['failed_writes']), 'failed write')}"
    counts, sizes = _counts(plan)
    for kind, (verb, noun, nouns) in _WORK.items():
        if counts[kind]:
            verb = "move to quarantine" if quarantine and kind is Delete else verb
            weight = f" ({human_bytes(sizes[kind])})" if kind in _IN_FILES else ""
            yield f"{verb} {count_of(counts[kind], noun, nouns)}{weight}"
    if facts.get("metadata_rollbacks"):
        yield f"roll back {count_of(len(facts['metadata_rollbacks']), 'delta commit')} of the metadata table"
    if facts.get("empty_clean"):
        yield "write a clean without files"
    if facts.get("pending_cleans") and not counts[Delete]:
        yield f"complete {count_of(len(facts['pending_cleans']), 'pending clean')}"


def _counts(plan: Plan) -> tuple[Counter[type], Counter[type]]:
    """How many of each kind, of files where an operation is about several, and their bytes."""
    counts, sizes = Counter[type](), Counter[type]()
    files, size = plan.changed
    counts[Delete], sizes[Delete] = files - plan.files, size - plan.bytes  # of pending cleans
    parts: Iterable[Any] = (plan.operations,) if isinstance(plan.operations, ManyOperations) else plan.operations
    for op in parts:
        kind = op.kind if isinstance(op, ManyOperations) else type(op)
        files, size = op.changed
        counts[kind] += files if kind in _IN_FILES else 1
        sizes[kind] += size
    return counts, sizes

"""Applies a plan of expire-snapshots: proves it, commits, looks again, and deletes what nothing names then (I/O).

Rules of this module:

1. The plan is proved by the newest version before anything is changed, and by every version that a conflict brings up
   (``proof``). The pointer moves before any file goes.
2. Files go only if the table, read again after the commit, still has every branch and tag that was to stay, and none of
   the expired snapshots. What snapshots that have come since name stays.
3. What goes first and last is said in ``deleting``.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.commit.committer import commit
from lakemeta.iceberg.commit.draft import Base, Draft
from lakemeta.iceberg.expire.deleting import Target, counters, delete
from lakemeta.iceberg.expire.planner import EXPIRE_SNAPSHOTS
from lakemeta.iceberg.expire.proof import Proof
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.iceberg.spec.metadata_removal import remove
from lakemeta.plan_operations import Delete, Expire, RemoveRef, RemoveUnused
from lakemeta.report import Report, count

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.report import Outcome


def apply_expire(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed.

    Raises:
        StalePlanError: the table has moved in a way that matters, or the plan was edited.
        CommitConflictError: a commit that came in between needs what was to expire; nothing was changed.
        CommitStateUnknownError: it is unknown whether the commit happened; no file was deleted.
        UnsupportedFeatureError: the table cannot be changed by lakemeta, or is to lose no file.
        CorruptMetadataError: a manifest list or manifest is damaged.
    """
    loaded = open_plan(request, EXPIRE_SNAPSHOTS, (Expire, RemoveRef, RemoveUnused, Delete))
    operations, executor = request.place.operations, request.executor or LocalExecutor()
    proof = Proof.of(request.plan, operations.storage, executor)
    targets = proof.targets(loaded.metadata)
    if not request.plan.operations:
        return _report(request, None, [])
    commit(operations, lambda base: _change(proof, base), request.env)
    current = operations.refresh()
    why = _unsafe(proof, loaded.metadata, current.metadata)
    if why is not None:
        return _report(request, current.location, [], why)
    left = _unnamed(proof, targets, current.metadata)
    return _report(request, current.location, list(delete(left, executor)), planned=len(left))


def _change(proof: Proof, base: Base) -> Draft:
    try:
        proof.check(base.metadata)
    except StalePlanError as error:
        raise CommitConflictError(str(error)) from error
    removed = remove(base.metadata, base.location, proof.removal, base.now_ms)
    return Draft(removed, None, {}, lambda current: _is_in(proof, current))


def _is_in(proof: Proof, current: TableMetadata) -> bool:
    """True if a version has nothing of what was to go."""
    removal = proof.removal
    return not (
        removal.snapshots & current.snapshots_by_id.keys()
        or removal.refs & current.refs.keys()
        or removal.schemas & current.schemas_by_id.keys()
        or removal.specs & current.specs_by_id.keys()
    )


def _unsafe(proof: Proof, before: TableMetadata, current: TableMetadata) -> str | None:
    """Why nothing may be deleted after the commit; None if it may."""
    lost = sorted(before.refs.keys() - proof.removal.refs - current.refs.keys())
    if lost:
        return f"the table lost the ref {lost[0]} while it was changed"
    back = sorted(proof.removal.snapshots & current.snapshots_by_id.keys())
    return f"the table has snapshot {back[0]} again, which had expired" if back else None


def _unnamed(proof: Proof, targets: Sequence[Target], current: TableMetadata) -> list[Target]:
    """The files that the version after the commit does not name either."""
    if not targets:
        return []
    proof.retained.add(current, current.snapshots_by_id.keys())
    proof.retained.read_manifests(current.specs_by_id)
    return [target for target in targets if not proof.retained.names(target.file.location)]


def _report(
    request: ApplyRequest,
    committed: str | None,
    done: Sequence[tuple[Target, Outcome]],
    why: str | None = None,
    *,
    planned: int = 0,
) -> Report:
    deleted, absent, failed = count(outcome for _, outcome in done)
    notes = []
    if why is not None:
        notes.append(f"{why}, so no file was deleted; remove-orphan-files finds what nothing names")
    if len(done) < planned:
        notes.append(f"{planned - len(done)} files stay, as they say which files are left to delete")
    return Report(
        request.plan.header.plan,
        request.place.url,
        None if committed is None else committed.rpartition("/")[2],
        deleted_files=deleted,
        absent_files=absent,
        freed_bytes=sum(target.file.size for target, outcome in done if outcome.status == "deleted"),
        failed=failed,
        result=counters(target for target, outcome in done if outcome.done),
        notes=tuple(notes),
        partial=bool(notes),
    )

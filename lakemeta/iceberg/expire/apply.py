"""Applies a plan of expire-snapshots: proves it, commits, looks again, and deletes what nothing names then (I/O).

Rules of this module:

1. The plan is proved by the newest version before anything is changed, and by every version that a conflict brings up
   (``proof``). The pointer moves before any file goes.
2. Files go only if the table, read again after the commit, still has every branch and tag that was to stay, and none of
   the expired snapshots. What snapshots that have come since name stays.
3. Before anything is changed the files of the snapshots that stay are looked up, as ``--proof`` says, and the share of
   the table that goes: of the bytes of the data and delete files that go, and of those of the largest snapshot that a
   branch or tag keeps.
4. What goes first and last is said in ``deleting``. From before the commit until it is gone a ledger says what is to
   go (``ledger``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs

from lakemeta.errors import (
    CommitConflictError,
    CommitStateUnknownError,
    CorruptMetadataError,
    LakemetaError,
    StalePlanError,
)
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.refs import check_refs_intact
from lakemeta.iceberg.commit.committer import commit
from lakemeta.iceberg.commit.draft import Base, Draft
from lakemeta.iceberg.expire import ledger
from lakemeta.iceberg.expire.deleting import Target, counters, delete
from lakemeta.iceberg.expire.planner import EXPIRE_SNAPSHOTS
from lakemeta.iceberg.expire.proof import Proof
from lakemeta.iceberg.expire.unreferenced import CONTENT
from lakemeta.iceberg.service.closure import Closure
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.iceberg.spec.metadata_removal import Removal, remove
from lakemeta.ledger.run import open_ledger
from lakemeta.plan_operations import Delete, Expire, RemoveRef, RemoveUnused
from lakemeta.report import Report, count
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.environment import Environment
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.report import Outcome
    from lakemeta.safeguards import Proved


def apply_expire(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing changed. One that was interrupted can be applied again.

    Raises:
        StalePlanError: the table has moved in a way that matters, or the plan was edited.
        CommitConflictError: a commit that came in between needs what was to expire; nothing was changed.
        CommitStateUnknownError: it is unknown whether the commit happened; no file was deleted.
        UnsupportedFeatureError: the table cannot be changed by lakemeta, or is to lose no file.
        CorruptMetadataError: a manifest list or manifest is damaged.
    """
    loaded = open_plan(request, EXPIRE_SNAPSHOTS, (Expire, RemoveRef, RemoveUnused, Delete))
    operations, executor = request.place.operations, request.executor or LocalExecutor()
    proof = Proof.of(request, loaded.metadata, executor)
    targets = proof.targets(loaded)
    if not request.plan.operations:
        return _report(request, _Done())
    proved = _proved(request, proof, loaded, targets, executor)
    if targets:
        open_ledger()
    ledgers = [one.path for one in proof.former]
    current = loaded
    if proof.removal != Removal():
        ledgers += _begin(proof, loaded, targets, request.env)
        try:
            current = _commit(proof, request.env, ledgers[len(proof.former) :])
        except _UnsafeError as error:
            return _report(request, _Done(proof.operations.refresh(), notes=(str(error),), proved=proved))
    left = _unnamed(proof, targets, current.metadata)
    done = list(delete(left, executor))
    notes = tuple(_left(request, done, len(left) - len(done)))
    if not notes:
        ledger.end(operations, ledgers)
    return _report(request, _Done(current if current is not loaded else None, done, notes, proved))


def _left(request: ApplyRequest, done: Sequence[tuple[Target, Outcome]], untried: int) -> Iterator[str]:
    """Sentences about files that stay, and what takes them up."""
    if untried:
        files = count_of(untried, "manifest, list or statistics file", "manifests, lists and statistics files")
        yield f"{files} stay, as they say which are left"
    if untried or not all(outcome.done for _, outcome in done):
        level = request.plan.header.options.get("cleanup-level")
        said = "" if level is None else f" --set cleanup-level={level}"
        command = f"lakemeta expire-snapshots {request.place.url}{said}"
        yield f"what could not be deleted is taken up again by: {command}"


class _UnsafeError(LakemetaError):
    """The commit has happened, and the table is not as it was to be."""


@attrs.frozen(eq=False)
class _Done:
    """What was done: the version that was committed, what became of files, and sentences about what was not done."""

    committed: LoadedTable | None = None
    files: Sequence[tuple[Target, Outcome]] = ()
    notes: tuple[str, ...] = ()
    proved: Proved | None = None


def _proved(
    request: ApplyRequest, proof: Proof, loaded: LoadedTable, targets: Sequence[Target], executor: Executor
) -> Proved | None:
    """What was looked up of the snapshots that stay, if files are to go; raises unless they may, by rule 3."""
    if not targets:
        return None
    going = sum(target.file.size for target in targets if target.file.kind in CONTENT)
    request.safeguards.refuse_share(request.place.url, going, going + proof.retained.head_bytes)
    staying = loaded.metadata.snapshots_by_id.keys() - proof.removal.snapshots
    planned = {file_key(target.file.location) for target in targets}
    closure = Closure(proof.operations.storage, request.place.url, loaded.metadata, staying, planned, executor)
    return closure.prove(request.safeguards.proof, int(request.env.random() * 2**32))


def _begin(proof: Proof, base: LoadedTable, targets: Sequence[Target], env: Environment) -> list[str]:
    """Write a ledger if files go; its path."""
    if not targets or not proof.removal.snapshots:
        return []
    return [ledger.begin(proof.operations, base, env.new_uuid(), proof.removal.snapshots, proof.options.level)]


def _commit(proof: Proof, env: Environment, ledgers: Sequence[str]) -> LoadedTable:
    """Commit, and read the table again; rule 2. The ledger goes if nothing was committed."""
    try:
        draft = commit(proof.operations, lambda base: _change(proof, base), env)
    except CommitStateUnknownError:
        raise
    except LakemetaError:
        ledger.end(proof.operations, ledgers)
        raise
    assert draft is not None, "a change that removes something is always made"
    try:
        current = check_refs_intact(proof.operations, draft.metadata)
    except CorruptMetadataError as error:
        raise _UnsafeError(str(error)) from error
    back = sorted(proof.removal.snapshots & current.metadata.snapshots_by_id.keys())
    if back:
        raise _UnsafeError(f"the table has snapshot {back[0]} again, which had expired, so no file was deleted")
    return current


def _change(proof: Proof, base: Base) -> Draft:
    try:
        proof.check(base.metadata)
    except StalePlanError as error:
        raise CommitConflictError(str(error)) from error
    removed = remove(base.metadata, base.location, proof.removal, base.now_ms)
    return Draft(removed, None, {}, lambda current: _is_in(proof.removal, current))


def _is_in(removal: Removal, current: TableMetadata) -> bool:
    """True if a version has nothing of what was to go."""
    return not (
        removal.snapshots & current.snapshots_by_id.keys()
        or removal.refs & current.refs.keys()
        or removal.schemas & current.schemas_by_id.keys()
        or removal.specs & current.specs_by_id.keys()
    )


def _unnamed(proof: Proof, targets: Sequence[Target], current: TableMetadata) -> list[Target]:
    """The files that the newest version does not name either."""
    if not targets:
        return []
    proof.retained.add(current, current.snapshots_by_id.keys())
    proof.retained.read_manifests(current.specs_by_id)
    return [target for target in targets if not proof.retained.names(target.file.location)]


def _report(request: ApplyRequest, done: _Done) -> Report:
    deleted, absent, failed = count(outcome for _, outcome in done.files)
    return Report(
        request.plan.header.plan,
        request.place.url,
        None if done.committed is None else done.committed.location.rpartition("/")[2],
        deleted_files=deleted,
        absent_files=absent,
        freed_bytes=sum(target.file.size for target, outcome in done.files if outcome.status == "deleted"),
        failed=failed,
        result=counters(target for target, outcome in done.files if outcome.done),
        notes=done.notes,
        proved=done.proved,
        partial=bool(done.notes),
    )

"""Proves a plan of expire-snapshots by a version of the table, before and while it is applied (I/O).

Rules of this module:

1. Each snapshot and ref of the plan expires by the plan's own options and time; each schema and spec of it is one that
   nothing needs then; each file of it is named by a snapshot that expires and by nothing that stays. A plan may say
   less than that, and is refused if it says more, whoever wrote it.
2. A plan whose snapshots have expired, and that was interrupted then, is taken up again: a ledger proves its files.
3. A plan counts ages from a moment that has come: it is at most five minutes ahead, as the clocks of two machines may
   be. Otherwise the whole table could be made old by a number in the plan.
4. Every file lies in a location of the table, has a name that may go, lies behind no link and in no other table
   (``nested``).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.errors import CorruptMetadataError, StalePlanError
from lakemeta.iceberg.catalogs.doors import Doors
from lakemeta.iceberg.expire.deleting import Target, by_door
from lakemeta.iceberg.expire.ledger import Former, unfinished
from lakemeta.iceberg.expire.nested import refuse_nested
from lakemeta.iceberg.expire.options import ExpireOptions
from lakemeta.iceberg.expire.planner import EXPIRING, files_of, former_of, goes, pinned_snapshots, unused_of
from lakemeta.iceberg.expire.retention import Retention, decide
from lakemeta.iceberg.expire.unreferenced import Retained
from lakemeta.iceberg.spec.locations import file_key, whole
from lakemeta.iceberg.spec.metadata_removal import Removal
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.plan_operations import Delete, Expire, RemoveRef, RemoveUnused

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable, TableOperations
    from lakemeta.iceberg.expire.unreferenced import Unreferenced
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.iceberg.spec.table_metadata import TableMetadata
    from lakemeta.plan import Plan

_SKEW_MS: Final = 5 * 60_000
_ELSE = "the table does not have it any more, or needs it"


@attrs.frozen(eq=False)
class Proof:
    """A plan, and what the snapshots that stay name, in all versions of the table that were looked at."""

    plan: Plan
    operations: TableOperations
    options: ExpireOptions
    now_ms: int
    removal: Removal
    retained: Retained
    former: tuple[Former, ...]
    resumed: bool

    @classmethod
    def of(cls, request: ApplyRequest, metadata: TableMetadata, executor: Executor) -> Proof:
        """Raises CorruptMetadataError if the plan does not say of what time it is, StalePlanError if of one to come."""
        plan, operations = request.plan, request.place.operations
        now_ms = plan.header.facts.get("now_ms")
        if type(now_ms) is not int:
            raise CorruptMetadataError("the plan's first line has no now_ms; make the plan again")
        if now_ms > request.now_ms + _SKEW_MS:
            raise StalePlanError(
                f"the plan counts ages from a moment {(now_ms - request.now_ms) // 1000} seconds from now (now_ms is "
                f"{now_ms}), and nothing was changed; make the plan again, or say with --now that it has come"
            )
        former, _ = unfinished(operations, metadata)
        whole_removal = _removal(plan)
        resumed = any(whole_removal.snapshots & one.snapshots for one in former)
        removal = _left(whole_removal, metadata) if resumed else whole_removal
        options, retained = ExpireOptions.parse(plan.header.options), Retained(operations.storage, executor)
        return cls(plan, operations, options, now_ms, removal, retained, tuple(former), resumed)

    def check(self, metadata: TableMetadata) -> Retention:
        """What the plan expires of a version; raises StalePlanError if that version needs any of it or lacks it."""
        check_gc(metadata.properties, EXPIRING)
        pinned = pinned_snapshots(self.operations, metadata, self.options)
        decided = decide(metadata, self.options, self.now_ms, pinned)
        for snapshot_id in sorted(self.removal.snapshots - decided.expired.keys()):
            raise _stale(
                f"snapshot {snapshot_id}", decided.kept.get(snapshot_id, "the table does not have it any more")
            )
        _check_all("the ref", self.removal.refs, decided.removed_refs)
        planned = self._as_planned(metadata, decided)
        if self.removal.schemas or self.removal.specs:
            surplus = unused_of(self.retained, metadata, planned)
            _check_all("schema", self.removal.schemas, surplus.schemas)
            _check_all("partition spec", self.removal.specs, surplus.specs)
        return planned

    def targets(self, loaded: LoadedTable) -> list[Target]:
        """The files of the plan, of a version that :meth:`check` is done for here.

        Of a plan that is taken up again, what is not proved had its turn before, and is left out.
        """
        metadata = loaded.metadata
        files = files_of(self.retained, metadata, self.check(metadata), former_of(self.former, self.options))
        found = {file_key(file.location): file for file in files}
        doors = Doors.of_table(self.retained.storage, metadata)
        named = ((op, whole(metadata.location, op.path)) for op in self.plan.deletes())
        taken = ((op, location) for op, location in named if not self.resumed or file_key(location) in found)
        targets = [self._target(op, location, found, doors) for op, location in taken]
        for door, group in by_door(targets):
            door.check_files([target.path for target in group])
        places = ((target.door, target.path) for target in targets)
        executor = self.retained.executor
        refuse_nested(self.operations.storage, loaded, places, self.options.foreign_uuids, executor)
        return targets

    def _as_planned(self, metadata: TableMetadata, decided: Retention) -> Retention:
        """The decision without what the plan does not take up."""
        staying = metadata.snapshots_by_id.keys() - self.removal.snapshots
        expired = {i: why for i, why in decided.expired.items() if i in self.removal.snapshots}
        kept = {i: decided.kept.get(i, "the plan leaves it") for i in staying}
        return attrs.evolve(decided, expired=expired, kept=kept, ruled=decided.ruled | staying)

    def _target(self, op: Delete, location: str, found: Mapping[str, Unreferenced], doors: Doors) -> Target:
        file, own = found.get(file_key(location)), doors.find(location)
        if file is None:
            raise _stale(op.path, "the table needs it, or no snapshot of the plan names it")
        if own is None or not goes(file.kind, self.options):
            raise _stale(op.path, "its place and name, or the plan's cleanup-level, rule it out")
        return Target(file, *own)


def _removal(plan: Plan) -> Removal:
    unused = [op for op in plan.operations if isinstance(op, RemoveUnused)]
    return Removal(
        frozenset(op.snapshot_id for op in plan.operations if isinstance(op, Expire)),
        frozenset(op.ref for op in plan.operations if isinstance(op, RemoveRef)),
        frozenset(op.id for op in unused if op.kind == "schema"),
        frozenset(op.id for op in unused if op.kind == "partition-spec"),
    )


def _left(removal: Removal, metadata: TableMetadata) -> Removal:
    """What of a removal is still in the table."""
    return Removal(
        removal.snapshots & metadata.snapshots_by_id.keys(),
        removal.refs & metadata.refs.keys(),
        removal.schemas & metadata.schemas_by_id.keys(),
        removal.specs & metadata.specs_by_id.keys(),
    )


def _check_all(what: str, named: Iterable[int | str], allowed: Iterable[int | str]) -> None:
    for name in sorted(set(named).difference(allowed), key=str):
        raise _stale(f"{what} {name}", _ELSE)


def _stale(what: str, why: str) -> StalePlanError:
    return StalePlanError(f"the plan is to take away {what}, and {why}; nothing was changed, make the plan again")

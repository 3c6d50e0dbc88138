"""Plans a clean of a table: reads the facts, decides, judges partition by partition (I/O)."""

from __future__ import annotations

from itertools import groupby
from operator import attrgetter
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from lakemeta.errors import LakemetaError, OptionError, StorageError
from lakemeta.hudi.clean.boundary import empty_clean_boundary, partitions_touched
from lakemeta.hudi.clean.decision import Decision, decide
from lakemeta.hudi.clean.failed_deletions import FAILED_BEFORE, read_failures, still_there
from lakemeta.hudi.clean.metadata_listing import Unreadable, plan_listed
from lakemeta.hudi.clean.partitions import plan_all_partitions, plan_partitions
from lakemeta.hudi.clean.rules import DROPPED
from lakemeta.hudi.clean.waiting import waiting_cleans
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.options import CleanOptions, FailedWrites
from lakemeta.hudi.timeline.heartbeats import read_heartbeats
from lakemeta.hudi.timeline.loading import InstantReader, load_state, settled
from lakemeta.hudi.timeline.times import timezone
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete, DeletePartition, Keep, Operation

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping
    from datetime import datetime

    from lakemeta.executor import Executor
    from lakemeta.hudi.clean.context import CleanContext
    from lakemeta.hudi.clean.failed_deletions import FailedDeletion
    from lakemeta.hudi.clean.partitions import PartitionRow
    from lakemeta.hudi.files.place import Place
    from lakemeta.hudi.timeline.action_metadata import CleanMetadata
    from lakemeta.hudi.timeline.state import TableState

T = TypeVar("T")
LISTINGS = ("auto", "metadata", "storage")
PLAN_KIND = "hudi.clean"


def plan_clean(
    place: Place,
    options: CleanOptions,
    now: datetime,
    executor: Executor,
    *,
    explain: bool = False,
    listing: str = "auto",
) -> Plan:
    """Plan a clean for the moment ``now``; the source of every rule is named in the modules that hold them.

    ``listing`` is one of LISTINGS: where the files of partitions are looked up.
    """
    if listing not in LISTINGS:
        raise OptionError(f"there is no listing {listing}; give one of {', '.join(LISTINGS)}")
    state, decision = _decided(place, options, now, executor)
    search = _Search(place, state, options, decision, executor, explain)
    collected = _collect(search, listing) if decision.nothing is None else _Collected()
    collected.take_up(_failed_before(search))
    header = _header(place, state, options, decision, collected)
    return Plan(attrs.evolve(header, facts={**header.facts, **_waiting(place, state, executor)}), collected.operations)


def _waiting(place: Place, state: TableState, executor: Executor) -> dict[str, Any]:
    """What the cleans delete that are executed first, added up by clean and partition."""
    rows = [
        {"clean": clean.instant, "partition": partition, "files": len(ops), "bytes": sum(op.size for op in ops)}
        for clean in waiting_cleans(place, state, executor)
        for partition, ops in ((p, list(group)) for p, group in groupby(clean.deletes, key=attrgetter("partition")))
    ]
    return {"pending_deletes": rows} if rows else {}


def _decided(place: Place, options: CleanOptions, now: datetime, executor: Executor) -> tuple[TableState, Decision]:
    def look() -> tuple[TableState, Decision]:
        state = load_state(place.storage, place.root, executor)
        return state, decide(state, options, heartbeats(place, options), now, timezone(state.config, options))

    return settled(look, lambda decision: decision.rolled_back)


class _Collected:
    """The operations of planned partitions, with what the header says of them."""

    def __init__(self) -> None:
        self.operations: list[Operation] = []
        self.partitions = 0
        self.bytes = 0
        self.notes: list[str] = []

    def add(self, row: PartitionRow) -> None:
        self.partitions += 1
        self.bytes += row.bytes
        self.operations.extend(_operations(row))
        if row.note:
            self.notes.append(row.note)

    def take_up(self, failed: Iterable[FailedDeletion]) -> None:
        """Add files that earlier cleans could not delete; in place of what was planned for them anyway."""
        again = [Delete(f.partition, f.path, f.file.size, FAILED_BEFORE, f.clean) for f in failed]
        paths = {op.path for op in again}
        if again:
            self.operations = [op for op in self.operations if _path(op) not in paths]
            self.operations += again
        self.partitions = max(self.partitions, len({op.partition for op in again}))


@attrs.frozen
class _Search:
    """What looking for files to delete needs to know."""

    place: Place
    state: TableState
    options: CleanOptions
    decision: Decision
    executor: Executor
    explain: bool

    def touched(self) -> list[str] | None:
        """The partitions that an incremental clean visits, or None for all."""
        if self.decision.scope.commits is None:
            return None
        folder = f"{self.place.root}/{self.state.config.timeline_folder}"
        commits = InstantReader(self.place.storage, folder, self.executor).commits(self.decision.scope.commits)
        return partitions_touched(commits, copy_on_write=self.state.config.table_type == "COPY_ON_WRITE")


def _failed_before(search: _Search) -> list[FailedDeletion]:
    """What earlier cleans could not delete and may go now, unless a pending clean comes first."""
    state, decision, options = search.state, search.decision, search.options
    if decision.nothing is not None and state.unfinished_cleans:
        return []
    failures = read_failures(search.place, state, search.executor)
    wanted = {partition: names for partition, names in failures.items() if options.wants(partition)}
    found = still_there(search.place, failures_context(state, decision), wanted, search.executor)
    return [failed for failed in found if failed.file.delete]


def failures_context(state: TableState, decision: Decision) -> CleanContext:
    """By what files are judged that earlier cleans could not delete.

    A clean for them alone keeps the boundary of the last one: what lies between that and a newer one is not looked at.
    """
    if decision.nothing is None or state.last_clean is None:
        return decision.context
    return attrs.evolve(decision.context, earliest=state.last_clean.earliest_to_retain)


def _collect(search: _Search, listing: str) -> _Collected:
    """Plan from the metadata table or from storage; a fallback from one to the other leaves a note that says why."""
    touched = search.touched()
    fallback: list[str] = []
    if listing == "metadata" or (listing == "auto" and search.state.config.has_metadata_table):
        found = _from_metadata_table(search, touched)
        if isinstance(found, _Collected):
            return found
        if listing == "metadata":
            raise found
        fallback.append(f"storage was listed, because the metadata table cannot be used: {found}")
    collected = _from_storage(search, touched)
    collected.notes += fallback
    return collected


def _from_metadata_table(search: _Search, touched: list[str] | None) -> _Collected | LakemetaError:
    """What was planned, or why the metadata table cannot be used."""
    state, context = search.state, search.decision.context
    try:
        files = MetadataTable.open(search.place.storage, search.place.root, state.config, state.timeline).files()
    except LakemetaError as error:
        return error
    partitions = filter(search.options.wants, files.partitions) if touched is None else touched
    collected = _Collected()
    try:
        for row in plan_listed(search.place, files, context, search.executor, partitions, explain=search.explain):
            if isinstance(row, Unreadable):
                return row.error
            collected.add(row)
    except StorageError as error:
        return error
    return collected


def _from_storage(search: _Search, touched: list[str] | None) -> _Collected:
    where = search.place.storage, search.place.root, search.decision.context, search.executor
    if touched is None:
        rows = plan_all_partitions(*where, search.options.wants, explain=search.explain)
    else:
        rows = plan_partitions(*where, touched, explain=search.explain)
    collected = _Collected()
    for row in rows:
        collected.add(row)
    return collected


def _path(op: Operation) -> str | None:
    return op.path if isinstance(op, Delete | Keep) else None


def _operations(row: PartitionRow) -> Iterator[Operation]:
    prefix = f"{row.partition}/" if row.partition else ""
    for file in row.files:
        kind = Delete if file.delete else Keep
        yield kind(row.partition, prefix + file.name, file.size, file.reason, file.by)
    if row.drop:
        yield DeletePartition(row.partition, row.partition, DROPPED)


def heartbeats(place: Place, options: CleanOptions) -> Mapping[str, int]:
    """The heartbeats that a clean looks at: none unless the policy is LAZY."""
    return read_heartbeats(place.storage, place.root) if options.failed_writes is FailedWrites.LAZY else {}


def _header(
    place: Place, state: TableState, options: CleanOptions, decision: Decision, collected: _Collected
) -> PlanHeader:
    newest = state.timeline.last
    return PlanHeader(
        plan=PLAN_KIND,
        table=place.url,
        table_format_version=state.config.version,
        based_on=newest.requested if newest else None,
        options=options.given,
        facts=_facts(state, options, decision, collected),
    )


def _facts(state: TableState, options: CleanOptions, decision: Decision, collected: _Collected) -> dict[str, Any]:
    facts: dict[str, Any] = {
        "policy": str(options.policy),
        "earliest_to_retain": None,
        "earliest_action": None,
        "partitions": collected.partitions,
        "table_bytes": collected.bytes,
        "scope": "none",
        "scope_reason": decision.nothing,
        "last_completed_commit": decision.last_completed_commit,
        "savepoints": list(decision.savepoints),
        "timeline_digest": state.digest,
    }
    waiting = [i.requested for i in state.unfinished_cleans]
    if waiting:
        facts["pending_cleans"] = waiting
    if decision.nothing is None:
        facts["scope"] = "full" if decision.scope.commits is None else "incremental"
        facts["scope_reason"] = decision.scope.reason
        if decision.earliest is not None:
            facts["earliest_to_retain"] = decision.earliest.requested
            facts["earliest_action"] = decision.earliest.action
        if decision.empty_clean_due and all(isinstance(op, Keep) for op in collected.operations):
            facts |= {
                "empty_clean": True,
                "earliest_to_retain": empty_clean_boundary(decision.earliest, state.last_clean),
            }
    elif collected.operations and state.last_clean is not None:
        facts |= _as_last_clean(state, state.last_clean)
    if collected.notes:
        facts["notes"] = sorted(collected.notes)
    if decision.rolled_back:
        facts["failed_writes"] = list(decision.rolled_back)
    return facts


def _as_last_clean(state: TableState, last: CleanMetadata) -> dict[str, Any]:
    """What a clean says that only takes up failed deletions: as before, so that the next one goes on from there."""
    earliest = last.earliest_to_retain or None
    action = next((i.action for i in state.timeline.commits_and_compaction if i.requested == earliest), "commit")
    return {
        "earliest_to_retain": earliest,
        "earliest_action": action if earliest else None,
        "last_completed_commit": last.last_completed_commit,
        "savepoints": sorted(last.savepoints),
    }

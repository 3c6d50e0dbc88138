"""Applies a plan of orphan files: proves each of its lines again, and deletes what still is an orphan (I/O).

Rules of this module:

1. A plan may have been edited. Before the first deletion all of its files lie in directories that a removal with its
   options looks at, have names that may go, and none is named by the newest metadata or may be another table's: else
   nothing is deleted.
2. The metadata is read again before each batch; what has become named since is spared. So is what has changed since the
   cutoff, or whose age the store no longer gives: each file is looked up right before it goes.
3. Before the first deletion files of the table are looked up, as ``--proof`` says, and the share of what was listed for
   the plan that goes.
4. There is nothing to undo. An application that stops half-way has deleted orphans: the same plan goes on with those
   that the ledger does not have on record as gone, and another plan finds the rest.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import PathNotFoundError, StalePlanError, StorageError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.catalogs.doors import orphan_door
from lakemeta.iceberg.orphans.join import Join
from lakemeta.iceberg.orphans.names import HiddenNames, Spared
from lakemeta.iceberg.orphans.options import SERVICE, OrphanOptions
from lakemeta.iceberg.orphans.others import refuse_others
from lakemeta.iceberg.orphans.planner import DELETING, chosen_roots, path_of
from lakemeta.iceberg.orphans.referenced import References
from lakemeta.iceberg.orphans.search import neighbours_of
from lakemeta.iceberg.rewrite.unfinished import unfinished_uuids
from lakemeta.iceberg.service.closure import Closure
from lakemeta.iceberg.service.neighbours import metadata_directory
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.ledger.run import current_run, open_ledger
from lakemeta.paths import is_rooted
from lakemeta.plan_operations import Delete
from lakemeta.report import Outcome, Report, count
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from lakemeta.deletion import Door
    from lakemeta.executor import Executor
    from lakemeta.iceberg.catalogs.operations import LoadedTable
    from lakemeta.iceberg.orphans.roots import Root
    from lakemeta.iceberg.service.requests import ApplyRequest
    from lakemeta.safeguards import Proved
    from lakemeta.storage.contract import Storage

_ROUND: Final = 10_000  # files between two looks at the metadata
_BATCH: Final = 200  # files that one call of a worker looks up and deletes
_SAMPLE: Final = 20_000  # locations in the result with stream_results


@attrs.frozen(slots=True)
class _Planned:
    """A file of a plan: its store path, size in bytes, and the directory in which it was looked for."""

    path: str
    size: int
    root: Root


_Fate = Outcome | Literal["young"]


def apply_orphans(request: ApplyRequest) -> Report:
    """Apply a plan, or refuse it with nothing deleted.

    Raises:
        StalePlanError: the plan is of another table, was edited, or names what the table has come to need.
        OptionError: the plan's arguments make no sense now, such as a time that is less than 24 hours ago.
        UnsupportedFeatureError: another table lies where files would be deleted, or the table cannot be changed.
        CorruptMetadataError: a path lies elsewhere, or the metadata is damaged.
    """
    loaded = open_plan(request, SERVICE, (Delete,))
    removal = _Removal.of(request, loaded)
    run = current_run()
    gone = run.went_before() if run is not None else set()
    planned = [file for file in removal.planned(loaded) if file.path not in gone]
    removal.prove(planned)
    proved = removal.look_up(loaded, planned)
    if planned:
        open_ledger()
    return attrs.evolve(removal.delete(planned), proved=proved)


@attrs.define(eq=False)
class _Removal:
    """One application: what it was asked, and where it may delete. ``references`` reads what the table names."""

    request: ApplyRequest
    options: OrphanOptions
    cutoff_ms: int
    roots: list[Root]
    executor: Executor
    references: References

    @classmethod
    def of(cls, request: ApplyRequest, loaded: LoadedTable) -> _Removal:
        """What a plan asks for, checked as far as it goes without its files."""
        options = OrphanOptions.parse(request.plan.header.options)
        check_gc(loaded.metadata.properties, DELETING)
        cutoff = request.plan.header.facts.get("older_than_ms")
        if type(cutoff) is not int or (options.older_than_ms is not None and cutoff != options.older_than_ms):
            raise StalePlanError("the plan's first line does not say how old its files are; make the plan again")
        options.check_age(cutoff, request.env.now_ms())
        executor = request.executor or LocalExecutor(options.threads)
        storage = request.place.operations.storage
        roots, _ = chosen_roots(storage, loaded.metadata, options, executor)
        return cls(request, options, cutoff, roots, executor, References(storage, executor, roots))

    @property
    def storage(self) -> Storage:
        """The table's store."""
        return self.request.place.operations.storage

    def _door(self, root: Root) -> Door:
        return orphan_door(self.storage, self.request.place.operations.current().metadata, root.path)

    def planned(self, loaded: LoadedTable) -> list[_Planned]:
        """The files of the plan; raises StalePlanError if one lies where this removal does not look."""
        found = []
        for op in self.request.plan.deletes():
            path = path_of(self.storage, loaded.metadata, op.path)
            root = next((root for root in self.roots if root.holds(path)), None)
            if root is None:
                raise StalePlanError(f"{op.path} lies in no directory that this removal looks at; make the plan again")
            found.append(_Planned(path, op.size, root))
        return found

    def prove(self, planned: Sequence[_Planned]) -> None:
        """Raise unless every file may go, by rule 1."""
        for root in self.roots:
            self._door(root).check_files(f.path for f in planned if f.root is root)
        spared, loaded = self._look_again()
        hidden = HiddenNames.of(loaded.metadata)
        for file in planned:
            below = file.path[len(file.root.path) + 1 :]
            why = spared.why(below)
            if why is None and self.options.inventory is None and any(map(hidden.hide, below.split("/"))):
                why = "is hidden"
            if why is not None:
                raise StalePlanError(f"{self.storage.url(file.path)} {why}, so it is not deleted; make the plan again")
        neighbours = neighbours_of(self.storage, loaded, self.options)
        for root in self.roots:
            neighbours.refuse_near(root.path, (f.path for f in planned if f.root is root), self.executor)
        if planned:
            refuse_others(self.request.place.operations, loaded, self.roots, self.options)
        named = self._named(planned, loaded)
        if named:
            raise StalePlanError(
                f"the table names {self.storage.url(min(named))}, so the plan that would delete it is stale or was "
                "edited, and nothing was deleted; make the plan again"
            )

    def look_up(self, loaded: LoadedTable, planned: Sequence[_Planned]) -> Proved | None:
        """What was looked up of the table's own files, by rule 3; raises if they are not there, or too much goes."""
        if not planned:
            return None
        url, storage, metadata = self.request.place.url, self.storage, loaded.metadata
        listed = self.request.plan.header.facts.get("table_bytes")
        if type(listed) is not int:
            raise StalePlanError("the plan's first line does not say how much was listed; make the plan again")
        self.request.safeguards.refuse_share(url, sum(file.size for file in planned), listed)
        keys = {file_key(storage.url(file.path)) for file in planned}
        closure = Closure(storage, url, metadata, metadata.snapshots_by_id.keys(), keys, self.executor)
        return closure.prove(self.request.safeguards.proof, int(self.request.env.random() * 2**32))

    def delete(self, planned: Sequence[_Planned]) -> Report:
        """Delete, round by round, what no version of the table names that is read before each round."""
        tally, named = _Tally(), set[str]()
        for start in range(0, len(planned), _ROUND):
            spared, loaded = self._look_again()
            named |= self._named(planned[start:], loaded)
            files = planned[start : start + _ROUND]
            going = [f for f in files if f.path not in named and spared.why(f.path[len(f.root.path) + 1 :]) is None]
            tally.named += len(files) - len(going)
            for root in self.roots:
                own = [file for file in going if file.root is root]
                work, sizes = partial(_delete, self.cutoff_ms), [(file.path, file.size) for file in own]
                fates = self._door(root).dispose(sizes, self.executor, batch_size=_BATCH, work=work)
                for file, fate in zip(own, fates, strict=True):
                    tally.add(file, fate)
        return self._report(tally)

    def _look_again(self) -> tuple[Spared, LoadedTable]:
        """What stays by name, and the newest version of the table: marks of rewrites are read before the metadata."""
        operations = self.request.place.operations
        folder = metadata_directory(self.storage, operations.current().metadata)
        uuids = unfinished_uuids(self.storage, folder)
        loaded = operations.refresh()
        check_gc(loaded.metadata.properties, DELETING)
        return Spared.of(loaded.metadata, uuids), loaded

    def _named(self, files: Sequence[_Planned], loaded: LoadedTable) -> set[str]:
        """The store paths of those files that the table names, and that nothing read before did."""
        if self.references.knows(loaded):
            return set()
        with Join.opened(self.options.rules, rooted=is_rooted(self.storage.scheme)) as join:
            for root in self.roots:
                own = [file for file in files if file.root is root]
                join.add_listed(root, self.storage.scheme, [f.path for f in own], [f.size for f in own])
            for prefix, keys in self.references.of(loaded):
                join.named.add(prefix, keys)
            return {file.path for file in files} - {orphan.path for orphan in join.orphans()}

    def _report(self, tally: _Tally) -> Report:
        deleted, absent, failed = count(tally.outcomes)
        locations = [_location(self.storage, o.path) for o in tally.outcomes]
        if self.options.stream_results:
            locations = locations[:_SAMPLE]
        return Report(
            plan=self.request.plan.header.plan,
            table=self.request.place.url,
            committed=None,
            deleted_files=deleted,
            absent_files=absent,
            freed_bytes=tally.freed,
            failed=failed,
            result={"orphan_file_location": locations},
            notes=tally.notes(),
        )


@attrs.define
class _Tally:
    """What became of files: outcomes, bytes that were freed, how many were named since, and how many had changed."""

    outcomes: list[Outcome] = attrs.field(factory=list)
    freed: int = 0
    named: int = 0
    young: int = 0

    def add(self, file: _Planned, fate: _Fate) -> None:
        """Count one file."""
        if fate == "young":
            self.young += 1
            return
        self.outcomes.append(fate)
        if fate.status == "deleted":
            self.freed += file.size

    def notes(self) -> tuple[str, ...]:
        """Sentences about files that stayed against the plan."""
        found = []
        if self.named:
            found.append(f"{count_of(self.named, 'file')} of the plan came to be needed meanwhile and stayed")
        if self.young:
            found.append(f"{count_of(self.young, 'file')} of the plan changed since, or has no age, and stayed")
        return tuple(found)


def _delete(cutoff_ms: int, door: Door, paths: Sequence[str]) -> Iterator[_Fate]:
    """Look files up and delete those that still are as old as they were."""
    fates: dict[str, _Fate] = {}
    for path in paths:
        try:
            modified = door.storage.stat(path).modified_ms
        except PathNotFoundError:
            fates[path] = Outcome(path, "absent")
        except StorageError as error:
            fates[path] = Outcome(path, "failed", str(error))
        else:
            if not 0 < modified < cutoff_ms:
                fates[path] = "young"
    going = [path for path in paths if path not in fates]
    fates |= dict(zip(going, door.delete_files(going), strict=True))
    return iter([fates[path] for path in paths])


def _location(storage: Storage, path: str) -> str:
    """A file's location as the engine lists it."""
    return f"file:{path}" if storage.scheme == "file" else storage.url(path)

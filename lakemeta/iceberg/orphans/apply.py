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

from collections import defaultdict
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Final, Literal

import attrs

from lakemeta.errors import PathNotFoundError, StalePlanError, StorageError
from lakemeta.executor import LocalExecutor, batched
from lakemeta.iceberg.catalogs.doors import orphan_door
from lakemeta.iceberg.orphans.join import Join
from lakemeta.iceberg.orphans.names import HiddenNames, Spared
from lakemeta.iceberg.orphans.options import SERVICE, OrphanOptions
from lakemeta.iceberg.orphans.others import refuse_others
from lakemeta.iceberg.orphans.planner import DELETING, chosen_roots
from lakemeta.iceberg.orphans.referenced import References
from lakemeta.iceberg.orphans.search import neighbours_of, path_of
from lakemeta.iceberg.rewrite.unfinished import unfinished_uuids
from lakemeta.iceberg.service.closure import Closure
from lakemeta.iceberg.service.neighbours import metadata_directory
from lakemeta.iceberg.service.plans import open_plan
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.iceberg.spec.properties import check_gc
from lakemeta.ledger.run import current_run, open_ledger
from lakemeta.paths import is_rooted
from lakemeta.plan_operations import Delete
from lakemeta.report import Outcome, Report
from lakemeta.spooled import texts
from lakemeta.words import count_of

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Iterator, Sequence

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
    if run is not None:
        removal.gone = run.went_before()
    removal.prove(loaded)
    proved = removal.look_up(loaded)
    if next(removal.planned(loaded), None) is not None:
        open_ledger()
    return attrs.evolve(removal.delete(loaded), proved=proved)


@attrs.define(eq=False)
class _Removal:
    """One application: what it was asked, and where it may delete. ``references`` reads what the table names.

    ``gone`` are store paths that an interrupted application of the same plan has deleted.
    """

    request: ApplyRequest
    options: OrphanOptions
    cutoff_ms: int
    roots: list[Root]
    executor: Executor
    references: References
    gone: Collection[str] = frozenset()

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

    def planned(self, loaded: LoadedTable) -> Iterator[_Planned]:
        """The files of the plan that have not gone; StalePlanError if one lies where this removal does not look."""
        for op in self.request.plan.deletes():
            path = path_of(self.storage, loaded.metadata, op.path)
            root = next((root for root in self.roots if root.holds(path)), None)
            if root is None:
                raise StalePlanError(f"{op.path} lies in no directory that this removal looks at; make the plan again")
            if path not in self.gone:
                yield _Planned(path, op.size, root)

    def prove(self, planned: LoadedTable) -> None:
        """Raise unless every file may go, by rule 1."""
        for root in self.roots:
            files = (file.path for file in self.planned(planned) if file.root is root)
            self._door(root).check_files(files)
        spared, loaded = self._look_again()
        hidden, folders = HiddenNames.of(loaded.metadata), defaultdict[str, set[str]](set)
        for file in self.planned(planned):
            below = file.path[len(file.root.path) + 1 :]
            why = spared.why(below)
            if why is None and self.options.inventory is None and any(map(hidden.hide, below.split("/"))):
                why = "is hidden"
            if why is not None:
                raise StalePlanError(f"{self.storage.url(file.path)} {why}, so it is not deleted; make the plan again")
            folders[file.root.path].add(file.path.rpartition("/")[0])
        neighbours = neighbours_of(self.storage, loaded, self.options)
        for root in self.roots:
            neighbours.refuse_near(root.path, (f"{folder}/" for folder in folders[root.path]), self.executor)
        if folders:
            refuse_others(self.request.place.operations, loaded, self.roots, self.options)
        named = self._named(self.planned(planned), loaded)
        if named:
            raise StalePlanError(
                f"the table names {self.storage.url(min(named))}, so the plan that would delete it is stale or was "
                "edited, and nothing was deleted; make the plan again"
            )

    def look_up(self, loaded: LoadedTable) -> Proved | None:
        """What was looked up of the table's own files, by rule 3; raises if they are not there, or too much goes."""
        url, storage, metadata = self.request.place.url, self.storage, loaded.metadata
        keys, size = set[str](), 0
        for file in self.planned(loaded):
            keys.add(file_key(storage.url(file.path)))
            size += file.size
        if not keys:
            return None
        listed = self.request.plan.header.facts.get("table_bytes")
        if type(listed) is not int:
            raise StalePlanError("the plan's first line does not say how much was listed; make the plan again")
        self.request.safeguards.refuse_share(url, size, listed)
        closure = Closure(storage, url, metadata, metadata.snapshots_by_id.keys(), keys, self.executor)
        return closure.prove(self.request.safeguards.proof, int(self.request.env.random() * 2**32))

    def delete(self, planned: LoadedTable) -> Report:
        """Delete, round by round, what no version of the table names that is read before each round."""
        tally = _Tally()
        locations = texts(self._rounds(planned, tally))
        return self._report(tally, locations)

    def _rounds(self, planned: LoadedTable, tally: _Tally) -> Iterator[str]:
        """Delete all files; gives the locations of those that were tried, as the engine lists them."""
        named = set[str]()
        for number, files in enumerate(batched(self.planned(planned), _ROUND)):
            spared, loaded = self._look_again()
            named |= self._named(islice(self.planned(planned), number * _ROUND, None), loaded)
            going = [f for f in files if f.path not in named and spared.why(f.path[len(f.root.path) + 1 :]) is None]
            tally.named += len(files) - len(going)
            for root in self.roots:
                own = [file for file in going if file.root is root]
                work, sizes = partial(_delete, self.cutoff_ms), [(file.path, file.size) for file in own]
                fates = self._door(root).dispose(sizes, self.executor, batch_size=_BATCH, work=work)
                for file, fate in zip(own, fates, strict=True):
                    if tally.add(file, fate):
                        yield _location(self.storage, file.path)

    def _look_again(self) -> tuple[Spared, LoadedTable]:
        """What stays by name, and the newest version of the table: marks of rewrites are read before the metadata."""
        operations = self.request.place.operations
        folder = metadata_directory(self.storage, operations.current().metadata)
        uuids = unfinished_uuids(self.storage, folder)
        loaded = operations.refresh()
        check_gc(loaded.metadata.properties, DELETING)
        return Spared.of(loaded.metadata, uuids), loaded

    def _named(self, files: Iterable[_Planned], loaded: LoadedTable) -> set[str]:
        """The store paths of those files that the table names, and that nothing read before did."""
        if self.references.knows(loaded):
            return set()
        with Join.opened(self.options.rules, rooted=is_rooted(self.storage.scheme)) as join:
            for part in batched(files, _ROUND):
                for root in self.roots:
                    own = [file for file in part if file.root is root]
                    join.add_listed(root, self.storage.scheme, [f.path for f in own], [f.size for f in own])
            for prefix, keys in self.references.of(loaded):
                join.named.add(prefix, keys)
            return set(join.ours())

    def _report(self, tally: _Tally, locations: Sequence[str]) -> Report:
        return Report(
            plan=self.request.plan.header.plan,
            table=self.request.place.url,
            committed=None,
            deleted_files=tally.deleted,
            absent_files=tally.absent,
            freed_bytes=tally.freed,
            failed=tuple(tally.failed),
            result={"orphan_file_location": locations[:_SAMPLE] if self.options.stream_results else locations},
            notes=tally.notes(self.request.place.url),
        )


@attrs.define
class _Tally:
    """What became of files: how many, bytes that were freed, those that failed.

    ``named`` is how many were named since, ``young`` how many had changed.
    """

    deleted: int = 0
    absent: int = 0
    failed: list[Outcome] = attrs.field(factory=list)
    freed: int = 0
    named: int = 0
    young: int = 0

    def add(self, file: _Planned, fate: _Fate) -> bool:
        """Count one file; False if it had changed, and was not tried."""
        if fate == "young":
            self.young += 1
            return False
        if fate.status == "deleted":
            self.deleted += 1
            self.freed += file.size
        elif fate.status == "absent":
            self.absent += 1
        else:
            self.failed.append(fate)
        return True

    def notes(self, table: str) -> tuple[str, ...]:
        """Sentences about files of a table that stayed against the plan."""
        found = []
        if self.named:
            found.append(f"{count_of(self.named, 'file')} of the plan came to be needed meanwhile and stayed")
        if self.young:
            found.append(f"{count_of(self.young, 'file')} of the plan changed since, or has no age, and stayed")
        if self.failed:
            found.append(f"what could not be deleted is taken up again by: lakemeta remove-orphan-files {table}")
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

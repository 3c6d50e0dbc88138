"""An Iceberg table: open it, plan a service, look at the plan, apply it (I/O).

What only one service needs is imported where that is called: planning loads no Arrow.
"""

from __future__ import annotations

from datetime import UTC, datetime
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

import attrs

from lakemeta.environment import Environment
from lakemeta.errors import PathNotFoundError
from lakemeta.events import Event, Progress, Watch
from lakemeta.executor import Executor, LocalExecutor, working_on
from lakemeta.iceberg.catalogs.home import home_of, ledgers_of
from lakemeta.iceberg.catalogs.opening import open_place, place_of
from lakemeta.iceberg.duties import DUTIES
from lakemeta.iceberg.service.plans import PREFIX
from lakemeta.iceberg.service.requests import ApplyRequest, PlanRequest
from lakemeta.iceberg.services import service_named, service_of
from lakemeta.ledger.recording import recorded
from lakemeta.ledger.run import Run
from lakemeta.maintenance import steps
from lakemeta.moments import aware, epoch_ms
from lakemeta.plan_operations import Expire
from lakemeta.safeguards import MAX_SHARE, SAMPLE, Safeguards
from lakemeta.storage.requests import counted
from lakemeta.typed_text import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from os import PathLike

    from lakemeta.finding import Findings
    from lakemeta.iceberg.catalogs.place import Place
    from lakemeta.iceberg.doctor.facts import IcebergFacts
    from lakemeta.ledger.lines import Mode
    from lakemeta.maintenance import Step
    from lakemeta.page.survey import Survey
    from lakemeta.plan import Plan
    from lakemeta.report import Report
    from lakemeta.simulation import Oldest, Simulation
    from lakemeta.typed_text import Value
    from lakemeta.undo.undoing import Undo

T = TypeVar("T")


@attrs.frozen
class IcebergTable:
    """One Iceberg table on some storage."""

    place: Place
    on_event: Callable[[Event], None] | None = None

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        storage_options: Mapping[str, Value] | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
    ) -> IcebergTable:
        """Open the table at a path or URL: its directory, or one of its metadata files.

        ``on_event`` is called for every plan and every application.

        A table that a catalog keeps is opened as ``catalog://NAME/namespace.table`` (with pyiceberg). From its files
        alone it can be inspected and planned, and refuses to be changed.

        Raises:
            TableNotFoundError: there is no Iceberg table.
            UnsupportedFeatureError: its version or a feature is one that lakemeta does not handle.
            CorruptMetadataError: its metadata is damaged.
        """
        return cls(open_place(url, storage_options), on_event)

    @classmethod
    def of(cls, table: Any, *, on_event: Callable[[Event], None] | None = None) -> IcebergTable:
        """The table of a pyiceberg ``Table``: its catalog takes the commits, its storage options reach the files.

        A ``StaticTable`` is its metadata file: it can be inspected and planned, and refuses to be changed.

        Raises:
            TableNotFoundError: the catalog has no such table any more.
            CatalogError: the catalog gives no answer.
        """
        return cls(place_of(table), on_event)

    def __repr__(self) -> str:
        metadata = self.place.operations.current().metadata
        return f"<IcebergTable {self.url}: version {metadata.format_version}, {len(metadata.snapshots):,} snapshots>"

    @property
    def _watch(self) -> Watch:
        return Watch(self.url, self.on_event, lambda: datetime.now(UTC))

    @property
    def url(self) -> str:
        """The place of the table as the caller named it."""
        return self.place.url

    def plan(
        self,
        service: str,
        options: Mapping[str, Value] | None = None,
        where: str | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> Plan:
        """Plan a service without changing anything; the services are the keys of ``services.SERVICES``.

        ``options`` are the arguments and options of Iceberg's procedure of that name, as texts. ``where`` is for
        services that take a filter. ``now``, by default the present, is what ages are counted from.

        Raises:
            OptionError: the service, an option or the filter is unknown, malformed or contradictory.
            UnsupportedFeatureError: a feature of the table is one that lakemeta does not handle.
            CorruptMetadataError: the metadata is damaged.
        """
        found = service_named(service)
        request = self._request(options, where, now, executor)
        with working_on(f"plan {service} of {self.url}"):
            return self._watch.plan(PREFIX + service, lambda: self._explained(partial(found.plan, request)))

    def plan_rewrite_data_files(
        self,
        options: Mapping[str, Value] | None = None,
        where: str | None = None,
        *,
        executor: Executor | None = None,
    ) -> Plan:
        """Plan a rewrite of data files without changing anything.

        ``options`` are those of Iceberg's action, and its arguments ``strategy``, ``sort_order`` and ``branch``;
        ``where`` picks whole files that may hold matching rows.

        Raises:
            OptionError: an option or the filter is unknown, malformed or contradictory.
            UnsupportedFeatureError: the table is to hold another format than Parquet.
            CorruptMetadataError: a manifest is damaged.
        """
        return self.plan("rewrite-data-files", options, where, executor=executor)

    def apply(
        self,
        plan: Plan,
        *,
        executor: Executor | None = None,
        env: Environment | None = None,
        now: datetime | None = None,
        on_progress: Callable[[Progress], None] | None = None,
        quarantine: bool = False,
        ledger: str | PathLike[str] | None = None,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
    ) -> Report:
        """Apply a plan of any service, and report in the engine's own result names.

        A plan that counts ages from a moment which has not come yet is refused; ``now`` says that it has.

        ``env`` gives time, random numbers and identifiers, by default the machine's. ``on_progress`` is called, in any
        thread but one call at a time, with how many groups and bytes have been rewritten. ``quarantine`` moves files of
        the plan out of the way instead of deleting them; ``ledger`` is the directory for the record of what is deleted,
        by default one beside the table's metadata. ``proof`` says how much of what stays is looked up before files of
        the table are deleted: ``full``, ``sample`` or ``off``. ``max_share`` is how many percent of the table's bytes
        may go.

        Raises:
            StalePlanError: a file of the plan is no longer in the table; nothing was changed.
            CommitConflictError: another commit touched the same files; the new files have been removed.
            CommitStateUnknownError: it is unknown whether a commit happened; nothing was removed.
            UnsupportedFeatureError: the table cannot be changed by lakemeta.
            CorruptMetadataError: a file that is to stay is missing, or the plan deletes it; nothing was changed.
            ShareError: the plan deletes more of the table than ``max_share``; nothing was changed.
        """
        found = service_of(plan)
        env = env or Environment()
        # An environment may stand still; what is past by the machine's clock or by it has come.
        present_ms = max(env.now_ms(), Environment().now_ms()) if now is None else epoch_ms(aware(now))
        request = ApplyRequest(
            place=self.place,
            plan=plan,
            now_ms=present_ms,
            executor=executor,
            env=env,
            on_progress=on_progress,
            safeguards=Safeguards.of(proof, max_share),
        )
        mode: Mode = "quarantine" if quarantine else "delete"
        run = Run(
            lambda: ledgers_of(self.place).moved(ledger),
            env,
            plan.header.plan,
            mode,
            plan,
        )
        with working_on(f"apply {plan.header.plan} to {self.url}"):
            work = partial(self._explained, partial(found.apply, request))
            storage = self.place.operations.storage
            return self._watch.apply(plan.header.plan, lambda: counted(recorded(run, work), storage))

    def maintenance(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        at_least: Mapping[str, Value] | None = None,
        skip: Collection[str] = (),
        now: datetime | None = None,
        executor: Executor | None = None,
        quarantine: bool = False,
        ledger: str | PathLike[str] | None = None,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
    ) -> tuple[Step, ...]:
        """The services of the table in the order of maintenance; plan each, and apply what is due.

        ``settings`` are options by ``SERVICE.KEY``; ``at_least`` says by service from how much gain on it is due, 1 if
        it is not named; ``skip`` leaves services out. ``proof`` and ``max_share`` are those of :meth:`apply`. Raises
        OptionError for a name that is none of a service.
        """
        return steps(
            DUTIES,
            lambda service, options: self.plan(service, options, now=now, executor=executor),
            lambda plan: self.apply(
                plan,
                executor=executor,
                now=now,
                quarantine=quarantine,
                ledger=ledger,
                proof=proof,
                max_share=max_share,
            ),
            settings=texts(settings),
            at_least=texts(at_least),
            skip=skip,
        )

    def simulate(
        self,
        service: str,
        option: str,
        values: Iterable[Value],
        options: Mapping[str, Value] | None = None,
        where: str | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> Simulation:
        """What a service would do with each of these values of an option; nothing is written.

        ``options`` are the other ones, ``where`` and ``now`` those of :meth:`plan`. A value that is refused is an
        outcome that says why. Raises OptionError for a service that there is not.
        """
        from lakemeta.simulation import simulate

        service_named(service)
        at = datetime.now(UTC) if now is None else aware(now)
        return simulate(
            self.url,
            service,
            option,
            (texts({option: value})[option] for value in values),
            lambda value: self.plan(service, {**(options or {}), option: value}, where, now=at, executor=executor),
            self._oldest_after,
        )

    def _oldest_after(self, plan: Plan) -> Oldest | None:
        """The oldest snapshot that stays."""
        from lakemeta.simulation import Oldest

        gone = {op.snapshot_id for op in plan.operations if isinstance(op, Expire)} if Expire in plan.kinds else set()
        kept = [s for s in self.place.operations.current().metadata.snapshots if s.snapshot_id not in gone]
        oldest = min(kept, key=lambda s: (s.timestamp_ms, s.snapshot_id), default=None)
        return None if oldest is None else Oldest(str(oldest.snapshot_id), oldest.timestamp_ms)

    def undo(self, ledgers: str | PathLike[str] | None = None) -> Undo:
        """What runs have deleted of the table, to look at and to take back.

        ``ledgers`` is the directory of their ledgers if one was given to them.
        """
        from lakemeta.undo.undoing import Undo

        return Undo(partial(home_of, self.place), None if ledgers is None else str(ledgers))

    def inspect(self, *, executor: Executor | None = None) -> IcebergFacts:
        """What the table is and how healthy it is; reads all manifests of the current snapshot."""
        from lakemeta.iceberg.doctor.facts import inspect

        with working_on(f"inspect {self.url}"):
            return self._explained(lambda: inspect(self.place, executor or LocalExecutor()))

    def survey(self, wanted: Collection[str] = (), *, executor: Executor | None = None) -> Survey:
        """Sizes of data files, partitions and snapshots, as a page shows them; reads all data manifests.

        ``wanted`` are paths, as plans name them, whose sizes are kept.
        """
        from lakemeta.iceberg.doctor.survey import survey

        with working_on(f"survey {self.url}"):
            return self._explained(lambda: survey(self.place, executor or LocalExecutor(), wanted))

    def doctor(self, *, executor: Executor | None = None) -> Findings:
        """What is wrong with the table's files, as sentences; reads the footer of every live Parquet file."""
        from lakemeta.iceberg.doctor.checks import diagnose

        with working_on(f"doctor {self.url}"):
            return self._explained(lambda: diagnose(self.place, executor or LocalExecutor()))

    def why(
        self,
        file: str | PathLike[str],
        options: Mapping[str, Value] | None = None,
        where: str | None = None,
        *,
        service: str | None = None,
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> str:
        """One sentence on whether a service with these options would take a file or a snapshot, and why.

        ``file`` is relative to the table's location, or a full location, or the id of a snapshot. Without ``service``
        it is the one for the kind of file: a rewrite for data files, delete files and manifests of the current
        snapshot, expire-snapshots for snapshots and what only others name, and with its options, and
        remove-orphan-files for what none names. Raises OptionError if there is no such file.
        """
        from lakemeta.iceberg.why import why

        request = self._request(options, where, now, executor)
        with working_on(f"why {file} of {self.url}"):
            return self._explained(lambda: why(request, str(file), service))

    def _request(
        self,
        options: Mapping[str, Value] | None,
        where: str | None,
        now: datetime | None,
        executor: Executor | None,
    ) -> PlanRequest:
        env = Environment() if now is None else Environment(now=partial(aware, now))
        return PlanRequest(
            place=self.place,
            now_ms=env.now_ms(),
            options=texts(options),
            where=where,
            executor=executor or LocalExecutor(),
        )

    def _explained(self, work: Callable[[], T]) -> T:
        """Do some work; if a file is missing that the metadata names, say so, and what to do."""
        try:
            return work()
        except PathNotFoundError as error:
            location = self.place.operations.current().metadata.location
            raise PathNotFoundError(
                f"{error}, but the metadata of the table at {location} names it; restore it, and if the table was "
                f"moved, move it back"
            ) from error

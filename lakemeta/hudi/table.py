"""A Hudi table: open it, plan a clean, look at the plan, apply it (I/O).

What only one service needs is imported where that is called: a plan starts in a fraction of a second.
"""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import attrs

from lakemeta.environment import Environment, utc_now
from lakemeta.errors import OptionError, StorageError, TableNotFoundError
from lakemeta.events import Event, Watch
from lakemeta.executor import Executor, LocalExecutor, working_on
from lakemeta.hudi.clean.planner import PLAN_KIND, plan_clean
from lakemeta.hudi.duties import DUTIES, POLICY, ROLLBACK
from lakemeta.hudi.files.home import home_of, ledgers_of
from lakemeta.hudi.files.place import Place
from lakemeta.hudi.options import CleanOptions
from lakemeta.hudi.timeline.loading import load_config
from lakemeta.ledger.recording import recorded
from lakemeta.ledger.run import Run, running
from lakemeta.maintenance import steps
from lakemeta.moments import aware
from lakemeta.paths import CATALOG
from lakemeta.safeguards import MAX_SHARE, SAMPLE, Safeguards
from lakemeta.storage import name_of, open_storage
from lakemeta.storage.formats import of_catalog, other_format
from lakemeta.storage.requests import counted
from lakemeta.typed_text import texts

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping
    from datetime import datetime
    from os import PathLike

    from lakemeta.finding import Findings
    from lakemeta.hudi.clean.waiting import WaitingClean
    from lakemeta.hudi.doctor.facts import HudiFacts
    from lakemeta.hudi.files.properties import TableConfig
    from lakemeta.maintenance import Step
    from lakemeta.page.survey import Survey
    from lakemeta.plan import Plan
    from lakemeta.report import Report
    from lakemeta.simulation import Simulation
    from lakemeta.typed_text import Value
    from lakemeta.undo.undoing import Undo


@attrs.frozen
class HudiTable:
    """One Hudi table on some storage."""

    place: Place
    config: TableConfig
    on_event: Callable[[Event], None] | None = None

    @classmethod
    def open(
        cls,
        url: str | PathLike[str],
        storage_options: Mapping[str, Value] | None = None,
        *,
        on_event: Callable[[Event], None] | None = None,
    ) -> HudiTable:
        """Open the table at a path or URL; ``on_event`` is called for every plan and every application.

        Raises:
            TableNotFoundError: there is no Hudi table.
            UnsupportedFeatureError: its version or a feature is one that lakemeta does not handle.
            CorruptMetadataError: its properties are damaged.
        """
        if str(url).startswith(CATALOG):
            raise TableNotFoundError(f"{url} is {of_catalog('Hudi')}")
        storage, root = open_storage(url, storage_options)
        try:
            config = load_config(storage, root)
        except (TableNotFoundError, StorageError) as error:
            if isinstance(error, StorageError) and not isinstance(error.__cause__, NotADirectoryError):
                raise
            raise TableNotFoundError(other_format(storage, root, "Hudi") or str(error)) from None
        return cls(Place(name_of(url, storage, root), storage, root), config, on_event)

    def __repr__(self) -> str:
        return f"<HudiTable {self.url}: {self.config.table_type}, version {self.config.version}>"

    @property
    def _watch(self) -> Watch:
        return Watch(self.url, self.on_event, utc_now)

    @property
    def url(self) -> str:
        """The place of the table as the caller named it."""
        return self.place.url

    @property
    def planning_threads(self) -> int | None:
        """How many threads look at the table best; None leaves it to the executor.

        Looking at a local disk is Python's own work, and threads would only hand its lock to each other.
        """
        return 1 if self.place.storage.scheme == "file" else None

    def plan_clean(
        self,
        options: Mapping[str, Value] | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
        explain: bool = False,
        listing: str = "auto",
    ) -> Plan:
        """Plan a clean without changing anything.

        ``options`` are the engine's, by either spelling. ``now`` (with a timezone) is the moment to plan for; by
        default the present. With ``explain`` the plan also names every file that stays, and why. ``listing`` says where
        files are looked up: ``metadata`` (the metadata table), ``storage``, or ``auto``, which prefers the former.

        Raises:
            OptionError: an option is unknown, malformed or would delete live data.
            CorruptMetadataError: an instant's file is damaged.
        """
        parsed = CleanOptions.parse(texts(options))
        executor = executor or LocalExecutor(self.planning_threads)
        make = partial(plan_clean, self.place, parsed, _present(now), executor, explain=explain, listing=listing)
        with working_on(f"plan clean of {self.url}"):
            return self._watch.plan(PLAN_KIND, make)

    def pending_cleans(self, *, executor: Executor | None = None) -> tuple[WaitingClean, ...]:
        """The cleans that were requested and not completed, earliest first, with the files that each will delete.

        Applying any plan of a clean executes them first. One whose plan cannot be read is left out.
        """
        from lakemeta.hudi.clean.waiting import waiting_cleans
        from lakemeta.hudi.timeline.loading import load_state

        executor = executor or LocalExecutor(self.planning_threads)
        with working_on(f"look at pending cleans of {self.url}"):
            state = load_state(self.place.storage, self.place.root, executor)
            return tuple(waiting_cleans(self.place, state, executor))

    def plan_rollback(
        self,
        options: Mapping[str, Value] | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
        explain: bool = False,
    ) -> Plan:
        """Plan to roll back failed writes, and to finish rollbacks that were begun, without changing anything.

        ``hoodie.clean.failed.writes.policy`` says which writes have failed: EAGER (the default) all pending ones, as
        for the one writer that starts anew; LAZY those whose heartbeat has expired; NEVER none. ``now`` is the moment
        to judge heartbeats by. With ``explain`` the plan also names the log files whose blocks are undone.

        Raises:
            OptionError: an option is unknown or malformed.
            UnsupportedFeatureError: under EAGER, there are signs of another writer.
            CorruptMetadataError: an instant's file or a marker is damaged.
        """
        from lakemeta.hudi.rollback.planner import PLAN_KIND as ROLLBACK_KIND
        from lakemeta.hudi.rollback.planner import plan_rollback

        parsed = CleanOptions.parse(texts(options))
        executor = executor or LocalExecutor(self.planning_threads)
        make = partial(plan_rollback, self.place, parsed, _present(now), executor, explain=explain)
        with working_on(f"plan rollback of {self.url}"):
            return self._watch.plan(ROLLBACK_KIND, make)

    def apply(
        self,
        plan: Plan,
        *,
        executor: Executor | None = None,
        env: Environment | None = None,
        drop_metadata_table: bool = False,
        assume_single_writer: bool = False,
        quarantine: bool = False,
        ledger: str | PathLike[str] | None = None,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
    ) -> Report:
        """Apply a plan of a clean or a rollback, and account for every file.

        A clean executes pending cleans too. ``env`` gives the present for new instants. ``drop_metadata_table`` first
        takes the table off its metadata table, as a Hudi writer with ``hoodie.metadata.enable=false`` does.
        ``assume_single_writer`` goes ahead without a lock that lakemeta cannot take. ``quarantine`` moves data files
        out of the way instead of deleting them; ``ledger`` is the directory for the record of what is deleted, by
        default one in the table's ``.hoodie``.
        ``proof`` says how much of what stays is looked up before anything is deleted: ``full``, ``sample`` or ``off``.
        ``max_share`` is how much of the table's bytes a clean may delete, in percent.

        Raises:
            StalePlanError: the table has moved in a way that could make the plan wrong; nothing was changed.
            CorruptMetadataError: a file that is to stay is missing, or the plan deletes it; nothing was changed.
            ShareError: the plan deletes more of the table than ``max_share``; nothing was changed.
            UnsupportedFeatureError: its lock or its metadata table is one that lakemeta cannot handle.
            CommitConflictError: another writer holds the lock; nothing was changed, or the action stays pending.
        """
        from lakemeta.hudi.clean.apply import begin, run
        from lakemeta.hudi.rollback.apply import apply_rollback
        from lakemeta.hudi.rollback.planner import PLAN_KIND as ROLLBACK_KIND

        executor, env = executor or LocalExecutor(), env or Environment()
        clock = env.now
        safeguards = Safeguards.of(proof, max_share)

        def work() -> Report:
            if plan.header.plan == ROLLBACK_KIND:
                return apply_rollback(
                    self.place,
                    plan,
                    executor,
                    clock,
                    assume_single_writer=assume_single_writer,
                    safeguards=safeguards,
                )
            applying = begin(
                self.place,
                plan,
                executor,
                clock,
                drop_metadata=drop_metadata_table,
                assume_single_writer=assume_single_writer,
                safeguards=safeguards,
            )
            return run(applying)

        with working_on(f"apply {plan.header.plan} to {self.url}"):
            recording = self._run(plan, env, quarantine=quarantine, ledger=ledger)
            storage = self.place.storage
            return self._watch.apply(plan.header.plan, lambda: counted(recorded(recording, work), storage))

    def _run(
        self, plan: Plan, env: Environment, *, quarantine: bool = False, ledger: str | PathLike[str] | None = None
    ) -> Run:
        place = ledgers_of(self.place).moved(ledger)
        return Run(lambda: place, env, plan.header.plan, "quarantine" if quarantine else "delete", plan)

    def maintenance(
        self,
        settings: Mapping[str, Value] | None = None,
        *,
        at_least: Mapping[str, Value] | None = None,
        skip: Collection[str] = (),
        now: datetime | None = None,
        executor: Executor | None = None,
        assume_single_writer: bool = False,
        quarantine: bool = False,
        ledger: str | PathLike[str] | None = None,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
    ) -> tuple[Step, ...]:
        """The services of the table in the order of maintenance; plan each, and apply what is due.

        ``settings`` are options by ``SERVICE.KEY``; ``at_least`` says by service from how much gain on it is due, 1 if
        it is not named; ``skip`` leaves services out. ``proof`` and ``max_share`` are those of :meth:`apply`. Failed
        writes are rolled back only if ``rollback.hoodie.clean.failed.writes.policy`` says which have failed. Raises
        OptionError for a name that is none of a service.
        """
        settings = texts(settings)
        planners = {"rollback": self.plan_rollback, "clean": self.plan_clean}
        unasked = () if f"{ROLLBACK}.{POLICY}" in settings else (ROLLBACK,)
        return steps(
            DUTIES,
            lambda service, options: planners[service](options, now=now, executor=executor),
            lambda plan: self.apply(
                plan,
                executor=executor,
                assume_single_writer=assume_single_writer,
                quarantine=quarantine,
                ledger=ledger,
                proof=proof,
                max_share=max_share,
            ),
            settings=settings,
            at_least=texts(at_least),
            skip=(*skip, *unasked),
        )

    def simulate(
        self,
        option: str,
        values: Iterable[Value],
        options: Mapping[str, Value] | None = None,
        *,
        service: str = "clean",
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> Simulation:
        """What a clean (or ``service="rollback"``) would do with each of these values of an option; nothing is written.

        ``options`` are the other ones. A value that is refused is an outcome that says why. Raises OptionError for
        another service.
        """
        from lakemeta.simulation import Oldest, simulate

        planners = {"clean": self.plan_clean, "rollback": self.plan_rollback}
        if service not in planners:
            raise OptionError(f"there is no service {service} of Hudi tables to simulate; known are clean, rollback")
        make, at = planners[service], _present(now)

        def oldest(plan: Plan) -> Oldest | None:
            instant = plan.header.facts.get("earliest_to_retain")
            return Oldest(instant) if instant else None

        return simulate(
            self.url,
            service,
            option,
            (texts({option: value})[option] for value in values),
            lambda value: make({**(options or {}), option: value}, now=at, executor=executor),
            oldest,
        )

    def undo(self, ledgers: str | PathLike[str] | None = None) -> Undo:
        """What runs have deleted of the table, to look at and to take back.

        ``ledgers`` is the directory of their ledgers if one was given to them.
        """
        from lakemeta.undo.undoing import Undo

        return Undo(partial(home_of, self.place), None if ledgers is None else str(ledgers))

    def inspect(self, *, executor: Executor | None = None) -> HudiFacts:
        """What the table is and how healthy it is; lists every partition once."""
        from lakemeta.hudi.doctor.facts import inspect

        with working_on(f"inspect {self.url}"):
            return inspect(self.place, executor or LocalExecutor(self.planning_threads))

    def survey(self, *, executor: Executor | None = None) -> Survey:
        """Sizes of files, partitions and timeline, as a page shows them; lists every partition once."""
        from lakemeta.hudi.doctor.survey import survey

        with working_on(f"survey {self.url}"):
            return survey(self.place, executor or LocalExecutor(self.planning_threads))

    def doctor(
        self,
        options: Mapping[str, Value] | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> Findings:
        """What keeps the table from being cleaned with these options, what is wrong with it, what each would free."""
        from lakemeta.hudi.doctor.checks import diagnose

        parsed = CleanOptions.parse(texts(options))
        with working_on(f"doctor {self.url}"):
            return diagnose(self.place, parsed, _present(now), executor or LocalExecutor(self.planning_threads))

    def why(
        self,
        file: str | PathLike[str],
        options: Mapping[str, Value] | None = None,
        *,
        now: datetime | None = None,
        executor: Executor | None = None,
    ) -> str:
        """One sentence on why a file stays or would be deleted by a clean with these options.

        ``file`` is relative to the table root, a full path or a URL. Raises OptionError if there is no such file.
        """
        from lakemeta.hudi.clean.why import why

        parsed = CleanOptions.parse(texts(options))
        with working_on(f"why {file} of {self.url}"):
            return why(self.place, str(file), parsed, _present(now), executor or LocalExecutor(self.planning_threads))

    def schedule_clean(
        self,
        plan: Plan,
        *,
        executor: Executor | None = None,
        env: Environment | None = None,
        assume_single_writer: bool = False,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
    ) -> str | None:
        """Only request the plan, for a Hudi writer or a later run to execute; its instant, or None for nothing.

        Raises as :meth:`apply` does.
        """
        from lakemeta.hudi.clean.apply import begin, schedule

        executor, env = executor or LocalExecutor(), env or Environment()
        with working_on(f"schedule {plan.header.plan} of {self.url}"), running(self._run(plan, env)):
            requested = schedule(
                begin(
                    self.place,
                    plan,
                    executor,
                    env.now,
                    assume_single_writer=assume_single_writer,
                    safeguards=Safeguards.of(proof, max_share),
                )
            )
        return requested.requested if requested else None


def _present(now: datetime | None) -> datetime:
    return utc_now() if now is None else aware(now)

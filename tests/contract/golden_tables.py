"""The recorded tables as work for executors: all their plans, and some executions with the state they leave.

A Spark job takes a tenth of a second whatever it does, and the recorded plans would need thousands. So
:func:`run_together` lets many planners share jobs: what each of them asks its executor for runs on workers as part of
one call.
"""

from __future__ import annotations

import json
import queue
import re
import shutil
from collections.abc import Callable
from concurrent.futures import Future, ThreadPoolExecutor
from datetime import UTC, datetime
from functools import partial
from itertools import islice
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
from support.hudi_cases import HudiCase, load_cases, read_avro
from support.hudi_mdt_cases import lay_out
from support.iceberg_cases import CASES, DATA, METADATA, unpack
from support.iceberg_checker import TableState
from support.iceberg_tables import still_env

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError
from lakemeta.executor import LocalExecutor, batched
from lakemeta.hudi import HudiTable
from lakemeta.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping, Sequence

    from lakemeta.executor import Executor
    from lakemeta.plan import Plan
    from lakemeta.report import Report

Work = Callable[["Executor"], str]
Planned = tuple[Work, str]  # and the plan that one local thread makes
AT_ONCE = 64  # planners that share jobs: all their results are in memory
CALLS_A_BATCH = 16
ORPHANS = DATA.with_name("iceberg_orphans")
EXPIRE = DATA.with_name("iceberg_expire")
METADATA_SERVICES = (
    ("rewrite-manifests", {"lakemeta.all-specs": "true"}),
    ("compute-partition-stats", {}),
    ("compute-table-stats", {}),
)
ORPHANS_AT = datetime(2026, 11, 22, tzinfo=UTC)
# A file that a worker has rewritten has a number in its name that nobody knows beforehand.
_ATTEMPT = re.compile(r"(?<=\d{5}-)\d+(?=-[0-9a-f]{8}-[0-9a-f]{4}-)")


class Together:
    """The executor of one of many planners: its calls are put to the others' before they are run."""

    def __init__(self, asked: queue.SimpleQueue[Any]) -> None:
        self._asked = asked

    def map_batches(
        self, fn: Callable[[Sequence[Any]], Iterable[Any]], items: Iterable[Any], *, batch_size: int
    ) -> Iterator[Any]:
        """The results of all batches; an error of one of them is raised where its results would be."""
        calls = [(fn, batch) for batch in batched(items, batch_size)]
        if not calls:
            return
        answers: Future[list[Any]] = Future()
        self._asked.put((calls, answers))
        for error, results in answers.result():
            if error is not None:
                raise error
            yield from results


def run_together(executor: Executor, works: Sequence[Work]) -> list[str]:
    """What each work gives. All of them wait for their executor, then one call of the real one serves them all."""
    found: list[str] = []
    for some in batched(works, AT_ONCE):
        asked: queue.SimpleQueue[Any] = queue.SimpleQueue()
        with ThreadPoolExecutor(len(some)) as threads:
            futures = [threads.submit(_told, asked, work) for work in some]
            _serve(executor, asked, len(some))
            found += [future.result() for future in futures]
    return found


def _told(asked: queue.SimpleQueue[Any], work: Work) -> str:
    try:
        return work(Together(asked))
    finally:
        asked.put(None)


def _serve(executor: Executor, asked: queue.SimpleQueue[Any], running: int) -> None:
    waiting: list[tuple[list[Any], Future[list[Any]]]] = []
    while running:
        request = asked.get()
        if request is None:
            running -= 1
        else:
            waiting.append(request)
        if waiting and len(waiting) == running:
            _answer(executor, waiting)
            waiting.clear()


def _answer(executor: Executor, waiting: Sequence[tuple[list[Any], Future[list[Any]]]]) -> None:
    calls = [call for some, _ in waiting for call in some]
    try:
        answers = executor.map_batches(_each, calls, batch_size=CALLS_A_BATCH)
        for some, future in waiting:
            future.set_result(list(islice(answers, len(some))))
    except Exception as error:
        for _, future in waiting:
            if not future.done():
                future.set_exception(error)


def _each(calls: Sequence[tuple[Any, Any]]) -> Iterator[tuple[LakemetaError | None, list[Any]]]:
    for fn, batch in calls:
        try:
            yield None, list(fn(batch))
        except LakemetaError as error:
            yield error, []


def outcome(plan: Callable[..., Plan], executor: Executor) -> str:
    """A plan as its file holds it, or the error and its sentence."""
    try:
        return plan(executor=executor).dumps()
    except LakemetaError as error:
        return f"{type(error).__name__}: {error}"


@attrs.frozen
class Golden:
    """The recorded tables, unpacked below a directory when they are asked for, with their plans by one local thread."""

    folder: Path
    _planned: dict[str, list[Planned]] = attrs.field(factory=dict)

    def hudi(self, every: int) -> list[Planned]:
        """The plan of each n-th recorded clean or rollback."""
        return self._of({name: partial(_hudi, case, self.folder / name) for name, case in load_cases().items()}, every)

    def iceberg(self, every: int) -> list[Planned]:
        """All plans of each n-th recorded table."""
        folder = self.folder / "iceberg"
        works = {name: partial(_rewrites, name, folder) for name in CASES}
        works |= {name: partial(_metadata_services, name, folder) for name in _names(METADATA)}
        return self._of(works | {name: partial(_orphan_files, name, folder) for name in _names(ORPHANS)}, every)

    def _of(self, tables: Mapping[str, Callable[[], Iterator[Work]]], every: int) -> list[Planned]:
        for name in islice(tables, 0, None, every):
            if name not in self._planned:
                self._planned[name] = [(work, work(LocalExecutor(1))) for work in tables[name]()]
        return [planned for name in islice(tables, 0, None, every) for planned in self._planned[name]]


def _names(folder: Path) -> list[str]:
    return sorted(path.name.removesuffix(".tar.xz") for path in folder.glob("*.tar.xz"))


def _hudi(case: HudiCase, folder: Path) -> Iterator[Work]:
    table = HudiTable.open(case.unpack(folder))
    if case.expected["action"] in ("clean", "schedule_clean"):
        yield partial(outcome, partial(table.plan_clean, case.options, now=case.now, explain=True))
    else:
        yield partial(outcome, partial(table.plan_rollback, case.options, now=case.now, explain=True))


def _rewrites(name: str, folder: Path) -> Iterator[Work]:
    case = unpack(name, folder)
    table = IcebergTable.open(str(case.metadata_files()[-1]))
    for plan in case.plans():
        if plan.get("kind") != "position_deletes":
            yield partial(outcome, partial(table.plan_rewrite_data_files, plan["options"], plan["where"]))


def _metadata_services(name: str, folder: Path) -> Iterator[Work]:
    table = IcebergTable.open(str(unpack(name, folder, METADATA).table))
    for service, options in METADATA_SERVICES:
        yield partial(outcome, partial(table.plan, service, options))


def _orphan_files(name: str, folder: Path) -> Iterator[Work]:
    table = IcebergTable.open(str(unpack(name, folder, ORPHANS).table))
    yield partial(outcome, partial(table.plan, "remove-orphan-files", {}, now=ORPHANS_AT))


@attrs.frozen
class Execution:
    """An execution to compare: lays a table at a place, and changes it with an executor."""

    lay: Callable[[Path], Path]
    run: Callable[[Path, Executor], Report]
    state: Callable[[Path], dict[str, Any]]

    def states(self, folder: Path, executors: Sequence[Executor]) -> Iterator[tuple[Report, dict[str, Any]]]:
        """What each executor reports and leaves of the same table at the same place."""
        root = self.lay(folder)
        shutil.copytree(root, folder / "kept")
        for executor in executors:
            shutil.rmtree(root)
            shutil.copytree(folder / "kept", root)
            report = self.run(root, executor)
            result = {key: value for key, value in report.result.items() if key != "time_taken_in_millis"}
            yield attrs.evolve(report, result=result), self.state(root)


def _still(now: datetime) -> Environment:
    """An environment in which it is always the same moment, and identifiers are the same in every run."""
    return attrs.evolve(still_env(1), now=lambda: now)


def _hudi_case(name: str, *, rollback: bool = False) -> Execution:
    case = load_cases()[name]

    def run(root: Path, executor: Executor) -> Report:
        table = HudiTable.open(str(root))
        plan = table.plan_rollback if rollback else table.plan_clean
        made = plan(case.options, now=case.now, executor=executor)
        return table.apply(made, executor=executor, env=_still(case.now))

    return Execution(lambda folder: Path(case.unpack(folder / "t")), run, hudi_state)


def _metadata_table(name: str) -> Execution:
    options, now = {"hoodie.clean.commits.retained": "2"}, datetime(2030, 1, 1, tzinfo=UTC)

    def run(root: Path, executor: Executor) -> Report:
        table = HudiTable.open(str(root))
        plan = table.plan_clean(options, now=now, executor=executor)
        return table.apply(plan, executor=executor, env=_still(now))

    return Execution(lambda folder: Path(lay_out(name, folder).root), run, hudi_state)


def hudi_state(root: Path) -> dict[str, Any]:
    """Every file with its content, but for how long cleans and rollbacks took."""
    found: dict[str, Any] = {}
    for path in sorted(root.rglob("*")):
        if path.is_file():
            content: Any = path.read_bytes()
            if path.suffix in (".clean", ".rollback") and content:
                content = read_avro(content)
                content.pop("timeTakenInMillis", None)
            found[path.relative_to(root).as_posix()] = content
    return found


def _rewrite(name: str, options: dict[str, str]) -> Execution:
    def run(root: Path, executor: Executor) -> Report:
        table = IcebergTable.open(str(root))
        plan = table.plan_rewrite_data_files(options, executor=executor)
        return table.apply(plan, executor=executor, env=still_env(1))

    return Execution(lambda folder: unpack(name, folder).table, run, iceberg_state)


def _service(name: str, service: str) -> Execution:
    def run(root: Path, executor: Executor) -> Report:
        table = IcebergTable.open(str(root))
        return table.apply(table.plan(service, executor=executor), executor=executor, env=still_env(1))

    return Execution(lambda folder: unpack(name, folder).table, run, iceberg_state)


def _orphans(name: str) -> Execution:
    def run(root: Path, executor: Executor) -> Report:
        table = IcebergTable.open(str(root))
        plan = table.plan("remove-orphan-files", {}, now=ORPHANS_AT, executor=executor)
        return table.apply(plan, executor=executor, env=_still(ORPHANS_AT))

    return Execution(lambda folder: unpack(name, folder, ORPHANS).table, run, iceberg_state)


def _expire(name: str) -> Execution:
    options, now = {"older_than": "2100-01-01", "clean_expired_metadata": "true"}, datetime(2030, 1, 1, tzinfo=UTC)

    def run(root: Path, executor: Executor) -> Report:
        table = IcebergTable.open(str(root))
        plan = table.plan("expire-snapshots", options, now=now, executor=executor)
        return table.apply(plan, executor=executor, env=still_env(1), now=now)

    return Execution(lambda folder: unpack(name, folder, EXPIRE).table, run, iceberg_state)


def iceberg_state(root: Path) -> dict[str, Any]:
    """Metadata, manifests, rows and files, but for the numbers of attempts in the names of files."""
    table = TableState.local(root)
    entries = [(entry["status"], entry["sequence_number"], entry["data_file"]) for entry in table.entries]
    names = (path.relative_to(root).as_posix() for path in root.rglob("*") if path.is_file())
    return {
        "metadata": _ATTEMPT.sub("N", json.dumps(table.metadata)),
        "entries": [_ATTEMPT.sub("N", repr(entry)) for entry in entries],
        "rows": table.rows(),
        "files": sorted(_ATTEMPT.sub("N", name) for name in names),
    }


EXECUTIONS: dict[str, Callable[[], Execution]] = {
    "an expire of snapshots": partial(_expire, "expire_dv_a"),
    "a rewrite of manifests": partial(_service, "rewrite_manifests_v2", "rewrite-manifests"),
    "partition statistics": partial(_service, "rewrite_manifests_v2", "compute-partition-stats"),
    "table statistics, with deletes": partial(_service, "pos_deletes_v2", "compute-table-stats"),
    "a clean by versions, layout 1": partial(_hudi_case, "0.15.0__cow__versions2"),
    "a clean of log files": partial(_hudi_case, "1.2.0__mor__commits2"),
    "a clean that drops a partition": partial(_hudi_case, "1.2.0__delete_partition__versions1"),
    "a clean of replaced file groups": partial(_hudi_case, "1.2.0__replace_overwrite__table_commits1"),
    "a clean that rolls back": partial(_hudi_case, "1.2.0__failed_mor__lazy_clean"),
    "a clean with a metadata table": partial(_metadata_table, "1.2.0__mdt_cow__commits2"),
    "a rollback": partial(_hudi_case, "1.2.0__failed_mor__eager_startcommit", rollback=True),
    "a rewrite, v1": partial(_rewrite, "partitioned_v1", {"rewrite-all": "true"}),
    "a rewrite with equality deletes": partial(_rewrite, "eq_deletes_v2", {"rewrite-all": "true"}),
    "a rewrite with position deletes": partial(
        _rewrite,
        "pos_deletes_v2",
        {"rewrite-all": "true", "remove-dangling-deletes": "true", "partial-progress.enabled": "true"},
    ),
    "a rewrite that sorts": partial(_rewrite, "sort_order_v2", {"rewrite-all": "true", "strategy": "sort"}),
    "a rewrite in Z-order": partial(
        _rewrite, "spec_evolution_v2", {"rewrite-all": "true", "strategy": "sort", "sort_order": "zorder(id, region)"}
    ),
    "a rewrite with deletion vectors, v3": partial(_rewrite, "v3_dv_lineage", {"rewrite-all": "true"}),
    "a removal of orphan files": partial(_orphans, "orphans_r01_v2"),
}

"""What executors are told of the work they do: Spark shows it beside its jobs."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from support.hudi_cases import load_cases
from support.iceberg_tables import create_table, still_env

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor, current_work
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class Listening:
    """Runs everything here and remembers the names of the work."""

    def __init__(self) -> None:
        self.heard: set[str] = set()

    def map_batches(self, fn: Any, items: Any, *, batch_size: int) -> Iterator[Any]:
        self.heard.add(current_work())
        return LocalExecutor(1).map_batches(fn, items, batch_size=batch_size)

    def names(self) -> set[str]:
        heard, self.heard = self.heard, set()
        return heard


def test_every_work_on_a_hudi_table_is_named(tmp_path: Path) -> None:
    """By the phase and the table, whatever is asked of the table."""
    case = load_cases()["1.2.0__cow__commits1"]
    table, listening = HudiTable.open(case.unpack(tmp_path)), Listening()
    table.inspect(executor=listening)
    assert listening.names() == {f"inspect {tmp_path}"}
    table.doctor(case.options, now=case.now, executor=listening)
    assert listening.names() == {f"doctor {tmp_path}"}
    plan = table.plan_clean(case.options, now=case.now, executor=listening)
    assert listening.names() == {f"plan clean of {tmp_path}"}
    file = next(plan.deletes()).path
    table.why(file, case.options, now=case.now, executor=listening)
    assert listening.names() == {f"why {file} of {tmp_path}"}
    table.schedule_clean(plan, executor=listening, env=Environment(lambda: case.now))
    assert listening.names() == {f"schedule hudi.clean of {tmp_path}"}
    table.apply(table.plan_clean(case.options, now=case.now), executor=listening, env=Environment(lambda: case.now))
    assert listening.names() == {f"apply hudi.clean to {tmp_path}"}
    table.plan_rollback(executor=listening)
    assert listening.names() == {f"plan rollback of {tmp_path}"}


def test_every_work_on_an_iceberg_table_is_named(tmp_path: Path) -> None:
    """By the phase and the table, whatever is asked of the table."""
    root = str(tmp_path)
    made = create_table(LocalStorage(), root)
    for start in (0, 10):
        made.append([(start + i, "a", 0.5) for i in range(3)])
    table, listening = IcebergTable.open(root), Listening()
    table.inspect(executor=listening)
    assert listening.names() == {f"inspect {root}"}
    table.doctor(executor=listening)
    assert listening.names() == {f"doctor {root}"}
    plan = table.plan_rewrite_data_files({"rewrite-all": "true"}, executor=listening)
    assert listening.names() == {f"plan rewrite-data-files of {root}"}
    file = plan.operations[0].inputs[0]
    table.why(file, executor=listening)
    assert listening.names() == {f"why {file} of {root}"}
    table.apply(plan, executor=listening, env=still_env(1))
    assert listening.names() == {f"apply iceberg.rewrite-data-files to {root}"}

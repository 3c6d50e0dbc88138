"""Tables to mutate, as files in memory, and what is done with each mutated one: everything lakemeta does with tables.

A table is judged by what is left of it afterwards, by readers that share no code with lakemeta.
"""

from __future__ import annotations

from functools import cache

from fuzz import hudi_tables, iceberg_services, iceberg_tables
from fuzz.memory import MemoryTable
from fuzz.outcomes import ONE, Files, Outcome, Table, Tries
from support.iceberg_tables import still_env

from lakemeta.plan import Plan

EDITED = "plan"  # among the files, one that is applied instead of plans of the table itself
_PLANNED: dict[tuple[str, str], str] = {}


def run(table: Table, files: Files, *, moved: bool) -> Outcome:
    """Everything lakemeta does, on a mutated table, each service on a copy of its own.

    ``moved`` says that files came or went by the mutation, so that the table may be another one, in good order.
    """
    tries = Tries()
    if EDITED in files:
        _apply_edited(table, {path: file for path, file in files.items() if path != EDITED}, files[EDITED][0], tries)
    elif table.is_hudi:
        for service in ("clean", "rollback"):
            hudi_tables.run(table, files, tries, service, moved=moved)
    else:
        iceberg_tables.run(table, files, tries)
        iceberg_services.run(table, files, tries)
    return Outcome(tuple(tries.refused), tuple(tries.wrong))


def plan_text(name: str, service: str) -> str:
    """The plan of a service for a table as it is."""
    if (name, service) not in _PLANNED:
        table = tables()[name]
        storage = MemoryTable(table.files)
        if table.is_hudi:
            plan = hudi_tables.make_plan(hudi_tables.open_table(table, storage), table, service)
        else:
            plan = iceberg_tables.open_table(table, storage).plan_rewrite_data_files(table.options)
        _PLANNED[name, service] = plan.dumps()
    return _PLANNED[name, service]


def _apply_edited(table: Table, files: Files, text: bytes, tries: Tries) -> None:
    """Apply a plan that was edited to the table as it is: nothing goes but what plans of ours delete."""
    storage = MemoryTable(files)
    plan = tries.of("load plan", lambda: Plan.loads(text.decode("utf-8", "surrogatepass")))
    if plan is None:
        return
    tries.of("summary", plan.summary)
    if table.is_hudi:
        opened = hudi_tables.open_table(table, storage)
        tries.of("apply edited", lambda: hudi_tables.apply_plan(opened, table, plan))
        gone = {path for path in files.keys() - storage.files.keys() if "/.hoodie/" not in path}
        tries.wrong += [f"an edited plan deleted {path}" for path in sorted(gone - hudi_tables.deletions(table))]
        return
    rewritten = iceberg_tables.open_table(table, storage)
    before = len(tries.refused)
    tries.of("apply edited", lambda: rewritten.apply(plan, executor=ONE, env=still_env(7)))
    iceberg_tables.judge(table, files, storage.files, tries, committed=before == len(tries.refused))


@cache
def tables() -> dict[str, Table]:
    """All tables by name."""
    found = [*hudi_tables.load_tables(), *iceberg_tables.load_tables()]
    return {table.name: table for table in found}


def prepare(names: list[str]) -> None:
    """Find out what mutations are judged by, once, before there are processes."""
    for table in map(tables().__getitem__, names):
        if table.is_hudi:
            hudi_tables.deletions(table)
            hudi_tables.newest_bases(table)
        else:
            iceberg_tables.is_readable(table)
            iceberg_services.held_by_snapshot(table.name)

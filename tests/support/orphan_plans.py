"""Plans of orphan files of small tables, made, edited and applied."""

from __future__ import annotations

from pathlib import Path

import attrs

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.spec.table_metadata import MetadataLogEntry
from lakemeta.plan import Plan
from lakemeta.plan_operations import Delete
from lakemeta.report import Report
from lakemeta.storage import LocalStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table
from support.planted import NOW, age

ENV = Environment(now=lambda: NOW)


def old_table(tmp_path: Path) -> SmallTable:
    """A table of old files, with two data files and one that was replaced."""
    table = create_table(LocalStorage(), str(tmp_path / "db" / "t"), partitioned=True)
    table.append([(1, "a", 0.5)], [(2, "b", 0.5)])
    table.overwrite(table.data_files()[0], [(3, "a", 0.5)])
    age(tmp_path)
    return table


def opened(small: SmallTable, storage=None) -> IcebergTable:
    return IcebergTable(Place(small.root, HadoopTableOperations(storage or LocalStorage(), small.root)))


def planned(small: SmallTable, storage=None, **options: str) -> Plan:
    return opened(small, storage).plan("remove-orphan-files", options, now=NOW, executor=LocalExecutor(2))


def applied(small: SmallTable, plan: Plan, storage=None, **more) -> Report:
    return opened(small, storage).apply(plan, env=ENV, **more)


def names(plan: Plan) -> list[str]:
    return [op.path for op in plan.operations]


def edited(plan: Plan, *paths: str) -> Plan:
    """The plan with lines for other files, its hash made anew."""
    return Plan(plan.header, [*plan.operations, *(Delete("", path, 1, "edited") for path in paths)])


def change(small: SmallTable, **fields) -> None:
    """Commit metadata with other fields."""
    base = small.operations.refresh()
    log = (*base.metadata.metadata_log, MetadataLogEntry(base.metadata.last_updated_ms, base.location))
    small.operations.commit(base, attrs.evolve(base.metadata, metadata_log=log, **fields))


def whole(small: SmallTable) -> bool:
    """True if every file of every snapshot is there, by a reader that knows nothing of lakemeta."""
    return all(Path(path).exists() for path in TableState.local(small.root).referenced())

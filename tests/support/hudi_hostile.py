"""A table with neighbours for tests of hostile plans: what must be there afterwards, as it was."""

from __future__ import annotations

from typing import TYPE_CHECKING

from lakemeta.environment import Environment
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from support.builders import TableFiles, moment, tree

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.report import Report

ONE = {"hoodie.clean.commits.retained": "1"}
VICTIMS = ("victim/precious", "t2/precious")


def neighboured(folder: Path, version: int) -> TableFiles:
    """Four versions of group a in p1, b in p2 and a dropped group c in p3; neighbours ``victim`` and ``t2``."""
    for path in VICTIMS:
        (folder / path).parent.mkdir()
        (folder / path).write_bytes(b"1")
    table = TableFiles(folder / "t", version)
    table.insert({"p1": "a", "p2": "b", "p3": "c"})
    table.commit({"p1": "a"})
    table.commit({"p1": "a"})
    table.delete_partition("p3")
    table.commit({"p1": "a"})
    return table


def everything(table: TableFiles) -> dict[str, bytes]:
    """All files of the table and its neighbours, but for what any action adds to the timeline."""
    return {name: data for name, data in tree(table.root.parent).items() if "/.hoodie/" not in name}


def clean(table: TableFiles, options: dict[str, str] | None = None) -> Report:
    """Plan a clean at hour 30, and apply the plan."""
    opened = HudiTable.open(str(table.root))
    executor = LocalExecutor(1)
    plan = opened.plan_clean(options or ONE, now=moment(30), executor=executor)
    return opened.apply(plan, executor=executor, env=Environment(lambda: moment(30)))

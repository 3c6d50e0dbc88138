"""One writer of a shared table in a process of its own: ``iceberg_writers.py ROLE ROOT SEED ROUNDS``."""

from __future__ import annotations

import sys
import time
from pathlib import Path

import attrs
from support.iceberg_tables import SmallTable

from lakemeta.errors import CommitConflictError, StalePlanError
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import LocalStorage


def append(root: str, seed: int, rounds: int) -> None:
    """Append one row a round."""
    table = SmallTable(LocalStorage(), root, seed=seed)
    table.env = attrs.evolve(table.env, sleep=time.sleep, random=lambda: seed % 7 / 7)
    for i in range(rounds):
        table.append([(seed * 1000 + i, "a", 0.5)])


def compact(root: str, seed: int, rounds: int) -> None:
    """Rewrite whatever there is, again and again; losing to another compactor is fine."""
    table = IcebergTable.open(root)
    won = 0
    for _ in range(rounds):
        plan = table.plan_rewrite_data_files({"rewrite-all": "true"})
        try:
            won += table.apply(plan).committed is not None
        except (CommitConflictError, StalePlanError) as error:
            print(seed, type(error).__name__, error, file=sys.stderr)
    print(won)


if __name__ == "__main__":
    sys.path.insert(0, str(Path(__file__).parents[1]))
    {"append": append, "compact": compact}[sys.argv[1]](sys.argv[2], int(sys.argv[3]), int(sys.argv[4]))

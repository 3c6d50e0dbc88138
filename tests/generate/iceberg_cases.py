"""Record what real Iceberg plans for random tables: their metadata, and the groups that its planner makes of them.

    python tests/generate/iceberg_cases.py --out DIR --seed 7 --tables 20               files that need not exist
    python tests/generate/iceberg_cases.py --out DIR --seed 7 --tables 20 --written     tables with rows, by Spark

Needs Java and PySpark 3.5; the runtime is downloaded by its coordinates (see ``interop/iceberg_engine.py``).
Every table is a directory ``plan_random_<seed>`` or ``plan_written_<seed>``:

- ``before/``: the whole table without Hadoop's ``.crc`` files; its manifests are listed in the order of the planner;
- ``plans.json``: options, filter, and the groups (or the error) of each plan;
- ``case.json``: what it is.

The same seed gives the same steps; names of metadata files and snapshot ids are new each time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))
sys.path.insert(0, str(Path(__file__).resolve().parents[2]))

from generate.iceberg_random import RandomTable, record_plans
from generate.iceberg_recorder import Recorder
from generate.iceberg_written import WrittenTable
from interop.engine_process import EngineError
from interop.iceberg_engine import IcebergEngine


def record(recorder: Recorder, seed: int, plans: int, *, written: bool) -> None:
    """Make one table and record plans of it; a table that the engine refuses is left out."""
    kind = WrittenTable if written else RandomTable
    name = f"plan_{'written' if written else 'random'}_{seed}"
    try:
        table = kind(recorder.engine, name, seed)
        table.grow()
    except EngineError as error:  # two partition fields of one name, for instance
        print(f"{name}: {error}"[:200])
        return
    record_plans(recorder, table, plans)


def main() -> None:
    """Record cases as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=Path, required=True, help="a directory for the case directories")
    parser.add_argument("--seed", type=int, default=1, help="the first table's seed; the others count on from it")
    parser.add_argument("--tables", type=int, default=20, help="how many tables")
    parser.add_argument("--plans", type=int, default=12, help="plans of each kind for a table")
    parser.add_argument("--written", action="store_true", help="tables with rows; far slower")
    given = parser.parse_args()
    scratch = given.out.resolve() / ".scratch"
    shutil.rmtree(scratch, ignore_errors=True)
    with IcebergEngine(scratch) as engine:
        recorder = Recorder(engine, given.out.resolve())
        for seed in range(given.seed, given.seed + given.tables):
            record(recorder, seed, given.plans, written=given.written)
    shutil.rmtree(scratch, ignore_errors=True)  # Spark may still be clearing up after itself
    print(f"{recorder.recorded} tables in {given.out}")


if __name__ == "__main__":
    main()

"""Record what real Hudi decides when it cleans: tables before, its plan, its metadata, what it deleted.

    python tests/generate/hudi_cases.py --version 1.2.0 --out DIR                       named shapes
    python tests/generate/hudi_cases.py --version 1.2.0 --out DIR --seed 7 --cases 20  random histories

Needs Java and PySpark 3.5; the bundle is downloaded by its coordinates (see ``interop/hudi_engine.py``).
Every case is a directory ``<version>__<history>__<label>``:

- ``before/``: the whole table as it was, without Hadoop's ``.crc`` files, file times kept;
- ``after_hoodie/``: its ``.hoodie`` after the engine ran;
- ``expected.json``: options, clock, the decoded plan and metadata, and the difference between the two.

Paths in plans are absolute and start with ``base_path_at_generation``. The same seed gives the same
operations; instants and file ids are new each time.
"""

from __future__ import annotations

import argparse
import shutil
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from generate.hudi_random import PARTITIONS, record_random
from generate.hudi_recorder import Recorder, commits, versions
from interop.hudi_engine import VERSIONS, Engine, HudiEngineTable

if TYPE_CHECKING:
    from collections.abc import Callable

# The named shapes: each fills a table and leaves it where a clean is interesting.


def keys(partition: str, numbers: range = range(1, 4)) -> list[tuple[str, str]]:
    """Rows of one partition."""
    return [(f"{partition}-{n}", partition) for n in numbers]


def rewrites(table: HudiEngineTable, times: int = 4) -> None:
    """Insert three partitions, then rewrite one file group at a time."""
    table.write("insert", [row for p in PARTITIONS[:3] for row in keys(p)])
    for n in range(times):
        table.write("upsert", keys(PARTITIONS[n % 2], range(1, 2)))


def overwritten(table: HudiEngineTable) -> None:
    """A partition overwritten, then written again."""
    rewrites(table)
    table.write("insert_overwrite", keys("p1", range(7, 9)))
    table.write("upsert", keys("p2", range(1, 2)))


def overwritten_whole(table: HudiEngineTable) -> None:
    """The whole table overwritten by one partition."""
    rewrites(table)
    table.write("insert_overwrite_table", keys("p2", range(7, 9)))
    table.write("upsert", keys("p2", range(7, 8)))


def dropped(table: HudiEngineTable) -> None:
    """A partition dropped, others written after it."""
    rewrites(table)
    table.delete_partition("p2")
    for _ in range(2):
        table.write("upsert", keys("p1", range(1, 2)))


def savepointed(table: HudiEngineTable) -> None:
    """A savepoint on the second commit."""
    rewrites(table)
    table.savepoint(table.commits()[1])
    rewrites(table, 2)


def clustered(table: HudiEngineTable) -> None:
    """Small files clustered, written after."""
    rewrites(table)
    table.write("insert", keys("p1", range(5, 7)))
    table.cluster("scheduleAndExecute")
    table.write("upsert", keys("p3"))


def compacted(table: HudiEngineTable) -> None:
    """Log files merged once."""
    rewrites(table)
    table.compact("schedule")
    table.compact("run")
    rewrites(table, 2)


def compaction_pending(table: HudiEngineTable) -> None:
    """One compaction done, a second one scheduled, writes after it."""
    compacted(table)
    table.compact("schedule")
    table.write("upsert", keys("p1"))


def failed(table: HudiEngineTable) -> None:
    """The last write died before its commit."""
    rewrites(table)
    table.crash_write(keys("p1"))


SHAPES: dict[str, tuple[Callable[[HudiEngineTable], None], dict[str, Any]]] = {
    "cow": (rewrites, {}),
    "nonpartitioned": (rewrites, {"partitioned": False}),
    "overwritten": (overwritten, {}),
    "overwritten_whole": (overwritten_whole, {}),
    "dropped": (dropped, {}),
    "savepointed": (savepointed, {}),
    "clustered": (clustered, {}),
    "failed": (failed, {}),
    "mor": (compacted, {"mor": True}),
    "mor_pending": (compaction_pending, {"mor": True}),
    "mor_nonpartitioned": (compacted, {"mor": True, "partitioned": False}),
}
RETENTIONS = {
    "commits1": commits(1),
    "commits2": commits(2),
    "commits3": commits(3),
    "versions1": versions(1),
    "versions2": versions(2),
}


def record_shapes(recorder: Recorder) -> None:
    """Every named shape under every retention, and each shape's plan scheduled only."""
    for name, (fill, shape) in SHAPES.items():
        table = recorder.table(name, **shape)
        fill(table)
        for label, options in RETENTIONS.items():
            recorder.aside(table, name, label, options)
        recorder.clean(table, name, "scheduled", commits(1), execute=False)


def main() -> None:
    """Record cases as the command line asks."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--version", choices=sorted(VERSIONS), required=True)
    parser.add_argument("--out", type=Path, required=True, help="a directory for the case directories")
    parser.add_argument("--seed", type=int, help="record random histories from this seed, not the named shapes")
    parser.add_argument("--cases", type=int, default=20, help="how many random cases")
    parser.add_argument("--zone", default="UTC", help="the engine's time zone")
    given = parser.parse_args()
    scratch = given.out.resolve() / f".scratch-{given.version}"
    shutil.rmtree(scratch, ignore_errors=True)
    with Engine(given.version, scratch, zone=given.zone) as engine:
        recorder = Recorder(engine, given.out.resolve(), scratch)
        if given.seed is None:
            record_shapes(recorder)
        else:
            record_random(recorder, given.seed, given.cases)
    shutil.rmtree(scratch, ignore_errors=True)  # a JVM that ends removes its own directories there
    print(f"{recorder.recorded} cases in {given.out}")


if __name__ == "__main__":
    main()

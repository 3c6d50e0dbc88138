"""Measure cleans of tables with a metadata table: ``lakemeta clean`` beside the real Hudi's.

    python benchmarks/hudi_metadata_clean.py [--runs 2] [--partitions 200] [--versions 9] [--scratch DIR]

The real Hudi writes once to a fabricated table, and builds its metadata table. Every run has a copy of its own.
Afterwards both copies must have the same files. lakemeta is timed as a whole cold process, the engine only inside a
Spark session that already runs, as in ``hudi_clean.py``.
"""

from __future__ import annotations

import argparse
import os
import shutil
import sys
import tempfile
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

import attrs
from fabricate_hudi import Shape
from hudi_clean import OPTIONS, RELEASES, SETTINGS, lakemeta, make, run
from interop.hudi_engine import Engine, HudiEngineTable
from printing import header, row, spread, times


def with_metadata_table(release: str, scratch: Path, table: Path, shape: Shape) -> None:
    """Make a table, and let the engine build a metadata table with its next commit."""
    make(table, shape)
    with Engine(release, scratch / "engine", memory="2g", java_options="") as engine:
        HudiEngineTable(engine, table, metadata=True).write("insert", [("new", "new")])
    if not (table / ".hoodie/metadata").is_dir():
        raise SystemExit(f"Hudi {release} built no metadata table in {table}")


def hudi_seconds(release: str, scratch: Path, table: Path) -> float:
    """Seconds that a clean takes in a fresh session; the session's start is not counted."""
    with Engine(release, scratch / "engine", memory="2g", java_options="") as engine:
        engine.call("commits", base=str(table))
        options = {**OPTIONS, "hoodie.table.name": "t", "hoodie.metadata.enable": "true"}
        started = time.perf_counter()
        answer = engine.call("clean", base=str(table), options=options)
        seconds = time.perf_counter() - started
    if answer is None:
        raise SystemExit(f"Hudi {release} found nothing to clean in {table}")
    return seconds


def left(table: Path) -> set[str]:
    """The data files of a table, relative."""
    return {str(p.relative_to(table)) for p in table.glob("*/*.parquet")}


def compare(release: str, scratch: Path, shape: Shape, runs: int) -> None:
    """Clean copies of one table in turn, and print one row."""
    original, copy = scratch / "original", scratch / "copy"
    with_metadata_table(release, scratch, original, shape)
    ours, theirs, results = [], [], []
    for _ in range(runs):
        for seconds, clean in ((ours, "lakemeta"), (theirs, "hudi")):
            shutil.copytree(original, copy)
            os.sync()  # or whoever goes first waits for the copy to be written
            if clean == "lakemeta":
                seconds.append(lakemeta("clean", str(copy), *SETTINGS, "--yes").seconds)
            else:
                seconds.append(hudi_seconds(release, scratch, copy))
            results.append(left(copy))
            shutil.rmtree(copy)
    if any(files != results[0] for files in results):
        raise SystemExit(f"lakemeta and Hudi {release} left different files")
    gone = len(left(original)) - len(results[0])
    shutil.rmtree(original)
    row([f"v{shape.table_version}, Hudi {release}", gone, spread(ours), spread(theirs), times(theirs, ours)])


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=2)
    parser.add_argument("--partitions", type=int, default=200)
    parser.add_argument("--versions", type=int, nargs="+", choices=list(RELEASES), default=list(RELEASES))
    parser.add_argument("--scratch", type=Path, help="where tables are made; a disk, not a memory file system")
    given = parser.parse_args()
    run("-c", "import lakemeta.cli.hudi, lakemeta.cli.main, lakemeta.hudi.metadata_table.table")  # makes the bytecode
    header("table", "files deleted", "lakemeta s (min / median)", "Hudi s (min / median)", "ratio of medians")
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        for version in given.versions:
            shape = attrs.evolve(Shape(given.partitions, 50, 4, 6), table_version=version)
            compare(RELEASES[version], Path(scratch), shape, given.runs)


if __name__ == "__main__":
    main()

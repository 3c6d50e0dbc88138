"""Measure ``lakemeta clean`` beside the real Hudi's clean on fabricated tables, and planning alone on bigger ones.

    python benchmarks/hudi_clean.py side-by-side [--runs 3] [--scratch DIR]
    python benchmarks/hudi_clean.py planning [--files 100000 1000000] [--scratch DIR]

lakemeta is timed as a whole cold process, the engine only inside a Spark session that already runs; each run has a
table of its own and, for the engine, a fresh JVM. Prints Markdown tables: ratios are the point, seconds are
this machine's. ``benchmarks/README.md`` says how to read them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import subprocess
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING

import attrs

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from fabricate_hudi import Shape
from interop.hudi_engine import Engine
from printing import header, row, spread, times

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

ROOT = Path(__file__).resolve().parents[1]
OPTIONS = {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS", "hoodie.cleaner.commits.retained": "1"}
SETTINGS = [word for key, value in OPTIONS.items() for word in ("--set", f"{key}={value}")]
RELEASES = {6: "0.15.0", 9: "1.2.0"}


@attrs.frozen
class Usage:
    """What one process took: wall seconds, CPU seconds, peak resident MiB."""

    seconds: float
    cpu: float
    rss: float


def run(*words: str) -> Usage:
    """Run Python in a cold process; raises if it fails. Modules have their bytecode, as an installed package has."""
    environment = {**os.environ, "PYTHONPYCACHEPREFIX": f"{tempfile.gettempdir()}/lakemeta-benchmark-bytecode"}
    environment.pop("PYTHONDONTWRITEBYTECODE", None)
    started = time.perf_counter()
    with tempfile.TemporaryFile() as output:
        process = subprocess.Popen([sys.executable, *words], stdout=output, stderr=output, cwd=ROOT, env=environment)
        _, status, usage = os.wait4(process.pid, 0)
        seconds = time.perf_counter() - started
        process.returncode = os.waitstatus_to_exitcode(status)
        if process.returncode:
            output.seek(0)
            raise SystemExit(f"{' '.join(words)} failed:\n{output.read().decode()[-4000:]}")
    return Usage(seconds, usage.ru_utime + usage.ru_stime, usage.ru_maxrss / 1024)


def lakemeta(*words: str) -> Usage:
    """Run the command line."""
    return run("-m", "lakemeta", *words)


def make(table: Path, shape: Shape) -> None:
    """Fabricate a table in a process of its own: a child's peak memory counts from its parent's size on."""
    sizes = ("--partitions", shape.partitions, "--groups", shape.groups, "--versions", shape.versions)
    words = [str(table), *map(str, sizes), "--table-version", str(shape.table_version)]
    run(str(ROOT / "benchmarks/fabricate_hudi.py"), *words, *(["--empty"] if shape.empty else []))


def engine_seconds(version: str, scratch: Path, operation: str, table: Path) -> float:
    """Seconds that one operation takes in a fresh session; the session's start is not counted."""
    with Engine(version, scratch / "engine", memory="2g", java_options="") as engine:
        engine.call("commits", base=str(table))  # the session answers; nothing of the clean has run
        options = {**OPTIONS, "hoodie.table.name": "t", "hoodie.metadata.enable": "false"}
        started = time.perf_counter()
        answer = engine.call(operation, base=str(table), options=options)
        seconds = time.perf_counter() - started
    if answer is None:
        raise SystemExit(f"Hudi {version} found nothing to clean in {table}")
    return seconds


def on_fresh_tables(table: Path, shape: Shape, runs: int, measure: Callable[[Path], float]) -> list[float]:
    """Measure each run on a table of its own; the same shape always gives the same table."""
    seconds = []
    for _ in range(runs):
        make(table, shape)
        seconds.append(measure(table))
        shutil.rmtree(table)
    return seconds


def side_by_side(scratch: Path, runs: int, shape: Shape) -> None:
    """Whole cleans and planning alone: lakemeta's process against the engine's call."""
    print(f"{shape.partitions} partitions x {shape.groups} groups x {shape.versions} versions = {shape.files} files\n")
    header("table", "what", "lakemeta s (min / median)", "Hudi s (min / median)", "ratio of medians")
    plan = str(scratch / "plan.jsonl")
    pairs = (
        ("clean", "clean", lambda table: ["clean", str(table), *SETTINGS, "--yes"]),
        ("plan", "schedule_clean", lambda table: ["plan", "clean", str(table), *SETTINGS, "--out", plan]),
    )
    for table_version, release in RELEASES.items():
        measured = partial(on_fresh_tables, scratch / "table", attrs.evolve(shape, table_version=table_version), runs)
        for what, operation, words in pairs:
            ours = measured(lambda table, words=words: lakemeta(*words(table)).seconds)
            theirs = measured(partial(engine_seconds, release, scratch, operation))
            row([f"v{table_version}, Hudi {release}", what, spread(ours), spread(theirs), times(theirs, ours)])


def planning(scratch: Path, sizes: Sequence[int], runs: int) -> None:
    """Planning alone by number of files: time a file and peak memory must not grow with the table."""
    header("table", "files", "plan s (min / median)", "us a file (min)", "to the first size", "CPU s", "peak RSS MiB")
    for table_version in RELEASES:
        first = None
        for files in sizes:
            table = scratch / f"v{table_version}-{files}"
            make(table, Shape(files // 1000, 250, 4, table_version, empty=True))
            plan = str(scratch / "plan.jsonl")
            usages = [lakemeta("plan", "clean", str(table), *SETTINGS, "--out", plan) for _ in range(runs)]
            shutil.rmtree(table)
            a_file = min(u.seconds for u in usages) / files * 1e6
            first = first or a_file
            seconds = spread([u.seconds for u in usages])
            cpu, rss = min(u.cpu for u in usages), max(u.rss for u in usages)
            row(
                [
                    f"v{table_version}",
                    files,
                    seconds,
                    f"{a_file:.2f}",
                    f"{a_file / first:.2f}x",
                    f"{cpu:.2f}",
                    f"{rss:.0f}",
                ]
            )


def imports(runs: int) -> None:
    """What ``import lakemeta`` adds to the interpreter's own start."""
    bare = min(run("-c", "pass").seconds for _ in range(runs))
    print(
        "import lakemeta:", f"{(min(run('-c', 'import lakemeta').seconds for _ in range(runs)) - bare) * 1000:.0f} ms"
    )


def main() -> None:
    """Measure what the command line asks for."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["side-by-side", "planning", "import"])
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--partitions", type=int, default=200, help="of the table that is cleaned side by side")
    parser.add_argument("--files", type=int, nargs="+", default=[100_000, 1_000_000], help="planned, in thousands")
    parser.add_argument("--scratch", type=Path, help="where tables are made; a disk, not a memory file system")
    given = parser.parse_args()
    run("-c", "import lakemeta.cli.hudi, lakemeta.cli.main, lakemeta.hudi")  # makes the bytecode
    with tempfile.TemporaryDirectory(dir=given.scratch) as scratch:
        if given.what == "side-by-side":
            side_by_side(Path(scratch), given.runs, Shape(given.partitions, 50, 4, 6))
        elif given.what == "planning":
            planning(Path(scratch), given.files, given.runs)
        else:
            imports(max(5, given.runs))


if __name__ == "__main__":
    main()

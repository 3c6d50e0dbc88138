"""Records tables whose metadata table has a pending delta commit, of a compaction or clustering that failed.

    python tests/generate/hudi_leftovers.py RELEASE OUT_DIR

The engine compacts or clusters, and then the completed files of that action are taken away on both timelines, which is
what a crash between its last steps leaves. ``before.tar.xz`` has the ``.hoodie`` of the table then, ``case.json`` the
data files with their sizes, then and after the engine's own clean. Release 1.2 also leaves a table beside them,
``hudi_downgraded``, that it took from version 9 to 6.
"""

from __future__ import annotations

import json
import sys
import tarfile
import tempfile
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from interop.hudi_engine import Engine, HudiEngineTable

COMMITS_1 = {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS", "hoodie.cleaner.commits.retained": "1"}
ROWS = [("a", "p1"), ("b", "p1"), ("c", "p2"), ("d", "p3")]


def record(engine: Engine, scratch: Path, out: Path, *, mor: bool) -> None:
    """One case: a failed compaction of a merge-on-read table, or a failed clustering of a copy-on-write one."""
    table = HudiEngineTable(engine, scratch / f"mor_{mor}" / "t", metadata=True, mor=mor)
    for operation in ("insert", "upsert", "upsert"):
        table.write(operation, ROWS)
    if mor:
        for writes in (1, 0):
            table.compact("schedule")
            table.compact("run")
            for _ in range(writes):
                table.write("upsert", ROWS)
    else:
        table.cluster("scheduleAndExecute")
    _fail(table.base, "commit" if mor else "replacecommit")
    case, before = out / f"{engine.version}__failed_{'compaction' if mor else 'clustering'}", _sizes(table.base)
    _keep(table.base, case, {})
    table.clean(COMMITS_1)
    facts = {"base": str(table.base), "before": before, "after": _sizes(table.base)}
    (case / "case.json").write_text(json.dumps(facts, indent=1) + "\n")


def record_downgraded(engine: Engine, scratch: Path, out: Path) -> None:
    """A table of version 9 that was downgraded to 6, written to and cleaned there."""
    table = HudiEngineTable(engine, scratch / "downgraded" / "t", metadata=True)
    for _ in range(4):
        table.write("upsert", ROWS)
    table.procedure_by_name("downgrade_table", "to_version => 'SIX'")
    table.options["hoodie.write.table.version"] = "6"
    for _ in range(2):
        table.write("upsert", ROWS)
    table.clean(COMMITS_1)
    _keep(table.base, out.parent / "hudi_downgraded" / engine.version, {"before": _sizes(table.base)})


def _keep(base: Path, case: Path, facts: dict[str, Any]) -> None:
    case.mkdir(parents=True)
    with tarfile.open(case / "before.tar.xz", "w:xz") as archive:
        archive.add(base / ".hoodie", ".hoodie", filter=lambda i: None if i.name.endswith(".crc") else i)
    (case / "case.json").write_text(json.dumps(facts, indent=1) + "\n")


def _fail(base: Path, kind: str) -> None:
    hoodie = base / ".hoodie"
    done = sorted(p for p in hoodie.rglob(f"*.{kind}") if "metadata" not in p.parts and p.name[0] != ".")
    instant = done[-1].name[:17]
    for path in list(hoodie.rglob(f"*{instant}*")):
        name = path.name.removesuffix(".crc").lstrip(".")
        if path.is_file() and name.startswith(instant) and name.endswith((f".{kind}", ".deltacommit")):
            path.unlink()


def _sizes(base: Path) -> dict[str, int]:
    found = (p for p in base.rglob("*") if p.is_file() and p.suffix != ".crc" and ".hoodie" not in p.parts)
    return {str(p.relative_to(base)): p.stat().st_size for p in sorted(found)}


if __name__ == "__main__":
    with tempfile.TemporaryDirectory() as scratch, Engine(sys.argv[1], Path(scratch, "engine")) as engine:
        for mor in (False, True):
            record(engine, Path(scratch), Path(sys.argv[2]), mor=mor)
        if engine.table_version == 9:
            record_downgraded(engine, Path(scratch), Path(sys.argv[2]))

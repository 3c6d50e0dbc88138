"""One recorded case: a table before the engine's clean, what it planned, and what it deleted."""

from __future__ import annotations

import json
import shutil
import time
from typing import TYPE_CHECKING, Any

import fastavro
from interop.engine_process import EngineError
from interop.hudi_engine import Engine, HudiEngineTable

if TYPE_CHECKING:
    from pathlib import Path

LAZY = {
    "hoodie.cleaner.policy.failed.writes": "LAZY",
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.InProcessLockProvider",
}


def commits(n: int) -> dict[str, str]:
    """Options of KEEP_LATEST_COMMITS."""
    return {"hoodie.cleaner.policy": "KEEP_LATEST_COMMITS", "hoodie.cleaner.commits.retained": str(n)}


def versions(n: int) -> dict[str, str]:
    """Options of KEEP_LATEST_FILE_VERSIONS."""
    return {
        "hoodie.cleaner.policy": "KEEP_LATEST_FILE_VERSIONS",
        "hoodie.cleaner.fileversions.retained": str(n),
    }


class Recorder:
    """Makes the tables of one engine under ``scratch`` and writes case directories under ``out``."""

    def __init__(self, engine: Engine, out: Path, scratch: Path) -> None:
        self.engine = engine
        self.out = out
        self.scratch = scratch
        self.recorded = 0

    def table(self, history: str, **shape: Any) -> HudiEngineTable:
        """A new, empty table for one history."""
        return HudiEngineTable(self.engine, self.scratch / f"{self.engine.version}__{history}" / "t", **shape)

    def aside(self, table: HudiEngineTable, history: str, label: str, options: dict[str, str]) -> None:
        """Record a clean on a copy of the table, so that the table's own history goes on without it."""
        copy = table.at(self.scratch / f"{self.engine.version}__{history}__{label}" / "t")
        copy_table(table.base, copy.base)
        self.clean(copy, history, label, options)

    def clean(
        self,
        table: HudiEngineTable,
        history: str,
        label: str,
        options: dict[str, str],
        *,
        execute: bool = True,
    ) -> None:
        """Record a clean of the table itself, or only its plan."""
        case = self.out / f"{self.engine.version}__{history}__{label}"
        copy_table(table.base, case / "before")
        act = table.clean if execute else table.schedule_clean
        started, returned, error = now_ms(), None, None
        try:
            returned = act(options)
        except EngineError as failure:
            error = str(failure)
        shutil.copytree(table.base / ".hoodie", case / "after_hoodie", ignore=shutil.ignore_patterns("*.crc"))
        expected = {
            "case": case.name,
            "hudi_version": self.engine.version,
            "table_version": str(self.engine.table_version),
            "table_type": table.options["hoodie.datasource.write.table.type"],
            "action": "clean" if execute else "schedule_clean",
            "base_path_at_generation": str(table.base),
            "jvm_timezone": self.engine.zone,
            "wall_clock_start_epoch_ms": started,
            "wall_clock_end_epoch_ms": now_ms(),
            "clean_options": options,
            "returned": json.dumps(returned) if returned else None,
            "error": error,
            **difference(case / "before", table.base),
            "write_history": table.history,
        }
        (case / "expected.json").write_text(json.dumps(expected, indent=1) + "\n")
        table.history.append({"op": expected["action"], "options": options})
        self.recorded += 1


def copy_table(source: Path, target: Path) -> None:
    """Copy a table directory with its file times, without ``.crc`` files."""
    shutil.copytree(source, target, ignore=shutil.ignore_patterns("*.crc"))


def now_ms() -> int:
    """The wall clock, milliseconds since the epoch."""
    return time.time_ns() // 1_000_000


def difference(before: Path, after: Path) -> dict[str, Any]:
    """What a clean did: its decoded plan and metadata, and which files and directories went and stayed."""
    old, new = files_of(before), files_of(after)
    added = sorted(new - old)
    instants = [path for path in added if path.startswith(".hoodie/") and "/metadata/" not in path]
    plans = [path for path in instants if path.endswith(".clean.requested")]
    done = [path for path in instants if path.endswith(".clean")]
    source = plans or [
        p for p in old if done and p.startswith(".hoodie/") and p.endswith(f"{instant_of(done[0])}.clean.requested")
    ]
    return {
        "clean_instant": instant_of((done or plans or [""])[0]) or None,
        "clean_plan": decode(after / source[0]) if source else None,
        "clean_metadata": decode(after / done[0]) if done else None,
        "deleted_data_files": sorted(p for p in old - new if not p.startswith(".hoodie/")),
        "added_data_files": sorted(p for p in new - old if not p.startswith(".hoodie/")),
        "kept_data_files": sorted(p for p in old & new if not p.startswith(".hoodie/")),
        "deleted_dirs": sorted(directories_of(before) - directories_of(after)),
        "hoodie_added": [p for p in added if p.startswith(".hoodie/")],
        "hoodie_removed": sorted(p for p in old - new if p.startswith(".hoodie/")),
    }


def instant_of(path: str) -> str:
    """The requested time in the name of a timeline file."""
    return path.rpartition("/")[2].partition(".")[0].partition("_")[0]


def decode(path: Path) -> Any:
    """The one record of an Avro container; None for an empty file."""
    if not path.stat().st_size:
        return None
    with path.open("rb") as file:
        return next(iter(fastavro.reader(file)))


def files_of(root: Path) -> set[str]:
    """Every file under a table, relative, without ``.crc`` files."""
    return {str(p.relative_to(root)) for p in root.rglob("*") if p.is_file() and p.suffix != ".crc"}


def directories_of(root: Path) -> set[str]:
    """Every directory under a table outside ``.hoodie``, relative."""
    found = {str(p.relative_to(root)) for p in root.rglob("*") if p.is_dir()}
    return {p for p in found if p.partition("/")[0] != ".hoodie"}

"""Tables with failed writes for tests: their markers, heartbeats and inflight delta commits, and rolling them back."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable
from support.builders import TableFiles, at, base, moment
from support.hudi_cases import read_avro

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime
    from pathlib import Path

    from lakemeta.plan import Plan
    from lakemeta.report import Report

LAZY = {"hoodie.clean.failed.writes.policy": "LAZY"}
LISTING = {"hoodie.rollback.using.markers": "false"}
NOW = moment(100)


def server_markers(table: TableFiles, instant: str, *files: Iterable[tuple[str, str]]) -> None:
    """Markers as a timeline server keeps them: each list of (path, kind) is one ``MARKERS`` file."""
    folder = table.root / ".hoodie/.temp" / instant
    folder.mkdir(parents=True)
    (folder / "MARKERS.type").write_text("TIMELINE_SERVER_BASED\n")
    for number, lines in enumerate(files):
        (folder / f"MARKERS{number}").write_text("".join(f"{path}.marker.{kind}\n" for path, kind in lines))


def direct_markers(table: TableFiles, instant: str, files: Iterable[tuple[str, str]]) -> None:
    """Markers as files."""
    for path, kind in files:
        marker = table.root / ".hoodie/.temp" / instant / f"{path}.marker.{kind}"
        marker.parent.mkdir(parents=True, exist_ok=True)
        marker.write_bytes(b"")


def heartbeat(table: TableFiles, instant: str, touched: datetime) -> None:
    """A heartbeat file that was last touched at that moment."""
    path = table.root / ".hoodie/.heartbeat" / instant
    path.parent.mkdir(exist_ok=True)
    path.write_bytes(b"")
    os.utime(path, (touched.timestamp(), touched.timestamp()))


def inflight_updates(table: TableFiles, instant: str, updates: Mapping[str, Mapping[str, str | None]]) -> None:
    """Version 6: let an inflight delta commit say what groups it updates, each with the instant it goes on top of."""
    stats = {
        partition: [
            {"fileId": f"{group}-0", "path": "", "prevCommit": previous or "null"} for group, previous in g.items()
        ]
        for partition, g in updates.items()
    }
    record = {"partitionToWriteStats": stats, "operationType": "UPSERT"}
    (table.timeline / f"{instant}.deltacommit.inflight").write_text(json.dumps(record))


def log_name(group: str, hour: float, number: int, token: str = "0-1-1") -> str:
    """The name of a log file, which in version 6 has the hour of its slice."""
    return f".{group}-0_{at(hour)}.log.{number}_{token}"


def failed_cow(root: Path, version: int = 9) -> TableFiles:
    """Two commits, then one that died after writing a new version of ``a`` and a new group ``c``."""
    table = TableFiles(root, version)
    table.insert({"p1": "ab"})
    table.commit({"p1": "a"})
    table.begin({"p1": "a", "p2": "c"})
    return table


FAILED = [("p1/" + base("a", 3), "MERGE"), ("p2/" + base("c", 3), "CREATE")]


def failed_mor(root: Path, version: int) -> TableFiles:
    """A delta commit that died after a log file for ``a`` and a base file for the new group ``c``."""
    table = TableFiles(root, version, mor=True)
    table.insert({"p1": "ab"})
    table.delta({"p1": "a"})
    instant = table.begin({"p1": "a"}, "deltacommit", logs=True)
    table.data("p2", base("c", 3))
    if version < 8:
        inflight_updates(table, instant, {"p1": {"a": at(1)}, "p2": {"c": None}})
    return table


def plan_rollback(table: TableFiles, options: dict[str, str] | None = None) -> Plan:
    """Plan to roll back at NOW."""
    return HudiTable.open(str(table.root)).plan_rollback(options, now=NOW)


def roll_back(table: TableFiles, options: dict[str, str] | None = None) -> Report:
    """Plan to roll back at NOW, and apply the plan."""
    hudi = HudiTable.open(str(table.root))
    return hudi.apply(hudi.plan_rollback(options, now=NOW), env=Environment(lambda: NOW))


def rollback_records(table: TableFiles) -> list[dict[str, Any]]:
    return [read_avro(path.read_bytes()) for path in sorted(table.timeline.glob("*.rollback"))]

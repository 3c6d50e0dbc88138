"""Failed writes for tests: their markers and heartbeats, and a v6 inflight delta commit that says what it updates."""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING

from support.builders import at

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping
    from datetime import datetime

    from support.builders import TableFiles


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

"""What a clean must never delete from a Hudi table, found out independently: no lakemeta code is used here.

The checker reads the table directory with ``json`` and ``fastavro`` alone and asks what a reader could want:

- the newest committed slice of every live file group;
- the table as of any retained commit: slices at or after the earliest of them, and the newest before it;
- the files of savepoints, and the slices of live groups that a pending compaction or log compaction will merge;
- files of writes that are not committed, and, where any of these lie, files that are none of Hudi's.
"""

from __future__ import annotations

import io
import json
import re
from collections import defaultdict
from pathlib import Path
from typing import Any, NamedTuple

import fastavro

WRITES = {"commit", "deltacommit", "replacecommit"}
_BASE = re.compile(r"(?P<id>[^_.]+)_[^_]+_(?P<instant>\d+)\.parquet")
_LOG = re.compile(r"\.(?P<id>[^_]+)_(?P<instant>\d+)\.log\.\d+_.*")


class Event(NamedTuple):
    """One file of the timeline; ``completed`` is its completion time, "" if it is not completed."""

    time: str
    action: str
    completed: str
    path: Path


class Retention(NamedTuple):
    """What the caller asked to retain: so many commits, every commit from an instant on, or so many versions."""

    commits: int | None = None
    since: str | None = None
    versions: int | None = None


def required_files(root: Path, retention: Retention) -> set[str]:
    """The files, relative to the table root, that a clean with this retention must not delete."""
    events = read_timeline(root)
    version = _version(root)
    completed = sorted(e.time for e in events if e.completed and e.action in WRITES)
    earliest = _earliest(completed, retention)
    replaced = _replaced(events)
    needed = _needed(events)
    saved = _saved(events)
    required: set[str] = set()
    for folder in _partitions(root):
        partition = "" if folder == root else str(folder.relative_to(root))
        names = [path.name for path in folder.iterdir() if path.is_file()]
        groups, foreign = _groups(names, version, events, partition)
        keep = set(names) & saved
        for group, slices in groups.items():
            keep |= _of_group(slices, completed, events, retention, earliest, replaced.get((partition, group)))
            if (partition, group) not in replaced:
                keep |= {n for at, ns in slices.items() if at >= needed.get((partition, group), "9") for n in ns}
        # A partition in which nobody needs a data file may go with everything in it.
        keep |= set(foreign if keep else ())
        required |= {f"{partition}/{name}" if partition else name for name in keep}
    return required


def must_be_readable(root: Path, required: set[str]) -> None:
    """Every required file is there, and every timeline file parses."""
    missing = sorted(path for path in required if not (root / path).is_file())
    assert not missing, f"a reader needs {missing}"
    for event in read_timeline(root):
        if event.completed and event.action in WRITES | {"clean", "savepoint"}:
            _decode(event.path)


def read_timeline(root: Path) -> list[Event]:
    """Every file of the active timeline."""
    layout_2 = _version(root) >= 8
    folder = root / ".hoodie" / ("timeline" if layout_2 else "")
    events = []
    for path in folder.iterdir():
        match = re.fullmatch(r"(\d{17})(?:_(\d{17}))?(?:\.([a-z]+?))?(?:\.(requested|inflight))?", path.name)
        if match and path.is_file():
            time, completion, action, state = match.groups()
            if action in ("requested", "inflight"):
                action, state = "commit", action
            events.append(Event(time, action or "commit", "" if state else completion or time, path))
    return events


def cleans(root: Path) -> list[str]:
    """The instants of completed cleans."""
    return sorted(e.time for e in read_timeline(root) if e.action == "clean" and e.completed)


def pending_cleans(root: Path) -> list[str]:
    """The instants of cleans that are requested or inflight and not completed."""
    return sorted({e.time for e in read_timeline(root) if e.action == "clean"} - set(cleans(root)))


def _of_group(
    slices: dict[str, list[str]],
    completed: list[str],
    events: list[Event],
    retention: Retention,
    earliest: str | None,
    replaced_at: str | None,
) -> set[str]:
    merging = {e.time for e in events if e.action in ("compaction", "logcompaction")}
    committed = sorted((at for at in slices if at in completed or at in merging), reverse=True)
    # A write to a group that was replaced meanwhile can only fail.
    keep = {at for at in slices if at not in committed and replaced_at is None}
    if retention.versions is not None:
        keep |= set(committed[: retention.versions] if replaced_at is None else ())
    elif earliest is None:
        keep |= set(committed)
    elif replaced_at is None or replaced_at > earliest:
        older = [at for at in committed if at < earliest]
        keep |= {at for at in committed if at >= earliest} | set(older[:1])
    if replaced_at is None:
        keep |= set(committed[:1])
    return {name for at in keep for name in slices[at]}


def _earliest(completed: list[str], retention: Retention) -> str | None:
    """The oldest commit that must stay readable; None if all of them must."""
    if retention.commits is not None:
        return completed[-retention.commits] if 0 < retention.commits < len(completed) else None
    if retention.since is not None:
        return next((time for time in completed if time >= retention.since), None)
    return None


def _groups(
    names: list[str], version: int, events: list[Event], partition: str
) -> tuple[dict[str, dict[str, list[str]]], list[str]]:
    """The slices of each group, and the names that are no data files."""
    groups: dict[str, dict[str, list[str]]] = defaultdict(dict)
    foreign, logs = [], []
    for name in names:
        if match := _BASE.fullmatch(name):
            groups[match["id"]].setdefault(match["instant"], []).append(name)
        elif match := _LOG.fullmatch(name):
            logs.append((match["instant"], match["id"], name))
        else:
            foreign.append(name)
    if version >= 8:
        for (where, group), instant in _pending_compactions(events).items():
            if where == partition and (group in groups or any(group == g for _, g, _ in logs)):
                groups[group].setdefault(instant, [])
    completion = {e.time: e.completed for e in events if e.completed and e.action in WRITES}
    for instant, group, name in sorted(logs):
        slices = groups[group]
        at = instant
        if version >= 8:
            before = [s for s in slices if s <= completion.get(instant, "9")]
            at = max(before, default=instant)
        slices.setdefault(at, []).append(name)
    return groups, foreign


def _pending(events: list[Event], action: str) -> list[Event]:
    completed = {e.time for e in events if e.completed and e.action in WRITES}
    return [e for e in events if e.action == action and e.path.name.endswith("requested") and e.time not in completed]


def _pending_compactions(events: list[Event]) -> dict[tuple[str, str], str]:
    return {
        (operation["partitionPath"], operation["fileId"]): event.time
        for event in _pending(events, "compaction")
        for operation in _decode(event.path)["operations"]
    }


def _needed(events: list[Event]) -> dict[tuple[str, str], str]:
    """For each group that is to be merged, the instant of its oldest slice that the merge reads."""
    return {
        (operation["partitionPath"], operation["fileId"]): operation["baseInstantTime"]
        for action in ("compaction", "logcompaction")
        for event in _pending(events, action)
        for operation in _decode(event.path)["operations"]
    }


def _replaced(events: list[Event]) -> dict[tuple[str, str], str]:
    found: dict[tuple[str, str], str] = {}
    for event in sorted(events):
        if event.action == "replacecommit" and event.completed:
            for partition, groups in (_decode(event.path).get("partitionToReplaceFileIds") or {}).items():
                found |= {(partition, group): event.time for group in groups}
    return found


def _saved(events: list[Event]) -> set[str]:
    return {
        name
        for event in events
        if event.action == "savepoint" and event.completed
        for partition in _decode(event.path)["partitionMetadata"].values()
        for name in partition["savepointDataFile"]
    }


def _partitions(root: Path) -> list[Path]:
    markers = root.rglob(".hoodie_partition_metadata*")
    return sorted({marker.parent for marker in markers})


def _version(root: Path) -> int:
    text = (root / ".hoodie/hoodie.properties").read_text()
    return int(re.search(r"^hoodie.table.version=(\d+)", text, re.MULTILINE)[1])


def _decode(path: Path) -> dict[str, Any]:
    content = path.read_bytes()
    if content.startswith(b"Obj\x01"):
        (record,) = fastavro.reader(io.BytesIO(content))
        return dict(record)
    return dict(json.loads(content))

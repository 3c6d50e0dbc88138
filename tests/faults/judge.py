"""What must hold of a table whatever befell a run, and what a run that says it is done has done.

Tables are read by the checkers of ``tests/support`` alone, which share no code with lakemeta.
"""

from __future__ import annotations

import json
import re
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import attrs
from faults.commands import Result
from faults.jobs import Files, Job
from support.checker import must_be_readable, read_timeline
from support.iceberg_checker import TableState

_VERSION = re.compile(r"metadata/v(\d+)\.metadata\.json")
_VERSIONS = re.compile(r"metadata/(v\d+\.metadata\.json|version-hint\.text)")
_LEDGER = re.compile(r"(?:metadata/\.lakemeta-ledgers|\.hoodie/\.lakemeta/ledgers)/([^/.]+)(?:\.(\d+))?\.jsonl")
_VOLATILE = ("bytes", "ms", "millis", "id", "duration", "version")


@attrs.frozen
class Calm:
    """What runs on a calm day leave: the first one's report, the files after one and two of them, and their shapes."""

    report: Mapping[str, Any]
    files: Files = attrs.field(repr=False)
    shapes: tuple[Any, ...]
    rows: Mapping[str, list[str]] = attrs.field(repr=False)


def lost(job: Job, url: str, files: Files, rows: Mapping[str, list[str]]) -> list[str]:
    """What readers of a table miss; ``rows`` are those of an Iceberg table at each ref."""
    if job.format == "hudi":
        missing = sorted(job.required - files.keys())
        return [f"a reader needs {missing}"] * bool(missing) + _unreadable_timeline(files)
    try:
        state = newest(url, files)
        missing = sorted(_below(url, state.needed()) - files.keys())
        found = [] if missing else state.rows_at_refs()
    except Exception as error:
        return [f"the table cannot be read: {type(error).__name__} {error}"]
    if missing:
        return [f"a snapshot needs {missing}"]
    return [f"the rows of {ref} are others" for ref, kept in found.items() if kept != rows[ref]]


def newest(url: str, files: Files) -> TableState:
    """The newest version of an Iceberg table."""
    versions = {int(match[1]): name for name in files if (match := _VERSION.fullmatch(name))}
    return TableState(f"{url}/{versions[max(versions)]}", lambda path: files[path.removeprefix(f"{url}/")])


def shape(job: Job, url: str, files: Files) -> Any:
    """What is the same of a table whenever the job is done, however it came to that."""
    if job.format == "hudi":
        with _Timeline(files) as root:
            events = read_timeline(root)
        ended = {event.time for event in events if event.completed}
        pending = sorted(f"{e.time} {e.action}" for e in events if e.time not in ended)
        actions = sorted({event.action for event in events})
        return {"data": sorted(_data(files)), "markers": _markers(files), "pending": pending, "actions": actions}
    state = newest(url, files)
    found = {"data": len(state.live(0)), "deletes": len(state.live(1, 2)), "manifests": len(state.manifests)}
    found |= {kind: len(state.metadata.get(kind, ())) for kind in ("statistics", "partition-statistics")}
    if job.arguments[0] in ("expire-snapshots", "remove-orphan-files"):
        found["snapshots"] = len(state.metadata["snapshots"])
        others = files.keys() - _below(url, state.needed())
        kept = (_VERSIONS, _LEDGER)
        found["unreferenced"] = sorted(name for name in others if not any(shape.fullmatch(name) for shape in kept))
    return found


def claims(job: Job, url: str, before: Files, after: Files, result: Result, calm: Calm) -> list[str]:
    """What a run says of itself that is not so."""
    wrong = []
    sentences = [line for line in result.err.splitlines() if line.startswith("lakemeta: ")]
    if "Traceback" in result.err or "unexpected" in result.err:
        wrong.append(f"no sentence: {result.err[-600:]}")
    if result.code not in (0, 4) and len(sentences) != 1:
        wrong.append(f"exit code {result.code} with {len(sentences)} sentences: {result.err[-300:]!r}")
    if result.code not in (0, 1, 3, 4, 5):
        wrong.append(f"exit code {result.code}: {result.err[-300:]}")
    if result.code == 3 and changed(before, after):
        wrong.append(f"exit code 3, but {changed(before, after)[:3]} changed: {result.err[-300:]}")
    if result.code == 5 and (gone := before.keys() - after.keys()):
        wrong.append(f"exit code 5, but {sorted(gone)[:3]} are gone: {result.err[-300:]}")
    if result.code == 0:
        wrong += _done(job, url, after, result, calm)
    if result.code == 4:
        wrong += _partly_done(before, after, result, calm)
    return wrong


def ledgers(job: Job, url: str, after: Files) -> list[str]:
    """Where ledgers and the store disagree: what is said to be deleted is there, or what went is in none of them."""
    root, announced, gone = f"{url.rpartition('://')[2]}/", set[str](), set[str]()
    parts = sorted((match[1], match[2] or "", name) for name in after if (match := _LEDGER.fullmatch(name)))
    batches: dict[tuple[str, int], list[str]] = {}
    for run, _, name in parts:
        for text in after[name].split(b"\n")[:-1]:  # the last line of a run that died may be cut off
            line = json.loads(text)
            if "batch" in line:
                files = [f"{line['base']}/{file}".removeprefix(root) for file in line["files"]]
                batches[run, line["batch"]] = files
                announced |= set(files)
            elif "done" in line:
                left = {*map(int, line.get("failed", ())), *line.get("stayed", ())}
                gone |= {file for at, file in enumerate(batches[run, line["done"]]) if at not in left}
    untrue = sorted(gone & after.keys())
    data = (name for name in job.files if name.startswith("data/") or not name.startswith((".hoodie/", "metadata/")))
    unsaid = sorted(name for name in data if name not in after and name not in announced)
    wrong = [f"a ledger says that {untrue} are gone"] if untrue else []
    return wrong + ([f"{unsaid} went, and no ledger says so"] if unsaid else [])


def changed(before: Files, after: Files) -> list[str]:
    """The files that came, went or are others."""
    return sorted(name for name in before.keys() | after.keys() if before.get(name) != after.get(name))


def _done(job: Job, url: str, after: Files, result: Result, calm: Calm) -> list[str]:
    wrong = []
    # A ledger that could not be deleted is none of the work: the next expire finds it with nothing left to do.
    found = shape(job, url, {name: data for name, data in after.items() if not name.startswith("metadata/.lakemeta-")})
    if found != calm.shapes[0]:
        wrong.append(f"it says that it is done, but left {difference(found, calm.shapes[0])}")
    if result.report is None or _numbers(result.report) != _numbers(calm.report):
        wrong.append(f"it reports {_numbers(result.report or {})} and not {_numbers(calm.report)}")
    return wrong


def _partly_done(before: Files, after: Files, result: Result, calm: Calm) -> list[str]:
    """Every file that is still there against the plan is named, where it was files that failed."""
    report = result.report or {}
    reports = [step["report"] for step in report.get("steps", ()) if step["report"]] or [report]
    failed = " ".join(outcome["path"] for part in reports for outcome in part["failed"])
    if not failed:
        return [] if any(part.get("notes") for part in reports) else ["partly done without a note"]
    kept = {name for name in before.keys() - calm.files.keys() if name in after and not name.startswith(".hoodie")}
    unsaid = [name for name in sorted(kept) if name not in failed]
    return [f"{unsaid} are there and not among the failed"] if unsaid and not any(p["notes"] for p in reports) else []


def without_strays(files: Files, result: Result) -> Files:
    """The files but for log files that could not be deleted.

    Where the base file of such a log file went, the log file belongs to the slice before, and stays as long as it does.
    """
    failed = [outcome["path"] for outcome in (result.report or {}).get("failed", ()) if ".log." in outcome["path"]]
    return {name: data for name, data in files.items() if not any(path.endswith(name) for path in failed)}


def difference(found: Mapping[str, Any], wanted: Mapping[str, Any]) -> str:
    """Where two shapes differ."""
    return ", ".join(f"{key} {found.get(key)} not {wanted[key]}" for key in wanted if found.get(key) != wanted[key])


def _numbers(report: Mapping[str, Any]) -> Any:
    if "steps" in report:
        return [(step["service"], step["due"]) for step in report["steps"]]
    return {
        key: value
        for key, value in report.items()
        if isinstance(value, int) and not any(word in key.split("_") for word in _VOLATILE)
    }


def _data(files: Files) -> list[str]:
    return [name for name in files if not name.startswith(".hoodie/")]


def _markers(files: Files) -> list[str]:
    return sorted(name for name in files if name.startswith((".hoodie/.temp/", ".hoodie/.heartbeat/")))


def _below(url: str, paths: set[str]) -> set[str]:
    return {path.removeprefix(f"{url}/") for path in paths}


class _Timeline:
    """The timeline of a table in a directory of its own, for as long as a ``with`` block."""

    def __init__(self, files: Files) -> None:
        self._files = files

    def __enter__(self) -> Path:
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        root = Path(self._folder.name)
        for name, data in self._files.items():
            if re.fullmatch(r"\.hoodie/(timeline/)?[^/]+", name):
                (root / name).parent.mkdir(parents=True, exist_ok=True)
                (root / name).write_bytes(data)
        (root / ".hoodie/timeline").mkdir(parents=True, exist_ok=True)
        return root

    def __exit__(self, *_: object) -> None:
        self._folder.cleanup()


def _unreadable_timeline(files: Files) -> list[str]:
    with _Timeline(files) as root:
        try:
            must_be_readable(root, set())
        except Exception as error:
            return [f"the timeline cannot be read: {type(error).__name__} {error}"]
    return []

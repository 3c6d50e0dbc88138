"""Recorded calls of expire_snapshots, done again: the same snapshots, refs, schemas, specs, statistics and files go.

Compared are calls of Spark's procedure. Calls of the Java API delete other files (some that are needed, and not all
that are not), so of these only what leaves the metadata is compared, and of those with a clean-up level the files.
All calls are slow ones, but those of a few tables.
"""

from __future__ import annotations

import ast
import json
import os
import re
import shutil
import tarfile
from datetime import UTC, datetime
from functools import cache
from pathlib import Path

import attrs
import pytest
from support.iceberg_cases import DATA, metadata_files, read_json, unpack

from lakemeta.errors import LakemetaError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.doors import LEDGERS
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.storage import LocalStorage

EXPIRE_DATA = DATA.with_name("iceberg_expire")
CASES = tuple(sorted(path.name.removesuffix(".tar.xz") for path in EXPIRE_DATA.glob("*.tar.xz")))
FAST = {"expire_readd_a", "expire_nomain_a", "expire_gc_off_a"}
FIELDS = ("refs", "schemas", "partition-specs", "statistics", "partition-statistics", "snapshot-log")
PROPERTIES = "properties set first: "


def recorded() -> list:
    """(case, action) of every call."""
    found = []
    for case in CASES:
        with tarfile.open(EXPIRE_DATA / f"{case}.tar.xz") as archive:
            names = sorted(n for n in archive.getnames() if n.endswith("/expected.json"))
        for name in (Path(path).parent.name for path in names):
            marks = () if case in FAST and not name.endswith("_core") else (pytest.mark.slow,)
            found.append(pytest.param((case, name), marks=marks, id=f"{case}-{name}"))
    return found


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    """Unpacks each case once, and puts its table back as it was for each call, or as the call before left it."""
    folder = tmp_path_factory.mktemp("expire")

    @cache
    def unpacked(name: str):
        case = unpack(name, folder, EXPIRE_DATA)
        shutil.copytree(case.table, case.folder / "saved", copy_function=os.link)
        return case

    def fresh(name: str, action: str):
        case = unpacked(name)
        calls = case.actions()
        at = [name for name, _ in calls].index(action)
        shutil.rmtree(case.table)
        shutil.copytree(case.folder / "saved", case.table, copy_function=os.link)
        if calls[at][1]["action"]["chained"]:
            run(case, calls[at - 1][1])
        return case, calls[at][1]

    return fresh


def options_of(arguments: dict) -> dict[str, str]:
    """The arguments of a recorded call as they are given to lakemeta."""
    found = {}
    for name, value in arguments.items():
        text = str(value)
        if moment := re.fullmatch(r"RAW:TIMESTAMP '(\S+) (\S+)'", text):
            text = f"{moment[1]}T{moment[2]}Z"
        elif numbers := re.fullmatch(r"RAW:ARRAY\((.*)\)", text):
            text = numbers[1]
        found[name.replace("cleanup_level", "cleanup-level")] = text.lower() if value is True else text
    return found


def set_up(case, expected: dict) -> None:
    """What was done to the fresh copy before the call."""
    steps = expected["action"].get("setup") or []
    said = (expected.get("note") or "").partition(PROPERTIES)[2]
    for changed in [*(step["set"] for step in steps), *([ast.literal_eval(said)] if said and not steps else [])]:
        operations = HadoopTableOperations(LocalStorage(), str(case.table))
        base = operations.refresh()
        operations.commit(base, attrs.evolve(base.metadata, properties={**base.metadata.properties, **changed}))


def run(case, expected: dict):
    """Plan and apply at the recorded time."""
    now_ms = expected.get("action_time_ms") or newest(case)["last-updated-ms"] + 60_000
    table = IcebergTable.open(str(case.table))
    now = datetime.fromtimestamp(now_ms / 1000, UTC)
    return table.apply(table.plan("expire-snapshots", options_of(expected["action"]["args"]), now=now))


def newest(case) -> dict:
    return read_json(metadata_files(case.table)[-1])


def names(case) -> set[str]:
    """All files of the table; what lakemeta records of a run is none of the engine's."""
    found = {path.relative_to(case.table) for path in case.table.rglob("*") if path.is_file()}
    return {str(path) for path in found if LEDGERS not in path.parts}


@pytest.mark.parametrize("call", recorded())
def test_recorded_call(call, cases):
    """Result columns, snapshots, refs, schemas, specs, statistics, log and files are those of the recorded call."""
    case, expected = cases(*call)
    set_up(case, expected)
    check(case, expected)


OF_JAVA, WITHOUT_REFS = "17_expire_snapshots_java_api_retain2", "18_expire_snapshots_after_dropping_refs"


@pytest.mark.slow
def test_recorded_calls_of_an_older_recording(tmp_path):
    """The same for a table that Spark wrote, with branches and tags that have ages and minima of their own."""
    case = unpack("expire_branches_tags", tmp_path)
    shutil.copytree(case.table, tmp_path / "saved")
    calls = [(name, call) for name, call in case.actions() if name != OF_JAVA]
    assert len(calls) == 17
    for name, expected in calls:
        shutil.rmtree(case.table)
        shutil.copytree(tmp_path / "saved", case.table)
        set_up(case, expected)
        if name == WITHOUT_REFS:
            drop_refs(case)
        check(case, expected)


def drop_refs(case) -> None:
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    for name in ("dev", "t_early"):  # one commit each, as in the recording
        base = operations.refresh()
        refs = {other: ref for other, ref in base.metadata.refs.items() if other != name}
        operations.commit(base, attrs.evolve(base.metadata, refs=refs))


def check(case, expected: dict) -> None:
    before, files = newest(case), names(case)
    if "error" in expected:
        with pytest.raises(LakemetaError) as caught:
            run(case, expected)
        assert str(caught.value) == expected["error"]["message"]
        assert names(case) == files
        return
    report = run(case, expected)
    after, diff = newest(case), expected["diff"]
    gone = {s["snapshot-id"] for s in before["snapshots"]} - {s["snapshot-id"] for s in after["snapshots"]}
    assert gone == set(diff["removed_snapshot_ids"])
    changed = diff["metadata"] if "metadata" in diff else diff["metadata_diff"]["changed"]
    for field in FIELDS:
        assert removed(before, after, field) == removed_there(changed.get(field)), field
    of_java = expected["action"].get("api") == "core"
    if not of_java:
        assert report.result == expected["result"][0]
    if not of_java or "cleanup_level" in expected["action"]["args"]:
        assert files - names(case) == without_checksums(diff["fs_deleted"])
        assert names(case) - files == without_checksums(diff["fs_added"])
    assert report.complete
    assert not report.notes


def without_checksums(paths) -> set[str]:
    return {path for path in paths if not path.endswith(".crc")}


def removed(before: dict, after: dict, field: str) -> list[str]:
    """What a field of the metadata has lost; nothing was added to it or changed."""
    old, new = before.get(field) or [], after.get(field) or []
    assert [item for item in new if item not in old] == []
    if isinstance(old, dict):
        assert all(old[name] == value for name, value in new.items())
    return sorted(identity(item) for item in old if item not in new)


def removed_there(change: dict | None) -> list[str]:
    if change is None:
        return []
    if "list_removed" in change:
        return sorted(identity(item) for item in change["list_removed"])
    return sorted(change["from"].keys() - change["to"].keys())


def identity(item) -> str:
    """An item without paths, which are elsewhere now; names of refs are what they are."""
    if isinstance(item, str):
        return item
    return json.dumps({k: v for k, v in item.items() if not k.endswith("path")}, sort_keys=True)

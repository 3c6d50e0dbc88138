"""Removals of orphan files on recorded tables: what real Iceberg 1.12 on Spark listed and deleted, exactly.

Calls with a ``file_list_view`` are done with the rows of the view, by the join alone: no store has most of their files.
"""

from __future__ import annotations

import io
import json
import lzma
import os
import re
import tarfile
from datetime import UTC, datetime, timedelta
from functools import cache

import attrs
import pyarrow as pa
import pytest
from support.iceberg_cases import DATA, Case, unpack

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError, OptionError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.orphans.join import Join
from lakemeta.iceberg.orphans.options import OrphanOptions
from lakemeta.iceberg.orphans.referenced import References
from lakemeta.iceberg.orphans.uris import split_location
from lakemeta.storage import LocalStorage

ORPHANS = DATA.with_name("iceberg_orphans")
CASES = {"orphan_files": DATA, "orphan_prefix": DATA}
CASES |= {path.name.removesuffix(".tar.xz"): ORPHANS for path in sorted(ORPHANS.glob("*.tar.xz"))}
NOT_DONE = {
    "orphan_files": {"16_remove_orphan_files_gc_disabled"},  # after SQL that was not recorded
    "orphans_nested_table_a": {"01_remove_orphan_files_dry"},  # refused on purpose, by a test of its own
}


@pytest.fixture(scope="module")
def tables(tmp_path_factory):
    return cache(lambda name: unpack(name, tmp_path_factory.mktemp(name), CASES[name]))


@cache
def actions(name: str) -> dict[str, dict]:
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress((CASES[name] / f"{name}.tar.xz").read_bytes()))) as archive:
        names = sorted(n for n in archive.getnames() if n.endswith("/expected.json"))
        found = {n.split("/")[-2]: json.load(archive.extractfile(n)) for n in names}
    return {n: e for n, e in found.items() if e["action"]["procedure"] == "remove_orphan_files"}


def calls(*, view: bool) -> list:
    found = [(case, name) for case in CASES for name in actions(case) if name not in NOT_DONE.get(case, ())]
    of_kind = [(c, n) for c, n in found if ("file_list_view" in actions(c)[n]["action"]["args"]) is view]
    return [pytest.param(c, n, id=f"{c}-{n}") for c, n in of_kind if not actions(c)[n]["action"]["chained"]]


def first_deletions() -> list:
    """Of each case the first call that deletes."""
    deleting = {c: [n for n, e in actions(c).items() if "dry_run" not in e["action"]["args"]] for c in CASES}
    return [pytest.param(c, names[0], id=c) for c, names in deleting.items() if names]


def now_of(case: Case, expected: dict) -> datetime:
    millis = expected.get("action_time_ms")
    if millis is None:  # what was planted as new is as new as the table
        operations = HadoopTableOperations(LocalStorage(), str(case.table))
        millis = operations.current().metadata.last_updated_ms + 60_000
    return datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)


def options_of(case: Case, expected: dict) -> dict[str, str]:
    """The arguments of a call as texts."""
    old = case.info()["table_root_in_metadata"]
    texts = {}
    for name, value in expected["action"]["args"].items():
        if isinstance(value, dict):
            texts[name] = ",".join(f"{key}={meaning}" for key, meaning in value.items())
        elif isinstance(value, bool):
            texts[name] = str(value).lower()
        else:
            text = re.sub(r"RAW:TIMESTAMP '(.*)'", r"\1", str(value))
            texts[name] = text.replace(old, str(case.table)) if name == "location" else text
    return {name: text for name, text in texts.items() if name not in ("dry_run", "file_list_view")}


def listed_by(case: Case, expected: dict) -> list[str]:
    """The locations in the result of a call."""
    old = case.info()["table_root_in_metadata"]
    return sorted(row["orphan_file_location"].replace(old, str(case.table)) for row in expected["result"])


def plan_of(case: Case, expected: dict):
    options, at = options_of(case, expected), now_of(case, expected)
    return IcebergTable.open(str(case.table)).plan("remove-orphan-files", options, now=at)


@pytest.mark.parametrize(("case", "call"), calls(view=False))
def test_plans_name_what_the_engine_lists(case, call, tables):
    """The plan of a call names exactly the files in its result, and refuses what it refuses, in its words."""
    table, expected = tables(case), actions(case)[call]
    if expected.get("error"):
        if expected["action"].get("setup"):
            return  # by a test of its own, on a copy
        with pytest.raises(LakemetaError) as raised:
            plan_of(table, expected)
        words = expected["error"]["message"].replace(table.info()["table_root_in_metadata"], str(table.table))
        assert words.partition(", you can use")[0] in str(raised.value)
        return
    plan = plan_of(table, expected)
    assert sorted(f"file:{table.table}/{op.path}" for op in plan.operations) == listed_by(table, expected)
    assert plan == type(plan).loads(plan.dumps())


@pytest.mark.parametrize(("case", "call"), first_deletions())
def test_what_goes_is_what_the_engine_deletes(case, call, tmp_path):
    """Applied, a plan deletes exactly the files that the engine did, and a second one finds nothing."""
    table, expected = unpack(case, tmp_path, CASES[case]), actions(case)[call]
    before = files(table)
    opened, env = IcebergTable.open(str(table.table)), Environment(now=lambda: now_of(table, expected))
    report = opened.apply(plan_of(table, expected), env=env)
    gone = expected.get("fs_deleted") or expected["diff"]["fs_deleted"]
    assert sorted(before - files(table)) == sorted(gone)
    assert sorted(report.result["orphan_file_location"]) == listed_by(table, expected)
    assert (report.deleted_files, report.complete, report.notes) == (len(gone), True, ())
    assert plan_of(table, expected).is_empty


def files(case: Case) -> set[str]:
    return {str(path.relative_to(case.table)) for path in case.table.rglob("*") if path.is_file()}


def rows_of(case: Case, expected: dict) -> list[tuple[str, str | None]]:
    """The rows of a view: location, and time in ISO 8601."""
    if "file_list_view_rows" in expected:
        rows = expected["file_list_view_rows"]
        return [(r["file_path"].replace("$ROOT", str(case.table)), r["last_modified"]) for r in rows if r["file_path"]]
    note = expected["note"]
    if "table location/paths" in note:  # prefix, the table's root and names below it
        names = re.findall(r"'([^']*)'", note.partition("'/' + ")[2])
        prefix = re.search(r"view rows = '([^']*)'", note)[1]
    else:
        prefix = re.search(r"prefix '([^']*)'", note)[1]
        names = [p for p in files(case) if re.fullmatch(r"data/p=p[01]/00000-.*\.parquet|data/orphan-old.parquet", p)]
    return [(f"{prefix}{case.table}/{name}", "2020-01-01T00:00:00") for name in names]


@pytest.mark.parametrize(("case", "call"), calls(view=True))
def test_the_join_finds_what_the_engine_finds_of_a_view(case, call, tables):
    """Of a view's rows, those below the location as that is spelled, and older, are joined with the same result.

    On purpose: a row whose location only begins with the text of the location, ``/t2`` of ``/t``, does not lie in it.
    """
    table, expected = tables(case), actions(case)[call]
    if expected.get("error") and "does not exist. Available" in expected["error"]["message"]:
        return  # what an inventory must have is tested where it is read
    if expected.get("error") and "is not a timestamp" in expected["error"]["message"]:
        return
    texts = options_of(table, expected)
    if "Invalid mode" in (expected.get("error") or {}).get("message", ""):
        with pytest.raises(OptionError, match="Invalid mode: bogus"):
            OrphanOptions.parse(texts)
        return
    options, at = OrphanOptions.parse(texts), now_of(table, expected)
    if expected.get("error"):
        with pytest.raises(LakemetaError) as raised:
            joined(table, rows_of(table, expected), options, at)
        ours, theirs = (
            m[m.index("Conflicting authorities") :] for m in (str(raised.value), expected["error"]["message"])
        )
        assert ours == theirs
        return
    found = joined(table, rows_of(table, expected), options, at)
    root = location_of(table, options)
    theirs = {split_location(path)[1] for path in listed_by(table, expected) if path.startswith(f"{root}/")}
    assert found == theirs - {split_location(root)[1]}


def location_of(case: Case, options: OrphanOptions) -> str:
    default = HadoopTableOperations(LocalStorage(), str(case.table)).current().metadata.location
    return options.location or default


def joined(case: Case, rows, options: OrphanOptions, now: datetime) -> set[str]:
    """The paths of orphans among rows of a view."""
    root = location_of(case, options)
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    with Join.opened(options.rules, rooted=True) as join:
        for location, modified in rows:
            at = modified and datetime.fromisoformat(modified).replace(tzinfo=UTC)
            if at and at < now - timedelta(days=3) and location.startswith(f"{root}/"):
                prefix, key = split_location(location)
                join.listed.add(prefix, pa.array([key]), pa.array([0], pa.int64()))
        for prefix, keys in References(operations.storage, LocalExecutor(1), ()).of(operations.current()):
            join.named.add(prefix, keys)
        return {orphan.path for orphan in join.orphans()} - {split_location(root)[1]}


def test_a_nested_table_refuses(tables):
    """On purpose: another table below the location, all of whose files the engine deletes, is named and refuses."""
    case = tables("orphans_nested_table_a")
    expected = actions("orphans_nested_table_a")["01_remove_orphan_files_dry"]
    with pytest.raises(
        UnsupportedFeatureError, match=r"another table lies .*nested/t2/metadata/v1.metadata.json is of"
    ):
        plan_of(case, expected)


def test_a_table_without_garbage_collection_refuses(tables, tmp_path):
    """In the engine's words, where ``gc.enabled`` is false."""
    case = unpack("orphans_bad_names_a", tmp_path, ORPHANS)
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    base = operations.current()
    kept = attrs.evolve(base.metadata, properties={**base.metadata.properties, "gc.enabled": "false"})
    operations.commit(base, kept)
    with pytest.raises(
        UnsupportedFeatureError, match=r"^Cannot delete orphan files: GC is disabled \(deleting files may"
    ):
        IcebergTable.open(str(case.table)).plan("remove-orphan-files")


@pytest.mark.parametrize("case", ["orphans_r01_v2", "orphans_refs_a"])
def test_after_snapshots_expired(case, tmp_path):
    """What an expiration left behind goes as in the engine: metadata files that left the log too."""
    table = unpack(case, tmp_path, CASES[case])
    opened = IcebergTable.open(str(table.table))
    expired = opened.plan("expire-snapshots", {"older_than": "2100-01-01T00:00:00Z"})
    opened.apply(expired)
    for path in table.table.rglob("*"):
        if path.is_file():  # as was recorded: all files are 40 days older then
            then = path.stat().st_mtime - 40 * 86_400
            os.utime(path, (then, then))
    call = next(name for name in actions(case) if name.endswith("_after_expire"))
    expected = actions(case)[call]
    before = files(table)
    opened.apply(plan_of(table, expected), env=Environment(now=lambda: now_of(table, expected)))
    assert sorted(before - files(table)) == sorted(expected["fs_deleted"])

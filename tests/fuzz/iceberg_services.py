"""What the services beside the rewrite of data files do with a mutated Iceberg table, judged by files and rows.

A file that a snapshot of the table as it was holds, and that was there, may only go with that snapshot; and the rows of
the newest snapshot stay what they are. Both are found out without lakemeta.
"""

from __future__ import annotations

import gzip
import json
import re
from datetime import UTC, datetime
from functools import cache
from typing import TYPE_CHECKING, Any
from zlib import crc32

from fuzz.iceberg_tables import current, is_readable, open_table, rows_of
from fuzz.memory import MemoryTable
from fuzz.outcomes import ONE, Files, Table, Tries
from support.iceberg_checker import TableState
from support.iceberg_tables import still_env

from lakemeta.iceberg.services import SERVICES
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Mapping

LATER = datetime(2030, 1, 1, tzinfo=UTC)  # when all files and snapshots are old
OPTIONS = {
    "expire-snapshots": {"retain_last": "1"},
    "rewrite-position-deletes": {"rewrite-all": "true"},
}
CHOICES = sorted(SERVICES.keys() - {"rewrite-data-files"})


def run(table: Table, files: Files, tries: Tries) -> None:
    """One service, by what the mutation is, on a table with an orphan in it."""
    seed = sum(crc32(content) for path, (content, _) in sorted(files.items()) if "/metadata/" in path)
    service = CHOICES[seed % len(CHOICES)]
    whole = {**files, f"{table.root}/data/orphan.parquet": (b"PAR1", 0x100000000)}
    storage = MemoryTable(whole)
    opened = tries.of(f"{service}: open", lambda: open_table(table, storage))
    if opened is None:
        return
    options = OPTIONS.get(service, {})
    plan = tries.of(f"{service}: plan", lambda: opened.plan(service, options, now=LATER, executor=ONE))
    if plan is None:
        return
    saved = tries.of(f"{service}: save plan", lambda: Plan.loads(plan.dumps())) or plan
    tries.of(f"{service}: apply", lambda: opened.apply(saved, executor=ONE, env=still_env(7)))
    judge(service, table, whole, storage.files, tries)


def judge(service: str, table: Table, before: Files, after: Mapping[str, Any], tries: Tries) -> None:
    """Say what went wrong: files of snapshots that are still there, rows of the newest one."""
    gone = before.keys() - after.keys()
    try:
        left = _snapshots(table.root, after)
    except Exception as error:
        if _is_metadata(table.root, before):
            tries.wrong.append(f"{service} left metadata that cannot be read: {type(error).__name__}")
        return
    for snapshot, held in held_by_snapshot(table.name).items():
        if lost := sorted(gone & held) if snapshot in left else []:
            tries.wrong.append(f"{service} deleted {lost[:2]} of snapshot {snapshot}, which is still there")
    if set(before) != set(after) and is_readable(table):
        _judge_rows(service, table, before, after, tries)


def _judge_rows(service: str, table: Table, before: Files, after: Mapping[str, Any], tries: Tries) -> None:
    try:
        rows = rows_of(table, before)
    except Exception:
        return  # the mutation made it so
    try:
        left = rows_of(table, dict(after))
    except Exception as error:
        tries.wrong.append(f"{service} left what the checker cannot read: {type(error).__name__} {str(error)[:100]}")
        return
    if rows != left:
        tries.wrong.append(f"{service}: {len(rows)} rows became {len(left)}")


def _is_metadata(root: str, files: Mapping[str, Any]) -> bool:
    try:
        _snapshots(root, files)
    except Exception:
        return False
    return True


def _snapshots(root: str, files: Mapping[str, Any]) -> set[int]:
    """The ids of the snapshots of the newest version."""
    data = files[current(root, files)][0]
    metadata = json.loads(gzip.decompress(data) if data[:2] == b"\x1f\x8b" else data)
    return {snapshot["snapshot-id"] for snapshot in metadata.get("snapshots", ())}


@cache
def held_by_snapshot(name: str) -> dict[int, set[str]]:
    """The files of each snapshot of a table as it is: lists, manifests, live data and delete files."""
    from fuzz.tables import tables

    table = tables()[name]

    def read(path: str) -> bytes:
        return table.files[_plain(path)][0]

    found = {}
    newest = current(table.root, table.files)
    for snapshot in TableState(newest, read).metadata.get("snapshots", ()):
        state = TableState(newest, read, snapshot["snapshot-id"])
        lists = [snapshot["manifest-list"], *(m["manifest_path"] for m in state.manifests)]
        found[snapshot["snapshot-id"]] = set(map(_plain, [*lists, *state.paths(0, 1, 2)]))
    return found


def _plain(path: str) -> str:
    return re.sub(r"^file:(//)?(?=/)", "", path)

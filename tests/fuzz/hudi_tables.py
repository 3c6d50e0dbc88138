"""Hudi tables to mutate, and everything lakemeta does with one: nothing goes that did not go before the mutation."""

from __future__ import annotations

import re
import tempfile
import unicodedata
from datetime import UTC, datetime, timedelta
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

from fuzz.memory import MemoryTable
from fuzz.outcomes import ONE, Files, Table, Tries, read_files
from support import hudi_cases
from support.hudi_mdt_cases import CASES as MDT_CASES
from support.hudi_mdt_cases import lay_out

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.place import Place
from lakemeta.hudi.timeline.loading import load_config
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

HUDI = re.compile(
    r".*__(archived__step3|archived__step4|cdc__commits3|clustering__pending_commits1|cow__commits1|cow__versions2|"
    r"delete_partition__commits1|failed_cow__eager_clean|failed_cow_lazy__expired|failed_mor__eager_clean|"
    r"incremental__step3|inflight_middle__commits1|mor__commits2|mor__versions1|mor_pending_compaction__commits2|"
    r"nested_plain__versions1|nonpartitioned__commits2|pending_clean__exec_inflight|pending_clean__exec_requested|"
    r"replace_overwrite__commits1|savepoint__commits1|savepoint__versions1|combo_mor__step2)"
)
_DELETIONS: dict[str, frozenset[str]] = {}
_NEWEST: dict[str, frozenset[str]] = {}


def run(table: Table, files: Files, tries: Tries, service: str, *, moved: bool) -> None:
    storage = MemoryTable(files)
    opened = tries.of("open", lambda: open_table(table, storage))
    if opened is None:
        return
    if service == "clean":
        tries.of("inspect", lambda: opened.inspect(executor=ONE))
        tries.of("doctor", lambda: opened.doctor(table.options, now=table.now, executor=ONE))
        victim = sorted(files)[len(files) // 2]
        tries.of("why", lambda: opened.why(victim, table.options, now=table.now, executor=ONE))
    plan = tries.of(f"plan {service}", lambda: make_plan(opened, table, service))
    if plan is None:
        return
    saved = tries.of("save plan", lambda: Plan.loads(plan.dumps())) or plan
    tries.of(f"apply {service}", lambda: apply_plan(opened, table, saved))
    gone = {path for path in files.keys() - storage.files.keys() if "/.hoodie/" not in path}
    for path in sorted(gone - deletions(table)):
        if not _is_uncommitted(table, files, path) and (not moved or path in newest_bases(table)):
            tries.wrong.append(f"{service} deleted {path[len(table.root) + 1 :]}")


def _instant_of(path: str) -> str:
    match = re.search(r"_(\d{14,17})\.(parquet|orc|hfile|log)", path)
    return match[1] if match else ""


def _is_uncommitted(table: Table, files: Files, path: str) -> bool:
    """True if the file's write has a beginning on the timeline and no end, as that of a crashed writer.

    A mutation that takes the end away makes it a failed write, whatever the metadata table says: that is told first.
    An end in digits of another script is not away.
    """
    start = rf"{re.escape(table.root)}/\.hoodie/(timeline/)?{_instant_of(path) or 'x'}[._]"
    begun = [name for name in map(_in_ascii_digits, files) if re.match(start, name)]
    return bool(begun) and all(name.endswith((".requested", ".inflight", ".tmp")) for name in begun)


def _in_ascii_digits(name: str) -> str:
    return name if name.isascii() else "".join(str(unicodedata.digit(c, c)) for c in name)


def newest_bases(table: Table) -> frozenset[str]:
    """The newest base file of each file group that is there before the mutation."""
    if table.name not in _NEWEST:
        _NEWEST[table.name] = frozenset(_find_newest_bases(table))
    return _NEWEST[table.name]


def _find_newest_bases(table: Table) -> Iterable[str]:
    newest: dict[str, str] = {}
    for path in table.files:
        if "/.hoodie/" not in path and path.endswith((".parquet", ".orc")):
            group = path.split("_")[0]
            if _instant_of(path) > _instant_of(newest.get(group, "")):
                newest[group] = path
    return newest.values()


def open_table(table: Table, storage: MemoryTable) -> HudiTable:
    return HudiTable(Place(table.root, storage, table.root), load_config(storage, table.root))


def make_plan(opened: HudiTable, table: Table, service: str) -> Plan:
    if service == "clean":
        return opened.plan_clean(table.options, now=table.now, executor=ONE, explain=True)
    return opened.plan_rollback(table.options, now=table.now, executor=ONE)


def apply_plan(opened: HudiTable, table: Table, plan: Plan) -> None:
    opened.apply(plan, executor=ONE, env=Environment(_clock(table)), assume_single_writer=True)


def _clock(table: Table) -> Callable[[], datetime]:
    ticks = count(1)
    return lambda: table.now + timedelta(milliseconds=next(ticks))


def deletions(table: Table) -> frozenset[str]:
    """What clean and rollback delete of the table as it was."""
    if table.name not in _DELETIONS:
        _DELETIONS[table.name] = frozenset(_find_deletions(table))
    return _DELETIONS[table.name]


def _find_deletions(table: Table) -> set[str]:
    gone: set[str] = set()
    for service in ("clean", "rollback"):
        storage = MemoryTable(table.files)
        opened = open_table(table, storage)
        try:
            plan = make_plan(opened, table, service)
            apply_plan(opened, table, plan)
        except LakemetaError:
            continue
        gone |= table.files.keys() - storage.files.keys()
    return gone


def load_tables() -> Iterator[Table]:
    """The recorded tables, those with a metadata table last."""
    yield from _recorded()
    yield from _with_metadata_table()


def _recorded() -> Iterator[Table]:
    for name, case in hudi_cases.load_cases().items():
        if not HUDI.match(name):
            continue
        root = f"/fuzz/{name}"
        modified = int(case.now.timestamp() * 1000) - 3_600_000
        files: Files = {
            f"{root}/{path}": (hudi_cases._moved(content, path, case.base, root), modified)
            for path, content in case.hoodie.items()
        }
        names = _names(files)
        files |= {f"{root}/{path}": (bytes(size), changed) for path, (size, changed) in case.files.items()}
        yield Table(f"hudi {name}", root, files, names, case.options, case.now)


def _with_metadata_table() -> Iterator[Table]:
    for name in MDT_CASES:
        with tempfile.TemporaryDirectory() as folder:
            case = lay_out(name, Path(folder))
            root = f"/fuzz/{name}"
            files = read_files(Path(case.root), root)
        names = _names(files)
        policy = "KEEP_LATEST_FILE_VERSIONS" if "versions" in name else "KEEP_LATEST_COMMITS"
        options = {"hoodie.clean.policy": policy, "hoodie.clean.commits.retained": "1"}
        yield Table(f"hudi metadata {name}", root, files, names, options, datetime(2027, 1, 15, tzinfo=UTC))


_PLANS = re.compile(
    r".*/\.hoodie/(timeline/)?[^/]*(savepoint|clean(\.requested)?|(compaction|clustering|replacecommit|rollback).requested)"
)


def _names(files: Files) -> list[str]:
    metadata = sorted(path for path in files if "/.hoodie/" in path and not path.endswith(".crc"))
    filled = [path for path in metadata if files[path][0]]
    return metadata + 2 * filled + 3 * [path for path in filled if _PLANS.fullmatch(path)]

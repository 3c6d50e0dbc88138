"""Tables to mutate, as files in memory, and what is done with each mutated one: everything lakemeta does with tables.

A table is judged by what is left of it afterwards, by readers that share no code with lakemeta.
"""

from __future__ import annotations

import hashlib
import re
import tempfile
import unicodedata
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from functools import cache
from itertools import count
from pathlib import Path
from typing import Any

import attrs
from fuzz.memory import File, MemoryTable
from support import hudi_cases, iceberg_cases
from support.hudi_mdt_cases import CASES as MDT_CASES
from support.hudi_mdt_cases import lay_out
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env

from lakemeta.environment import Environment
from lakemeta.errors import LakemetaError, PathNotFoundError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.files.place import Place as HudiPlace
from lakemeta.hudi.timeline.loading import load_config
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.rewrite.planner import Place as IcebergPlace
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan

Files = dict[str, File]
EDITED = "plan"  # among the files, one that is applied instead of plans of the table itself
ONE = LocalExecutor(1)
_PLANNED: dict[tuple[str, str], str] = {}

HUDI = re.compile(
    r".*__(archived__step3|archived__step4|cdc__commits3|clustering__pending_commits1|cow__commits1|cow__versions2|"
    r"delete_partition__commits1|failed_cow__eager_clean|failed_cow_lazy__expired|failed_mor__eager_clean|"
    r"incremental__step3|inflight_middle__commits1|mor__commits2|mor__versions1|mor_pending_compaction__commits2|"
    r"nested_plain__versions1|nonpartitioned__commits2|pending_clean__exec_inflight|pending_clean__exec_requested|"
    r"replace_overwrite__commits1|savepoint__commits1|savepoint__versions1|combo_mor__step2)"
)
ICEBERG = (
    "conflicts_v2", "eq_deletes_v2", "expire_branches_tags", "hadoop_commit_protocol", "mixed_formats",
    "partitioned_v1", "partitioned_v2", "pos_deletes_v2", "pos_deletes_partition_granularity",
    "schema_evolution_v2", "spec_evolution_v2", "stats_files", "v3_dv_lineage",
)  # fmt: skip


@attrs.frozen
class Outcome:
    """What an operation ended in: "" or an error of ours by name; ``wrong`` says what no operation may end in."""

    refused: tuple[str, ...]
    wrong: tuple[str, ...]


@attrs.frozen
class Table:
    """A table before it is mutated; ``names`` are the files of metadata, those oftener that matter more."""

    name: str
    root: str
    files: Files = attrs.field(repr=False)
    names: list[str] = attrs.field(repr=False)
    options: dict[str, str] = attrs.field(factory=dict)
    now: datetime = datetime(2026, 1, 1, tzinfo=UTC)

    @property
    def is_hudi(self) -> bool:
        return f"{self.root}/.hoodie/hoodie.properties" in self.files

    def contents(self) -> dict[str, bytes]:
        """The content of every file of metadata."""
        return {name: self.files[name][0] for name in self.names}

    def mutated(self, contents: dict[str, bytes]) -> Files:
        """The files with the metadata put in place of their own."""
        data = {path: file for path, file in self.files.items() if path not in set(self.names)}
        changed = self.files[f"{self.names[0]}"][1]
        return data | {path: (content, self.files.get(path, (b"", changed))[1]) for path, content in contents.items()}


class _Tries:
    """Carries operations out, and sorts what they end in."""

    def __init__(self) -> None:
        self.refused: list[str] = []
        self.wrong: list[str] = []

    def of(self, what: str, work: Callable[[], Any]) -> Any:
        try:
            return work()
        except LakemetaError as error:
            self.refused.append(f"{what}: {type(error).__name__}")
            if "\n" in str(error) or not str(error) or len(str(error)) > 5000:
                self.wrong.append(f"{what}: a message that is no sentence: {str(error)[:200]!r}")
        except Exception as error:
            at = _where(error)
            self.wrong.append(f"{what}: {type(error).__name__} at {at}: {str(error)[:120]}")
        return None


def _where(error: BaseException) -> str:
    """The innermost place in lakemeta that the error passed."""
    found, trace = "?", error.__traceback__
    while trace is not None:
        name = trace.tb_frame.f_code.co_filename
        if "/lakemeta/" in name:
            found = f"{name.rpartition('/lakemeta/')[2]}:{trace.tb_lineno}"
        trace = trace.tb_next
    return found


def run(table: Table, files: Files, *, moved: bool) -> Outcome:
    """Everything lakemeta does, on a mutated table, each service on a copy of its own.

    ``moved`` says that files came or went by the mutation, so that the table may be another one, in good order.
    """
    tries = _Tries()
    if EDITED in files:
        _apply_edited(table, {path: file for path, file in files.items() if path != EDITED}, files[EDITED][0], tries)
    elif table.is_hudi:
        for service in ("clean", "rollback"):
            _run_hudi(table, files, tries, service, moved=moved)
    else:
        _run_iceberg(table, files, tries)
    return Outcome(tuple(tries.refused), tuple(tries.wrong))


def plan_text(name: str, service: str) -> str:
    """The plan of a service for a table as it is."""
    if (name, service) not in _PLANNED:
        table = tables()[name]
        storage = MemoryTable(table.files)
        if table.is_hudi:
            plan = _plan_hudi(_open_hudi(table, storage), table, service)
        else:
            plan = _open_iceberg(table, storage).plan_rewrite_data_files(table.options)
        _PLANNED[name, service] = plan.dumps()
    return _PLANNED[name, service]


def _apply_edited(table: Table, files: Files, text: bytes, tries: _Tries) -> None:
    """Apply a plan that somebody edited to the table as it is: nothing goes but what plans of ours delete."""
    storage = MemoryTable(files)
    plan = tries.of("load plan", lambda: Plan.loads(text.decode("utf-8", "surrogatepass")))
    if plan is None:
        return
    tries.of("summary", plan.summary)
    if table.is_hudi:
        opened = _open_hudi(table, storage)
        tries.of("apply edited", lambda: _apply_hudi(opened, table, plan))
        gone = {path for path in files.keys() - storage.files.keys() if "/.hoodie/" not in path}
        tries.wrong += [f"an edited plan deleted {path}" for path in sorted(gone - _hudi_deletions(table.name))]
        return
    rewritten = _open_iceberg(table, storage)
    before = len(tries.refused)
    tries.of("apply edited", lambda: rewritten.apply(plan, executor=ONE, env=still_env(7)))
    _judge_iceberg(table, files, storage.files, tries, committed=before == len(tries.refused))


# --- Hudi


def _run_hudi(table: Table, files: Files, tries: _Tries, service: str, *, moved: bool) -> None:
    storage = MemoryTable(files)
    opened = tries.of("open", lambda: _open_hudi(table, storage))
    if opened is None:
        return
    if service == "clean":
        tries.of("inspect", lambda: opened.inspect(executor=ONE))
        tries.of("doctor", lambda: opened.doctor(table.options, now=table.now, executor=ONE))
        victim = sorted(files)[len(files) // 2]
        tries.of("why", lambda: opened.why(victim, table.options, now=table.now, executor=ONE))
    plan = tries.of(f"plan {service}", lambda: _plan_hudi(opened, table, service))
    if plan is None:
        return
    saved = tries.of("save plan", lambda: Plan.loads(plan.dumps())) or plan
    tries.of(f"apply {service}", lambda: _apply_hudi(opened, table, saved))
    gone = {path for path in files.keys() - storage.files.keys() if "/.hoodie/" not in path}
    for path in sorted(gone - _hudi_deletions(table.name)):
        if not _is_uncommitted(table, files, path) and (not moved or path in _newest_bases(table.name)):
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


@cache
def _newest_bases(name: str) -> frozenset[str]:
    """The newest base file of each file group that is there before the mutation."""
    newest: dict[str, str] = {}
    for path in tables()[name].files:
        if "/.hoodie/" not in path and path.endswith((".parquet", ".orc")):
            group = path.split("_")[0]
            if _instant_of(path) > _instant_of(newest.get(group, "")):
                newest[group] = path
    return frozenset(newest.values())


def _open_hudi(table: Table, storage: MemoryTable) -> HudiTable:
    return HudiTable(HudiPlace(table.root, storage, table.root), load_config(storage, table.root))


def _plan_hudi(opened: HudiTable, table: Table, service: str) -> Plan:
    if service == "clean":
        return opened.plan_clean(table.options, now=table.now, executor=ONE, explain=True)
    return opened.plan_rollback(table.options, now=table.now, executor=ONE)


def _apply_hudi(opened: HudiTable, table: Table, plan: Plan) -> None:
    opened.apply(plan, executor=ONE, env=Environment(_clock(table)), assume_single_writer=True)


def _clock(table: Table) -> Callable[[], datetime]:
    ticks = count(1)
    return lambda: table.now + timedelta(milliseconds=next(ticks))


@cache
def _hudi_deletions(name: str) -> frozenset[str]:
    """What clean and rollback delete of the table as it was."""
    table = tables()[name]
    gone: set[str] = set()
    for service in ("clean", "rollback"):
        storage = MemoryTable(table.files)
        opened = _open_hudi(table, storage)
        try:
            plan = _plan_hudi(opened, table, service)
            _apply_hudi(opened, table, plan)
        except LakemetaError:
            continue
        gone |= table.files.keys() - storage.files.keys()
    return frozenset(gone)


def _hudi_tables() -> Iterator[Table]:
    for name, case in hudi_cases.load_cases().items():
        if not HUDI.match(name):
            continue
        root = f"/fuzz/{name}"
        modified = int(case.now.timestamp() * 1000) - 3_600_000
        files: Files = {
            f"{root}/{path}": (hudi_cases._moved(content, path, case.base, root), modified)
            for path, content in case.hoodie.items()
        }
        names = _hudi_names(files)
        files |= {f"{root}/{path}": (bytes(size), changed) for path, (size, changed) in case.files.items()}
        yield Table(f"hudi {name}", root, files, names, case.options, case.now)


def _hudi_tables_with_metadata() -> Iterator[Table]:
    for name in MDT_CASES:
        with tempfile.TemporaryDirectory() as folder:
            case = lay_out(name, Path(folder))
            root = f"/fuzz/{name}"
            files = _read(Path(case.root), root)
        names = _hudi_names(files)
        policy = "KEEP_LATEST_FILE_VERSIONS" if "versions" in name else "KEEP_LATEST_COMMITS"
        options = {"hoodie.clean.policy": policy, "hoodie.clean.commits.retained": "1"}
        yield Table(f"hudi metadata {name}", root, files, names, options, datetime(2027, 1, 15, tzinfo=UTC))


_PLANS = re.compile(
    r".*/\.hoodie/(timeline/)?[^/]*(savepoint|clean(\.requested)?|(compaction|clustering|replacecommit|rollback).requested)"
)


def _hudi_names(files: Files) -> list[str]:
    metadata = sorted(path for path in files if "/.hoodie/" in path and not path.endswith(".crc"))
    filled = [path for path in metadata if files[path][0]]
    return metadata + 2 * filled + 3 * [path for path in filled if _PLANS.fullmatch(path)]


def _read(folder: Path, root: str) -> Files:
    paths = [path for path in folder.rglob("*") if path.is_file()]
    return {
        f"{root}/{path.relative_to(folder).as_posix()}": (path.read_bytes(), path.stat().st_mtime_ns // 1_000_000)
        for path in paths
    }


# --- Iceberg


def _run_iceberg(table: Table, files: Files, tries: _Tries) -> None:
    storage = MemoryTable(files)
    opened = tries.of("open", lambda: _open_iceberg(table, storage))
    if opened is None:
        return
    tries.of("inspect", lambda: opened.inspect(executor=ONE))
    tries.of("doctor", lambda: opened.doctor(executor=ONE))
    victim = next((path for path in files if "/data/" in path), table.names[0])
    tries.of("why", lambda: opened.why(victim, {}, "id > 3", executor=ONE))
    tries.of("plan where", lambda: opened.plan_rewrite_data_files({}, "id > 3", executor=ONE))
    # One of two ways to rewrite, by what the mutation is.
    sort = sum(map(len, (content for content, _ in files.values()))) % 3 == 0
    options = table.options | ({"strategy": "sort", "sort_order": "id DESC"} if sort else {})
    plan = tries.of("plan", lambda: opened.plan_rewrite_data_files(options, executor=ONE))
    if plan is None:
        return
    saved = tries.of("save plan", lambda: Plan.loads(plan.dumps())) or plan
    before = len(tries.refused)
    tries.of("apply", lambda: opened.apply(saved, executor=ONE, env=still_env(7)))
    _judge_iceberg(table, files, storage.files, tries, committed=before == len(tries.refused))


def _judge_iceberg(table: Table, before: Files, after: Files, tries: _Tries, *, committed: bool) -> None:
    gone = {path for path in before.keys() - after.keys() if "/data/" in path}
    if gone:
        tries.wrong.append(f"rewrite deleted {sorted(gone)[:3]}")
    if not committed or set(after) == set(before):
        return
    if not _is_readable(table.name):
        return
    try:
        rows = iceberg_rows(table, before)
    except (UnicodeDecodeError, KeyError):
        # It takes all of a header for text, of which much is never looked at, and knows fields of manifests by names.
        return
    except Exception as error:
        tries.wrong.append(f"rewrote what the checker cannot read: {type(error).__name__} {str(error)[:100]}")
        return
    try:
        left = iceberg_rows(table, after)
    except Exception as error:
        tries.wrong.append(f"left what the checker cannot read: {type(error).__name__} {str(error)[:100]}")
        return
    if rows != left:
        tries.wrong.append(f"{len(rows)} rows became {len(left)}, {len(set(rows) - set(left))} are missing")


@cache
def _is_readable(name: str) -> bool:
    """False for tables with data files that the checker does not read."""
    try:
        iceberg_rows(tables()[name], tables()[name].files)
    except Exception:
        return False
    return True


def iceberg_rows(table: Table, files: Files) -> list[str]:
    """The rows of the newest version of a table, read without lakemeta."""

    def read(path: str) -> bytes:
        plain = re.sub(r"^file:(//)?(?=/)", "", path)
        if plain not in files:
            raise FileNotFoundError(plain)
        return files[plain][0]

    return _Rows(_current(table.root, files), read).rows()


class _Rows(TableState):
    """The checker, which remembers the rows of files that no mutation touches."""

    known: dict[tuple[str, bytes], list[dict[int, Any]]] = {}

    def _file_rows(self, entry: dict[str, Any]) -> Iterator[dict[int, Any]]:
        path = entry["data_file"]["file_path"]
        try:
            digest = hashlib.blake2b(self.read(path), digest_size=16).digest()
        except FileNotFoundError:
            yield from super()._file_rows(entry)
            return
        if (path, digest) not in self.known:
            self.known[path, digest] = list(super()._file_rows(entry))
        yield from self.known[path, digest]


def _current(root: str, files: Files) -> str:
    """The newest metadata file of a Hadoop table."""
    name = re.compile(rf"{root}/metadata/v(\d+)(\.gz)?\.metadata\.json(\.gz)?", re.ASCII)
    versions = {int(match[1]): path for path in files if (match := name.fullmatch(path))}
    return versions[max(versions)]


def _open_iceberg(table: Table, storage: MemoryTable) -> IcebergTable:
    operations = HadoopTableOperations(storage, table.root)
    try:
        operations.current()
    except PathNotFoundError as error:
        raise LakemetaError(str(error)) from error
    return IcebergTable(IcebergPlace(table.root, operations))


class _Relocated(iceberg_cases._Move):
    """Moves a table that lies on a disk to names in memory."""

    def __init__(self, disk: Path, old: str, new: str) -> None:
        super().__init__(disk, old)
        self.disk, self.new = disk, new

    def _here(self, path: str) -> Path:
        return Path(re.sub(r"^file:(//)?", "", self.prefix.sub(str(self.disk), path)))


def _iceberg_tables() -> Iterator[Table]:
    for name in ICEBERG:
        with tempfile.TemporaryDirectory() as folder:
            disk = _extract(name, Path(folder))
            metadata = iceberg_cases.metadata_files(disk)
            location = re.sub(r"^file:(//)?", "", iceberg_cases.read_json(metadata[-1])["location"])
            root = f"/fuzz/{name}"
            _Relocated(disk, location, root).run(metadata)
            files = _read(disk, root)
        yield Table(f"iceberg {name}", root, files, _iceberg_names(root, files), dict(_REWRITE))
    for version in (1, 2, 3):
        root = f"/fuzz/own{version}"
        storage = MemoryTable({})
        small = create_table(storage, root, version=version, partitioned=version == 2)
        small.append([(1, "a", 1.5), (2, "a", 2.5)], [(3, "b", 3.5)])
        small.append([(4, "a", 4.5)])
        if version == 2:
            small.delete_positions(small.data_files()[0], [0])
            small.delete_ids(3, partition=("b",))
        yield Table(f"iceberg own{version}", root, storage.files, _iceberg_names(root, storage.files), dict(_REWRITE))


_REWRITE = {"rewrite-all": "true", "min-input-files": "1"}


def _iceberg_names(root: str, files: Files) -> list[str]:
    metadata = [path for path in files if "/metadata/" in path or path.endswith(".puffin")]
    avro = [path for path in metadata if path.endswith((".avro", ".puffin"))]
    names = sorted(path for path in metadata if not path.endswith(".crc")) + sorted(avro)
    return names + [_current(root, files)] * max(1, len(names) // 3)


def _extract(name: str, folder: Path) -> Path:
    import io
    import lzma
    import tarfile

    packed = lzma.decompress((iceberg_cases.DATA / f"{name}.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "before"


@cache
def tables() -> dict[str, Table]:
    """All tables by name."""
    found = [*_hudi_tables(), *_hudi_tables_with_metadata(), *_iceberg_tables()]
    return {table.name: table for table in found}


def prepare(names: list[str]) -> None:
    """Find out what mutations are judged by, once, before there are processes."""
    for name in names:
        if name.startswith("hudi"):
            _hudi_deletions(name)
            _newest_bases(name)
        else:
            _is_readable(name)

"""Iceberg tables to mutate, and everything lakemeta does with one: no row is lost, by a checker of its own."""

from __future__ import annotations

import hashlib
import re
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

from fuzz.memory import MemoryTable
from fuzz.outcomes import ONE, Files, Table, Tries, read_files
from support import iceberg_cases
from support.iceberg_checker import TableState
from support.iceberg_tables import create_table, still_env

from lakemeta.errors import LakemetaError, PathNotFoundError
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.table import IcebergTable
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from collections.abc import Iterator

ICEBERG = (
    "conflicts_v2", "eq_deletes_v2", "expire_branches_tags", "hadoop_commit_protocol", "mixed_formats",
    "partitioned_v1", "partitioned_v2", "pos_deletes_v2", "pos_deletes_partition_granularity",
    "schema_evolution_v2", "spec_evolution_v2", "stats_files", "v3_dv_lineage",
)  # fmt: skip
_READABLE: dict[str, bool] = {}


def run(table: Table, files: Files, tries: Tries) -> None:
    storage = MemoryTable(files)
    opened = tries.of("open", lambda: open_table(table, storage))
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
    judge(table, files, storage.files, tries, committed=before == len(tries.refused))


def judge(table: Table, before: Files, after: Files, tries: Tries, *, committed: bool) -> None:
    gone = {path for path in before.keys() - after.keys() if "/data/" in path}
    if gone:
        tries.wrong.append(f"rewrite deleted {sorted(gone)[:3]}")
    if not committed or set(after) == set(before):
        return
    if not is_readable(table):
        return
    try:
        rows = rows_of(table, before)
    except (UnicodeDecodeError, KeyError):
        # It takes all of a header for text, of which much is never looked at, and knows fields of manifests by names.
        return
    except Exception as error:
        tries.wrong.append(f"rewrote what the checker cannot read: {type(error).__name__} {str(error)[:100]}")
        return
    try:
        left = rows_of(table, after)
    except Exception as error:
        tries.wrong.append(f"left what the checker cannot read: {type(error).__name__} {str(error)[:100]}")
        return
    if rows != left:
        tries.wrong.append(f"{len(rows)} rows became {len(left)}, {len(set(rows) - set(left))} are missing")


def is_readable(table: Table) -> bool:
    """False for tables with data files that the checker does not read."""
    if table.name not in _READABLE:
        try:
            rows_of(table, table.files)
            _READABLE[table.name] = True
        except Exception:
            _READABLE[table.name] = False
    return _READABLE[table.name]


def rows_of(table: Table, files: Files) -> list[str]:
    """The rows of the newest version of a table, read without lakemeta."""

    def read(path: str) -> bytes:
        plain = re.sub(r"^file:(//)?(?=/)", "", path)
        if plain not in files:
            raise FileNotFoundError(plain)
        return files[plain][0]

    return _Rows(current(table.root, files), read).rows()


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


def current(root: str, files: Files) -> str:
    """The newest metadata file of a Hadoop table."""
    name = re.compile(rf"{root}/metadata/v(\d+)(\.gz)?\.metadata\.json(\.gz)?", re.ASCII)
    versions = {int(match[1]): path for path in files if (match := name.fullmatch(path))}
    return versions[max(versions)]


def open_table(table: Table, storage: MemoryTable) -> IcebergTable:
    operations = HadoopTableOperations(storage, table.root)
    try:
        operations.current()
    except PathNotFoundError as error:
        raise LakemetaError(str(error)) from error
    return IcebergTable(Place(table.root, operations))


class _Relocated(iceberg_cases._Move):
    """Moves a table that lies on a disk to names in memory."""

    def __init__(self, disk: Path, old: str, new: str) -> None:
        super().__init__(disk, old)
        self.disk, self.new = disk, new

    def _here(self, path: str) -> Path:
        return Path(re.sub(r"^file:(//)?", "", self.prefix.sub(str(self.disk), path)))


def load_tables() -> Iterator[Table]:
    for name in ICEBERG:
        with tempfile.TemporaryDirectory() as folder:
            disk = _extract(name, Path(folder))
            metadata = iceberg_cases.metadata_files(disk)
            location = re.sub(r"^file:(//)?", "", iceberg_cases.read_json(metadata[-1])["location"])
            root = f"/fuzz/{name}"
            _Relocated(disk, location, root).run(metadata)
            files = read_files(disk, root)
        yield Table(f"iceberg {name}", root, files, _names(root, files), dict(_REWRITE))
    for version in (1, 2, 3):
        root = f"/fuzz/own{version}"
        storage = MemoryTable({})
        small = create_table(storage, root, version=version, partitioned=version == 2)
        small.append([(1, "a", 1.5), (2, "a", 2.5)], [(3, "b", 3.5)])
        small.append([(4, "a", 4.5)])
        if version == 2:
            small.delete_positions(small.data_files()[0], [0])
            small.delete_ids(3, partition=("b",))
        yield Table(f"iceberg own{version}", root, storage.files, _names(root, storage.files), dict(_REWRITE))


_REWRITE = {"rewrite-all": "true", "min-input-files": "1"}


def _names(root: str, files: Files) -> list[str]:
    metadata = [path for path in files if "/metadata/" in path or path.endswith(".puffin")]
    avro = [path for path in metadata if path.endswith((".avro", ".puffin"))]
    names = sorted(path for path in metadata if not path.endswith(".crc")) + sorted(avro)
    return names + [current(root, files)] * max(1, len(names) // 3)


def _extract(name: str, folder: Path) -> Path:
    import io
    import lzma
    import tarfile

    packed = lzma.decompress((iceberg_cases.DATA / f"{name}.tar.xz").read_bytes())
    with tarfile.open(fileobj=io.BytesIO(packed)) as archive:
        archive.extractall(folder, filter="data")
    return folder / "before"

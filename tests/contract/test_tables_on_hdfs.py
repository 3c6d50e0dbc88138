"""Recorded tables of both formats on a real HDFS: plans, executions, and what they leave, are those of a local disk."""

from __future__ import annotations

import re
import signal
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from contract.hdfs_server import HdfsServer
from support import hudi_cases, iceberg_cases
from support.hudi_cases import load_cases
from support.hudi_mdt_cases import lay_out
from support.iceberg_checker import TableState

from lakemeta.environment import Environment
from lakemeta.errors import StalePlanError, UnsupportedFeatureError
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta.storage import open_storage

if TYPE_CHECKING:
    from lakemeta.storage.hdfs import HdfsStorage

pytestmark = pytest.mark.store

LATER = datetime(2030, 1, 1, tzinfo=UTC)
CLEANS = [
    "0.15.0__cow__versions2",
    "1.2.0__mor__commits2",
    "1.2.0__delete_partition__versions1",
    "1.2.0__failed_mor__lazy_clean",
]
REWRITES = ["pos_deletes_v2", "eq_deletes_v2", "v3_dv_lineage"]


@pytest.fixture
def storage(hdfs: HdfsServer) -> HdfsStorage:
    return open_storage(hdfs.url("/t"), hdfs.options)[0]


def upload(storage: HdfsStorage, files: dict[str, tuple[bytes, int]]) -> None:
    """Files by store path, with the time of their last change in ms."""

    def put(path: str) -> None:
        data, modified_ms = files[path]
        storage.replace(path, data)
        storage.web.ask("PUT", "SETTIMES", path, modificationtime=str(modified_ms), accesstime="-1")

    with ThreadPoolExecutor(8) as threads:
        list(threads.map(put, files))


def tree(disk: Path, root: str) -> dict[str, tuple[bytes, int]]:
    """The files below a directory of this machine, by their store paths below ``root``."""
    paths = [path for path in disk.rglob("*") if path.is_file() and not path.name.endswith(".crc")]
    return {
        f"{root}/{path.relative_to(disk).as_posix()}": (path.read_bytes(), path.stat().st_mtime_ns // 10**6)
        for path in paths
    }


def names(storage: HdfsStorage, root: str) -> set[str]:
    return {entry.path.removeprefix(f"{root}/") for entry in storage.walk(root)}


def lay_hudi(storage: HdfsStorage, name: str, url: str, root: str) -> None:
    """A recorded table, with paths in pending plans as the engine writes them on HDFS."""
    case = load_cases()[name]
    files = {f"{root}/{file}": (b"\0" * size, modified_ms) for file, (size, modified_ms) in case.files.items()}
    for file, content in case.hoodie.items():
        moved = hudi_cases._moved(content, file, f"file:{case.base}", url)
        modified_ms = case.files.get(file, (0, 1_700_000_000_000))[1]
        files[f"{root}/{file}"] = hudi_cases._moved(moved, file, case.base, url), modified_ms
    upload(storage, files)


def planned_paths(storage: HdfsStorage, root: str) -> list[str]:
    """What the newest plan of a clean names."""
    entries = [e for e in storage.walk(f"{root}/.hoodie") if e.name.endswith(".clean.requested")]
    requested = [e for e in entries if "/metadata/" not in e.path]
    newest = hudi_cases.read_avro(storage.read(max(requested, key=lambda entry: entry.name).path))
    return [file["filePath"] for files in newest["filePathsToBeDeletedPerPartition"].values() for file in files]


@pytest.mark.parametrize("name", CLEANS)
def test_recorded_cleans(name: str, hdfs: HdfsServer, storage: HdfsStorage) -> None:
    """A clean leaves the files that the engine leaves; its plan names them by the cluster's own name."""
    case, root = load_cases()[name], f"/hudi/{name}"
    lay_hudi(storage, name, hdfs.url(root), root)
    table = HudiTable.open(f"webhdfs://{hdfs.web}{root}")
    report = table.apply(table.plan_clean(case.options, now=case.now), env=Environment(lambda: case.now))
    assert report.complete
    assert {file for file in names(storage, root) if not file.startswith(".hoodie/")} == case.left_files()
    named = planned_paths(storage, root)
    assert named
    assert all(path.startswith(hdfs.url(f"{root}/")) for path in named)
    again = HudiTable.open(hdfs.url(root), hdfs.options)
    assert again.plan_clean(case.options, now=case.now).is_empty or not case.expected["clean_plan"]


def test_a_recorded_rollback(hdfs: HdfsServer, storage: HdfsStorage) -> None:
    """A failed write is rolled back as on a disk."""
    name = "1.2.0__failed_mor__eager_startcommit"
    case, root = load_cases()[name], "/hudi/rollback"
    lay_hudi(storage, name, hdfs.url(root), root)
    table = HudiTable.open("hdfs:///hudi/rollback", hdfs.options)
    report = table.apply(table.plan_rollback(case.options, now=case.now), env=Environment(lambda: case.now))
    assert report.complete
    assert report.deleted_files
    assert {file for file in names(storage, root) if not file.startswith(".hoodie/")} == case.left_files()
    assert table.plan_rollback(case.options, now=case.now).is_empty


def test_a_clean_with_a_metadata_table(hdfs: HdfsServer, storage: HdfsStorage, tmp_path: Path) -> None:
    """The metadata table is kept in step, and the same files go as on a disk."""
    options = {"hoodie.clean.commits.retained": "2"}
    disk = Path(lay_out("1.2.0__mdt_cow__commits2", tmp_path).root)
    here = HudiTable.open(str(disk))
    upload(storage, tree(disk, "/hudi/mdt"))
    table = HudiTable.open(hdfs.url("/hudi/mdt"), hdfs.options)
    plans = [one.plan_clean(options, now=LATER) for one in (here, table)]
    assert plans[0].operations == plans[1].operations
    with pytest.raises(StalePlanError, match="this plan is for"):
        table.apply(plans[0], env=Environment(lambda: LATER))
    reports = [one.apply(plan, env=Environment(lambda: LATER)) for one, plan in zip((here, table), plans, strict=True)]
    assert reports[0].deleted_files == reports[1].deleted_files > 0
    named = planned_paths(storage, "/hudi/mdt")
    assert named
    assert all(path.startswith(hdfs.url("/hudi/mdt/")) for path in named)
    local = {path.removeprefix("/x/") for path in tree(disk, "/x")}
    ledgers = ".hoodie/.lakemeta/"  # whose names no two runs share
    assert {n for n in names(storage, "/hudi/mdt") if not n.startswith(ledgers)} == {
        n for n in local if not n.startswith(ledgers)
    }


class _Relocated(iceberg_cases._Move):
    """Names the files of a table on this machine by where they are going to be."""

    def __init__(self, disk: Path, location: str) -> None:
        super().__init__(disk, str(disk.resolve()))
        self.disk, self.new = disk, location

    def _here(self, path: str) -> Path:
        return Path(self.prefix.sub(str(self.disk), path))

    def _moved(self, value: Any) -> Any:
        return self.prefix.sub(self.new, value) if isinstance(value, str) else super()._moved(value)


def lay_iceberg(storage: HdfsStorage, name: str, folder: Path, location: str, root: str) -> tuple[IcebergTable, list]:
    """A recorded table at ``root``, where it is called ``location``; the same on this machine, and its rows."""
    case = iceberg_cases.unpack(name, folder / "local")
    moved = iceberg_cases.unpack(name, folder / "moved")
    _Relocated(moved.table, location).run(moved.metadata_files())
    upload(storage, tree(moved.table, root))
    return IcebergTable.open(str(case.table)), case.rows()


def state(storage: HdfsStorage, root: str) -> TableState:
    """What an independent reader makes of the newest version."""

    def read(path: str) -> bytes:
        return storage.read(re.sub(r"^hdfs:(//[^/]*)?(?=/)", "", path))

    versions = {int(m[1]): e.path for e in storage.list_dir(f"{root}/metadata") if (m := re.match(r"v(\d+)\.", e.name))}
    return TableState(versions[max(versions)], read)


@pytest.mark.parametrize("name", REWRITES)
def test_recorded_rewrites(name: str, hdfs: HdfsServer, storage: HdfsStorage, tmp_path: Path) -> None:
    """Plans are those of a local disk; rows stay; expire and orphan removal leave what the table needs."""
    root = f"/iceberg/{name}"
    # Engines write whichever spelling they were given; all of them are this cluster.
    location = {"partitioned_v1": root, "eq_deletes_v2": f"hdfs://{root}"}.get(name, hdfs.url(root))
    here, rows = lay_iceberg(storage, name, tmp_path, location, root)
    assert state(storage, root).rows() == rows
    table = IcebergTable.open(f"webhdfs://{hdfs.web}{root}")
    options = {"rewrite-all": "true"}
    plans = [one.plan_rewrite_data_files(options) for one in (here, table)]
    assert (plans[0].files, len(plans[0].operations)) == (plans[1].files, len(plans[1].operations))
    report = table.apply(plans[1])
    assert report.result["rewritten_data_files_count"] == here.apply(plans[0]).result["rewritten_data_files_count"] > 0
    assert state(storage, root).rows() == rows
    report = table.apply(table.plan("expire-snapshots", {"older_than": "2100-01-01"}))
    assert report.complete
    storage.replace(f"{root}/data/orphan", b"x")
    plan = table.plan("remove-orphan-files", {}, now=LATER)
    table.apply(plan, env=Environment(lambda: LATER))
    assert not storage.exists(f"{root}/data/orphan")
    after = state(storage, root)
    assert after.rows() == rows
    assert not after.lost


def test_another_cluster_is_refused(hdfs: HdfsServer, storage: HdfsStorage, tmp_path: Path) -> None:
    """A table whose metadata names another cluster is not touched, until it is said to be the same one."""
    lay_iceberg(storage, "pos_deletes_v2", tmp_path, "hdfs://lake/iceberg/other", "/iceberg/other")
    before = names(storage, "/iceberg/other")
    table = IcebergTable.open(hdfs.url("/iceberg/other"), hdfs.options)
    with pytest.raises(UnsupportedFeatureError, match=r"say --storage-option hdfs\.authority=lake$"):
        table.plan_rewrite_data_files({"rewrite-all": "true"})
    assert names(storage, "/iceberg/other") == before
    named = IcebergTable.open("hdfs:///iceberg/other", {**hdfs.options, "hdfs.authority": "lake"})
    assert named.apply(named.plan_rewrite_data_files({"rewrite-all": "true"})).result["added_data_files_count"]


WRITER = """
import sys
from lakemeta.storage import open_storage
storage, root = open_storage(sys.argv[1], {"hdfs.webhdfs-url": sys.argv[2]})
print("ready", flush=True)
for n in range(1000):
    storage.create(f"{root}/c{n}", bytes(1_000_000))
    storage.replace(f"{root}/r", bytes(1_000_000))
    with storage.open_output(f"{root}/o{n}") as file:
        file.write(bytes(1_000_000))
"""


@pytest.mark.parametrize("after_s", [0.2, 0.7, 1.3])
def test_a_killed_writer_leaves_nothing_half_visible(after_s: float, hdfs: HdfsServer, storage: HdfsStorage) -> None:
    """Whenever the process ends, every file that is listed is whole."""
    root = f"/killed/{after_s}"
    options = f"http://{hdfs.web}"
    with subprocess.Popen(
        [sys.executable, "-c", WRITER, hdfs.url(root), options], stdout=subprocess.PIPE, text=True
    ) as writer:
        assert writer.stdout
        assert writer.stdout.readline() == "ready\n"
        time.sleep(after_s)
        writer.send_signal(signal.SIGKILL)
    for _ in range(5):  # a DataNode takes a while to find out
        if storage.exists(root):
            assert {entry.size for entry in storage.walk(root)} <= {1_000_000}
        time.sleep(0.2)
    storage.create(f"{root}/next", b"1")

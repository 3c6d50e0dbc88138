"""Whole rollbacks of recorded tables with a metadata table: both tables agree, wherever it was interrupted."""

from __future__ import annotations

import shutil
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from support.faults import Crash, FaultyStorage
from support.hudi_cases import data_files
from support.hudi_mdt_cases import MdtCase, unpack_case

from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from lakemeta.storage import Storage

CASES = [
    "0.15.0__mdt_cow__commits2",
    "1.0.2__mdt_cow__versions1",
    "1.2.0__mdt_cow__commits2",
    "1.2.0tv6__mdt_cow__commits2",
    "1.2.0__mdt_mor__commits2",
    "0.15.0__mdt_mor__versions1",
]


def lay_out(name: str, into: Path) -> tuple[MdtCase, str]:
    """A recorded table whose newest commit died right before it completed; the case and that commit's instant."""
    case = unpack_case(name, into)
    for partition, files in case.facts["listing_before"].items():
        folder = Path(case.root) / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_bytes(b"")
        for file, size in files.items():
            (folder / file).write_bytes(b"x" * size)
    done = [p for p in case.timeline_directory.iterdir() if p.suffix in (".commit", ".deltacommit")]
    newest = max(done, key=lambda path: path.name)
    newest.unlink()
    return case, newest.name[:17]


def roll_back(case: MdtCase, storage: Storage | None = None) -> None:
    table = HudiTable.open(case.root)
    if storage is not None:
        table = attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))
    executor = LocalExecutor(threads=1)
    table.apply(table.plan_rollback(executor=executor), executor=executor)


def assert_rolled_back(case: MdtCase, failed: str) -> None:
    """No file of the failed write is left, the metadata table lists what is there, and no instant of the write is."""
    left = {name for name in data_files(case.root) if "_partition_metadata" not in name}
    listed = {f"{p}/{n}" if p else n for p, names in case.listing().items() for n in names}
    assert left == listed
    assert not [name for name in left if failed in name]
    assert not list(case.timeline_directory.glob(f"{failed}*"))
    assert not case.open().timeline.pending.instants


@pytest.mark.parametrize("name", CASES)
def test_a_rollback_keeps_both_tables_in_step(name: str, tmp_path: Path) -> None:
    """The failed write had told the metadata table of its files; after the rollback both know nothing of it."""
    case, failed = lay_out(name, tmp_path)
    roll_back(case)
    assert_rolled_back(case, failed)
    blocks = [file for file in data_files(case.root) if file.endswith("_1-0-1")]
    assert bool(blocks) == (name == "0.15.0__mdt_mor__versions1")
    HudiTable.open(case.root).plan_clean({"hoodie.clean.commits.retained": "1"})


@pytest.mark.slow
@pytest.mark.parametrize("name", ["1.2.0__mdt_cow__commits2", "0.15.0__mdt_cow__commits2"])
def test_a_second_run_completes_a_crashed_rollback(name: str, tmp_path: Path) -> None:
    """Whichever write to storage the rollback dies at, the next one finishes it."""
    case, failed = lay_out(name, tmp_path / "t")
    whole = tmp_path / "whole"
    shutil.copytree(case.root, whole)
    for at in count(1):
        shutil.rmtree(case.root)
        shutil.copytree(whole, case.root)
        storage = FaultyStorage(LocalStorage(), at, "half")
        try:
            roll_back(case, storage)
        except Crash:
            roll_back(case)
        assert_rolled_back(case, failed)
        if not storage.crashed:
            break
    assert at > 8


@pytest.mark.parametrize("name", [name for name in CASES if "_cow_" in name])
def test_several_failed_writes_that_the_metadata_table_has_pending(name: str, tmp_path: Path) -> None:
    """Two writes that died within their delta commits are rolled back one after the other, and their files are gone."""
    case, newest = lay_out(name, tmp_path)
    done = [p for p in case.timeline_directory.iterdir() if p.suffix in (".commit", ".deltacommit")]
    older = max(done, key=lambda path: path.name)
    older.unlink()
    told = Path(case.open().timeline_path)
    for failed in (newest, older.name[:17]):
        (completed,) = (p for p in told.glob(f"{failed}*.deltacommit"))
        completed.unlink()
    roll_back(case)
    for failed in (newest, older.name[:17]):
        assert_rolled_back(case, failed)

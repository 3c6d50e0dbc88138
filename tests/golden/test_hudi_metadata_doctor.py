"""What the doctor says of a metadata table, of what writers left behind, and of unfinished rollbacks."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.hudi_cases import load_cases
from support.hudi_mdt_cases import CASES, MdtCase, unpack_case

from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.rollback_metadata import RollbackPlan, encode_rollback_plan

if TYPE_CHECKING:
    from lakemeta.finding import Finding

ONE_OF_EACH_LAYOUT = ["1.2.0__mdt_cow__commits2", "0.15.0__mdt_cow__delpart_commits1"]
OPTIONS = {"hoodie.clean.commits.retained": "2"}


@pytest.fixture
def case(request: pytest.FixtureRequest, tmp_path: Path) -> MdtCase:
    """A recorded table whose data files lie where its metadata table says."""
    case = unpack_case(request.param, tmp_path)
    for partition, files in case.facts["listing_before"].items():
        folder = Path(case.root) / partition
        folder.mkdir(parents=True, exist_ok=True)
        (folder / ".hoodie_partition_metadata").write_bytes(b"")
        for file, size in files.items():
            (folder / file).write_bytes(b"x" * size)
    return case


def findings(root: str, about: str) -> dict[str, Finding]:
    found = HudiTable.open(root).doctor(OPTIONS)
    return {finding.kind: finding for finding in found if finding.kind.startswith(about)}


@pytest.mark.parametrize("case", CASES, indirect=True)
def test_tables_in_step(case: MdtCase) -> None:
    """Of a metadata table that lists what is there nothing is said."""
    assert findings(case.root, "metadata_table") == {}


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_a_listed_file_that_is_missing(case: MdtCase) -> None:
    """A file that is listed and not there is wrong; its bytes are told."""
    gone = max(Path(case.root).rglob("*.parquet"))
    size = gone.stat().st_size
    gone.unlink()
    found = findings(case.root, "metadata_table")
    assert set(found) == {"metadata_table_lists_missing"}
    finding = found["metadata_table_lists_missing"]
    assert (finding.severity, finding.bytes) == ("wrong", size)
    assert gone.name in finding.sentence


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_a_file_that_is_not_listed(case: MdtCase) -> None:
    """A file of a completed commit that is not listed is wrong; one of an unknown commit is an orphan, no more."""
    known = max(Path(case.root).rglob("*.parquet"))
    instant = known.name.rpartition("_")[2].removesuffix(".parquet")
    (known.parent / f"ffffffff-0_0-1-1_{instant}.parquet").write_bytes(b"12345")
    (known.parent / "eeeeeeee-0_0-1-1_29990101000000000.parquet").write_bytes(b"1234567")
    found = findings(case.root, "metadata_table")
    assert set(found) == {"metadata_table_lacks"}
    assert (found["metadata_table_lacks"].severity, found["metadata_table_lacks"].bytes) == ("wrong", 5)
    assert "ffffffff-0" in found["metadata_table_lacks"].sentence


@pytest.mark.parametrize("case", ONE_OF_EACH_LAYOUT, indirect=True)
def test_a_pending_clean_may_have_deleted(case: MdtCase) -> None:
    """Files that a pending clean deletes are gone before the metadata table is told: nothing is wrong."""
    table = HudiTable.open(case.root)
    plan = table.plan_clean(OPTIONS)
    table.schedule_clean(plan)
    deletes = list(plan.deletes())
    assert deletes
    for delete in deletes:
        (Path(case.root) / delete.path).unlink()
    assert findings(case.root, "metadata_table") == {}
    assert "pending_clean" in findings(case.root, "pending")


@pytest.mark.parametrize("case", ["1.2.0__mdt_cow__commits2"], indirect=True)
def test_a_metadata_table_that_cannot_be_read(case: MdtCase) -> None:
    """A metadata table whose properties are gone is wrong, and why is said."""
    (Path(case.root) / ".hoodie/metadata/.hoodie/hoodie.properties").unlink()
    finding = findings(case.root, "metadata_table")["metadata_table_unusable"]
    assert finding.severity == "wrong"
    assert "is missing" in finding.sentence


def test_leftovers_of_writers(tmp_path: Path) -> None:
    """Markers and heartbeats of completed writes are noted, unless they still beat; of pending or coming ones not."""
    case = load_cases()["1.2.0__inflight_middle__commits1"]
    root = Path(case.unpack(tmp_path))
    pending, done = _pending(root)[0], _completed(root)
    now = case.now.timestamp()
    for instant in (done[0], done[1], pending, "29990101000000000"):
        (root / ".hoodie/.temp" / instant).mkdir(parents=True, exist_ok=True)
        beat = root / ".hoodie/.heartbeat" / instant
        beat.parent.mkdir(exist_ok=True)
        beat.touch()
        os.utime(beat, (now, now) if instant == done[1] else (now - 864_000, now - 864_000))
    found = {f.kind: f for f in HudiTable.open(str(root)).doctor(case.options, now=case.now)}
    assert {found[kind].severity for kind in ("leftover_markers", "leftover_heartbeats")} == {"note"}
    assert (
        f"2 writes no longer pending, which nothing needs: {done[0]}, {done[1]};" in found["leftover_markers"].sentence
    )
    assert f"1 write no longer pending, which nothing needs: {done[0]};" in found["leftover_heartbeats"].sentence


def test_nothing_left_behind(tmp_path: Path) -> None:
    """Without markers and heartbeats nothing is said of them."""
    case = load_cases()["1.2.0__cow__commits5"]
    found = HudiTable.open(case.unpack(tmp_path)).doctor(case.options, now=case.now)
    assert not [f for f in found if f.kind.startswith("leftover")]


@pytest.mark.parametrize("name", ["1.2.0__inflight_middle__commits1", "0.15.0__failed_mor__eager_clean"])
def test_unfinished_rollbacks_and_restores(name: str, tmp_path: Path) -> None:
    """A rollback that did not complete is wrong and names what it undoes; so is a restore."""
    case = load_cases()[name]
    root = Path(case.unpack(tmp_path))
    timeline = root / ".hoodie" / ("timeline" if name.startswith("1.") else "")
    failed = _pending(root)[0]
    plan = encode_rollback_plan(RollbackPlan(failed, "commit", ()))
    (timeline / "20270101000000000.rollback.requested").write_bytes(plan)
    (timeline / "20270101000000000.rollback.inflight").write_bytes(b"")
    (timeline / "20270102000000000.rollback.requested").write_bytes(b"")
    (timeline / "20270103000000000.restore.inflight").write_bytes(b"")
    found = HudiTable.open(str(root)).doctor(case.options, now=case.now)
    rollbacks = [f for f in found if f.kind in ("pending_rollback", "pending_restore")]
    assert [f.severity for f in rollbacks] == ["wrong"] * 3
    assert f"rollback 20270101000000000 of commit {failed} has been pending" in rollbacks[0].sentence
    assert "run lakemeta rollback" in rollbacks[0].sentence
    assert "of a write that it does not name" in rollbacks[1].sentence
    assert "restore 20270103000000000" in rollbacks[2].sentence


def test_a_rollback_at_work(tmp_path: Path) -> None:
    """A rollback whose heartbeat is fresh is left alone."""
    case = load_cases()["1.2.0__inflight_middle__commits1"]
    root = Path(case.unpack(tmp_path))
    (root / ".hoodie/timeline/20270101000000000.rollback.requested").write_bytes(b"")
    beat = root / ".hoodie/.heartbeat/20270101000000000"
    beat.parent.mkdir(exist_ok=True)
    beat.touch()
    os.utime(beat, (case.now.timestamp(),) * 2)
    found = {f.kind: f for f in HudiTable.open(str(root)).doctor(case.options, now=case.now)}
    assert "leave it alone" in found["pending_rollback"].sentence


def _pending(root: Path) -> list[str]:
    done = set(_completed(root))
    return sorted({p.name[:17] for p in (root / ".hoodie").rglob("*.inflight")} - done)


def _completed(root: Path) -> list[str]:
    return sorted({p.name[:17] for p in (root / ".hoodie").rglob("*commit") if p.name[:17].isdecimal()})

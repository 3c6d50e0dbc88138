"""What the doctor says of recorded tables, each with one known trouble."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.hudi_cases import data_files, load_cases

from lakemeta.hudi import HudiTable

TROUBLES = {
    "1.2.0__combo_cow__step2": ("pending_write", "blocks", "its heartbeat stopped"),
    "1.2.0__inflight_middle__commits1": ("pending_write", "blocks", "its heartbeat is fresh"),
    "0.15.0__failed_mor__eager_clean": ("pending_write", "blocks", "without a heartbeat"),
    "1.2.0__mor_pending_compaction__commits2": ("pending_service", "blocks", "compaction 2026"),
    "1.2.0__clustering__pending_commits1": ("pending_service", "blocks", "clustering 2026"),
    "0.15.0__clustering__pending_commits1": ("pending_service", "blocks", "clustering 2026"),
    "1.2.0__pending_clean__exec_requested": ("pending_clean", "blocks", "run lakemeta clean"),
    "1.2.0__savepoint__commits1": ("savepoint", "note", "that a clean would delete"),
    "1.2.0__missing_files__commits1": ("clean_due", "note", "would free"),
    "1.2.0__orphans__commits1": ("orphans", "wrong", "belong to no commit on the timeline"),
    "1.2.0__cow__commits20_nothing": ("nothing_due", "note", "no commit is old enough"),
}


@pytest.mark.parametrize("name", TROUBLES)
def test_the_trouble_is_named(name: str, tmp_path: Path) -> None:
    """Each trouble is found, weighed and put in words; looking changes nothing."""
    case = load_cases()[name]
    root = case.unpack(tmp_path)
    before = data_files(root)
    kind, severity, words = TROUBLES[name]
    found = [f for f in HudiTable.open(root).doctor(case.options, now=case.now) if f.kind == kind]
    assert [finding.severity for finding in found] == [severity] * len(found)
    assert any(words in finding.sentence for finding in found)
    assert data_files(root) == before


def test_a_missing_newest_file_is_wrong(tmp_path: Path) -> None:
    """A base file that a completed commit wrote as its group's newest, and that is gone, is named."""
    case = load_cases()["1.2.0__cow__commits5"]
    root = Path(case.unpack(tmp_path))
    plan = HudiTable.open(str(root)).plan_clean(case.options, now=case.now, explain=True)
    latest = next(op.path for op in plan.operations if op.op == "keep" and op.reason == "latest_slice")
    (root / latest).unlink()
    found = {f.kind: f for f in HudiTable.open(str(root)).doctor(case.options, now=case.now)}
    assert found["missing_files"].severity == "wrong"
    assert latest in found["missing_files"].sentence


def test_savepoint_bytes_are_what_it_alone_keeps(tmp_path: Path) -> None:
    """A savepoint is charged with the files that would go without it, no others."""
    case = load_cases()["1.2.0__savepoint__commits1"]
    table = HudiTable.open(case.unpack(tmp_path))
    plan = table.plan_clean(case.options, now=case.now, explain=True)
    pinned = sum(op.size for op in plan.operations if op.op == "keep" and op.reason == "pinned_by_savepoint")
    found = [f for f in table.doctor(case.options, now=case.now) if f.kind == "savepoint"]
    assert sum(f.bytes or 0 for f in found) == pinned > 0

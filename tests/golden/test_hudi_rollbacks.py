"""Every recorded rollback of a failed write, done again: files, timeline, plan and metadata are the engine's."""

from __future__ import annotations

import json
import re
from pathlib import Path
from typing import Any

import pytest
from support.hudi_cases import HudiCase, data_files, load_cases, read_avro

from lakemeta.environment import Environment
from lakemeta.hudi import HudiTable

RECORDED: dict[str, dict[str, Any]] = json.loads((Path(__file__).parent / "data" / "hudi_rollbacks.json").read_text())
STARTS = [name for name in RECORDED if load_cases()[name].expected["action"] == "startCommit"]
CLEANS = [name for name in RECORDED if name not in STARTS]
_TIMES = re.compile(r"\d{17}_\d{17}|\d{17}")


def _hoodie(root: Path) -> dict[str, bytes]:
    return {p.relative_to(root).as_posix(): p.read_bytes() for p in (root / ".hoodie").rglob("*") if p.is_file()}


def _shapes(names: set[str] | list[str]) -> list[str]:
    return sorted(_TIMES.sub(lambda m: "T_C" if "_" in m[0] else "T", name) for name in names)


def _comparable(record: dict[str, Any], base: str) -> dict[str, Any]:
    """A plan or metadata without times, order and the place of the table."""
    copy: dict[str, Any] = json.loads(json.dumps(record).replace(base, "~"))
    for name in ("startRollbackTime", "timeTakenInMillis"):
        copy.pop(name, None)
    copy.get("RollbackRequests", []).sort(key=lambda request: json.dumps(request, sort_keys=True))
    for partition in copy.get("partitionMetadata", {}).values():
        partition["successDeleteFiles"].sort()
    return copy


def _check(case: HudiCase, root: Path, before: dict[str, bytes]) -> None:
    recorded, after = RECORDED[case.name], _hoodie(root)
    new = {name: after[name] for name in after.keys() - before.keys() if ".rollback" in name}
    assert _shapes([*new]) == _shapes(recorded["added"])
    assert sorted(before.keys() - after.keys()) == recorded["removed"]
    assert not [name for name in recorded["deleted_dirs"] if (root / name).exists()]
    assert data_files(root) == case.left_files()
    for name, content in new.items():
        if name.endswith(".inflight"):
            assert not content
        else:
            record = recorded["plan" if name.endswith(".requested") else "metadata"]
            assert _comparable(read_avro(content), str(root)) == _comparable(record, case.base)


@pytest.mark.parametrize("name", STARTS)
def test_rollback_is_what_the_next_writer_does(name: str, tmp_path: Path) -> None:
    """Under EAGER: the same files go or are appended, and plan, metadata and timeline say the same."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    before = _hoodie(tmp_path)
    plan = table.plan_rollback(case.options, now=case.now)
    assert {op.path for op in plan.deletes()} == set(before_files(case)) - case.left_files()
    report = table.apply(plan, env=Environment(lambda: case.now))
    assert report.deleted_files == plan.files
    assert report.result["commits_rollback"] == plan.header.facts["failed_writes"]
    _check(case, tmp_path, before)
    assert not table.plan_rollback(case.options, now=case.now).header.facts["failed_writes"]


@pytest.mark.parametrize("name", CLEANS)
def test_a_lazy_clean_rolls_back_what_the_engine_does(name: str, tmp_path: Path) -> None:
    """Under LAZY: expired writes are rolled back, then the clean is requested, as Hudi 1.2 orders it."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    before = _hoodie(tmp_path)
    report = table.apply(table.plan_clean(case.options, now=case.now), env=Environment(lambda: case.now))
    _check(case, tmp_path, before)
    rollback = next(n for n in _hoodie(tmp_path) if n.endswith(".rollback.requested"))
    assert Path(rollback).name[:17] < str(report.committed)
    assert report.result["commits_rollback"] == RECORDED[name]["metadata"]["commitsRollback"]


def before_files(case: HudiCase) -> list[str]:
    """The data files before the operation."""
    return [name for name in case.files if not name.startswith(".hoodie/")]

"""Every recorded clean, executed: the same data files are left, and plan and metadata decode to the same fields."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.hudi_cases import HudiCase, data_files, load_cases, read_avro, relative_path

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError
from lakemeta.hudi import HudiTable

if TYPE_CHECKING:
    from pathlib import Path

# Executed by the engine in a way of one release; lakemeta does as the newest release does.
DIFFERENT = {
    "0.15.0__metafile_parquet__commits1": "0.15 does not drop a partition with a Parquet metadata file",
    "0.15.0__pending_clean__exec_inflight_foreign": "0.15 deletes an empty inflight file and executes nothing",
    "0.15.0__pending_clean__exec_inflight_partial": "0.15 counts files that are gone already as failed",
}
UNREADABLE = ("0.15.0__pending_clean__exec_requested_empty", "1.2.0__pending_clean__exec_requested_empty")
REFUSED = {f"{v}__retained0__versions0" for v in ("0.15.0", "1.0.2", "1.2.0")} | {"1.2.0__filters12__regex_inc_error"}


def _executed(case: HudiCase) -> bool:
    elsewhere = case.has_metadata_table or case.name in REFUSED or case.name in UNREADABLE
    return case.expected["action"] in ("clean", "schedule_clean") and not elsewhere


EXECUTED = [name for name, case in load_cases().items() if _executed(case)]


# Every fourth, and what only some releases do, is fast; slow tests execute the others.
FAST = {*EXECUTED[::4], *DIFFERENT}


@pytest.mark.parametrize("name", [pytest.param(n, marks=() if n in FAST else pytest.mark.slow) for n in EXECUTED])
def test_execution_leaves_what_the_engine_leaves(name: str, tmp_path: Path) -> None:
    """Data files, plan and metadata after a clean are the engine's, times aside."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    before = _instants(tmp_path)
    plan = table.plan_clean(case.options, now=case.now)
    if case.expected["action"] == "schedule_clean":
        table.schedule_clean(plan, env=Environment(lambda: case.now))
    else:
        table.apply(plan, env=Environment(lambda: case.now))
    if name in DIFFERENT:
        assert data_files(tmp_path) <= case.left_files()
        return
    assert data_files(tmp_path) == case.left_files()
    new = {path.name: path.read_bytes() for path in _instants(tmp_path) - before}
    _check_plan(case, [content for file, content in new.items() if file.endswith(".requested")], str(tmp_path))
    _check_metadata(case, [content for file, content in new.items() if file.endswith(".clean")])
    newest = max((path.name[:17] for path in before), default="")
    assert all(name[:17] > newest for name in new if name.endswith(".requested"))


@pytest.mark.parametrize("name", UNREADABLE)
def test_empty_request_is_refused(name: str, tmp_path: Path) -> None:
    """A requested clean without a plan cannot be executed; Hudi 1.2 stops there, and so do we, changing nothing."""
    case = load_cases()[name]
    table = HudiTable.open(case.unpack(tmp_path))
    before = data_files(tmp_path), _instants(tmp_path)
    with pytest.raises(CorruptMetadataError, match="is empty"):
        table.apply(table.plan_clean(case.options, now=case.now), env=Environment(lambda: case.now))
    assert (data_files(tmp_path), _instants(tmp_path)) == before


def _instants(root: Path) -> set[Path]:
    return set(root.glob(".hoodie/*.clean*")) | set(root.glob(".hoodie/timeline/*.clean*"))


def _check_plan(case: HudiCase, requested: list[bytes], root: str) -> None:
    if case.expected["clean_plan"] is None:
        assert not requested
        return
    (content,) = requested
    assert _comparable_plan(read_avro(content), root) == _comparable_plan(case.expected["clean_plan"], case.base)


def _check_metadata(case: HudiCase, completed: list[bytes]) -> None:
    expected = case.expected["clean_metadata"]
    if expected is None:
        assert not completed
        return
    assert _comparable_metadata(expected) in [_comparable_metadata(read_avro(content)) for content in completed]


def _comparable_plan(plan: dict[str, Any], base: str) -> dict[str, Any]:
    """A plan with paths relative to the table; the order within a partition is the engine's hash order."""
    files = {
        partition: sorted((relative_path(f["filePath"], base), f["isBootstrapBaseFile"]) for f in listed)
        for partition, listed in plan["filePathsToBeDeletedPerPartition"].items()
    }
    dropped = plan["partitionsToBeDeleted"]
    return {
        **plan,
        "filePathsToBeDeletedPerPartition": files,
        "partitionsToBeDeleted": None if dropped is None else sorted(dropped),
    }


def _comparable_metadata(metadata: dict[str, Any]) -> dict[str, Any]:
    partitions = {
        name: {key: sorted(value) if isinstance(value, list) else value for key, value in partition.items()}
        for name, partition in metadata["partitionMetadata"].items()
    }
    return {**metadata, "partitionMetadata": partitions, "timeTakenInMillis": 0, "startCleanTime": ""}

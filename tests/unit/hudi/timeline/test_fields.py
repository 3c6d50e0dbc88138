"""A field that is missing is damage: one changed letter in the header of an Avro file hides what the file says."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, at, avro, base, clean_metadata, clean_plan, compaction_plan, moment

from lakemeta.errors import CorruptMetadataError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.action_metadata import (
    decode_clean,
    decode_cleaner_plan,
    decode_commit,
    decode_compaction_plan,
    decode_replace_commit,
    decode_requested_clustering,
    decode_savepoint,
)
from lakemeta.hudi.timeline.fields import Record
from lakemeta.hudi.timeline.rollback_metadata import decode_rollback_plan, decode_rolled_back

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

SAVEPOINT = {
    "savepointedBy": "",
    "savepointedAt": 1,
    "comments": "",
    "version": 1,
    "partitionMetadata": {"p": {"partitionPath": "p", "savepointDataFile": ["a"]}},
}
COMMIT = {"partitionToWriteStats": {"p": []}, "compacted": False, "extraMetadata": {}, "operationType": "UPSERT"}
CLUSTERING = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": [{"dataFilePath": "p/a"}]}]}}
ROLLBACK = {
    "instantToRollback": {"commitTime": at(1), "action": "commit"},
    "RollbackRequests": [
        {
            "partitionPath": "p",
            "fileId": "a",
            "latestBaseInstant": at(1),
            "filesToBeDeleted": ["p/a"],
            "logBlocksToBeDeleted": None,
        }
    ],
    "version": 1,
}
ROLLED_BACK = {
    "startRollbackTime": at(2),
    "timeTakenInMillis": 1,
    "totalFilesDeleted": 0,
    "commitsRollback": [at(1)],
    "partitionMetadata": {},
    "version": 1,
    "instantsRollback": [],
}
NEEDED: list[tuple[Callable[[bytes, str], object], bytes, str]] = [
    (decode_savepoint, avro("HoodieSavepointMetadata", SAVEPOINT), "partitionMetadata savepointDataFile"),
    (decode_compaction_plan, compaction_plan([("p", "a", at(1))]), "operations baseInstantTime fileId partitionPath"),
    (decode_clean, clean_metadata("", ""), "earliestCommitToRetain version"),
    (
        decode_cleaner_plan,
        clean_plan({"p": ["p/a"]}),
        "earliestInstantToRetain policy version filePathsToBeDeletedPerPartition timestamp action filePath",
    ),
    (decode_commit, avro("HoodieCommitMetadata", COMMIT), "partitionToWriteStats"),
    (
        decode_replace_commit,
        avro("HoodieReplaceCommitMetadata", {**COMMIT, "partitionToReplaceFileIds": {}}),
        "partitionToWriteStats partitionToReplaceFileIds",
    ),
    (
        decode_requested_clustering,
        avro("HoodieRequestedReplaceMetadata", CLUSTERING),
        "operationType clusteringPlan inputGroups slices",
    ),
    (
        decode_rollback_plan,
        avro("HoodieRollbackPlan", ROLLBACK),
        "instantToRollback commitTime action RollbackRequests partitionPath fileId latestBaseInstant filesToBeDeleted",
    ),
    (decode_rollback_plan, avro("HoodieRollbackPlan", ROLLBACK), "logBlocksToBeDeleted"),
    (decode_rolled_back, avro("HoodieRollbackMetadata", ROLLED_BACK), "commitsRollback"),
]


def misspelt(data: bytes, field: str) -> bytes:
    """The file with the last letter of a field's name changed in its schema."""
    name = f'"{field}"'.encode()
    assert name in data
    return data.replace(name, f'"{field[:-1]}{chr(ord(field[-1]) ^ 1)}"'.encode())


@pytest.mark.parametrize(
    ("decode", "data", "field"), [(decode, data, field) for decode, data, names in NEEDED for field in names.split()]
)
def test_a_field_under_another_name(decode: Callable[[bytes, str], object], data: bytes, field: str) -> None:
    """What every release writes must be there."""
    decode(data, "x")
    with pytest.raises(CorruptMetadataError, match=f"x has no field {field}, which Hudi always writes"):
        decode(misspelt(data, field), "x")


@pytest.mark.parametrize("version", [6, 9])
def test_a_savepoint_whose_field_has_another_name(tmp_path: Path, version: int) -> None:
    """Its files were pinned by nothing, and a clean took them."""
    table = TableFiles(tmp_path / "t", version)
    table.insert({"p1": "a"})
    table.commit({"p1": "a"})
    table.savepoint(1, {"p1": [base("a", 1)]})
    table.commit({"p1": "a"})
    (path,) = table.timeline.glob("*.savepoint")
    path.write_bytes(misspelt(path.read_bytes(), "savepointDataFile"))
    opened = HudiTable.open(str(table.root))
    with pytest.raises(CorruptMetadataError, match="savepointDataFile"):
        opened.plan_clean({"hoodie.clean.commits.retained": "1"}, now=moment(9), executor=LocalExecutor(1))


@pytest.mark.parametrize(
    "look",
    [
        lambda r: r.need("a", str),
        lambda r: r.need("none", str),
        lambda r: r.nullable("a", str),
        lambda r: r.optional("a", dict),
        lambda r: list(r.records("list")),
        lambda r: list(r.need_records("none")),
        lambda r: r.nullable_record("a"),
        lambda r: r.record_map("map"),
        lambda r: r.need_strings("list"),
        lambda r: r.optional_strings("list"),
        lambda r: r.optional_texts("map"),
        lambda r: r.nullable_lists("map", str),
        lambda r: r.nullable_lists("lists", str),
        lambda r: r.need("true", int),
        lambda r: r.need("a", bool),
        lambda r: Record.of(r.fields["list"], "x"),
    ],
)
def test_a_value_of_another_kind(look: Callable[[Record], Any]) -> None:
    """It ends in a sentence that names the file."""
    record = Record({"a": 1, "list": [1], "map": {"k": 1}, "lists": {"k": [1]}, "none": None, "true": True}, "x")
    with pytest.raises(CorruptMetadataError, match="x has"):
        look(record)


@pytest.mark.parametrize("version", [6, 9])
@pytest.mark.parametrize("incremental", ["true", "false"])
def test_a_savepoint_that_names_what_is_not_there(tmp_path: Path, version: int, incremental: str) -> None:
    """Its partition stays as it is, since the name may be damaged; others are cleaned, and the plan says so."""
    table = TableFiles(tmp_path / "t", version)
    table.insert({"p1": "a", "p2": "b"})
    for _ in range(3):
        table.commit({"p1": "a", "p2": "b"})
    (table.root / "p1" / base("a", 1)).rename(table.root / "p1" / base("a", 1).replace("a-0", "x-0"))
    table.savepoint(1, {"p1": [base("a", 1)], "p2": [base("b", 1)], "p3": ["gone.parquet"]})
    table.commit({"p1": "a", "p2": "b"})
    options = {"hoodie.clean.commits.retained": "1", "hoodie.clean.incremental.enabled": incremental}
    plan = HudiTable.open(str(table.root)).plan_clean(options, now=moment(9), executor=LocalExecutor(1))
    assert {op.partition for op in plan.deletes()} == {"p2"}
    (note,) = plan.header.facts["notes"]
    found = HudiTable.open(str(table.root)).doctor(options, now=moment(9), executor=LocalExecutor(1))
    assert [f.kind for f in found if base("a", 1) in f.sentence] == ["savepoint_lost"]
    assert note.startswith(f"nothing of p1 is deleted: savepoint {at(1)} names {base('a', 1)}, which is not there")

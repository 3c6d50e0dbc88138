from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from support.builders import at, avro, clean_metadata, clean_plan, compaction_plan

from lakemeta.errors import CorruptMetadataError, UnsupportedFeatureError
from lakemeta.hudi.timeline.action_metadata import (
    CleanerPlan,
    CleanPlanFile,
    CompactionOperation,
    decode_clean,
    decode_cleaner_plan,
    decode_commit,
    decode_compaction_plan,
    decode_requested_clustering,
    decode_savepoint,
    encode_cleaner_plan,
    looks_whole,
)

COMMIT: dict[str, Any] = {
    "partitionToWriteStats": {"p": [{"fileId": "a-0", "path": "p/a", "prevCommit": at(1), "partitionPath": "p"}]},
    "compacted": False,
    "extraMetadata": {"schema": "{}"},
    "version": 1,
    "operationType": "UPSERT",
}
ENCODED = [json.dumps(COMMIT).encode(), avro("HoodieCommitMetadata", COMMIT)]


@pytest.mark.parametrize("data", ENCODED)
def test_commits_in_either_encoding(data: bytes) -> None:
    """The bytes tell JSON from Avro, so a table that was upgraded reads the same."""
    commit = decode_commit(data, "x")
    assert (commit.operation, dict(commit.extra), list(commit.partitions())) == ("UPSERT", {"schema": "{}"}, ["p"])
    assert commit.has_update("p")
    assert not commit.has_update("q")
    assert dict(commit.replaced) == {}


@pytest.mark.parametrize("previous", [None, "null"])
def test_a_first_write_is_no_update(previous: str | None) -> None:
    """A write without a previous commit made a new group; old writers say so in words."""
    stats = {"p": [{"prevCommit": previous}]}
    assert not decode_commit(json.dumps({"partitionToWriteStats": stats}).encode(), "x").has_update("p")


def test_replace_commits() -> None:
    """The partitions they replaced groups in count as partitions, each once."""
    record = {**COMMIT, "partitionToReplaceFileIds": {"q": ["b-0"], "p": ["c-0"]}}
    commit = decode_commit(avro("HoodieReplaceCommitMetadata", record), "x")
    assert sorted(commit.partitions()) == ["p", "q"]
    assert dict(commit.replaced) == {"q": ["b-0"], "p": ["c-0"]}


@pytest.mark.parametrize("data", ENCODED)
def test_a_whole_commit_looks_whole_and_no_part_of_it_does(data: bytes) -> None:
    """First bytes and last 16 are enough to tell, wherever it was cut."""
    assert looks_whole(data[:65536], data[-16:], len(data))
    for size in range(len(data)):
        part = data[:size]
        if part.rstrip()[-1:] != b"}" or data.startswith(b"Obj"):
            assert not looks_whole(part[:65536], part[-16:], size)


@pytest.mark.parametrize(
    ("data", "words"),
    [
        (b"", "cut off or damaged"),
        (ENCODED[0][:50], "cut off or damaged"),
        (ENCODED[1][:-5], "cut off"),
        (b"[]", "is JSON but no commit metadata"),
        (b'{"partitionToWriteStats": []}', r"has \[\] as its partitionToWriteStats"),
        (b'{"partitionToWriteStats": {}, "partitionToReplaceFileIds": 3}', "has 3 as its partitionToReplaceFileIds"),
        (b'{"partitionToWriteStatz": {}}', "has no field partitionToWriteStats"),
    ],
)
def test_damaged_commits(data: bytes, words: str) -> None:
    """The error says what is wrong and in which file."""
    with pytest.raises(CorruptMetadataError, match=words) as raised:
        decode_commit(data, "t/1.commit")
    assert "t/1.commit" in str(raised.value)


names = st.text(st.characters(codec="utf-8"), max_size=10)


@given(
    st.builds(
        CleanerPlan,
        names,
        st.none() | st.tuples(names, names),
        names,
        st.dictionaries(names, st.lists(st.builds(CleanPlanFile, names.filter(bool), st.booleans())).map(tuple)),
        st.none() | st.lists(names).map(tuple),
        st.dictionaries(names, names),
    )
)
def test_a_clean_plan_reads_back(plan: CleanerPlan) -> None:
    """What we request is what we and the engine read, byte for byte the same each time."""
    data = encode_cleaner_plan(plan)
    assert decode_cleaner_plan(data, "x") == plan
    assert encode_cleaner_plan(plan) == data


def test_clean_plans_that_are_refused() -> None:
    """Version 1 had other paths; a file without a path cannot be meant."""
    with pytest.raises(UnsupportedFeatureError, match="x has clean version 1"):
        decode_cleaner_plan(clean_plan({}, version=1), "x")
    with pytest.raises(CorruptMetadataError, match="without a path"):
        decode_cleaner_plan(clean_plan({"p": [""]}), "x")
    assert decode_cleaner_plan(clean_plan({}, None), "x").partitions_to_delete is None


def test_completed_cleans() -> None:
    """The earliest commit, the last commit it saw and the savepoints there were."""
    clean = decode_clean(clean_metadata(at(2), at(5), [at(1), at(3)]), "x")
    assert (clean.earliest_to_retain, clean.last_completed_commit) == (at(2), at(5))
    assert clean.savepoints == {at(1), at(3)}
    assert decode_clean(clean_metadata("", ""), "x").savepoints == frozenset()
    with pytest.raises(UnsupportedFeatureError, match="clean version 1"):
        decode_clean(clean_metadata("", "", version=1), "x")


def test_savepoints_compactions_clusterings() -> None:
    """The files a savepoint pins, the slices a compaction needs, and whether a replace commit is a clustering."""
    record = {
        "savepointedBy": "", "savepointedAt": 1, "comments": "", "version": 1,
        "partitionMetadata": {
            p: {"partitionPath": p, "savepointDataFile": [f"{p}1", f"{p}2"]} for p in ("p", "q")
        },
    }  # fmt: skip
    assert decode_savepoint(avro("HoodieSavepointMetadata", record), "x") == {"p": {"p1", "p2"}, "q": {"q1", "q2"}}
    operations = (CompactionOperation("p", "a-0", at(1)), CompactionOperation("", "b-0", at(2)))
    plan = compaction_plan((o.partition, o.file_id, o.base_instant) for o in operations)
    assert decode_compaction_plan(plan, "x") == operations
    assert decode_compaction_plan(compaction_plan(()), "x") == ()
    for kind, expected in (("CLUSTER", ()), ("INSERT_OVERWRITE", None)):
        requested = avro("HoodieRequestedReplaceMetadata", {"operationType": kind})
        assert decode_requested_clustering(requested, "x") == expected
    slices = [{"dataFilePath": "file:/t/p/a", "fileId": "a"}, {"dataFilePath": "b", "fileId": "b"}]
    clustering = {"operationType": "CLUSTER", "clusteringPlan": {"inputGroups": [{"slices": slices}]}}
    assert decode_requested_clustering(avro("HoodieRequestedReplaceMetadata", clustering), "x") == ("a", "b")
    assert decode_requested_clustering(b"", "x") is None

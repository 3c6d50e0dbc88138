"""Rewrites of manifests on recorded tables: what real Iceberg 1.12 on Spark made of them.

Entries are compared as they are stored, with all numbers. Which of them share one of several new manifests is chance
in the engine, how many manifests there are is not.
"""

from __future__ import annotations

import io
import re
from collections import Counter

import attrs
import fastavro
import pytest
from support.iceberg_cases import METADATA, Case, metadata_chains, read_json, recorded_actions, unpack
from support.iceberg_checker import TableState

from lakemeta.errors import OptionError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.spec.partitioning import PartitionSpec
from lakemeta.storage import LocalStorage

FAST = ("manifests_single_a", "manifests_v3_rows_a")
NUMBERS = ("status", "snapshot_id", "sequence_number", "file_sequence_number")
OF_FILE = ("first_row_id", "content", "content_offset", "record_count")
NOT_COMPARED = {"engine-name", "engine-version", "app-id", "app-name", "iceberg-version"}


def chains() -> list:
    found = metadata_chains("manifests_", ("rewrite_manifests",))
    marks = {False: [pytest.mark.slow], True: []}
    return [pytest.param(c, names, id=f"{c}-{names[0]}", marks=marks[c in FAST]) for c, names in found]


def options_of(expected: dict) -> dict[str, str]:
    texts = {}
    for name, value in expected["action"]["args"].items():
        fields = re.findall(r"'([^']*)'", value) if isinstance(value, str) else None
        texts[name] = str(value).lower() if fields is None else ",".join(fields)
    return texts


def set_properties(case: Case, properties: dict[str, str]) -> None:
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    base = operations.refresh()
    changed = attrs.evolve(base.metadata, properties={**base.metadata.properties, **properties})
    operations.commit(base, changed)


def set_up(case: Case, expected: dict) -> None:
    """Set properties as they were set before an action; targets grow as manifests do by the longer paths."""
    target = "commit.manifest.target-size-bytes"
    for step in expected["action"].get("setup") or []:
        recorded, sizes = read_json(case.folder / "manifest_lengths.json"), Counter()
        for manifest in TableState.local(case.table).manifests:
            kind = manifest.get("content") or 0
            sizes[kind, "now"] += manifest["manifest_length"]
            sizes[kind, "then"] += recorded[case.relative(manifest["manifest_path"])]
        growth = max(sizes[kind, "now"] / sizes[kind, "then"] for kind, _ in sizes)
        set_properties(case, {**step["set"], target: str(1 + int(int(step["set"][target]) * growth))})


@pytest.mark.parametrize(("case", "names"), chains())
def test_recorded_rewrite_of_manifests(case, names, tmp_path):
    """Counts, manifests, entries with all their numbers, summaries, sequence numbers and row ids are the engine's."""
    unpacked = unpack(case, tmp_path, METADATA)
    for name in names:
        check(unpacked, recorded_actions(case, METADATA)[name])


def check(case: Case, expected: dict) -> None:
    set_up(case, expected)
    before = TableState.local(case.table)
    table = IcebergTable.open(str(case.table))
    if "error" in expected:
        with pytest.raises(OptionError) as refusal:
            table.plan("rewrite-manifests", options_of(expected))
        assert refusal.value.args[0] == expected["error"]["message"]
        return
    plan = table.plan("rewrite-manifests", options_of(expected))
    report = table.apply(plan)
    (result,) = expected["result"]
    assert report.result == result, case.name
    assert sum(op.expected_outputs for op in plan.operations) == result["added_manifests_count"]
    assert sum(len(op.inputs) for op in plan.operations) == result["rewritten_manifests_count"]
    after = TableState.local(case.table)
    old = {m["manifest_path"] for m in before.manifests}
    created = {snapshot["snapshot-id"] for snapshot in expected["diff"]["new_snapshots"]}
    mine = [m for m in after.manifests if m["manifest_path"] not in old]
    theirs = [m for m in expected["manifests_detail"] if m["added_snapshot_id"] in created]
    assert kinds(after.manifests) == kinds(expected["manifests_detail"])
    assert kinds(mine) == kinds(theirs)
    stored = [(case.relative(e["data_file"]["file_path"]), *numbers(e)) for m in mine for e in entries(case, m)]
    assert Counter(stored) == Counter((e["file_path"], *numbers(e)) for m in theirs for e in m["entries"])
    first = read_json(case.folder / "manifest_lengths.json").keys()
    listed = [case.relative(m["manifest_path"]) for m in after.manifests]
    assert [name for name in listed if name in first] == [
        m["manifest_path"] for m in expected["manifests_detail"] if m["manifest_path"] in first
    ]
    if max(kinds(theirs).values(), default=0) <= 1:
        assert [m.get("first_row_id") for m in mine] == [m.get("first_row_id") for m in theirs]
    diff = expected["diff"]
    assert after.metadata.get("next-row-id") == diff["next_row_id"]["after"]
    assert after.metadata.get("last-sequence-number") == diff["last_sequence_number"]["after"]
    known = {s["snapshot-id"] for s in before.metadata["snapshots"]}
    new = [s for s in after.metadata["snapshots"] if s["snapshot-id"] not in known]
    assert [summary(s) for s in new] == [summary(s) for s in diff["new_snapshots"]]


def kinds(manifests) -> Counter:
    return Counter((m.get("content") or 0, m["partition_spec_id"]) for m in manifests)


def numbers(entry: dict) -> tuple:
    file = entry.get("data_file", entry)
    return (*(entry.get(name) for name in NUMBERS), *(file.get(name) or 0 for name in OF_FILE))


def entries(case: Case, manifest: dict) -> list[dict]:
    return list(fastavro.reader(io.BytesIO(case.local(manifest["manifest_path"]).read_bytes())))


def summary(snapshot: dict) -> dict:
    return {key: value for key, value in snapshot["summary"].items() if key not in NOT_COMPARED}


def test_recorded_targets_and_specs(tmp_path):
    """A small target gives as many manifests as partitions allow; an old spec's manifests are found by its id."""
    case = unpack("rewrite_manifests_v2", tmp_path)
    expected, rows = dict(case.actions()), case.rows()
    set_properties(case, {"commit.manifest.target-size-bytes": "9000"})
    table = IcebergTable.open(str(case.table))
    plan = table.plan("rewrite-manifests")
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    base = operations.refresh()
    specs = (*base.metadata.partition_specs, PartitionSpec(1))
    properties = {"commit.manifest.target-size-bytes": "8388608"}
    two = attrs.evolve(base.metadata, partition_specs=specs, default_spec_id=1, properties=properties)
    operations.commit(base, two)
    assert table.plan("rewrite-manifests").is_empty
    report = table.apply(table.plan("rewrite-manifests", {"spec_id": "0"}))
    assert [report.result] == expected["09_rewrite_manifests_two_specs_old"]["result"]
    assert TableState.local(case.table).rows() == rows
    (counts,) = expected["07_rewrite_manifests_target9000"]["result"]
    assert sum(op.expected_outputs for op in plan.operations) == counts["added_manifests_count"]

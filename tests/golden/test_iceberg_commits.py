"""Whole rewrites of recorded tables, committed: the table afterwards is the one that real Iceberg made of it.

Sizes of written files differ between writers and are left out, and so are the keys that name the engine.
"""

from __future__ import annotations

import ast
import hashlib
import json
from collections import Counter
from pathlib import Path

import attrs
import pytest
from support.iceberg_cases import is_fast, metadata_files, recorded_actions
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable

from lakemeta.errors import CorruptMetadataError, LakemetaError, OptionError, PathNotFoundError, UnsupportedFeatureError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.spec.partitioning import PartitionSpec
from lakemeta.storage import LocalStorage

CASES = (
    "eq_deletes_v2",
    "failures",
    "mixed_formats",
    "partitioned_v1",
    "partitioned_v2",
    "pos_deletes_partition_granularity",
    "pos_deletes_v2",
    "schema_evolution_v2",
    "small_files_v2",
    "sort_order_v2",
    "spec_evolution_v2",
    "split_large_files",
    "stats_files",
    "table_properties",
    "v3_dv_lineage",
)
NOT_COMPARED = {
    "engine-name",
    "engine-version",
    "app-id",
    "app-name",
    "iceberg-version",
    "added-files-size",
    "removed-files-size",
    "total-files-size",
}
COUNTS = (
    "partition_spec_id",
    "content",
    "sequence_number",
    "min_sequence_number",
    "added_files_count",
    "existing_files_count",
    "deleted_files_count",
    "added_rows_count",
    "existing_rows_count",
    "deleted_rows_count",
    "first_row_id",
)


def recorded() -> list[tuple[str, str]]:
    """(case, action) of every rewrite that started from the recorded table."""
    found = []
    for case in CASES:
        found += [(case, action) for action in recorded_actions(case) if "_rewrite_data_files_" in action]
    return [pair for pair in found if pair not in CHAINED]


CHAINED = {  # SQL that was not recorded changed the table in between; another test has it; another format is asked for
    ("eq_deletes_v2", "08_rewrite_data_files_chain_all_again_dangling"),
    ("mixed_formats", "02_rewrite_data_files_to_orc"),
    ("mixed_formats", "03_rewrite_data_files_to_avro"),
    ("small_files_v2", "18_rewrite_data_files_again_after_default_2"),
    ("spec_evolution_v2", "04_rewrite_data_files_after_drop_field_chained"),
    ("v3_dv_lineage", "09_rewrite_data_files_chain_b_again"),
}


class Recorded:
    """One recorded action, done again."""

    def __init__(self, case, action: str) -> None:
        self.case, self.name = case, action
        self.expected = recorded_actions(case.name)[action]
        arguments = self.expected["action"]["args"]
        self.options = dict(arguments.get("options") or {})
        self.options |= {name: arguments[name] for name in ("strategy", "sort_order") if name in arguments}
        if case.name == "mixed_formats":
            self.options["lakemeta.write-parquet"] = "true"
        self.where = arguments.get("where")
        self.set_properties(self.expected.get("note", ""))
        self.before = self.state()

    def set_properties(self, note: str) -> None:
        """Change the table's properties as the recording says that it did before the action."""
        _, said, new = note.partition("properties set first: ")
        if said:
            operations = HadoopTableOperations(LocalStorage(), str(self.case.table))
            base = operations.refresh()
            moved = new.replace(f"/warehouse/db/{self.case.name}", base.metadata.location)
            properties = {**base.metadata.properties, **ast.literal_eval(moved)}
            operations.commit(base, attrs.evolve(base.metadata, properties=properties))

    def state(self) -> TableState:
        return TableState(str(metadata_files(self.case.table)[-1]))

    def run(self):
        table = IcebergTable.open(str(self.case.table))
        return table.apply(table.plan_rewrite_data_files(self.options, self.where))


@pytest.fixture
def action(request, iceberg_cases) -> Recorded:
    case, name = request.param
    return Recorded(iceberg_cases.fresh(case), name)


SLOW = pytest.mark.slow


def params(*, errors: bool) -> list:
    wrong = ("bad_", "unknown_option", "no_partial", "max_failed_0", "zorder_single_partition_col")
    chosen = [(c, a) for c, a in recorded() if any(word in a for word in wrong) == errors]
    return [pytest.param(pair, id="-".join(pair), marks=() if errors or is_fast(*pair) else SLOW) for pair in chosen]


@pytest.mark.parametrize("action", params(errors=False), indirect=True)
def test_recorded_rewrite(action):
    """Result counters, snapshots with their summaries, files removed and kept, manifests, rows and row ids agree."""
    report = action.run()
    after = action.state()
    expected, diff = action.expected, action.expected["diff"]
    assert report.result == expected["result"][0]
    keys = left_out(action)
    assert summaries(new_snapshots(action, after), keys) == summaries(diff["new_snapshots"], keys)
    assert removed(action, after, 0) == {e["file_path"] for e in diff["data_files_removed"]}
    assert removed(action, after, 1, 2) == {e["file_path"] for e in diff["delete_files_removed"]}
    assert after.metadata.get("next-row-id") == diff["next_row_id"]["after"]
    assert after.metadata["last-sequence-number" if after.metadata["format-version"] > 1 else "format-version"] == (
        diff["last_sequence_number"]["after"] if after.metadata["format-version"] > 1 else 1
    )
    if action.name not in CONCURRENT:
        assert manifests(after) == Counter(tuple(m.get(name) or 0 for name in COUNTS) for m in diff["manifests_after"])
    assert_rows(action, after)


# Commits of one run that met: their order is chance, and a retried commit counts replaced manifests twice.
CONCURRENT = {"04_rewrite_data_files_partial_3commits", "07_rewrite_data_files_partial_progress_desc"}
ORDER_DEPENDENT = {"manifests-created", "manifests-kept", "manifests-replaced", "total-data-files"}


def left_out(action) -> set[str]:
    return NOT_COMPARED | (ORDER_DEPENDENT if action.name in CONCURRENT else set())


def summaries(snapshots, keys: set[str]) -> list:
    return sorted(sorted((k, v) for k, v in s["summary"].items() if k not in keys) for s in snapshots)


def new_snapshots(action, after) -> list:
    known = {s["snapshot-id"] for s in action.before.metadata["snapshots"]}
    return [s for s in after.metadata["snapshots"] if s["snapshot-id"] not in known]


def removed(action, after, *contents: int) -> set[str]:
    gone = set(action.before.paths(*contents)) - set(after.paths(*contents))
    return {action.case.relative(path) for path in gone}


def manifests(after) -> Counter:
    return Counter(tuple(m.get(name) or 0 for name in COUNTS) for m in after.manifests)


def assert_rows(action, after) -> None:
    rows = after.rows()
    if action.case.name == "failures":
        assert [action.case.relative(path) for path in after.lost]
        return
    expected = action.expected.get("rows_after")
    if expected is None:
        assert rows == action.case.rows()
        return
    texts = "\n".join(rows), "\n".join(rows) + "\n"
    assert expected["sha256"] in {hashlib.sha256(text.encode()).hexdigest() for text in texts}


@pytest.mark.parametrize("action", params(errors=True), indirect=True)
def test_recorded_refusal(action):
    """What fails in the engine fails here; new data files are gone, and what partial progress committed stays."""
    files = data_files(action)
    with pytest.raises((OptionError, PathNotFoundError, LakemetaError)):
        action.run()
    after = action.state()
    assert len(new_snapshots(action, after)) == len(action.expected["diff"]["new_snapshots"])
    live = {action.case.table / action.case.relative(path) for path in after.paths(0)}
    assert data_files(action) - files <= live


def data_files(action) -> set[Path]:
    return {path for path in (action.case.table / "data").rglob("*.parquet") if not path.name.startswith(".")}


def test_a_second_rewrite_finds_nothing(iceberg_cases):
    """After a rewrite the plan is empty, and applying it commits nothing."""
    action = Recorded(iceberg_cases.fresh("small_files_v2"), "17_rewrite_data_files_again_after_default_1")
    action.run()
    state = action.state()
    report = action.run()
    assert report.committed is None
    assert report.result["rewritten_data_files_count"] == 0
    assert action.state().metadata == state.metadata


def test_recorded_rewrite_after_a_partition_field_was_dropped(iceberg_cases):
    """Files of both older specs go into one group of the new one, and one file for each of its partitions."""
    case = iceberg_cases.fresh("spec_evolution_v2")
    Recorded(case, "03_rewrite_data_files_where_eu").run()
    operations = HadoopTableOperations(LocalStorage(), str(case.table))
    base = operations.refresh()
    fields = tuple(field for field in base.metadata.spec.fields if field.name != "region")
    specs = (*base.metadata.partition_specs, PartitionSpec(3, fields))
    operations.commit(base, attrs.evolve(base.metadata, partition_specs=specs, default_spec_id=3))
    action = Recorded(case, "04_rewrite_data_files_after_drop_field_chained")
    report = action.run()
    expected, after = action.expected["result"][0], action.state()
    sizes = {"rewritten_bytes_count"}
    assert {k: v for k, v in report.result.items() if k not in sizes} == {
        k: v for k, v in expected.items() if k not in sizes
    }
    assert summaries(new_snapshots(action, after), NOT_COMPARED) == summaries(
        action.expected["diff"]["new_snapshots"], NOT_COMPARED
    )
    assert manifests(after) == Counter(
        tuple(m.get(n) or 0 for n in COUNTS) for m in action.expected["diff"]["manifests_after"]
    )
    assert_rows(action, after)


HINTS = {
    "01_rewrite_hint_normal": b"6",
    "02_rewrite_hint_stale": b"3",
    "03_rewrite_hint_missing": None,
    "05_rewrite_hint_garbage": b"garbage",
    "06_rewrite_hint_newline": b"6\n",
}


def hint_of(case) -> Path:
    return case.table / "metadata" / "version-hint.text"


@pytest.mark.parametrize("name", HINTS)
def test_recorded_hints(name, iceberg_cases):
    """Whatever the hint says, the newest version is rewritten and the hint is right afterwards."""
    case = iceberg_cases.fresh("hadoop_commit_protocol")
    action = Recorded(case, name)
    hint_of(case).unlink()
    if HINTS[name] is not None:
        hint_of(case).write_bytes(HINTS[name])
    report = action.run()
    expected = action.expected["result"]
    assert report.result == expected["result"]
    assert hint_of(case).read_text() == expected["hint_after"]
    assert action.state().rows() == case.rows()
    assert not hint_of(case).with_name(".version-hint.text.crc").exists()


def test_recorded_hint_that_is_too_high(iceberg_cases):
    """A hint at a version that is not there is an error, and nothing changes."""
    case = iceberg_cases.fresh("hadoop_commit_protocol")
    hint_of(case).write_bytes(b"99")
    with pytest.raises(CorruptMetadataError, match="version 99 is missing"):
        IcebergTable.open(str(case.table))


@pytest.mark.parametrize("name", ["09_rewrite_hint_race", "10_rewrite_hint_race_noretry"])
def test_recorded_race(name, iceberg_cases):
    """A handle that saw an old version commits on top of what others committed since, also if it may not retry."""
    case = iceberg_cases.fresh("hadoop_commit_protocol")
    action = Recorded(case, name)
    stale = IcebergTable.open(str(case.table))
    plan = stale.plan_rewrite_data_files({"rewrite-all": "true", "use-starting-sequence-number": "false"})
    other = SmallTable(LocalStorage(), str(case.table))
    if name.endswith("noretry"):
        base = other.operations.refresh()
        properties = {**base.metadata.properties, "commit.retry.num-retries": "0"}
        other.operations.commit(base, attrs.evolve(base.metadata, properties=properties))
    (row,) = action.expected["rows_after"]["first_only_after"]
    other.append([(json.loads(row)["id"], "", 0.0)])
    report = stale.apply(plan)
    assert report.result["rewritten_data_files_count"] == len(action.expected["diff"]["data_files_removed"])
    assert hint_of(case).read_text() == action.expected["version_hint_after"]
    after, diff = action.state(), action.expected["diff"]
    assert_rows(action, after)
    assert summaries(new_snapshots(action, after), NOT_COMPARED) == summaries(
        [{"summary": without_spark(s["summary"])} for s in diff["new_snapshots"]], NOT_COMPARED
    )
    assert removed(action, after, 0) == {e["file_path"] for e in diff["data_files_removed"]}
    assert manifests(after) == Counter(tuple(m.get(n) or 0 for n in COUNTS) for m in diff["manifests_after"])


def without_spark(summary: dict) -> dict:
    return {k: v for k, v in summary.items() if not k.startswith("spark.")}


def test_recorded_valid_next_version(iceberg_cases):
    """A next version that nobody put into the hint is the table's newest: the commit comes after it."""
    case = iceberg_cases.fresh("hadoop_commit_protocol")
    action = Recorded(case, "07_rewrite_hint_next_exists_valid")
    metadata = case.table / "metadata"
    (metadata / "v7.metadata.json").write_bytes((metadata / "v6.metadata.json").read_bytes())
    report = action.run()
    assert report.result == action.expected["result"]["result"]
    assert hint_of(case).read_text() == "8"


def test_recorded_garbage_next_version(iceberg_cases):
    """A next version that is no metadata is an error."""
    case = iceberg_cases.fresh("hadoop_commit_protocol")
    (case.table / "metadata" / "v7.metadata.json").write_text('{"garbage": true}')
    with pytest.raises(CorruptMetadataError, match="format-version"):
        IcebergTable.open(str(case.table))


def test_a_table_of_a_catalog_can_be_planned_and_not_changed(iceberg_cases):
    """NNNNN-uuid.metadata.json files without a hint belong to a catalog: the newest is read, a commit is refused."""
    case = iceberg_cases.fresh("jdbc_catalog_v2")
    names = sorted(path.name for path in case.table.rglob("*"))
    table = IcebergTable.open(str(case.table))
    plan = table.plan_rewrite_data_files({"rewrite-all": "true"})
    assert plan.files == len(TableState(str(case.metadata_files()[-1])).live(0))
    assert table.inspect().data_files == plan.files
    with pytest.raises(UnsupportedFeatureError, match="kept by a catalog"):
        table.apply(plan)
    by_file = IcebergTable.open(str(case.metadata_files()[-1]))
    assert by_file.plan_rewrite_data_files({"rewrite-all": "true"}).operations == plan.operations
    assert sorted(path.name for path in case.table.rglob("*")) == names

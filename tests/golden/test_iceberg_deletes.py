"""Services on delete files of recorded tables: what real Iceberg 1.12 on Spark made of them."""

from __future__ import annotations

import io
import json
import lzma
import re
import tarfile
from functools import cache

import attrs
import pytest
from support.iceberg_cases import DATA, Case, metadata_files, unpack
from support.iceberg_checker import PATH_ID, POSITION_ID, TableState

from lakemeta.errors import OptionError
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.storage import LocalStorage

DELETES = DATA.with_name("iceberg_deletes")
NOT_COMPARED = {"engine-name", "engine-version", "app-id", "app-name", "iceberg-version"}
OURS = {
    "remove_dangling_delete_files": "remove-dangling-deletes",
    "rewrite_data_files": "rewrite-data-files",
    "rewrite_position_delete_files": "rewrite-position-deletes",
}
FAST = (
    "dangling_partitions_a-01",
    "dangling_global_eq_a-01",
    "dangling_dv_a-01",
    "dangling_specs_a-01",
    "posdel_dead_a-02",
    "posdel_v3_mixed_a-01",
)


@cache
def actions(case: str) -> dict[str, dict]:
    with tarfile.open(fileobj=io.BytesIO(lzma.decompress((DELETES / f"{case}.tar.xz").read_bytes()))) as archive:
        names = sorted(name for name in archive.getnames() if name.endswith("/expected.json"))
        return {name.split("/")[-2]: json.load(archive.extractfile(name)) for name in names}


def chains(family: str) -> list:
    """(case, names of actions), each action after the first done on what the one before it left."""
    found: list[tuple[str, list[str]]] = []
    for path in sorted(DELETES.glob(f"{family}_*.tar.xz")):
        case = path.name.removesuffix(".tar.xz")
        for name, expected in actions(case).items():
            if expected["action"]["chained"]:
                found[-1][1].append(name)
            else:
                found.append((case, [name]))
    named = [(f"{case}-{names[0]}", case, names) for case, names in found]
    return [pytest.param(*call, id=at, marks=() if at.startswith(FAST) else pytest.mark.slow) for at, *call in named]


class Replayed:
    """A recorded table, and what was done to it done again."""

    def __init__(self, case: Case) -> None:
        self.case = case
        self.table = IcebergTable.open(str(case.table))

    def setup(self, expected: dict) -> None:
        """Set table properties as was done before the call."""
        for step in expected["action"].get("setup", ()):
            operations = HadoopTableOperations(LocalStorage(), str(self.case.table))
            base = operations.refresh()
            new = dict(step["set"])
            version = int(new.pop("format-version", base.metadata.format_version))
            changed = attrs.evolve(base.metadata, properties={**base.metadata.properties, **new})
            if version != changed.format_version:
                changed = attrs.evolve(changed, format_version=version, next_row_id=0)
            operations.commit(base, changed)

    def call(self, expected: dict):
        """Plan and apply the service of a recorded call; the plan and the report."""
        arguments = expected["action"]["args"]
        options = dict(arguments.get("options") or {})
        plan = self.table.plan(OURS[expected["action"]["procedure"]], options, arguments.get("where"))
        return plan, self.table.apply(plan)

    def state(self) -> TableState:
        return TableState(str(metadata_files(self.case.table)[-1]))

    def relative(self, entries: list[dict]) -> list[tuple]:
        return sorted((self.case.relative(e["data_file"]["file_path"]), e["data_file"].get("content_offset") or 0)
                      for e in entries)  # fmt: skip


@pytest.mark.parametrize(("case", "names"), chains("dangling"))
def test_dangling_deletes(case: str, names: list[str], tmp_path) -> None:
    """Exactly the recorded delete files leave the table, by the service and after a rewrite, and no row changes."""
    replayed = Replayed(unpack(case, tmp_path, DELETES))
    for name in names:
        expected = actions(case)[name]
        replayed.setup(expected)
        before = replayed.state()
        _, report = replayed.call(expected)
        after = replayed.state()
        assert report.result == expected["result"][0]
        assert visible(after) == visible(before)
        left = set(replayed.relative(after.live(1, 2)))
        gone = [place for place in replayed.relative(before.live(1, 2)) if place not in left]
        assert gone == sorted((f["file_path"], f.get("content_offset") or 0) for f in
                              expected["diff"]["delete_files_removed"])  # fmt: skip
        same_summaries(summaries(replayed, before, after), expected)


def same_summaries(ours: list[dict], expected: dict) -> None:
    """Which group comes in which of several commits is chance in the engine: of those only the last totals count."""
    recorded = [snapshot["summary"] for snapshot in expected["diff"]["new_snapshots"]]
    sides = [[{key: text for key, text in one.items() if compared(key)} for one in side] for side in (ours, recorded)]
    if "partial-progress.enabled" in str(expected["action"]):
        sides = [[(len(side), {k: v for k, v in side[-1].items() if k.startswith("total-")})] for side in sides]
    assert sides[0] == sides[1]


def compared(key: str) -> bool:
    """False for keys that name the engine, and for sizes, which differ between writers."""
    return key not in NOT_COMPARED and not key.endswith("-files-size")


def summaries(replayed: Replayed, before: TableState, after: TableState) -> list[dict]:
    known = {snapshot["snapshot-id"] for snapshot in before.metadata["snapshots"]}
    new = [s for s in after.metadata["snapshots"] if s["snapshot-id"] not in known]
    return [s["summary"] for s in new]


def visible(state: TableState) -> list[str]:
    """The rows without what is told of their ids, which an upgrade to version 3 does not yet give them."""
    rows = TableState.__new__(TableState)
    rows.__dict__ |= {**state.__dict__, "metadata": {**state.metadata, "format-version": 2}}
    return rows.rows()


def deleted_positions(replayed: Replayed, state: TableState) -> dict[str, list[int]]:
    """The rows that position deletes name of each data file, as the checker reads them."""
    return {
        replayed.case.relative(entry["data_file"]["file_path"]): sorted(state._deleted_positions(entry))
        for entry in state.live(0)
    }


def name_of(expected: dict) -> str:
    return str(expected["action"]["args"])


def depends_on_lengths(expected: dict) -> bool:
    """True if groups or splits depend on the lengths of files, which change with the length of paths in them."""
    options = expected["action"]["args"].get("options") or {}
    return any(name.startswith("max-file-group") or name == "target-file-size-bytes" for name in options)


@pytest.mark.parametrize(("case", "names"), chains("posdel"))
def test_position_deletes(case: str, names: list[str], tmp_path) -> None:
    """Result counters, summaries and the deleted rows of every data file are those of Iceberg.

    Where its groups depend on the lengths of paths only the rows are compared, and ours succeeds where it fails.
    """
    replayed = Replayed(unpack(case, tmp_path, DELETES))
    for name in names:
        expected = actions(case)[name]
        replayed.setup(expected)
        before = replayed.state()
        if "error" in expected and "engine_defect" not in expected:
            words = "nosuch" if "nosuch" in name_of(expected) else re.escape(expected["error"]["message"])
            with pytest.raises(OptionError, match=words):
                replayed.call(expected)
            continue
        _, report = replayed.call(expected)
        after = replayed.state()
        assert visible(after) == visible(before)
        if expected["action"]["procedure"] != "rewrite_position_delete_files":
            continue
        assert deleted_positions(replayed, after) == deleted_positions(replayed, before)
        vectors = [e["data_file"] for e in after.live(1) if e["data_file"]["file_format"] == "PUFFIN"]
        assert len({file["referenced_data_file"] for file in vectors}) == len(vectors)
        if "error" in expected or depends_on_lengths(expected):
            continue
        recorded = expected["result"][0]
        assert {k: v for k, v in report.result.items() if "bytes" not in k} == {
            k: v for k, v in recorded.items() if "bytes" not in k
        }
        same_summaries(summaries(replayed, before, after), expected)
        rows = deleted_positions(replayed, after).values()
        assert sorted(rows) == sorted(expected["deleted_positions_after"].values())
        assert rows_added(replayed, before, after) == sorted(expected["delete_rows_added"].values())


def rows_added(replayed: Replayed, before: TableState, after: TableState) -> list[list]:
    """The rows of new position delete files in Parquet, in order."""
    known = set(before.paths(1))
    new = [e for e in after.live(1) if e["data_file"]["file_path"] not in known]
    files = [e for e in new if e["data_file"]["file_format"] == "PARQUET"]
    return sorted(
        [[replayed.case.relative(row[PATH_ID]), row[POSITION_ID]] for row in after._file_rows(e)] for e in files
    )


OLDER = ("pos_deletes_v2", "pos_deletes_partition_granularity", "v3_dv_lineage", "eq_deletes_v2")


@pytest.mark.parametrize("name", OLDER[:2])
def test_groups_are_those_of_the_planner(name: str, tmp_path) -> None:
    """The recorded plans of position deletes: the same files together, with as many expected outputs."""
    case = unpack(name, tmp_path)
    table = IcebergTable.open(str(case.table))
    for recorded in (plan for plan in case.plans() if plan.get("kind") == "position_deletes"):
        plan = table.plan("rewrite-position-deletes", recorded["options"])
        ours = {
            (frozenset(op.inputs), op.expected_outputs, op.max_output_size, op.split_size) for op in plan.operations
        }
        assert ours == {
            (
                frozenset(file["path"] for file in group["files"]),
                group["expected_output_files"],
                group["max_output_file_size"],
                group["input_split_size"],
            )
            for group in recorded["groups"]
        }


@pytest.mark.slow
@pytest.mark.parametrize("name", OLDER)
def test_position_deletes_of_older_cases(name: str, tmp_path) -> None:
    """Calls on the recorded table itself: result counters and summaries agree, and no row changes."""
    for n, (action, expected) in enumerate(unpack(name, tmp_path).actions()):
        if "rewrite_position" not in action or expected["action"].get("chained"):
            continue
        replayed = Replayed(unpack(name, tmp_path / str(n)))
        before = replayed.state()
        _, report = replayed.call(expected)
        after = replayed.state()
        assert after.rows() == before.rows()
        counts = {key: count for key, count in expected["result"][0].items() if "bytes" not in key}
        assert {key: count for key, count in report.result.items() if "bytes" not in key} == counts
        same_summaries(summaries(replayed, before, after), expected)

"""Computing table statistics of small tables: what counts, refusals, and commits beside others."""

from __future__ import annotations

import json
import struct

import attrs
import pyarrow as pa
import pytest
from support.iceberg_cases import METADATA, recorded_actions, unpack
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.errors import CorruptMetadataError, OptionError, StalePlanError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.storage import LocalStorage

STATS = "compute-table-stats"


@pytest.fixture
def small(tmp_path) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for i in range(3):
        table.append([(i, "a", 0.5)], [(i + 10, "b", 0.5), (i + 20, "b", 1.5)])
    return table


def opened(small: SmallTable) -> IcebergTable:
    return IcebergTable(Place(small.root, small.operations))


def computed(small: SmallTable, **options: str) -> str:
    table = opened(small)
    path: str = table.apply(table.plan(STATS, options), env=small.env).result["statistics_file"]
    return path


def blobs(data: bytes) -> list[tuple[dict, bytes]]:
    """The blobs of a Puffin file, each with what the footer says of it; read by the specification alone."""
    assert data[:4] == data[-4:] == b"PFA1"
    (length,) = struct.unpack("<i", data[-12:-8])
    found = []
    for blob in json.loads(data[-12 - length : -12])["blobs"]:
        content = data[blob["offset"] : blob["offset"] + blob["length"]]
        if blob.pop("compression-codec", None) == "zstd":
            content = pa.CompressedInputStream(pa.BufferReader(content), "zstd").read()
        del blob["offset"], blob["length"]
        found.append((blob, content))
    return found


def ndv(small: SmallTable) -> dict[int, int]:
    """By column, what the metadata says of the newest statistics, which is what their file says."""
    state = TableState.local(small.root).metadata
    file = state["statistics"][-1]
    data = small.storage.read(file["statistics-path"])
    assert file["file-size-in-bytes"] == len(data)
    assert data[len(data) - file["file-footer-size-in-bytes"] :][:4] == b"PFA1"
    assert [blob for blob, _ in blobs(data)] == file["blob-metadata"]
    assert {blob["snapshot-id"] for blob in file["blob-metadata"]} == {file["snapshot-id"]}
    return {blob["fields"][0]: int(blob["properties"]["ndv"]) for blob in file["blob-metadata"]}


def test_recorded_sketches(tmp_path):
    """The very bytes of the sketches that real Iceberg on Spark made of the same snapshot."""
    case = unpack("stats_files", tmp_path)
    (recorded,) = (case.table / "metadata").glob("*.stats")
    table = IcebergTable.open(str(case.table))
    report = table.apply(table.plan(STATS, {"snapshot_id": recorded.name.split("-")[0]}))
    assert blobs(case.local(report.result["statistics_file"]).read_bytes()) == blobs(recorded.read_bytes())
    assert len(TableState.local(case.table).metadata["statistics"]) == 1


@pytest.mark.parametrize("name", ["pstats_r02_v3", "pstats_specs_a"])
def test_recorded_refusal(name, tmp_path):
    """An unknown column, in the engine's words."""
    case = unpack(name, tmp_path, METADATA)
    message = recorded_actions(name, METADATA)["12_compute_table_stats_bad_col_refused"]["error"]["message"]
    with pytest.raises(OptionError) as refusal:
        IcebergTable.open(str(case.table)).plan(STATS, {"columns": "nosuch"})
    assert refusal.value.args[0] == message


def test_live_rows_count(small):
    """Rows that deletes took do not, be they told by position or by a column that is not asked for."""
    computed(small)
    assert ndv(small) == {1: 9, 2: 2, 3: 2}
    small.delete_positions(small.data_files()[1], [1])
    small.delete_ids(10, 20, partition=("b",))
    small.remove(*[file for file in small.data_files() if file.partition == ("a",)])
    assert len(TableState.local(small.root).rows()) == 3
    computed(small, columns="v,p")
    assert ndv(small) == {3: 2, 2: 1}
    computed(small, columns="id")
    assert ndv(small) == {1: 3}


def test_statistics_of_an_older_snapshot(small):
    """Its own rows, and the newer ones beside them; a second call takes the first one's place."""
    first = small.metadata.snapshots[0]
    computed(small)
    computed(small, snapshot_id=str(first.snapshot_id))
    computed(small, snapshot_id=str(first.snapshot_id))
    assert ndv(small) == {1: 3, 2: 2, 3: 2}
    assert [f.snapshot_id for f in small.metadata.statistics] == [small.head.snapshot_id, first.snapshot_id]


def test_work_is_shared_out_to_the_same_bytes(small):
    """Whatever the number of threads."""
    found = set()
    for threads in (1, 3):
        table = opened(small)
        report = table.apply(table.plan(STATS), executor=LocalExecutor(threads), env=still_env(threads))
        found.add(small.storage.read(report.result["statistics_file"]))
    assert len(found) == 1


def test_an_empty_table_has_no_statistics(tmp_path):
    """Nor is anything committed."""
    small = create_table(LocalStorage(), str(tmp_path / "t"))
    table = opened(small)
    assert table.apply(table.plan(STATS)).result == {"statistics_file": None}
    assert not small.metadata.statistics


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"column": "p"}, "unknown option column; did you mean columns?"),
        ({"columns": " "}, "Columns cannot be null/empty"),
        ({"columns": "p,,v"}, "'columns' is set to 'p,,v' but must be a list"),
        ({"snapshot_id": "5"}, "Snapshot not found: 5"),
    ],
)
def test_options_are_refused(small, options, message):
    """In one sentence each."""
    with pytest.raises(OptionError) as refusal:
        opened(small).plan(STATS, options)
    assert str(refusal.value).startswith(message)


@pytest.mark.parametrize("changes", [{"snapshot_id": 5}, {"kind": "partition"}], ids=str)
def test_edited_plans_are_refused(small, changes):
    """A plan of another snapshot or kind of statistics changes nothing."""
    table = opened(small)
    plan = table.plan(STATS)
    with pytest.raises(StalePlanError, match="make the plan again"):
        table.apply(attrs.evolve(plan, operations=[attrs.evolve(plan.operations[0], **changes)]))
    assert not small.metadata.statistics


def test_a_data_file_that_is_cut_off_is_refused(small):
    """Counting what is left would be wrong; nothing is committed."""
    path = small.data_files()[0].file_path
    table = opened(small)
    plan = table.plan(STATS)
    small.storage.replace(path, small.storage.read(path)[:-1])
    with pytest.raises(CorruptMetadataError, match="its manifest entry says"):
        table.apply(plan)
    assert not small.metadata.statistics

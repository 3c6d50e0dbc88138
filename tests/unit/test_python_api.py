"""What a Python program may pass, and what it gets to see: paths, option values, moments, plans, notebooks."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from support.builders import TableFiles
from support.iceberg_tables import create_table

import lakemeta
from lakemeta.errors import LakemetaError, OptionError, StalePlanError, TableNotFoundError
from lakemeta.hudi import HudiTable
from lakemeta.iceberg import IcebergTable
from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

ONE = {"hoodie.clean.commits.retained": 1, "hoodie.clean.incremental.enabled": True}


@pytest.fixture
def trips(tmp_path: Path) -> Path:
    """Three versions of a file group, of which a clean deletes one."""
    table = TableFiles(tmp_path / "trips")
    for _ in range(3):
        table.commit({"p1": "a"})
    return table.root


@pytest.fixture
def rides(tmp_path: Path) -> Path:
    """Two small files in an Iceberg table."""
    small = create_table(LocalStorage(), str(tmp_path / "rides"))
    small.append([(1, "a", 0.5)])
    small.append([(2, "b", 0.5)])
    return tmp_path / "rides"


def test_paths_and_values_of_any_kind(trips: Path, rides: Path) -> None:
    """Path objects, numbers and truth values mean what their texts mean."""
    plan = HudiTable.open(trips).plan_clean(ONE)
    assert plan == HudiTable.open(str(trips)).plan_clean({name: str(value).lower() for name, value in ONE.items()})
    options = {"rewrite-all": True, "target-file-size-bytes": 1 << 20, "delete-ratio-threshold": 0.5}
    table = IcebergTable.open(rides)
    assert table.plan_rewrite_data_files(options).files == 2
    assert table.maintenance({"rewrite-data-files.rewrite-all": True}, at_least={"rewrite-data-files": 1})


WRONG: list[tuple[dict[str, Any], str]] = [
    ({"options": {"hoodie.clean.commits.retained": None}}, "is set to a NoneType but must be a string, a number"),
    ({"options": {"hoodie.clean.commits.retained": [1]}}, "is set to a list but must be a string, a number"),
    ({"options": {"hoodie.clean.commits.retained": 1.5}}, "is set to 1.5 but must be a whole number"),
    ({"now": datetime(2026, 8, 1)}, "without a time zone; give it one, as now.replace"),
    ({"now": "2026-08-01"}, "no datetime; give one with a time zone"),
]


@pytest.mark.parametrize(("arguments", "words"), WRONG)
def test_what_is_refused(trips: Path, arguments: dict[str, Any], words: str) -> None:
    """With the name of the argument and what would do."""
    with pytest.raises(OptionError, match=words):
        HudiTable.open(trips).plan_clean(**arguments)


def test_a_naive_moment_is_refused_by_iceberg_too(rides: Path) -> None:
    """Ages are counted from it."""
    table = IcebergTable.open(rides)
    with pytest.raises(OptionError, match="without a time zone"):
        table.plan("expire-snapshots", now=datetime(2030, 1, 1))
    with pytest.raises(OptionError, match="without a time zone"):
        table.apply(table.plan("expire-snapshots"), now=datetime(2030, 1, 1))
    assert table.plan("expire-snapshots", now=datetime.now(UTC) + timedelta(days=9)).header.facts["now_ms"]


def test_a_plan_of_the_other_format_is_named(trips: Path, rides: Path) -> None:
    """Each table says whose plan it was given."""
    hudi, iceberg = HudiTable.open(trips), IcebergTable.open(rides)
    with pytest.raises(StalePlanError, match=rf"but for the Hudi table {trips}"):
        iceberg.apply(hudi.plan_clean(ONE))
    with pytest.raises(StalePlanError, match=rf"it is for the Iceberg table {rides}"):
        hudi.apply(iceberg.plan_rewrite_data_files())


def test_open_finds_the_format(trips: Path, rides: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """By what lies there; relative paths and ``~`` are made absolute in table and plan alike."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HOME", str(tmp_path))
    for spelled in ("trips", "./trips/", "~/trips", trips, f"file://{trips}"):
        table = lakemeta.open(spelled)
        assert isinstance(table, HudiTable)
        assert table.url.removeprefix("file://") == str(trips)
    for spelled in ("rides", "./rides/", "~/rides", rides):
        table = lakemeta.open(spelled)
        assert isinstance(table, IcebergTable)
        assert table.plan_rewrite_data_files().header.table == str(rides)
    metadata = max(rides.glob("metadata/v*.metadata.json"))
    assert isinstance(lakemeta.open(metadata), IcebergTable)


def test_open_says_what_lies_there_instead(trips: Path, rides: Path, tmp_path: Path) -> None:
    """Another format, a place inside of a table, a file, nothing."""
    delta = tmp_path / "delta" / "_delta_log"
    delta.mkdir(parents=True)
    (delta / "00000000000000000000.json").touch()
    data = next(rides.rglob("*.parquet"))
    cases: list[tuple[Any, object, str]] = [
        (HudiTable.open, rides, "is an Iceberg table, not a Hudi one; use lakemeta rewrite-data-files"),
        (HudiTable.open, max(rides.glob("metadata/v*.metadata.json")), "is an Iceberg table, not a Hudi one"),
        (HudiTable.open, "catalog://x/db.t", "is an Iceberg table, not a Hudi one"),
        (HudiTable.open, tmp_path / "delta", "is a Delta Lake table, not a Hudi one; lakemeta maintains"),
        (IcebergTable.open, trips, "is a Hudi table, not an Iceberg one; use lakemeta clean"),
        (lakemeta.open, tmp_path / "delta", "is a Delta Lake table; lakemeta maintains"),
        (lakemeta.open, data, f"lies in an Iceberg table; give the table: {rides}"),
        (lakemeta.open, trips / "p1", f"lies in a Hudi table; give the table: {trips}"),
        (lakemeta.open, tmp_path / "nowhere", "no Hudi or Iceberg table lies at"),
    ]
    for way, place, words in cases:
        with pytest.raises(TableNotFoundError) as caught:
            way(place)
        assert words in str(caught.value)


def test_ledgers_and_files_by_path_objects(trips: Path, tmp_path: Path) -> None:
    """Wherever a path is taken."""
    table = HudiTable.open(trips)
    file = next((trips / "p1").glob("*.parquet"))
    assert table.why(file) == table.why(str(file))
    report = table.apply(table.plan_clean(ONE), ledger=tmp_path / "ledgers")
    assert report.ledger is not None
    assert report.ledger.startswith(str(tmp_path / "ledgers"))
    assert len(table.undo(tmp_path / "ledgers").history().runs) == 1


def test_plans_are_saved_and_loaded(trips: Path, tmp_path: Path) -> None:
    """The file is the plan, whole; what is no file is one sentence."""
    plan = HudiTable.open(trips).plan_clean(ONE)
    plan.save(tmp_path / "p.jsonl")
    assert Plan.load(tmp_path / "p.jsonl") == plan
    assert (tmp_path / "p.jsonl").read_text() == plan.dumps()
    for action in (lambda: Plan.load(tmp_path / "none"), lambda: plan.save(tmp_path / "no" / "p.jsonl")):
        with pytest.raises(LakemetaError, match="No such file"):
            action()


def test_plans_as_tables(trips: Path, rides: Path) -> None:
    """A row for each operation, columns by the names of the plan file; an empty plan has the columns of files."""
    found = HudiTable.open(trips).plan_clean(ONE, explain=True).to_arrow()
    assert found.column_names == ["op", "partition", "path", "size", "reason", "by"]
    assert sorted(found["op"].to_pylist()) == ["delete", "keep", "keep"]
    assert pa.compute.sum(found["size"]).as_py() == 30
    groups = IcebergTable.open(rides).plan_rewrite_data_files({"rewrite-all": True}).to_arrow()
    assert groups["expected_outputs"].to_pylist() == [1]
    assert len(groups["inputs"][0]) == 2
    empty = HudiTable.open(trips).plan_clean({"hoodie.clean.commits.retained": 99}).to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, found.column_names)


def test_reprs_are_short(trips: Path, rides: Path) -> None:
    """One line each, without the files."""
    hudi, iceberg = HudiTable.open(trips), IcebergTable.open(rides)
    assert repr(hudi) == f"<HudiTable {trips}: COPY_ON_WRITE, version 9>"
    assert repr(iceberg) == f"<IcebergTable {rides}: version 2, 2 snapshots>"
    plan = hudi.plan_clean(ONE)
    assert repr(plan) == f"<Plan hudi.clean of {trips}: 1 file, 10 B>"
    assert repr(hudi.apply(plan)) == f"<Report hudi.clean of {trips}: done, 1 file deleted>"


def test_facts_and_findings_in_a_notebook(trips: Path, rides: Path) -> None:
    """``inspect`` and ``doctor`` of both formats are tables, escaped."""
    for table in (HudiTable.open(trips), IcebergTable.open(rides)):
        facts, findings = table.inspect()._repr_html_(), table.doctor()._repr_html_()
        assert "<td>bytes</td>" in facts
        assert " B</td>" in facts or "KiB</td>" in facts
        assert "<th>severity</th>" in findings
        assert isinstance(table.doctor(), tuple)

"""``--html`` of inspect, plan and simulate: a page beside what is printed, of what is in the table."""

from __future__ import annotations

import json
import re
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, tree

from lakemeta.hudi import HudiTable
from lakemeta.hudi.sample import write_sample_table as write_trips
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.sample import write_sample_table as write_rides

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.commands import Result

    Run = Callable[..., Result]

START = datetime(2026, 8, 1, tzinfo=UTC)
RETAIN = ("--set", "hoodie.clean.commits.retained=1")


@pytest.fixture(scope="module")
def trips(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("hudi") / "t")
    write_trips(root, START)
    return root


@pytest.fixture(scope="module")
def rides(tmp_path_factory: pytest.TempPathFactory) -> str:
    root = str(tmp_path_factory.mktemp("iceberg") / "t")
    write_rides(root, START)
    return root


def data(page: Path) -> dict[str, Any]:
    """The data of a page."""
    (found,) = re.findall(r'id="data">(.*?)</script>', page.read_text(encoding="utf-8"))
    parsed: dict[str, Any] = json.loads(found)
    return parsed


def binned(paths: list[Path]) -> list[list[int]]:
    """What is on the disk, counted by powers of two."""
    bins = [path.stat().st_size.bit_length() for path in paths]
    return [[n, bins.count(n)] for n in sorted(set(bins))]


def test_a_hudi_table(run: Run, trips: str, tmp_path: Path) -> None:
    """Every base file on the disk is counted, in its partition and for the commit that wrote it."""
    page = tmp_path / "page.html"
    before = tree(Path(trips))
    done = run("inspect", trips, "--html", page, "--output", "json")
    assert (done.code, done.err) == (0, f"page saved to {page}\n")
    assert tree(Path(trips)) == before
    found, files = data(page), list(Path(trips).glob("*/*.parquet"))
    assert found["sizes"] == {"now": binned(files)}
    assert {row[0]: row[1] for row in found["partitions"]} == {
        place.name: len(list(place.glob("*.parquet"))) for place in {path.parent for path in files}
    }
    written = {row[0]: row[3] for row in found["moments"] if row[2] == "commit"}
    assert all(len([p for p in files if p.name.split("_")[2][:17] == at]) == n for at, n in written.items())
    assert ["table type", "COPY_ON_WRITE"] in found["facts"]
    assert [row[3] for row in found["moments"] if row[2] == "savepoint"] == [0]


def test_a_clean(run: Run, trips: str, tmp_path: Path) -> None:
    """The page has the operations of the plan, and what stays is what is not deleted."""
    page = tmp_path / "page.html"
    assert run("plan", "clean", trips, *RETAIN, "--html", page, "-q").err == ""
    plan = HudiTable.open(trips).plan_clean({"hoodie.clean.commits.retained": 1})
    found, going = data(page), {op.path for op in plan.deletes()}
    assert set(found["operations"]["columns"][2]) == going
    staying = [path for path in Path(trips).glob("*/*.parquet") if str(path.relative_to(trips)) not in going]
    assert found["sizes"]["after"] == binned(staying)
    assert sum(row[3] for row in found["partitions"]) == len(going) == 8
    marked = [row[0] for row in found["moments"] if row[6]]
    assert max(marked) < plan.header.facts["earliest_to_retain"]
    assert not set(marked) & set(plan.header.facts["savepoints"])


def test_a_rewrite(run: Run, rides: str, tmp_path: Path) -> None:
    """Files of the current snapshot before, and as many as are expected after."""
    page = tmp_path / "page.html"
    run("plan", "rewrite-data-files", rides, "--set", "rewrite-all=true", "--html", page)
    found = data(page)
    facts = IcebergTable.open(rides).inspect()
    assert sum(n for _, n in found["sizes"]["now"]) == facts.data_files == 24
    assert sum(n for _, n in found["sizes"]["after"]) == 3
    assert sum(row[2] for row in found["partitions"]) == sum(found["operations"]["columns"][3]) == facts.bytes
    assert [row[5] for row in found["moments"]][-1] == "main"
    assert len(found["moments"]) == facts.snapshots


def test_a_simulation(run: Run, rides: str, tmp_path: Path) -> None:
    """The page has the rows that are printed."""
    page = tmp_path / "page.html"
    asked = ("--service", "expire-snapshots", "--set", "retain_last=1,0,3", "--output", "jsonl", "--html", page)
    done = run("simulate", rides, *asked)
    assert data(page)["outcomes"] == [json.loads(line) for line in done.out.splitlines()]
    assert data(page)["option"] == "retain_last"


def test_a_rollback_and_an_empty_table(run: Run, tmp_path: Path) -> None:
    """There are pages of nothing to do, too."""
    table, page = TableFiles(tmp_path / "t"), tmp_path / "page.html"
    assert run("plan", "rollback", table.root, "--html", page).code == 0
    assert data(page)["operations"]["columns"][2] == []
    assert run("inspect", table.root, "--html", page).code == 0


def test_a_partition_that_looks_like_markup(run: Run, tmp_path: Path) -> None:
    """Of a table on the disk: its name is in the data as it is, and nowhere in the markup."""
    table, page = TableFiles(tmp_path / "t"), tmp_path / "page.html"
    name = "p=<script>alert(1)<!--\x01\"'"
    table.insert({name: "a"})
    table.commit({name: "a"})
    table.commit({name: "a"})
    assert run("plan", "clean", table.root, *RETAIN, "--html", page).code == 0
    assert [row[0] for row in data(page)["partitions"]] == [name]
    assert "alert(1)<" not in page.read_text()


def test_what_is_wrong(run: Run, rides: str, tmp_path: Path) -> None:
    """The page has the sentences that are printed."""
    page = tmp_path / "page.html"
    done = run("doctor", rides, "--html", page, "--output", "json")
    found = [[f["severity"], f["sentence"]] for f in json.loads(done.out)["findings"]]
    assert data(page)["findings"] == found != []
    assert len(data(page)["moments"]) == 10


def test_other_files_stay(run: Run, trips: str, tmp_path: Path) -> None:
    """Refused before anything is planned or printed."""
    mine = tmp_path / "mine.html"
    mine.write_text("mine")
    for command in (("inspect",), ("doctor",), ("plan", "clean"), ("simulate",)):
        done = run(*command, trips, "--html", mine)
        assert (done.code, done.out) == (2, "")
        assert done.sentence == f"lakemeta: {mine} is there and is no page of lakemeta; give another name, or remove it"
    assert mine.read_text() == "mine"

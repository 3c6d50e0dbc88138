"""``lakemeta simulate``: a row for each value, what each plan says, and nothing written."""

from __future__ import annotations

import json
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.builders import tree

from lakemeta.cli.option_list import option_tables
from lakemeta.errors import OptionError, StorageError
from lakemeta.hudi import HudiTable
from lakemeta.hudi.sample import write_sample_table as write_trips
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.sample import write_sample_table as write_rides
from lakemeta.simulation import simulate

if TYPE_CHECKING:
    from collections.abc import Callable

    from support.commands import Result

    Run = Callable[..., Result]

RETAINED = "hoodie.clean.commits.retained"
START = datetime(2026, 8, 1, tzinfo=UTC)


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


def lines(out: str) -> list[dict[str, object]]:
    return [json.loads(line) for line in out.splitlines()]


def test_each_row_is_what_its_plan_says(run: Run, trips: str) -> None:
    """Files, bytes and the earliest commit to retain are those of the plan with that value; nothing is written."""
    before = tree(Path(trips))
    done = run("simulate", trips, "--set", f"{RETAINED}=1,5,1,20", "--output", "jsonl")
    assert tree(Path(trips)) == before
    assert done.code == 0
    rows = lines(done.out)
    assert [row["value"] for row in rows] == ["1", "5", "20"]
    for row in rows:
        plan = HudiTable.open(trips).plan_clean({RETAINED: str(row["value"])})
        asked = (*plan.changed, plan.header.facts["earliest_to_retain"])
        assert (row["files"], row["bytes"], row["oldest"]) == asked
    assert rows[0]["files"] > rows[1]["files"] > rows[2]["files"] == 0
    assert rows[2]["note"] == "no commit is old enough to be cleaned"


def test_the_oldest_snapshot_is_the_oldest_that_stays(run: Run, rides: str) -> None:
    """Of n snapshots that stay at least, the oldest is the n-th from the end, of its own date."""
    before = tree(Path(rides))
    done = run("simulate", rides, "--service", "expire-snapshots", "--set", "retain_last=1,3", "--output", "json")
    assert tree(Path(rides)) == before
    facts = json.loads(done.out)
    assert (facts["service"], facts["option"]) == ("expire-snapshots", "retain_last")
    newest = max(Path(rides, "metadata").glob("v*.metadata.json"), key=lambda path: int(path.name.split(".")[0][1:]))
    history = sorted((s["timestamp-ms"], str(s["snapshot-id"])) for s in json.loads(newest.read_text())["snapshots"])
    for kept, row in zip((1, 3), facts["outcomes"], strict=True):
        assert (row["oldest_ms"], row["oldest"]) == history[-kept]
        assert row["snapshots"] == len(history) - kept


def test_rewrites_say_into_how_many_files(run: Run, rides: str) -> None:
    """Sizes may have units; smaller targets make more files."""
    asked = ("--set", "target-file-size-bytes=8KiB,1 MiB", "--set", "rewrite-all=true")
    rows = lines(run("simulate", rides, "--service", "rewrite-data-files", *asked, "--output", "jsonl").out)
    assert [row["value"] for row in rows] == ["8192", "1048576"]
    assert rows[0]["into"] > rows[1]["into"] == 3
    assert rows[0]["files"] == rows[1]["files"] == 24


def test_refused_values_are_rows(run: Run, trips: str) -> None:
    """The others go on; the exit code is 2 only if all are refused, and stdout has nothing but the rows."""
    some = run("simulate", trips, "--set", f"{RETAINED}=x,1", "--output", "jsonl")
    assert some.code == 0
    sentence = f"'{RETAINED}' is set to x but must be a whole number"
    assert lines(some.out)[0] == {"value": "x", "refused": sentence}
    assert lines(some.out)[1]["files"] == 8
    every = run("simulate", trips, "--set", f"{RETAINED}=x,-1", "--output", "jsonl")
    assert (every.code, [set(row) for row in lines(every.out)]) == (2, [{"value", "refused"}] * 2)
    text = run("simulate", trips, "--set", f"{RETAINED}=x,1")
    assert f"refused: {sentence}" in text.out
    assert "━━━━━━━━" in text.out
    assert "20260801012016000 (2026-08-01 01:20:16)" in text.out


@pytest.mark.parametrize(
    ("asked", "sentence"),
    [
        (("--set", f"{RETAINED}=5"), "nothing varies; give one option several values"),
        (("--set", f"{RETAINED}=1,5", "--set", "hoodie.clean.hours.retained=1,2"), "vary one option several values"),
        (("--set", f"{RETAINED}=1,,5"), "has an empty value; leave it out"),
        (("--set", "hoodie.cleaner.partition.filter.selected=a,b"), "may hold commas itself"),
        (("--set", f"{RETAINED}=1,5", "--service", "vacuum"), "known are clean, rollback"),
        (("--set", f"{RETAINED}=1,5", "--where", "a = 1"), "--where is for Iceberg tables"),
    ],
)
def test_what_cannot_be_compared(run: Run, trips: str, asked: tuple[str, ...], sentence: str) -> None:
    """It is said in one sentence."""
    done = run("simulate", trips, *asked)
    assert (done.code, done.out) == (2, "")
    assert sentence in done.sentence


def test_iceberg_needs_a_service(run: Run, rides: str) -> None:
    """And refuses a list of snapshots, which has commas of its own."""
    assert "--service expire-snapshots" in run("simulate", rides, "--set", "retain_last=1,2").sentence
    listed = run("simulate", rides, "--service", "expire-snapshots", "--set", "snapshot_ids=1,2")
    assert (listed.code, "may hold commas itself" in listed.sentence) == (2, True)


def test_lists_are_marked() -> None:
    """An option whose meaning speaks of commas is marked to hold them."""
    options = [option for found in option_tables().values() for option in found]
    assert not [option.name for option in options if "by commas" in option.meaning and not option.commas]


def test_in_python(trips: str, rides: str) -> None:
    """Values may be numbers, lists as texts; a table for notebooks escapes what it shows."""
    done = HudiTable.open(trips).simulate(RETAINED, [1, "<b>"])
    assert [outcome.files for outcome in done.outcomes] == [8, 0]
    assert "&lt;b&gt;" in done._repr_html_()
    assert "<b>" not in done._repr_html_()
    table = IcebergTable.open(rides)
    ids = [str(s.snapshot_id) for s in table.place.operations.current().metadata.snapshots]
    counted = table.simulate("expire-snapshots", "snapshot_ids", [ids[0], ",".join(ids[:3])], {"retain_last": 99})
    assert [outcome.snapshots for outcome in counted.outcomes] == [1, 3]
    with pytest.raises(OptionError, match="there is no service vacuum"):
        table.simulate("vacuum", "retain_last", [1])
    with pytest.raises(OptionError, match="no value to simulate"):
        table.simulate("expire-snapshots", "retain_last", [])


def test_what_the_storage_raises_ends_it() -> None:
    """It says nothing of a value."""

    def plan(_: str) -> None:
        raise StorageError("gone")

    with pytest.raises(StorageError, match="gone"):
        simulate("t", "clean", RETAINED, ["1", "2"], plan, lambda _: None)  # type: ignore[arg-type]

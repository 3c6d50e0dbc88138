"""The commands on Iceberg tables, from the outside: exit codes, one sentence on stderr, results on stdout."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.plan import Plan
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., "Result"]
    from support.commands import Result

REWRITE = ("rewrite-data-files",)
TWO = ("--set", "min-input-files=2")


@pytest.fixture
def small(tmp_path) -> SmallTable:
    small = create_table(LocalStorage(), str(tmp_path / "t"), partitioned=True)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    return small


def snapshots(small: SmallTable) -> int:
    return len(small.metadata.snapshots)


def test_plan_look_apply(run: Run, small, tmp_path):
    """A plan is saved, shown, applied once, and refused the second time with exit code 3."""
    saved = tmp_path / "plan.jsonl"
    result = run("plan", *REWRITE, small.root, *TWO, "--out", saved)
    assert result.code == 0
    assert "Total: 6 files" in result.out
    assert Plan.loads(saved.read_text()).files == 6
    assert snapshots(small) == 3
    rows = TableState.local(small.root).rows()
    result = run("apply", saved, "--output", "json")
    assert result.code == 0
    assert json.loads(result.out)["rewritten_data_files_count"] == 6
    assert TableState.local(small.root).rows() == rows
    result = run("apply", saved)
    assert result.code == 3
    assert "6 of the 6 planned files are no longer in the table" in result.sentence


def test_doctor_looks_into_files(run: Run, small):
    """Sentences, or JSON; what only Hudi tables have is refused."""
    result = run("doctor", small.root)
    assert result.code == 0
    assert "Worth knowing:\n  - the footers of 6 Parquet files were read, of all branches" in result.out
    found = json.loads(run("doctor", small.root, "--output", "json").out)["findings"]
    assert [finding["kind"] for finding in found] == ["footers_read"]
    result = run("doctor", small.root, "--set", "a=b")
    assert (result.code, result.sentence) == (
        2,
        "lakemeta: --set and --now are for Hudi tables; leave them out for an Iceberg table",
    )


def test_jsonl_is_the_plan_file(run: Run, small, tmp_path):
    """--output jsonl prints what --out saves."""
    saved = tmp_path / "plan.jsonl"
    result = run("plan", *REWRITE, small.root, *TWO, "--out", saved, "--output", "jsonl", "-q")
    assert result.out == saved.read_text()


def test_rewrite_in_one_go(run: Run, small):
    """With --yes nothing is asked; a second run finds nothing to do."""
    result = run(*REWRITE, small.root, *TWO, "--yes", "--where", "p = 'a'")
    assert result.code == 0
    assert "  3 -> 1 file, 2.0 KiB -> " in result.out
    result = run(*REWRITE, small.root, "--yes")
    assert (result.code, result.out.count("Nothing to do.")) == (0, 1)
    assert snapshots(small) == 4


def test_without_a_terminal_yes_is_needed(run: Run, small):
    """Nothing can be asked in a pipe, so nothing is changed."""
    result = run(*REWRITE, small.root, *TWO)
    assert result.code == 2
    assert "give --yes" in result.sentence
    assert run(*REWRITE, small.root, *TWO, "--dry-run").code == 0
    assert snapshots(small) == 3


def test_a_partly_done_rewrite_exits_with_4(run: Run, small):
    """With partial progress a lost input fails its group, and the others are committed."""
    lost = small.data_files()[0]
    small.storage.delete_many([lost.file_path])
    result = run(
        *REWRITE, small.root, *TWO, "--yes", "--set", "partial-progress.enabled=true", "-q", "--output", "json"
    )
    report = json.loads(result.out)
    assert result.code == 4
    assert report["failed_data_files_count"] == 3
    assert report["rewritten_data_files_count"] == 3
    assert lost.file_path in report["notes"][0]


@pytest.mark.parametrize(
    ("arguments", "code", "sentence"),
    [
        (("--set", "min-input-fils=2"), 2, "did you mean min-input-files?"),
        (("--set", "target-file-size-bytes=0"), 2, "'target-file-size-bytes' is set to 0 but must be > 0"),
        (("--where", "nope = 1"), 2, "the table has no column nope"),
        (("--set", "branch=nope"), 2, "branch nope: branch does not exist"),
    ],
)
def test_refusals(run: Run, small, arguments, code, sentence):
    """One sentence, the right exit code, nothing changed."""
    result = run("plan", *REWRITE, small.root, *arguments)
    assert result.code == code
    assert sentence in result.sentence
    assert snapshots(small) == 3


def test_inspect_finds_out_the_format(run: Run, small, tmp_path):
    """The same command takes tables of either format, and says so where there is none."""
    result = run("inspect", small.root, "--output", "json")
    facts = json.loads(result.out)
    assert (facts["format"], facts["data_files"], facts["snapshots"]) == ("iceberg", 6, 3)
    result = run("inspect", tmp_path)
    assert result.code == 2
    assert "no Hudi or Iceberg table lies at" in result.sentence


def test_why(run: Run, small):
    """One sentence for a person, one object for a program."""
    path = small.data_files()[0].file_path.removeprefix(small.root + "/")
    assert run("why", small.root, path, *TWO).out.startswith(f"{path} would be rewritten: ")
    facts = json.loads(run("why", small.root, path, "--where", "p = 'zzz'", "--output", "json").out)
    assert facts["why"].endswith("stays: no row of it can match the filter")


def test_a_filter_says_of_which_files_all_rows_match(run: Run, small):
    """Whole files are rewritten: reasons and counts tell files of matching rows from others, and only with a filter."""
    plan = ("plan", *REWRITE, small.root, *TWO)
    text = run(*plan, "--where", "p = 'a'").out
    assert "into 1 file; all rows match" in text
    assert text.endswith("Filter: all rows of 3 files match\n")
    text = run(*plan, "--where", "id < 12").out
    assert text.endswith("Filter: some rows of 6 files may not match; whole files are rewritten\n")
    mixed = ("--where", "p = 'a' or id < 12")
    text = run(*plan, *mixed).out
    assert "into 1 file; some rows may not match" in text
    assert "Filter: all rows of 3 files match, some rows of 3 files may not match; whole files are rewritten" in text
    facts = json.loads(run(*plan, *mixed, "--output", "json").out)
    assert (facts["wholly_matching_files"], facts["possibly_matching_files"]) == (3, 3)
    assert [op["wholly_matching"] for op in facts["operations"]] == [3, 0]
    assert "matching" not in run(*plan, "--output", "jsonl", "-q").out


def test_why_says_whether_all_rows_match(run: Run, small):
    """With a filter, why tells a file of matching rows from one that holds others too."""
    path = next(f.file_path for f in small.data_files() if f.partition == ("a",))
    whole = run("why", small.root, path, *TWO, "--where", "p = 'a'").out
    assert whole.endswith("; all of its rows match the filter; group 0 has 3 files\n")
    partly = run("why", small.root, path, *TWO, "--where", "id <> 1 and p = 'a'").out
    assert "; some of its rows may not match the filter, and whole files are rewritten; group 0" in partly
    assert "filter" not in run("why", small.root, path, *TWO).out


def test_hudi_flags_do_not_fit_an_iceberg_plan(run: Run, small, tmp_path):
    """A flag that would mean nothing is refused."""
    saved = tmp_path / "plan.jsonl"
    run("plan", *REWRITE, small.root, *TWO, "--out", saved)
    result = run("apply", saved, "--schedule-only")
    assert result.code == 2
    assert "--schedule-only is for Hudi plans" in result.sentence


def test_orphan_files_in_one_go(run: Run, small):
    """The report names what went, also to a person; the JSON report has the procedure's own column."""
    for name in ("x", "y"):
        (Path(small.root) / "data" / name).write_text("x")
    later = ("--now", "2200-01-01T00:00:00Z", "--set", "lakemeta.allow-young=true")
    result = run("plan", "remove-orphan-files", small.root, *later, "--set", f"location={small.root}/data", "-q")
    assert (result.code, "Total: 2 files" in result.out) == (0, True)
    listed = Path(small.root).parent / "list.csv"
    listed.write_text(f"file_path,last_modified\n{small.root}/data/x,2020-01-01\n")
    result = run("plan", "remove-orphan-files", small.root, *later, "--inventory", listed, "-q")
    assert (result.code, "Total: 1 file," in result.out) == (0, True)
    twice = ("--inventory", listed, "--set", "inventory=other.csv")
    assert run("plan", "remove-orphan-files", small.root, *later, *twice).code == 2
    result = run("remove-orphan-files", small.root, *later, "--yes")
    assert (result.code, "2 files deleted, 2 B freed" in result.out) == (0, True)
    assert f"orphan file location: file:{small.root}/data/x, file:{small.root}/data/y" in result.out
    result = run("remove-orphan-files", small.root, *later, "--yes", "--output", "json", "-q")
    assert json.loads(result.out)["orphan_file_location"] == []

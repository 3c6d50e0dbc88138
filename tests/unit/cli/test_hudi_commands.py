"""The commands on Hudi tables, from the outside: exit codes, one sentence on stderr, results on stdout."""

from __future__ import annotations

import json
import os
import pty
import signal
import subprocess
import sys
import time
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, tree
from support.checker import cleans
from support.sampling import one_in

from lakemeta.cli.main import main
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., "Result"]
    from support.commands import Result

ONE = ("--set", "hoodie.clean.commits.retained=1")
COMMANDS = [
    (),
    ("apply",),
    ("clean",),
    ("demo",),
    ("inspect",),
    ("maintain",),
    ("plan",),
    ("plan", "clean"),
    ("plan", "rollback"),
    ("rollback",),
    ("why",),
]


@pytest.mark.parametrize("command", COMMANDS)
def test_help(run: Run, command: tuple[str, ...]) -> None:
    """Every command explains itself."""
    result = run(*command, "--help")
    assert result.code == 0
    assert result.out.startswith("Usage: ")
    assert not result.err


def test_version(run: Run) -> None:
    """``--version`` names program and version."""
    assert run("--version").out.startswith("lakemeta, version ")


def test_plan_as_text(run: Run, table: TableFiles) -> None:
    """The summary has a row for each partition and reason, and totals."""
    result = run("plan", "clean", table.root, *ONE)
    assert result.code == 0
    assert f"hudi.clean of {table.root} (format version 9)" in result.out
    assert f"earliest to retain: {at(4)}" in result.out
    assert "superseded" in result.out
    assert "drop directory" in result.out
    assert result.out.endswith("Total: 2 files and 1 directory, 20 B\nShare: 27.0 % of 74 B in all\n")


def test_plan_explained(run: Run, table: TableFiles) -> None:
    """``--explain`` names every file that stays, too, and why."""
    out = run("plan", "clean", table.root, *ONE, "--explain").out
    lines = [" ".join(line.split()) for line in out.splitlines()]
    assert f"delete p1/{base('a', 1)} 10 B superseded {at(2)} (2026-01-01 02:00:00)" in lines
    assert f"keep p1/{base('a', 4)} 10 B latest slice {at(4)} (2026-01-01 04:00:00)" in lines


def test_nothing_is_cut_in_a_pipe(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without a terminal no line is folded and no path shortened, however long; what looks like markup is kept."""
    monkeypatch.setenv("COLUMNS", "40")
    partition = "[red]=:smile:/" + "x" * 200
    table = TableFiles(tmp_path / ("[bold]" + "y" * 100))
    for _ in range(3):
        table.commit({partition: "a"})
    result = run("plan", "clean", table.root, *ONE, "--explain")
    assert f"{partition}/{base('a', 1)}" in result.out
    assert str(table.root) in result.out
    assert str(table.root) in run("inspect", table.root).out


def test_json_and_jsonl(run: Run, table: TableFiles) -> None:
    """``json`` is one object, ``jsonl`` the plan file."""
    command = ("plan", "clean", table.root, *ONE, "--output")
    whole = json.loads(run(*command, "json").out)
    assert (whole["plan"], whole["files"], whole["bytes"]) == ("hudi.clean", 2, 20)
    assert [op["op"] for op in whole["operations"]] == ["delete", "delete", "delete_partition"]
    lines = [json.loads(line) for line in run(*command, "jsonl").out.splitlines()]
    assert (lines[0]["plan"], lines[-1]["end"], len(lines)) == ("hudi.clean", True, 5)
    facts = json.loads(run("inspect", table.root, "--output", "json").out)
    assert (facts["format"], facts["files"], facts["version"]) == ("hudi", 4, 9)
    assert json.loads(run("inspect", table.root, "--output", "jsonl").out) == facts


def test_save_and_apply(run: Run, table: TableFiles, tmp_path: Path) -> None:
    """A saved plan is applied as it is; stdout has the report, and a second time there is nothing it fits."""
    saved = tmp_path / "plan.jsonl"
    result = run("plan", "clean", table.root, *ONE, "--out", saved)
    assert f"plan saved to {saved}" in result.err
    assert saved.read_text() == run("plan", "clean", table.root, *ONE, "--output", "jsonl").out
    report = json.loads(run("apply", saved, "--output", "json").out)
    assert (report["complete"], report["deleted_files"], report["total_files_deleted"]) == (True, 2, 2)
    assert report["committed"] in cleans(table.root)
    assert table.files() == {f"p1/{base('a', 2)}", f"p1/{base('a', 4)}"}
    again = run("apply", saved)
    assert (again.code, again.out) == (3, "")
    assert "was made since the plan; plan again" in again.sentence


def test_clean(run: Run, table: TableFiles) -> None:
    """``clean --yes`` shows the plan and what was done; then there is nothing to do."""
    result = run("clean", table.root, *ONE, "--yes")
    assert result.code == 0
    assert "Total: 2 files" in result.out
    assert "2 files deleted, 20 B freed" in result.out
    before = tree(table.root)
    again = run("clean", table.root, *ONE, "--yes")
    assert again.code == 0
    assert "Nothing to do." in again.out
    assert tree(table.root) == before


def test_clean_as_json(run: Run, table: TableFiles) -> None:
    """With ``--output json`` stdout is the report and nothing else."""
    report = json.loads(run("clean", table.root, *ONE, "--yes", "--output", "json").out)
    assert report["deleted_files"] == 2
    assert json.loads(run("clean", table.root, *ONE, "--yes", "--output", "jsonl").out)["committed"] is None


def test_dry_run(run: Run, table: TableFiles) -> None:
    """``--dry-run`` changes nothing and asks nothing."""
    before = tree(table.root)
    assert "Total: 2 files" in run("clean", table.root, *ONE, "--dry-run").out
    assert tree(table.root) == before


def test_schedule_only(run: Run, table: TableFiles) -> None:
    """``--schedule-only`` writes the request and deletes nothing; the next clean executes it."""
    before = table.files()
    result = run("clean", table.root, *ONE, "--yes", "--schedule-only")
    instant = result.out.split()[-1]
    assert table.files() == before
    assert (table.timeline / f"{instant}.clean.requested").exists()
    assert f"pending cleans: {instant}" in run("plan", "clean", table.root, *ONE).out
    assert "2 files deleted" in run("clean", table.root, *ONE, "--yes", "-q").out
    assert cleans(table.root) == [instant]


def test_a_pending_clean_is_shown_before_it_is_asked_for(run: Run, table: TableFiles) -> None:
    """What a clean would delete that was only requested is in its plan, as rows and as files, and in the report."""
    run("clean", table.root, *ONE, "--yes", "--schedule-only")
    for command in (("plan", "clean"), ("clean", "--dry-run"), ("maintain",)):
        out = run(*command, table.root).out
        assert "Total: 2 files, 20 B" in out
        assert "pending clean" in out
    explained = run("plan", "clean", table.root, "--explain").out
    assert f"p1/{base('a', 1)}" in explained
    assert f"p2/{base('c', 1)}" in explained
    rows = json.loads(run("plan", "clean", table.root, "--output", "json").out)["pending_deletes"]
    assert [(row["partition"], row["files"], row["bytes"]) for row in rows] == [("p1", 1, 10), ("p2", 1, 10)]
    assert "deletes 2 files (20 B)" in run("doctor", table.root).out
    assert "2 files deleted, 20 B freed" in run("clean", table.root, "--yes").out


def test_a_pending_clean_that_cannot_be_shown(run: Run, table: TableFiles) -> None:
    """An empty plan, as a crash leaves it, is planned around, and refused by name when it is to be executed."""
    table.put(f"{at(9)}.clean.requested", b"")
    assert "pending cleans" in run("plan", "clean", table.root).out
    assert "is empty, so the clean" in run("clean", table.root, "--yes", "-q", "--output", "json").sentence


def test_no_terminal_to_ask_on(run: Run, table: TableFiles) -> None:
    """Without ``--yes`` and without a terminal nothing happens, and the sentence says so."""
    before = tree(table.root)
    result = run("clean", table.root, *ONE)
    assert result.code == 2
    assert "there is no terminal to ask on; give --yes" in result.sentence
    assert tree(table.root) == before


def test_dropping_the_metadata_table_is_asked_for(run: Run, table: TableFiles) -> None:
    """Taking a table off its metadata table is a change, also where there is nothing to clean."""
    table.set_properties(**{"hoodie.table.metadata.partitions": "files"})
    (table.root / ".hoodie/metadata").mkdir()
    before = tree(table.root)
    loose = ("--set", "hoodie.clean.commits.retained=9", "--drop-metadata-table")
    assert run("clean", table.root, *loose).code == 2
    assert tree(table.root) == before
    assert run("clean", table.root, *loose, "--schedule-only", "--yes").code == 2
    assert tree(table.root) == before


@pytest.mark.parametrize(
    ("answer", "code", "files"), one_in(3, [(b"n\n", 1, 4), (b"y\n", 0, 2), (b"\x04", 130, 4)], of=3)
)
def test_on_a_terminal(table: TableFiles, answer: bytes, code: int, files: int) -> None:
    """On a terminal it asks, takes no for an answer, and hanging up at the question changes nothing."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "lakemeta", "clean", str(table.root), *ONE]
    environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
    with subprocess.Popen(
        command, stdin=theirs, stdout=subprocess.PIPE, stderr=subprocess.PIPE, env=environment
    ) as process:
        os.close(theirs)
        os.write(ours, answer)
        _, err = process.communicate(timeout=60)
    os.close(ours)
    assert process.returncode == code
    assert f"Delete 2 files (20 B) and delete 1 directory of {table.root}? [y/N]".encode() in err
    assert len(table.files()) == files
    assert b"Traceback" not in err


def test_partly_done(run: Run, table: TableFiles, tmp_path: Path) -> None:
    """A file that cannot be deleted makes exit code 4, and the report names it; the clean is complete all the same."""
    saved = tmp_path / "plan.jsonl"
    run("plan", "clean", table.root, *ONE, "--out", saved)
    stubborn = table.root / "p1" / base("a", 1)
    stubborn.unlink()
    stubborn.mkdir()
    (stubborn / "inside").write_text("x")
    result = run("apply", saved)
    assert result.code == 4
    assert f"NOT deleted: {stubborn}: " in result.out
    assert len(cleans(table.root)) == 1
    assert not result.err


@pytest.mark.usefixtures("ctrl_c")
@pytest.mark.parametrize("operation", ["create", "delete_many", "delete_tree"])
@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_interrupted(
    run: Run, table: TableFiles, monkeypatch: pytest.MonkeyPatch, operation: str, number: signal.Signals
) -> None:
    """Ctrl-C, or a scheduler's signal, in the middle says so in one sentence, and the same command goes on."""

    def interrupt(*_: object) -> None:
        os.kill(os.getpid(), number)
        time.sleep(0.2)  # on a thread of the executor: until the main one has been stopped

    with monkeypatch.context() as patch:
        patch.setattr(LocalStorage, operation, interrupt)
        result = run("clean", table.root, *ONE, "--yes", "-q")
    assert (result.code, result.out) == (130, "")
    assert result.sentence == "lakemeta: interrupted; run the same command again to go on"
    assert run("clean", table.root, *ONE, "--yes", "-q").code == 0
    assert len(cleans(table.root)) == 1
    assert len(table.files()) == 2


def test_an_error_nobody_expected(run: Run, table: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Even a bug of ours is one sentence, and ``-v`` shows where it is."""

    def fail(*_: object) -> None:
        raise ZeroDivisionError("of course")

    monkeypatch.setattr(LocalStorage, "list_dir", fail)
    result = run("inspect", table.root)
    assert result.code == 1
    assert "ZeroDivisionError: of course" in result.sentence
    monkeypatch.setattr(sys, "argv", ["lakemeta", "inspect", str(table.root), "-v"])
    with pytest.raises(ZeroDivisionError):
        main()


def test_demo(run: Run, tmp_path: Path) -> None:
    """The demo plans, cleans and finds nothing left; ``--keep`` leaves the table for more."""
    result = run("demo", "--keep", tmp_path)
    assert result.code == 0
    assert "Nothing to do." in result.out
    assert len(cleans(tmp_path / "trips")) == 1


WHY = [
    (f"p1/{base('a', 1)}", f"would be deleted: it is superseded by the slice of {at(2)}"),
    (f"p1/{base('a', 2)}", f"stays: its slice is the newest before the earliest commit to retain, {at(4)}"),
    (f"p1/{base('a', 4)}", "stays: it is in the latest slice of its file group"),
    (f"p2/{base('c', 1)}", "no file group of its partition is live, so the directory is dropped"),
    ("p1/.hoodie_partition_metadata", "stays: it marks its directory as a partition"),
    (".hoodie/hoodie.properties", "stays: it is no data file of the table"),
]


@pytest.mark.parametrize(("file", "words"), WHY)
def test_why(run: Run, table: TableFiles, file: str, words: str) -> None:
    """One sentence for any file, named relative to the table, by path or by URL."""
    for named in (file, f"{table.root}/{file}", f"file://{table.root}/{file}"):
        result = run("why", table.root, named, *ONE)
        assert result.code == 0
        assert result.out.startswith(file)
        assert words in result.out
        assert result.out.count("\n") == 1
    assert words in json.loads(run("why", table.root, file, *ONE, "--output", "json").out)["why"]


def test_why_of_no_file(refused: Callable[..., str], table: TableFiles) -> None:
    """A file that is not there, a directory, and a path outside."""
    assert "is not a file of" in refused(2, "why", table.root, "p1/none.parquet")
    assert "is not a file of" in refused(2, "why", table.root, "p1")
    assert "does not lie inside" in refused(3, "why", table.root, "/etc/passwd")
    assert "does not lie inside" in refused(3, "why", table.root, "p1/../../x")

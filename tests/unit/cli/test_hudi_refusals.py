"""What the commands on Hudi tables refuse: in one sentence, with nothing changed."""

from __future__ import annotations

import hashlib
import json
from typing import TYPE_CHECKING

import pytest
from support.builders import TableFiles, at, base, clean_plan, tree

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    Run = Callable[..., "Result"]
    from support.commands import Result

ONE = ("--set", "hoodie.clean.commits.retained=1")


def test_missing_path(refused: Callable[..., str], tmp_path: Path) -> None:
    """A path where nothing is, and a directory that is no table."""
    for command in (("inspect",), ("plan", "clean"), ("clean",)):
        assert "/nowhere" in refused(2, *command, tmp_path / "nowhere")
    (tmp_path / "empty").mkdir()
    assert "no Hudi table" in refused(2, "plan", "clean", tmp_path / "empty")
    assert "lies at" in refused(2, "why", tmp_path / "empty", "x.parquet")


@pytest.mark.parametrize(
    ("content", "words"),
    [
        (b"", "has no hoodie.table.name"),
        (b"hoodie.table.name=t\nhoodie.table.ver", "line 2 of"),
        (b"hoodie.table.name=t\n", "has no hoodie.table.version"),
        (b"hoodie.table.name=t\nhoodie.table.version=12\nhoodie.table.type=COPY_ON_WRITE\n", "table version 12"),
        (b"hoodie.table.name=t\nhoodie.table.version=x\nhoodie.table.type=COPY_ON_WRITE\n", "is no number"),
        (b"\xff\xfe", "is not text"),
    ],
)
def test_damaged_properties(refused: Callable[..., str], table: TableFiles, content: bytes, words: str) -> None:
    """Damaged properties and unknown versions are refused by name, with the file."""
    (table.root / ".hoodie/hoodie.properties").write_bytes(content)
    sentence = refused(3, "clean", table.root, *ONE, "--yes")
    assert words in sentence
    assert "hoodie.properties" in sentence


@pytest.mark.parametrize("keep", [0, 40, -1])
@pytest.mark.parametrize("version", [6, 9])
def test_truncated_commit(run: Run, tmp_path: Path, version: int, keep: int) -> None:
    """A completed commit that is cut off anywhere is a reason to refuse, and the sentence names its file."""
    table = TableFiles(tmp_path / "u", version)
    for _ in range(3):
        table.commit({"p1": "a"})
    commit = sorted(table.timeline.glob("*.commit"))[1]
    commit.write_bytes(commit.read_bytes()[:keep])
    before = tree(table.root)
    result = run("clean", table.root, *ONE, "--yes")
    assert result.code == 3
    assert f"{commit} is empty or cut off" in result.sentence
    assert tree(table.root) == before


def test_unknown_instant(refused: Callable[..., str], table: TableFiles) -> None:
    """An action nobody knows may be a newer writer's."""
    table.put(f"{at(9)}.vacuum.requested", b"")
    assert "action vacuum lakemeta does not know" in refused(3, "plan", "clean", table.root, *ONE)


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("--set", "hoodie.clean.commit.retained=1"), "did you mean hoodie.clean.commits.retained?"),
        (
            ("--set", "hoodie.clean.commits.retained=one"),
            "'hoodie.clean.commits.retained' is set to one but must be a whole number",
        ),
        (("--set", "hoodie.clean.commits.retained=-1"), "must be from 0 to 999999999"),
        (("--set", "hoodie.clean.policy=ALL"), "is none of KEEP_LATEST_COMMITS"),
        (("--set", "hoodie.clean.commits.retained"), "is not KEY=VALUE"),
        (("--set", "=1"), "is not KEY=VALUE"),
        ((*ONE, "--set", "hoodie.clean.commits.retained=2"), "is given twice"),
        ((*ONE, "--set", "hoodie.cleaner.commits.retained=2"), "are given with different values"),
        (("--now", "yesterday"), "--now yesterday is no ISO 8601 time"),
        (("--executor", "abacus"), "there is no executor abacus"),
        (("--storage-option", "a=b"), "takes no storage options"),
    ],
)
def test_wrong_arguments(
    refused: Callable[..., str], table: TableFiles, arguments: tuple[str, ...], words: str
) -> None:
    """A wrong option or value is named in one sentence, with what would be right."""
    assert words in refused(2, "plan", "clean", table.root, *arguments)


@pytest.mark.parametrize(
    "arguments",
    [("clean",), ("plan", "clean"), ("plan", "--nonsense"), ("nonsense",), ("inspect", "a", "--output", "x")],
)
def test_usage(run: Run, arguments: tuple[str, ...]) -> None:
    """What click finds wrong is exit code 2."""
    result = run(*arguments)
    assert result.code == 2
    assert "Error: " in result.err


@pytest.mark.parametrize("hours", ["999999999", "0"])
def test_absurd_hours(run: Run, table: TableFiles, hours: str) -> None:
    """Retention longer than time itself retains everything, and so does one that ends in the future."""
    options = ("--set", "hoodie.clean.policy=KEEP_LATEST_BY_HOURS", "--set", f"hoodie.clean.hours.retained={hours}")
    result = run("plan", "clean", table.root, *options)
    assert result.code == 0
    assert "Nothing to do." in result.out


def _edited(lines: list[str]) -> list[str]:
    return [line.replace(at(1), at(4)) for line in lines]


def _signed(header: str) -> list[str]:
    end = {"end": True, "ops": 0, "files": 0, "bytes": 0, "sha256": hashlib.sha256(header.encode()).hexdigest()}
    return [header, json.dumps(end) + "\n"]


@pytest.mark.parametrize(
    ("change", "words"),
    [
        (lambda lines: lines[:-1], "so it is truncated"),
        (lambda lines: [*lines[:-1], lines[-1][:20]], "is not JSON"),
        (lambda lines: [*lines[:1], *lines[2:]], "was changed after it was made"),
        (_edited, "was changed after it was made"),
        (lambda lines: [], "is empty"),
        (lambda lines: ["hello\n"], "is not JSON"),
        (lambda lines: ["[]\n"], "is not a JSON object"),
        (lambda lines: _signed(lines[0].replace("hudi.clean", "delta.vacuum")), "is a delta.vacuum plan"),
        (lambda lines: _signed(lines[0].replace('"version":1', '"version":7')), "has version 7"),
        (lambda lines: _signed('{"plan":"hudi.clean","version":1}\n'), "has no table"),
        (lambda lines: _signed(lines[0].replace('"policy"', '"police"')), "has no policy"),
    ],
)
def test_plan_files_that_are_none(
    refused: Callable[..., str],
    run: Run,
    table: TableFiles,
    tmp_path: Path,
    change: Callable[[list[str]], list[str]],
    words: str,
) -> None:
    """A plan file that is truncated, edited, foreign or of another version is refused."""
    saved = tmp_path / "plan.jsonl"
    run("plan", "clean", table.root, *ONE, "--out", saved, "-q")
    saved.write_text("".join(change(saved.read_text().splitlines(keepends=True))))
    assert words in refused(3, "apply", saved)


def test_plan_files_that_cannot_be_read(refused: Callable[..., str], tmp_path: Path, table: TableFiles) -> None:
    """A plan file that is not there, no text, or cannot be written."""
    assert "No such file" in refused(2, "apply", tmp_path / "no.jsonl")
    (tmp_path / "bytes").write_bytes(b"\xff")
    assert "it is no text" in refused(2, "apply", tmp_path / "bytes")
    assert "cannot be written to" in refused(2, "plan", "clean", table.root, "--out", tmp_path / "no/p.jsonl")


def test_pending_clean_that_escapes(refused: Callable[..., str], table: TableFiles) -> None:
    """A pending clean whose paths leave the table is never executed."""
    plan = clean_plan({"p1": [f"file:{table.root}/p1/{base('a', 1)}", f"file:{table.root}/../secret.parquet"]})
    table.put(f"{at(9)}.clean.requested", plan)
    assert "does not lie inside the table" in refused(3, "clean", table.root, *ONE, "--yes", "-q", "--output", "json")

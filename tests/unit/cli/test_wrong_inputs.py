"""A table of wrong inputs, and the one sentence that each of them gets."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.builders import TableFiles
from support.commands import Result
from support.iceberg_tables import create_table

from lakemeta.errors import OptionError
from lakemeta.storage import LocalStorage
from lakemeta.typed_text import texts

Run = Callable[..., Result]


@pytest.fixture
def tables(tmp_path: Path, table: TableFiles) -> dict[str, str]:
    """A Hudi and an Iceberg table, and the directory of both."""
    small = create_table(LocalStorage(), str(tmp_path / "rides"))
    small.append([(1, "a", 0.5)])
    return {"hudi": str(table.root), "iceberg": small.root, "here": str(tmp_path)}


REWRITE = "plan rewrite-data-files {iceberg} --set"
WRONG = [
    (f"{REWRITE} sort_order=upper(p)", 2, "upper(p) is not a transform of a column; there are bucket(n, c), truncate"),
    (f"{REWRITE} strategy=zorder", 2, "Only binpack or sort is supported; for a z-order give strategy=sort and sort_o"),
    (f"{REWRITE} strategy=pile", 2, "unsupported strategy: pile. Only binpack or sort is supported"),
    (f"{REWRITE} target-file-size-bytes=big", 2, "must be a whole number, or a size as 128MiB"),
    (f"{REWRITE} target-file-size-bytes=128MiX", 2, "is set to 128MiX but must be a whole number, or a size"),
    (f"{REWRITE} min-input-files=3KiB", 2, "'min-input-files' is set to 3KiB but must be a whole number"),
    ("plan clean {iceberg}", 2, "is an Iceberg table, not a Hudi one; use lakemeta rewrite-data-files"),
    ("clean catalog://c/db.t", 2, "is an Iceberg table, not a Hudi one; use lakemeta rewrite-data-files"),
    ("expire-snapshots {hudi}", 2, "is a Hudi table, not an Iceberg one; use lakemeta clean"),
    ("inspect {hudi}/p1", 2, "lies in a Hudi table; give the table: {hudi}"),
    ("why {iceberg}/metadata x", 2, "lies in an Iceberg table; give the table: {iceberg}"),
    ("doctor {here}/none", 2, "no Hudi or Iceberg table lies at {here}/none; check the path"),
    ("demo --keep {here}/twice", 2, "{here}/twice/trips exists already; give --keep another directory"),
]


@pytest.mark.parametrize(("command", "code", "words"), WRONG)
def test_one_sentence_each(run: Run, tables: dict[str, str], command: str, code: int, words: str) -> None:
    """What is wrong, where, and what to do; once, and nothing on stdout."""
    Path(tables["here"], "twice", "trips").mkdir(parents=True)
    result = run(*command.format(**tables).split())
    assert (result.code, result.out) == (code, "")
    assert words.format(**tables) in result.sentence
    assert result.sentence.count("lakemeta: ") == 1


def test_a_file_is_found_from_the_working_directory(
    run: Run, tables: dict[str, str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As a shell completes its name; a name from the table's directory counts first."""
    monkeypatch.chdir(tables["here"])
    file = next(Path(tables["iceberg"]).rglob("*.parquet"))
    from_table, from_here = str(file.relative_to(tables["iceberg"])), str(file.relative_to(tables["here"]))
    assert run("why", "rides", from_here).out.startswith(str(file))
    assert run("why", "rides", from_table).out.startswith(from_table)


def test_nothing_is_retained(run: Run, table: TableFiles) -> None:
    """Hudi's rule for no commits to retain finds nothing to clean, and the plan says that it is the option's doing."""
    out = run("plan", "clean", table.root, "--set", "hoodie.clean.commits.retained=0").out
    assert "hoodie.clean.commits.retained is 0, with which Hudi finds no commit to retain; give 1 or more" in out


def test_an_error_about_lakemeta_itself(run: Run, table: TableFiles, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its name is not said twice."""

    def fail(*_: object) -> None:
        raise OptionError("lakemeta cannot do that")

    monkeypatch.setattr(LocalStorage, "list_dir", fail)
    assert run("inspect", table.root).sentence == "lakemeta cannot do that"


SIZES = {"128MiB": "134217728", "0.5 GiB": "536870912", "2kb": "2000", "1TiB": str(1 << 40), "128": "128", "x": "x"}


@pytest.mark.parametrize(("text", "expected"), SIZES.items())
def test_sizes(text: str, expected: str) -> None:
    """Of options that are sizes; others keep their text."""
    assert texts({"target-file-size-bytes": text, "where": text}) == {"target-file-size-bytes": expected, "where": text}

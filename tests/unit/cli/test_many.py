"""``lakemeta run``: many tables of both formats, as a file says it."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from pyiceberg.catalog.sql import SqlCatalog
from support.builders import TableFiles, tree
from support.iceberg_tables import create_table

from lakemeta.fleet import running
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable

    Run = Callable[..., "Result"]
    from conftest import Result

GENERAL = """
tables = ["lake/**"]
tables-at-once = {at_once}
[schedule]
little = "1MiB"
[service.clean]
hoodie.clean.commits.retained = 1
[service.expire-snapshots]
older_than = "0m"
[service.rewrite-data-files]
min-input-files = 2
"""


class Lake:
    """``tables`` tables, half of each format, one that is broken and one that is refused; a file beside them."""

    def __init__(self, folder: Path, tables: int, more: str = "", at_once: int = 1) -> None:
        self.folder, self.file = folder, folder / "lakemeta.toml"
        self.names = [f"{kind}/{n:03}" for kind in ("hudi", "iceberg") for n in range(tables // 2)]
        first = TableFiles(folder / "lake/hudi/000")
        for writes in ({"p1": "ab"}, {"p1": "a"}, {"p1": "a"}):
            first.commit(writes)
        for n in range(1, tables // 2):
            shutil.copytree(first.root, folder / f"lake/hudi/{n:03}")
        for n in range(tables // 2):
            small = create_table(LocalStorage(), str(folder / f"lake/iceberg/{n:03}"))
            for start in range(2):
                small.append([(start, "a", 0.5)])
        self.path("hudi/000", ".hoodie/hoodie.properties").write_text("broken")
        version = self.path("iceberg/000", "metadata/v3.metadata.json")
        version.write_text(version.read_text().replace('"format-version":2', '"format-version":9', 1))
        assert '"format-version":9' in version.read_text()
        self.write(more, at_once)

    def write(self, more: str = "", at_once: int = 1) -> None:
        self.file.write_text(GENERAL.format(at_once=at_once) + more)

    def path(self, *parts: str) -> Path:
        return self.folder.joinpath("lake", *parts)

    def url(self, name: str) -> str:
        return str(self.path(name))


@pytest.fixture
def lake(tmp_path: Path) -> Lake:
    return Lake(tmp_path, 6)


def rows(result: Result) -> dict[str, dict[str, Any]]:
    return {row["table"]: row for row in map(json.loads, result.out.splitlines())}


def check_done(lake: Lake, found: dict[str, dict[str, Any]]) -> None:
    """The broken and the refused table are a sentence each, and of all others everything that is due is done."""
    assert found.keys() == {lake.url(name) for name in lake.names}
    for name in lake.names:
        row = found[lake.url(name)]
        if name.endswith("/000"):
            assert row["exit_code"] == 3
            assert row["error"].count("\n") == 0
            continue
        done = {step["service"] for step in row["services"] if step["report"] is not None}
        assert row["exit_code"] == 0
        assert done >= ({"clean"} if row["format"] == "Hudi" else {"rewrite-data-files", "expire-snapshots"})
        assert row["freed_bytes"] > 0


def test_nothing_is_done_without_yes(run: Run, lake: Lake) -> None:
    """One table that says what would be done, everything as it was, no file beside the configuration."""
    before = tree(lake.folder)
    result = run("run", lake.file)
    assert result.code == 3
    assert tree(lake.folder) == before
    assert "clean (1 file)" in result.out
    assert "rewrite-data-files (2 files)" in result.out
    assert "Total: 6 tables" in result.out
    assert "2 not well" in result.out
    assert result.out.endswith("Nothing was changed: --yes does what is due.\n")


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 3])
def test_the_others_are_done(run: Run, lake: Lake, at_once: int) -> None:
    """A second run visits only what did not end well, unless all is asked for."""
    lake.write(at_once=at_once)
    result = run("run", lake.file, "--yes", "--output", "jsonl")
    assert result.code == 3
    check_done(lake, rows(result))
    again = rows(run("run", lake.file, "--yes", "--output", "jsonl"))
    assert again.keys() == {lake.url("hudi/000"), lake.url("iceberg/000")}
    everything = rows(run("run", lake.file, "--all", "--yes", "--output", "jsonl"))
    assert everything.keys() == {lake.url(name) for name in lake.names}
    done = {step["service"] for row in everything.values() for step in row["services"] if step["report"]}
    assert done <= {"expire-snapshots"}  # of the snapshot that rewritten manifests made, which is old at once


def test_only_some(run: Run, lake: Lake) -> None:
    """Those that a glob takes; one that takes none is refused."""
    found = rows(run("run", lake.file, "--only", f"{lake.folder}/lake/hudi/**", "--yes", "--output", "jsonl"))
    assert found.keys() == {lake.url(name) for name in lake.names if name.startswith("hudi")}
    result = run("run", lake.file, "--only", "/nowhere/**")
    assert (result.code, "takes none of the tables" in result.sentence) == (2, True)


def interrupt_after(monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """Ctrl-C comes when so many tables are done."""
    visit, done = running.visit, []

    def visiting(*arguments: Any, **named: Any) -> Any:
        if len(done) == count:
            raise KeyboardInterrupt
        done.append(arguments[0])
        return visit(*arguments, **named)

    monkeypatch.setattr(running, "visit", visiting)


def check_resumes(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """A run that was interrupted goes on with what was not done, though some of what was done is due at once."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, count)
        result = run("run", lake.file, "--yes", "--output", "jsonl")
    assert result.code == 130
    first = {row["table"]: row for row in map(json.loads, result.out.splitlines()[:-1])}
    assert len(first) == count
    result = run("run", lake.file, "--yes", "--output", "jsonl")
    wrong = sum(row["exit_code"] != 0 for row in first.values())
    assert f"going on with an interrupted run: {count} of its tables are done, {wrong} of them not well" in result.err
    assert result.code == 3  # also if what was not well had been done before
    second = rows(result)
    assert not first.keys() & second.keys()
    check_done(lake, {**first, **second})


@pytest.mark.parametrize("count", [3, 5])
def test_an_interrupted_run_resumes(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch, count: int) -> None:
    """After the broken table, and after the refused one too."""
    check_resumes(run, lake, monkeypatch, count)


def test_an_interrupted_run_begins_anew(run: Run, lake: Lake, monkeypatch: pytest.MonkeyPatch) -> None:
    """With --restart all its tables are visited."""
    with monkeypatch.context() as patch:
        interrupt_after(patch, 3)
        run("run", lake.file, "--yes", "--output", "jsonl")
    result = run("run", lake.file, "--yes", "--restart", "--output", "jsonl")
    assert "going on" not in result.err
    assert rows(result).keys() == {lake.url(name) for name in lake.names}


def test_a_budget(run: Run, lake: Lake) -> None:
    """What would break it is not begun and is reported as left; the next run, with another, makes up for it."""
    lake.write("[budget]\nfiles = 3\n")
    found = rows(run("run", lake.file, "--yes", "--output", "jsonl"))
    begun = [s for row in found.values() for s in row["services"] if s["report"] is not None]
    left = {table for table, row in found.items() if row["left"]}
    assert 0 < sum(service["files"] for service in begun) <= 3
    assert left
    assert "would exceed its budget" in json.dumps(found)
    text = run("run", lake.file).out
    assert "left: " in text
    lake.write()
    again = rows(run("run", lake.file, "--yes", "--output", "jsonl"))
    assert left <= again.keys()
    assert not any(row["left"] for row in again.values())


def test_overrides_and_order(run: Run, lake: Lake) -> None:
    """A table that is skipped is not visited; services come in the order that is asked for."""
    override = "[[override]]\ntables = ['lake/hudi/**']\nskip = true\n"
    services = "services = ['expire-snapshots', 'rewrite-data-files']\n"
    lake.file.write_text(services + lake.file.read_text() + override)
    result = run("run", lake.file, "--output", "json")
    found = {row["table"]: row for row in json.loads(result.out)["tables"]}
    assert found.keys() == {lake.url(name) for name in lake.names if name.startswith("iceberg")}
    assert [s["service"] for s in found[lake.url("iceberg/001")]["services"]] == [
        "expire-snapshots",
        "rewrite-data-files",
    ]


def test_contradictions_are_a_row(run: Run, lake: Lake) -> None:
    """Two overrides of one table without a safer side: this table is refused, the others are done."""
    override = "[[override]]\ntables = ['lake/{}']\nservice.rewrite-data-files.target-file-size-bytes = {}\n"
    lake.write(override.format("iceberg/*", 1000) + override.format("*/001", 2000))
    result = run("run", lake.file, "--yes", "--output", "jsonl")
    found = rows(result)
    assert (found[lake.url("iceberg/001")]["exit_code"], result.code) == (2, 3)
    assert "neither is known to be safer" in found[lake.url("iceberg/001")]["error"]
    assert found[lake.url("iceberg/002")]["freed_bytes"] > 0


def test_two_runs_at_once(run: Run, lake: Lake) -> None:
    """The second is refused while the first goes on."""
    from lakemeta.fleet.journal import Journal

    before = tree(lake.folder / "lake")
    with Journal(lake.file.with_suffix(".state.jsonl")).held():
        result = run("run", lake.file, "--yes")
    assert (result.code, "another run holds" in result.sentence) == (3, True)
    assert tree(lake.folder / "lake") == before


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (None, "cannot be read: No such file or directory"),
        ("tabels = []", "did you mean tables?"),
        ("tables = ['x']\npolicies = ['none.json']", "none.json cannot be read"),
    ],
)
def test_files_that_are_refused(run: Run, tmp_path: Path, text: str | None, said: str) -> None:
    """In one sentence, before anything is looked for."""
    if text is not None:
        (tmp_path / "l.toml").write_text(text)
    result = run("run", tmp_path / "l.toml")
    assert (result.code, said in result.sentence) == (2, True)


@pytest.mark.filterwarnings("default")
def test_tables_of_a_catalog(run: Run, tmp_path: Path) -> None:
    """Those of namespaces and of namespaces below them; other namespaces are left alone."""
    uri = f"sqlite:///{tmp_path}/catalog.db"
    catalog = SqlCatalog("many", uri=uri, warehouse=f"file://{tmp_path}/warehouse")
    data = pa.table({"id": pa.array([1, 2, 3], pa.int64())})
    for name in ("db.a", "db.sub.b", "other.c"):
        catalog.create_namespace_if_not_exists(name.rpartition(".")[0])
        table = catalog.create_table(name, data.schema)
        table.append(data)
        table.append(data)
    file = tmp_path / "l.toml"
    options = f"[storage-options.'catalog://many']\ntype = 'sql'\nuri = '{uri}'\n"
    service = "[service.rewrite-data-files]\nmin-input-files = 2\n"
    file.write_text(f"tables = ['catalog://many/db.*']\n{options}{service}")
    result = run("run", file, "--yes", "--output", "jsonl")
    assert (result.code, list(rows(result))) == (0, ["catalog://many/db.a", "catalog://many/db.sub.b"])
    assert [len(list(catalog.load_table(n).scan().plan_files())) for n in ("db.a", "db.sub.b", "other.c")] == [1, 1, 2]


@pytest.mark.slow
def test_two_hundred_tables(run: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A hundred of each format: one broken, one refused, the others done; interrupted and resumed; then fewer."""
    lake = Lake(tmp_path, 200)
    check_resumes(run, lake, monkeypatch, 120)
    lake.write(at_once=4)
    again = rows(run("run", lake.file, "--yes", "--output", "jsonl"))
    assert again.keys() == {lake.url("hudi/000"), lake.url("iceberg/000")}

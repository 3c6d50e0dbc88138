"""What runs of both formats have quarantined comes back, or goes for good: files, names, refusals.

A table is compared by the bytes of all its files, so nothing else may change either.
"""

from __future__ import annotations

import json
import shutil
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import attrs
import pytest
from support.builders import TableFiles, moment
from support.iceberg_expire import build, opened

from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError, OptionError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.iceberg.table import IcebergTable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

    from lakemeta.report import Report

Table = HudiTable | IcebergTable
OURS = (".lakemeta-ledgers", ".lakemeta-quarantine", ".lakemeta")
ENV = Environment(now=lambda: moment(40))


def content(root: Path) -> dict[str, bytes]:
    """All data files, and the metadata of Iceberg tables but versions."""
    files = (path for path in root.rglob("*") if path.is_file() and not {*OURS, ".hoodie"} & set(path.parts))
    return {
        str(path.relative_to(root)): path.read_bytes()
        for path in files
        if not path.name.endswith((".metadata.json", ".crc", "version-hint.text"))
    }


def hudi(root: Path) -> None:
    table = TableFiles(root, 6)
    table.insert({"p1": "ab", "p2": "c"})
    for _ in range(3):
        table.commit({"p1": "ab"})
    table.delete_partition("p2")
    for _ in range(2):
        table.commit({"p1": "a"})


def clean(root: Path, **how: object) -> Report:
    table = HudiTable.open(str(root))
    plan = table.plan_clean({"hoodie.clean.commits.retained": "1"}, now=moment(40))
    return table.apply(plan, executor=LocalExecutor(1), env=ENV, **how)  # type: ignore[arg-type]


def expire(root: Path, **how: object) -> Report:
    table = opened(root)
    plan = table.plan("expire-snapshots", {"older_than": "2100-01-01T00:00:00", "retain_last": "1"}, now=moment(40))
    return table.apply(plan, executor=LocalExecutor(1), env=ENV, **how)  # type: ignore[arg-type]


@attrs.frozen
class Case:
    """A table of one format, and a run on it."""

    root: Path
    run: Callable[..., Report]

    @property
    def table(self) -> Table:
        return HudiTable.open(str(self.root)) if self.run is clean else opened(self.root)


@pytest.fixture(scope="module")
def tables(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    """A table of each format."""
    made = tmp_path_factory.mktemp("undo")
    hudi(made / "hudi")
    build(made / "iceberg")
    return {"hudi": made / "hudi", "iceberg": made / "iceberg"}


@pytest.fixture(params=["hudi", "iceberg"])
def case(request: pytest.FixtureRequest, tables: dict[str, Path], tmp_path: Path) -> Iterator[Case]:
    """A table at the place where it was made, for metadata of Iceberg names that."""
    root = tables[request.param]
    saved = tmp_path / "saved"
    shutil.copytree(root, saved)
    yield Case(root, clean if request.param == "hudi" else expire)
    shutil.rmtree(root)
    saved.rename(root)


def test_there_and_back(case: Case) -> None:
    """Every byte is back; the history says what was done; a second restore finds nothing."""
    before = content(case.root)
    report = case.run(case.root, quarantine=True)
    after = content(case.root)
    gone = before.keys() - after.keys()
    assert len(gone) > 3
    assert (report.freed_bytes, report.quarantined_bytes) == (0, sum(len(before[name]) for name in gone))
    assert report.ledger is not None
    back = case.table.undo().restore(report.ledger)
    assert content(case.root) == before
    assert back.result == {"restored_files_count": len(gone), "restored_bytes": report.quarantined_bytes}
    assert not list(case.root.rglob("20260*Z-*/*")), "no directory of the run is left"
    again = case.table.undo().restore(report.ledger)
    assert (again.result["restored_files_count"], again.ledger) == (0, None)
    quarantine, restore = case.table.undo().history().runs
    assert (quarantine.opening.mode, quarantine.state, quarantine.waiting) == ("quarantine", "done", False)
    assert (quarantine.deleted, quarantine.size) == (restore.deleted, restore.size)
    assert (quarantine.freed_bytes, restore.opening.of) == (0, (quarantine.opening.run,))


def test_some_files(case: Case) -> None:
    """By a path below the table, a full one, or a URL; one that is back is done, one that never was is refused."""
    before = content(case.root)
    report = case.run(case.root, quarantine=True)
    first, second, third, *rest = sorted(before.keys() - content(case.root).keys())
    undo = case.table.undo()
    with pytest.raises(OptionError, match="has no file nothing in quarantine"):
        undo.restore(str(report.ledger), [first, "nothing"])
    assert first not in content(case.root)
    undo.restore(str(report.ledger), [first])
    assert content(case.root).keys() == before.keys() - {second, third, *rest}
    again = undo.restore(str(report.ledger), [first, f"{case.root}/{second}", f"file:{case.root}/{third}"])
    assert content(case.root).keys() == before.keys() - set(rest)
    assert "1 file had been brought back before" in again.notes
    assert case.table.undo().history().runs[0].waiting == bool(rest)


def test_what_has_come_meanwhile_stays(case: Case) -> None:
    """A file is never replaced: the old one waits, and the report says so."""
    before = content(case.root)
    report = case.run(case.root, quarantine=True)
    first, *rest = sorted(before.keys() - content(case.root).keys())
    (case.root / first).parent.mkdir(exist_ok=True, parents=True)
    (case.root / first).write_bytes(b"newer")
    back = case.table.undo().restore(str(report.ledger))
    assert [outcome.path for outcome in back.failed] == [f"{case.root}/{first}"]
    assert content(case.root) == {**before, first: b"newer"}
    (case.root / first).unlink()
    assert case.table.undo().restore(str(report.ledger)).complete
    assert content(case.root) == before
    assert rest


def test_a_file_that_changed_in_quarantine_stays_there(case: Case) -> None:
    """The ledger says how long it was."""
    before = content(case.root)
    report = case.run(case.root, quarantine=True)
    first = min(before.keys() - content(case.root).keys())
    (waiting,) = (path for path in case.root.rglob(Path(first).name) if path.is_file())
    waiting.write_bytes(b"cut short")
    back = case.table.undo().restore(str(report.ledger))
    assert "bytes in quarantine instead of" in str(back.failed[0].error)
    assert content(case.root).keys() == before.keys() - {first}


def test_purging(case: Case) -> None:
    """Runs of the age go for good, later ones wait; the history counts the bytes as freed then."""
    report = case.run(case.root, quarantine=True)
    after = content(case.root)
    undo = case.table.undo()
    assert undo.quarantined(datetime.now(UTC) - moment(39)) == []
    (run,) = undo.quarantined(timedelta(0))
    assert run.size == report.quarantined_bytes
    purged = undo.purge([run])
    assert (purged.freed_bytes, purged.deleted_files) == (run.size, run.files)
    assert content(case.root) == after
    assert undo.quarantined() == []
    assert [past.freed_bytes for past in undo.history().runs] == [0, run.size]
    gone = undo.restore(str(report.ledger))
    assert gone.notes == ("nothing of the run is in quarantine: it was brought back or purged before",)


def test_a_run_that_deleted_cannot_be_undone(case: Case) -> None:
    """It says so; so does the ledger of a restore."""
    report = case.run(case.root)
    assert report.freed_bytes > 0
    assert case.table.undo().history().runs[0].freed_bytes >= report.freed_bytes
    with pytest.raises(UnsupportedFeatureError, match="quarantined nothing"):
        case.table.undo().restore(str(report.ledger))


def test_ledgers_elsewhere(case: Case, tmp_path: Path) -> None:
    """In a directory that is named: nothing is recorded beside the metadata, and undoing finds it there."""
    before, ledgers = content(case.root), str(tmp_path / "ledgers")
    report = case.run(case.root, quarantine=True, ledger=ledgers)
    assert str(report.ledger).startswith(f"{ledgers}/")
    assert case.table.undo().history().runs == ()
    assert len(case.table.undo(ledgers).history().runs) == 1
    case.table.undo().restore(str(report.ledger))
    assert content(case.root) == before
    assert len(case.table.undo(ledgers).history().runs) == 2


def changed(url: str, **fields: object) -> None:
    """Change fields of the first line."""
    path = Path(url)
    head, _, rest = path.read_text().partition("\n")
    path.write_text(json.dumps({**json.loads(head), **fields}) + "\n" + rest)


def batch_of(ledger: str, **fields: object) -> None:
    """Change fields of the batches."""
    path = Path(ledger)
    lines = [json.loads(line) for line in path.read_text().splitlines()]
    path.write_text("".join(json.dumps({**line, **fields} if "batch" in line else line) + "\n" for line in lines))


@pytest.mark.parametrize(
    "fields", [{"identity": "another"}, {"run": "x"}, {"ledger": 2}, {"mode": "all"}, {"of": ["x"]}]
)
def test_a_ledger_of_another_table_or_none(case: Case, fields: dict[str, object]) -> None:
    """Nothing comes back by it, and the history passes it over."""
    report = case.run(case.root, quarantine=True)
    after = content(case.root)
    changed(str(report.ledger), **fields)
    with pytest.raises(CorruptMetadataError):
        case.table.undo().restore(str(report.ledger))
    assert content(case.root) == after
    assert case.table.undo().history().runs == ()


@pytest.mark.parametrize("base", ["/etc", "..", "", "{root}/.."])
def test_a_ledger_that_names_other_places(case: Case, base: str, tmp_path: Path) -> None:
    """What it names is nothing to us: where files belong follows from where they wait."""
    before = content(case.root)
    report = case.run(case.root, quarantine=True)
    batch_of(str(report.ledger), base=base.format(root=case.root))
    case.table.undo().restore(str(report.ledger))
    assert content(case.root) == before


def test_a_quarantine_behind_a_link(case: Case, tmp_path: Path) -> None:
    """Nothing of it is moved or purged."""
    report = case.run(case.root, quarantine=True)
    after = content(case.root)
    (folder,) = (path for path in case.root.rglob("*quarantine") if path.is_dir())
    shutil.move(folder, tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    with pytest.raises(LakemetaError, match="symbolic link"):
        case.table.undo().restore(str(report.ledger))
    with pytest.raises(LakemetaError, match="symbolic link"):
        case.table.undo().purge(case.table.undo().quarantined())
    assert content(case.root) == after
    assert list((tmp_path / "elsewhere").rglob("*-*/*"))


def test_what_a_quarantine_may_not_hold(case: Case) -> None:
    """A file that was put there and would become metadata of the table, or ours, keeps all from coming back."""
    report = case.run(case.root, quarantine=True)
    after = content(case.root)
    (folder,) = (path for path in case.root.rglob("*Z-*") if path.is_dir())
    name = ".hoodie/hoodie.properties" if case.run is clean else ".lakemeta-quarantine/x"
    (folder / name).parent.mkdir()
    (folder / name).write_bytes(b"hostile")
    with pytest.raises(CorruptMetadataError, match="lakemeta does to no such name"):
        case.table.undo().restore(str(report.ledger))
    assert content(case.root) == after


def test_no_service_takes_a_quarantine_for_an_orphan(tables: dict[str, Path], tmp_path: Path) -> None:
    """remove-orphan-files of everything that is old names nothing that waits, and no ledger."""
    root = shutil.copytree(tables["hudi"], tmp_path / "h")
    clean(root, quarantine=True)
    assert HudiTable.open(str(root)).plan_clean({"hoodie.clean.commits.retained": "1"}, now=moment(41)).is_empty
    assert not [f for f in HudiTable.open(str(root)).doctor(now=moment(41)) if "lakemeta" in f.sentence]

"""What is looked up before an expire or a removal of orphan files deletes anything, and how much may go."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from click.testing import CliRunner
from support.iceberg_checker import TableState
from support.iceberg_expire import NOW, build, files, opened, plan

from lakemeta.cli.main import cli
from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, LakemetaError, OptionError, ShareError
from lakemeta.executor import LocalExecutor
from lakemeta.iceberg.service import closure
from lakemeta.iceberg.service.closure import Closure
from lakemeta.iceberg.spec.locations import file_key
from lakemeta.storage import LocalStorage

SERVICES = ("expire-snapshots", "remove-orphan-files")
ENV = Environment(now=lambda: NOW)


@pytest.fixture(scope="module")
def kept(tmp_path_factory) -> Path:
    """A table that is built once; tests have it at the same place, as it names its files by whole paths."""
    root = tmp_path_factory.mktemp("closure") / "t"
    build(root)
    (root / "data" / "orphan.parquet").write_bytes(b"x")
    shutil.copytree(root, root.parent / "kept")
    return root


@pytest.fixture
def root(kept) -> Path:
    shutil.rmtree(kept)
    shutil.copytree(kept.parent / "kept", kept)
    return kept


def made(root: Path, service: str):
    if service == "expire-snapshots":
        return plan(root)
    return opened(root).plan(service, {}, now=NOW)


def staying(root: Path) -> list[str]:
    """The data and delete files of the snapshots that an expire leaves: heads of branches and tags."""
    table = opened(root)
    table.apply(plan(root), env=ENV, max_share=100)
    left = sorted(path for path in files(root) if "/data/" in path and not path.endswith("orphan.parquet"))
    shutil.rmtree(root)
    shutil.copytree(root.parent / "kept", root)
    return left


@pytest.mark.parametrize("proof", ["full", "sample"])
@pytest.mark.parametrize("service", SERVICES)
def test_what_was_looked_up_is_in_the_report(root: Path, service: str, proof: str) -> None:
    """How many files, how, and by which seed; nothing where nothing goes."""
    report = opened(root).apply(made(root, service), env=ENV, proof=proof)
    assert report.deleted_files
    told = report.to_json()["proof"]
    assert (told["proof"], told["missing"]) == (proof, 0)
    assert told["files_checked"] > 5
    assert ("by listing" if proof == "full" else "at random from seed") in told["how"]
    assert TableState.local(root).needed() <= files(root)
    assert opened(root).apply(made(root, service), env=ENV).proved is None


@pytest.mark.slow
@pytest.mark.parametrize("service", SERVICES)
@pytest.mark.parametrize("damage", ["gone", "cut off"])
def test_a_damaged_table_loses_nothing(root: Path, service: str, damage: str) -> None:
    """Each data or delete file that stays in turn: gone or cut off, nothing goes, and the snapshot is named."""
    paths = staying(root)
    assert len(paths) > 4
    for path in paths:
        before = Path(path).read_bytes()
        Path(path).write_bytes(before[:-1]) if damage == "cut off" else Path(path).unlink()
        left = files(root)
        words = rf"{path}, which snapshot \d+ names, (is not there|has .* bytes instead of .*): the table is damaged"
        with pytest.raises(CorruptMetadataError, match=words):
            opened(root).apply(made(root, service), env=ENV, proof="full")
        assert files(root) == left
        Path(path).write_bytes(before)
    Path(paths[0]).unlink()
    assert opened(root).apply(made(root, service), env=ENV, proof="off").deleted_files


@pytest.mark.parametrize("proof", ["full", "sample"])
def test_it_is_proved_by_another_way_that_nothing_is_planned_that_stays(root: Path, proof: str) -> None:
    """Data files, manifests and manifest lists of any snapshot."""
    table = opened(root).place.operations.refresh().metadata
    needed = TableState.local(root).needed()
    for path in sorted(needed):
        if path.endswith(".stats") and proof == "sample":
            continue
        one = Closure(
            LocalStorage(), str(root), table, table.snapshots_by_id.keys(), {file_key(path)}, LocalExecutor(1)
        )
        assert any(refused(one, proof, seed, "names and the table is to keep") for seed in range(50)), path


@pytest.mark.slow
def test_a_sample_finds_by_chance_what_is_missing(root: Path) -> None:
    """Each data and delete file is in the sample of some seed, and one seed gives one sample."""
    for path in staying(root):
        before = Path(path).read_bytes()
        Path(path).unlink()
        table = opened(root).place.operations.refresh().metadata
        one = Closure(LocalStorage(), str(root), table, table.snapshots_by_id.keys(), set(), LocalExecutor(1))
        found = [refused(one, "sample", seed, f"{path}, which snapshot") for _ in range(2) for seed in range(2)]
        assert found[:2] == found[2:]
        assert any(found) or any(refused(one, "sample", seed, f"{path}, which snapshot") for seed in range(2, 50))
        Path(path).write_bytes(before)


def refused(one: Closure, proof: str, seed: int, words: str) -> bool:
    try:
        one.prove(proof, seed)
    except CorruptMetadataError as error:
        return words in str(error)
    return False


def test_everything_on_disk(root: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same answer where rows are sorted in runs, and directories looked at piece by piece."""
    table = opened(root).place.operations.refresh().metadata
    one = Closure(LocalStorage(), str(root), table, table.snapshots_by_id.keys(), set(), LocalExecutor(2))
    whole = one.prove("full", 0)
    for name, value in (("_ROWS", 2), ("_CHUNK", 4), ("_BUDGET", 64)):
        monkeypatch.setattr(closure, name, value)
    assert one.prove("full", 0) == whole
    assert whole.files == len(TableState.local(root).needed())


def test_a_manifest_that_is_missing_is_named(root: Path) -> None:
    """With the snapshot whose list names it."""
    table = opened(root).place.operations.refresh().metadata
    manifest = next(path for path in files(root) if path.endswith("-m0.avro"))
    Path(manifest).unlink()
    one = Closure(LocalStorage(), str(root), table, table.snapshots_by_id.keys(), set(), LocalExecutor(1))
    with pytest.raises(LakemetaError, match=r"that snapshot \d+ names, is not there"):
        one.prove("full", 0)


def test_an_expire_of_almost_everything_is_refused(root: Path) -> None:
    """By what goes and what the largest head of a ref has; nothing is committed then."""
    before = files(root)
    with pytest.raises(ShareError, match=r"the plan removes \d+\.\d % .*--max-share=100"):
        opened(root).apply(plan(root), env=ENV, max_share=1)
    assert files(root) == before
    assert opened(root).apply(plan(root), env=ENV).deleted_files


def test_a_removal_of_almost_everything_is_refused(root: Path) -> None:
    """By what was listed for the plan: a mismatch of prefixes looks like that."""
    for path in Path(root).rglob("*"):
        if path.is_file() and path.name == "orphan.parquet":
            path.write_bytes(b"x" * 10_000_000)
    with pytest.raises(ShareError, match=r"removes 9\d\.\d %"):
        opened(root).apply(made(root, "remove-orphan-files"), env=ENV, max_share=89)
    assert opened(root).apply(made(root, "remove-orphan-files"), env=ENV).deleted_files


def test_the_command_line_says_it(root: Path) -> None:
    """The options are those of services that delete, and of applying plans."""
    words = ["expire-snapshots", str(root), "--yes", "--now", NOW.isoformat(), "--set", f"older_than={NOW.isoformat()}"]
    refused = CliRunner().invoke(cli, [*words, "--max-share", "1"])
    assert isinstance(refused.exception, ShareError)
    done = CliRunner().invoke(cli, [*words, "--proof", "full"])
    assert "proof: full: " in done.output, done.output
    assert CliRunner().invoke(cli, ["rewrite-manifests", str(root), "--proof", "full"]).exit_code == 2
    with pytest.raises(OptionError, match="there is no proof"):
        opened(root).apply(made(root, "expire-snapshots"), proof="none")

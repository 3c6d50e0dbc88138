"""What is looked up before a clean or a rollback deletes anything, and how much of a table one clean may take."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from click.testing import CliRunner
from support.builders import TableFiles, at, base, clean_plan, log, moment, tree
from support.hudi_failed_writes import failed_cow, plan_rollback

from lakemeta.cli.main import cli
from lakemeta.environment import Environment
from lakemeta.errors import CorruptMetadataError, OptionError, ShareError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.timeline.loading import load_state
from lakemeta.hudi.timeline.written_files import written_files
from lakemeta.hudi.view.closure import problems, read_closure
from lakemeta.safeguards import SMALL, Safeguards
from lakemeta.storage.local import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from lakemeta.report import Report

COMMITS = {"hoodie.clean.commits.retained": "2"}


@pytest.fixture(params=[6, 9])
def table(request: pytest.FixtureRequest, tmp_path: Path) -> TableFiles:
    """Five versions of ``a`` in p1, of which the first two go; one of ``b`` in p2, which no clean looks at."""
    made = TableFiles(tmp_path / "t", request.param)
    made.insert({"p1": "a", "p2": "b"})
    for _ in range(4):
        made.commit({"p1": "a"})
    return made


def clean(table: TableFiles, options: dict[str, str] = COMMITS, **more: Any) -> Report:
    opened = HudiTable.open(str(table.root))
    plan = opened.plan_clean(options, now=moment(40))
    return opened.apply(plan, env=Environment(lambda: moment(41)), **more)


def is_refused(table: TableFiles, words: str, work: Callable[[], object]) -> None:
    before = tree(table.root)
    with pytest.raises(CorruptMetadataError, match=words):
        work()
    assert tree(table.root) == before


def remove(table: TableFiles, path: str) -> None:
    (table.root / path).unlink()


def cut_off(table: TableFiles, path: str) -> None:
    (table.root / path).write_bytes(b"x")


def test_what_was_looked_up_is_in_the_report(table: TableFiles) -> None:
    """How many files, how, and that none is missing; as text, as JSON, and nothing with ``off``."""
    report = clean(table)
    assert report.deleted_files == 2
    proof = report.to_json()["proof"]
    assert proof == {"proof": "sample", "files_checked": 3, "missing": 0, "how": "of 5 commits, by listing"}
    assert str(report.proved) == "sample: 3 files of what stays are there with their sizes (of 5 commits, by listing)"


@pytest.mark.parametrize("proof", ["full", "sample"])
@pytest.mark.parametrize(("damage", "words"), [(remove, "is not there"), (cut_off, "has 1 bytes instead of 10")])
@pytest.mark.parametrize("hour", [3, 4, 5])
def test_a_damaged_table_loses_no_old_version(
    table: TableFiles, hour: float, damage: Callable[[TableFiles, str], None], words: str, proof: str
) -> None:
    """The newest version of a group, and one that the plan retains: gone or cut off, the older ones stay."""
    plan = HudiTable.open(str(table.root)).plan_clean(COMMITS, now=moment(40))
    damage(table, f"p1/{base('a', hour)}")
    opened, env = HudiTable.open(str(table.root)), Environment(lambda: moment(41))
    advice = f"p1/{base('a', hour)}, which {at(hour)} commit .* names, {words}: the table is damaged, .*--proof=off"
    is_refused(table, advice, lambda: opened.apply(plan, env=env, proof=proof))
    if (hour, damage) == (3, remove):  # then an older version is what readers of hour 4 find, and stays anyway
        is_refused(table, "retains reads", lambda: opened.apply(plan, env=env, proof="off"))
    else:
        assert opened.apply(plan, env=env, proof="off").deleted_files == 2


def test_everything_takes_in_partitions_that_no_clean_looks_at(table: TableFiles) -> None:
    """A file that is missing elsewhere is found by ``full`` alone."""
    remove(table, f"p2/{base('b', 1)}")
    is_refused(table, r"p2/.*is not there", lambda: clean(table, proof="full"))
    assert clean(table, proof="sample").deleted_files == 2


def test_what_a_savepoint_pins_is_there(table: TableFiles) -> None:
    """In all partitions, with ``full``."""
    table.savepoint(1, {"p2": [base("b", 1)], "p1": [base("a", 1)]})
    remove(table, f"p2/{base('b', 1)}")
    is_refused(table, f"p2/.*savepoint {at(1)} names|p2/.*is not there", lambda: clean(table, proof="full"))


def test_what_a_clean_took_is_not_missing(table: TableFiles) -> None:
    """One with other options, which left less than this one retains; whether it was executed to its end or not."""
    assert clean(table, {"hoodie.clean.commits.retained": "1"}).deleted_files == 3
    table.hour = 42
    table.commit({"p1": "a"})
    for hour in (0.25, 0.5):
        table.data("p1", base("a", hour))
    options = {"hoodie.clean.commits.retained": "5", "hoodie.clean.incremental.enabled": "false"}
    report = clean(table, options, proof="full")
    assert report.deleted_files == 1


def test_files_of_commits_that_others_followed_in_the_archive(table: TableFiles) -> None:
    """A newer base file of a commit that the timeline does not have any more stands for the older ones."""
    for hour in (2, 3):
        for path in table.timeline.glob(f"{at(hour)}*"):
            path.unlink()
    for path in table.timeline.glob(f"{at(4)}*"):
        path.rename(path.with_name(path.name.replace(at(4), at(8))))  # no commit names the version of hour 4
    assert clean(table, {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"})


def test_log_files_may_have_grown_but_not_shrunk(tmp_path: Path) -> None:
    """Where a store appends, a log file is longer than the commit before recorded."""
    table = TableFiles(tmp_path / "t", 6, mor=True)
    table.insert({"p1": "a"})
    table.delta({"p1": "a"})
    closure = read_closure(
        LocalStorage(),
        str(table.root),
        load_state(LocalStorage(), str(table.root), LocalExecutor(1)),
        "",
        everything=True,
        partitions=(),
    )
    sizes = {base("a", 1): 10, log("a", 1): 10}
    assert not list(problems(closure, "p1", sizes, ()))
    assert not list(problems(closure, "p1", {**sizes, log("a", 1): 11}, ()))
    assert [p.name for p in problems(closure, "p1", {**sizes, log("a", 1): 9}, ())] == [log("a", 1)]
    assert [p.name for p in problems(closure, "p1", sizes, {base("a", 1)}) if p.planned] == [base("a", 1)]


def test_commits_are_read_piece_by_piece(table: TableFiles) -> None:
    """The files of a commit are those of its write statistics, in any encoding."""
    (commit,) = (p for p in table.timeline.glob(f"{at(1)}*.commit"))
    assert [tuple(file) for file in written_files(commit.read_bytes(), "c")] == [
        ("p1", base("a", 1), 10),
        ("p2", base("b", 1), 10),
    ]
    with pytest.raises(CorruptMetadataError, match=r"cut off|damaged"):
        list(written_files(commit.read_bytes()[:200], "c"))


def test_a_rollback_is_proved_in_its_partitions(tmp_path: Path) -> None:
    """A table that is damaged where a failed write has been is not touched by its rollback either."""
    table = failed_cow(tmp_path / "t")
    plan = plan_rollback(table)
    remove(table, f"p1/{base('b', 1)}")
    opened, env = HudiTable.open(str(table.root)), Environment(lambda: moment(41))
    is_refused(table, "is not there: the table is damaged", lambda: opened.apply(plan, env=env))
    report = opened.apply(plan, env=env, proof="off")
    assert (report.deleted_files, str(report.proved)) == (2, "off: nothing was looked up before deleting")


def test_a_clean_of_almost_everything_is_refused(table: TableFiles) -> None:
    """More than the share of the whole table's bytes; partitions that the clean does not touch count."""
    (table.root / "p1" / base("a", 1)).write_bytes(b"x" * 9000)
    words = r"removes 99\.\d % of the bytes of .* \(8\.8 KiB of .*--max-share=100"
    before = tree(table.root)
    with pytest.raises(ShareError, match=words):
        clean(table, max_share=91)
    assert tree(table.root) == before
    table.data("p2", "big.bin", size=9000)
    assert clean(table, max_share=91).deleted_files == 2


def test_the_default_is_for_plans_of_some_size() -> None:
    """A small table may consist of old versions, and be cleaned as the engine does."""
    assert not Safeguards().exceeds(SMALL - 1, SMALL)
    assert Safeguards().exceeds(SMALL, SMALL + 1)
    assert not Safeguards().exceeds(SMALL, 2 * SMALL)
    assert Safeguards(max_share=89).exceeds(9, 10)


def test_the_share_may_be_said(table: TableFiles) -> None:
    """Of some 4000 bytes 3000 go."""
    for path, size in ((base("a", 1), 3000), ("other.bin", 900)):
        (table.root / "p1" / path).write_bytes(b"x" * size)
    with pytest.raises(ShareError):
        clean(table, max_share=70)
    assert clean(table, max_share=80).deleted_files == 2


def test_the_share_of_a_pending_clean_counts_as_well(table: TableFiles) -> None:
    """Whoever left it."""
    (table.root / "p1" / base("a", 1)).write_bytes(b"x" * 9000)
    pending = clean_plan({"p1": [f"{table.root}/p1/{base('a', 1)}"]}, earliest=3)
    table.put(f"{at(9)}.clean.requested", pending)
    with pytest.raises(ShareError):
        clean(table, max_share=80)
    assert clean(table).deleted_files >= 1


@pytest.mark.parametrize("wrong", [{"proof": "some"}, {"max_share": 101}, {"max_share": float("nan")}])
def test_options_that_make_no_sense(table: TableFiles, wrong: dict[str, Any]) -> None:
    """They are refused as options."""
    with pytest.raises(OptionError):
        clean(table, **wrong)


def test_the_command_line_says_it(table: TableFiles) -> None:
    """A refusal has exit code 3 and one sentence; a report has a line for the proof."""
    words = ["clean", str(table.root), "--yes", "--set", "hoodie.clean.commits.retained=2"]
    refused = CliRunner().invoke(cli, [*words, "--max-share", "10"])
    assert isinstance(refused.exception, ShareError)
    assert refused.exception.exit_code == 3
    done = CliRunner().invoke(cli, [*words, "--proof", "full"])
    assert "proof: full: 4 files of what stays are there with their sizes (of 5 commits, by listing)" in done.output

"""``lakemeta options``, its page in the docs, completions, and the tables behind them."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import click
import pytest
from support.commands import Result

from lakemeta.cli.main import cli
from lakemeta.cli.option_list import Setting, option_tables
from lakemeta.hudi.options import CleanOptions
from lakemeta.iceberg.rewrite import bin_pack, options, split_combine
from lakemeta.iceberg.services import SERVICES

Run = Callable[..., Result]
DOCS = Path(__file__).parents[3] / "docs"


def test_every_service_has_a_table() -> None:
    """Of both formats, in which each name stands once, with a meaning and a default."""
    tables = option_tables()
    assert tables.keys() == {"clean", "rollback", *SERVICES}
    for found in tables.values():
        names = [name for option in found for name in (option.name, option.older) if name]
        assert len(names) == len(set(names))
        assert all(option.meaning and option.default for option in found)


def test_the_table_of_rewrites_is_what_they_take() -> None:
    """A rewrite's options depend on its strategy and planner; together they are its table."""
    taken = {*bin_pack.OPTIONS, *split_combine.OPTIONS, *options._JOB, *options._SORT}
    assert {option.name for option in option_tables()["rewrite-data-files"]} == taken


def test_defaults_of_a_clean_are_read_as_they_are_shown() -> None:
    """What the list shows as a default is the default."""
    shown = {o.name: o.default for o in option_tables()["clean"] if o.default != "none"}
    assert CleanOptions.parse(shown) == CleanOptions(given=dict(sorted(shown.items())))


def test_the_list(run: Run) -> None:
    """For a person, for a program, and for the docs."""
    out = run("options", "expire-snapshots").out
    assert "retain_last" in out
    assert "history.expire.min-snapshots-to-keep, 1" in out
    found = json.loads(run("options", "clean", "--output", "json").out)["clean"]
    assert found[0].items() >= {"name": "hoodie.clean.policy", "default": "KEEP_LATEST_COMMITS"}.items()
    assert json.loads(run("options", "--output", "jsonl").out).keys() == option_tables().keys()
    wrong = run("options", "vacuum")
    assert (wrong.code, "there is no service vacuum; known are clean, rollback" in wrong.sentence) == (2, True)


def test_the_page_in_the_docs_is_the_list(run: Run) -> None:
    """``lakemeta options --output markdown`` writes it, below its first lines."""
    page = (DOCS / "options.md").read_text()
    assert page.endswith(run("options", "--output", "markdown").out)


@pytest.mark.parametrize(
    ("command", "begun", "found"),
    [
        ("clean", "hoodie.clean.commits", ["hoodie.clean.commits.retained="]),
        ("expire-snapshots", "ret", ["retain_last="]),
        ("inspect", "x", []),
    ],
)
def test_settings_are_completed(command: str, begun: str, found: list[str]) -> None:
    """By the options of the command's own service."""
    subcommand = cli.commands[command]
    context = click.Context(subcommand, info_name=command)
    items = Setting().shell_complete(context, subcommand.params[0], begun)
    assert [item.value for item in items] == found


@pytest.mark.parametrize("shell", ["bash", "zsh", "fish"])
def test_completion_scripts(run: Run, shell: str) -> None:
    """Each shell's own, for the command as it is called."""
    out = run("completion", shell).out
    assert "_LAKEMETA_COMPLETE" in out
    assert "lakemeta" in out


@pytest.mark.parametrize(
    ("command", "option", "words"),
    [
        (("plan", "clean"), "hoodie.clean.commit.retained", "did you mean hoodie.clean.commits.retained?"),
        (("plan", "clean"), "zzz", "unknown option zzz; lakemeta options clean lists all"),
        (("plan", "expire-snapshots"), "zzz", "unknown option zzz; lakemeta options expire-snapshots lists all"),
        (("plan", "rewrite-data-files"), "zzz", "unknown option zzz; lakemeta options rewrite-data-files lists all"),
    ],
)
def test_unknown_options_name_the_list(
    run: Run, tmp_path: Path, table: object, command: tuple[str, ...], option: str, words: str
) -> None:
    """Where no option is near."""
    from support.iceberg_tables import create_table

    from lakemeta.storage import LocalStorage

    if command[1] != "clean":
        create_table(LocalStorage(), str(tmp_path / "i")).append([(1, "a", 0.5)])
    place = tmp_path / ("t" if command[1] == "clean" else "i")
    assert words in run(*command, place, "--set", f"{option}=1").sentence


def test_help_says_what_there_is(run: Run) -> None:
    """Examples, exit codes, and what TABLE may be."""
    out = run("--help").out
    for words in ("Examples:", "Exit codes: 0 done", "catalog://NAME/namespace.table"):
        assert words in out

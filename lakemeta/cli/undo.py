"""Commands on what runs have deleted: history, restore, purge."""

from __future__ import annotations

import json
import re
from datetime import timedelta
from typing import Final

import click

from lakemeta.cli.options import Common, common_options
from lakemeta.cli.output import remark, show_facts, table, unheard
from lakemeta.cli.steps import confirm, finish, ledger_option, yes_option
from lakemeta.cli.tables import open_table
from lakemeta.errors import OptionError
from lakemeta.words import count_of, human_bytes

_UNITS: Final = {"d": "days", "h": "hours", "m": "minutes"}


@click.command("history")
@click.argument("table_url", metavar="TABLE")
@ledger_option
@common_options
def history(table_url: str, *, ledger: str | None, common: Common) -> None:
    """Say what runs have deleted of a table, when, by which plan, and how many bytes that freed."""
    opened, _ = open_table(table_url, common)
    found = opened.undo(ledger).history()
    lines = [run.to_json() for run in found.runs]
    if common.output == "json":
        show_facts("", {"table": opened.url, "runs": lines, "notes": list(found.notes)}, "json")
    elif common.output == "jsonl":
        for line in lines:
            click.echo(json.dumps(line, ensure_ascii=False))
    elif not lines:
        click.echo("No run has been recorded.")
    else:
        rows = [
            (
                f"{run.opening.at:%Y-%m-%d %H:%M:%S}",
                run.opening.plan,
                f"{run.state}, in quarantine" if run.waiting else run.state,
                f"{run.deleted:,}",
                human_bytes(run.size),
                human_bytes(run.freed_bytes),
                (run.opening.plan_sha256 or "")[:12],
                run.ledger,
            )
            for run in found.runs
        ]
        heads = ("at (UTC)", "what", "state", "files", "bytes", "freed", "plan", "ledger")
        table(f"runs on {opened.url}", heads, rows, ("files", "bytes", "freed"))
    for note in found.notes:
        remark(f"note: {note}", quiet=common.quiet)


@click.command("restore")
@click.argument("ledger_url", metavar="LEDGER")
@click.argument("files", metavar="[FILE]...", nargs=-1)
@click.option("--table", "table_url", metavar="TABLE", help="The table, if it is not the one that the ledger names.")
@common_options
def restore(ledger_url: str, files: tuple[str, ...], *, table_url: str | None, common: Common) -> None:
    """Bring back what a run has quarantined: all of it, or the named files. No file is ever replaced."""
    if table_url is None:
        table_url = _table_of(ledger_url, common)
    opened, _ = open_table(table_url, common)
    finish(opened.undo().restore(ledger_url, files, executor=common.executor("restoring")), common)


@click.command("purge")
@click.argument("table_url", metavar="TABLE")
@click.option("--older-than", metavar="AGE", required=True, help="Of runs that began so long ago: 7d, 12h, 30m.")
@ledger_option
@yes_option
@common_options
def purge(table_url: str, *, older_than: str, ledger: str | None, yes: bool, common: Common) -> None:
    """Delete for good what runs of some age have quarantined."""
    undo = open_table(table_url, common)[0].undo(ledger)
    runs = undo.quarantined(_age(older_than))
    if common.output == "text" and (not common.quiet or not yes):
        with unheard():
            for run in runs:
                click.echo(f"{run.run}: {count_of(run.files, 'file')}, {human_bytes(run.size)}")
            if not runs:
                click.echo("Nothing to do.")
    if runs:
        files = f"{count_of(sum(run.files for run in runs), 'file')} ({human_bytes(sum(run.size for run in runs))})"
        confirm(common, f"Delete {files} in quarantine for good, of {table_url}?", yes=yes)
    if runs or common.output != "text":
        finish(undo.purge(runs, executor=common.executor("purging")), common)


def _table_of(ledger_url: str, common: Common) -> str:
    """The table that a ledger names."""
    from lakemeta.ledger.files import LedgerPlace
    from lakemeta.storage import open_storage

    storage, path = open_storage(ledger_url, common.storage_options if "://" in ledger_url else {})
    folder, _, name = path.rpartition("/")
    return LedgerPlace(storage, folder, "", "").named(name).opening().table


def _age(text: str) -> timedelta:
    match = re.fullmatch(r"([0-9]{1,6})([dhm])", text, re.ASCII)
    if match is None:
        raise OptionError(f"--older-than {text} is no age; write it as 7d, 12h or 30m")
    return timedelta(**{_UNITS[match[2]]: int(match[1])})

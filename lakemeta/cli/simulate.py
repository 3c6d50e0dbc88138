"""``lakemeta simulate``: what a service would do with each of several values of one option."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING, Any, Final

import click

from lakemeta.cli.option_list import option_tables
from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_facts
from lakemeta.cli.output import table as print_table
from lakemeta.cli.page import html_option, write_simulation_page
from lakemeta.cli.phrases import dated
from lakemeta.cli.steps import ResultShownExit
from lakemeta.cli.tables import open_table
from lakemeta.errors import OptionError
from lakemeta.typed_text import texts
from lakemeta.words import human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from lakemeta.cli.options import Common
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable
    from lakemeta.simulation import Outcome, Simulation

_BAR: Final = 16  # columns
_NUMBERS: Final = ("files", "bytes", "into", "snapshots")
_EXAMPLE: Final = "as --set hoodie.clean.commits.retained=1,5,20"


@click.command()
@click.argument("table_url", metavar="TABLE")
@click.option("--service", metavar="NAME", help="The service; for a Hudi table clean, if none is named.")
@click.option("--where", metavar="EXPR", help="Iceberg: only files that may hold rows matching this filter.")
@html_option
@planning_options
@common_options
def simulate(
    table_url: str,
    *,
    service: str | None,
    where: str | None,
    html: Path | None,
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Compare values of one option: what a service would do with each of them; nothing is changed.

    One --set has several values, separated by commas: --set retain_last=1,5,20.
    """
    table, done = _simulated(table_url, common, service, where, pairs(settings, "--set"), now)
    if html is not None:
        write_simulation_page(html, table, done, common)
    if common.output == "jsonl":
        for outcome in done.outcomes:
            click.echo(json.dumps(outcome.to_json(), ensure_ascii=False))
    elif common.output == "json":
        show_facts("", done.to_json(), "json")
    else:
        _show(done)
    if done.all_refused:
        raise ResultShownExit(OptionError.exit_code, "every value was refused; nothing was changed")


def _simulated(
    table_url: str,
    common: Common,
    service: str | None,
    where: str | None,
    settings: Mapping[str, str],
    now: str | None,
) -> tuple[HudiTable | IcebergTable, Simulation]:
    from lakemeta.hudi import HudiTable

    at = moment(now)
    found, _ = open_table(table_url, common)
    if isinstance(found, HudiTable):
        if where is not None:
            raise OptionError("--where is for Iceberg tables; leave it out for a Hudi table")
        service = service or "clean"
        option, values, rest = varied(service, settings)
        executor = common.executor("looking at partitions", found.planning_threads)
        return found, found.simulate(option, values, rest, service=service, now=at, executor=executor)
    if service is None:
        raise OptionError("an Iceberg table has several services; name one, as --service expire-snapshots")
    option, values, rest = varied(service, settings)
    executor = common.executor("reading metadata")
    return found, found.simulate(service, option, values, rest, where, now=at, executor=executor)


def varied(service: str, settings: Mapping[str, str]) -> tuple[str, tuple[str, ...], dict[str, str]]:
    """The one option with several values, the values, and the other options.

    Raises OptionError if there is not exactly one such option, if one value of it may hold commas, or if one is empty.
    """
    several = [name for name, value in settings.items() if "," in value]
    for option in option_tables().get(service, ()):
        for name in several:
            if option.commas and name in (option.name, option.older):
                raise OptionError(f"a value of {name} may hold commas itself, so its values cannot be compared here")
    if len(several) != 1:
        named = f"{', '.join(several)} have several values each; vary one" if several else "nothing varies; give one"
        raise OptionError(f"{named} option several values, {_EXAMPLE}")
    (option_name,) = several
    values = tuple(texts({option_name: v.strip()})[option_name] for v in settings[option_name].split(","))
    if not all(values):
        raise OptionError(f"--set {option_name}={settings[option_name]} has an empty value; leave it out")
    return option_name, values, {name: value for name, value in settings.items() if name != option_name}


def _show(done: Simulation) -> None:
    """A row for each value, and a bar for its bytes; columns that no row fills are left out."""
    from rich.progress_bar import ProgressBar

    most = max((outcome.bytes for outcome in done.outcomes), default=0) or 1
    rows = [
        {**_cells(outcome), "": "" if outcome.refused else ProgressBar(most, outcome.bytes, width=_BAR)}
        for outcome in done.outcomes
    ]
    optional = [head for head in ("into", "snapshots") if any(row[head] for row in rows)]
    heads = ["value", "files", "bytes", "", *optional, "oldest readable"]
    click.echo(f"{done.service} of {done.table} with {done.option} (nothing was changed)")
    print_table("", heads, [[row[head] for head in heads] for row in rows], ("value", "files", "bytes", *optional))


def _cells(outcome: Outcome) -> dict[str, Any]:
    oldest = "" if outcome.oldest is None else dated(str(outcome.oldest))
    if outcome.refused is not None:
        return {**dict.fromkeys(_NUMBERS, ""), "value": outcome.value, "oldest readable": f"refused: {outcome.refused}"}
    return {
        "value": outcome.value,
        "files": f"{outcome.files:,}",
        "bytes": human_bytes(outcome.bytes),
        "into": "" if outcome.into is None else f"{outcome.into:,}",
        "snapshots": "" if outcome.snapshots is None else f"{outcome.snapshots:,}",
        "oldest readable": oldest or outcome.note or "",
    }

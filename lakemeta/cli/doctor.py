"""``lakemeta doctor``: what blocks cleaning, what is wrong, what mends it."""

from __future__ import annotations

from typing import TYPE_CHECKING

import attrs
import click

from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_facts
from lakemeta.cli.page import html_option, write_findings_page
from lakemeta.cli.tables import open_table
from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.cli.options import Common

_TITLES = {"blocks": "Blocks cleaning", "wrong": "Wrong", "note": "Worth knowing"}


@click.command()
@click.argument("table_url", metavar="TABLE")
@html_option
@planning_options
@common_options
def doctor(table_url: str, *, settings: tuple[str, ...], now: str | None, html: Path | None, common: Common) -> None:
    """Say in plain words what is wrong with a table; of Hudi, what blocks cleaning, and what each would free."""
    from lakemeta.hudi import HudiTable

    table, _ = open_table(table_url, common)
    if isinstance(table, HudiTable):
        executor = common.executor("looking", table.planning_threads)
        findings = table.doctor(pairs(settings, "--set"), now=moment(now), executor=executor)
    elif settings or now is not None:
        raise OptionError("--set and --now are for Hudi tables; leave them out for an Iceberg table")
    else:
        findings = table.doctor(executor=common.executor("looking"))
    if html is not None:
        write_findings_page(html, table, findings, common)
    if common.output != "text":
        show_facts("", {"table": table.url, "findings": [attrs.asdict(f) for f in findings]}, common.output)
        return
    for severity, title in _TITLES.items():
        sentences = [finding.sentence for finding in findings if finding.severity == severity]
        if sentences:
            click.echo(f"{title}:")
        for sentence in sentences:
            click.echo(f"  - {sentence}")
    if not findings:
        click.echo("Nothing to report: the table is clean.")

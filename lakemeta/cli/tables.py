"""Commands that take a table of either format: inspect, why, apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import click

from lakemeta.cli.hudi import apply_plan, assume_single_writer_option
from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_facts
from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from lakemeta.cli.options import Common


@click.command()
@click.argument("table_url", metavar="TABLE")
@common_options
def inspect(table_url: str, *, common: Common) -> None:
    """Say what a table is and how healthy it is."""
    from lakemeta.hudi import HudiTable

    table = HudiTable.open(table_url, common.storage_options, on_event=common.on_event)
    facts = table.inspect(executor=common.executor("listing"))
    show_facts(f"Hudi table {table.url}", {"format": "hudi", **facts.to_json()}, common.output)


@click.command()
@click.argument("table_url", metavar="TABLE")
@click.argument("file")
@planning_options
@common_options
def why(table_url: str, file: str, *, settings: tuple[str, ...], now: str | None, common: Common) -> None:
    """Say in one sentence why FILE of TABLE stays or would be deleted."""
    from lakemeta.hudi import HudiTable

    table = HudiTable.open(table_url, common.storage_options, on_event=common.on_event)
    sentence = table.why(file, pairs(settings, "--set"), now=moment(now))
    if common.output == "text":
        click.echo(sentence)
    else:
        show_facts("", {"table": table.url, "file": file, "why": sentence}, common.output)


@click.command()
@click.argument("plan_file", metavar="PLAN.jsonl", type=click.Path(path_type=Path))
@click.option("--schedule-only", is_flag=True, help="Hudi: only write the requested clean.")
@click.option("--drop-metadata-table", is_flag=True, help="Hudi: take the table off its metadata table first.")
@assume_single_writer_option
@common_options
def apply(
    plan_file: Path, *, schedule_only: bool, drop_metadata_table: bool, assume_single_writer: bool, common: Common
) -> None:
    """Apply a saved plan: exactly what was planned, or a refusal. The plan was reviewed, so nothing is asked."""
    plan = Plan.loads(_read(plan_file))
    if not plan.header.plan.startswith("hudi."):
        raise UnsupportedFeatureError(f"{plan_file} is a {plan.header.plan} plan, which this lakemeta cannot apply")
    from lakemeta.hudi import HudiTable

    table = HudiTable.open(plan.header.table, common.storage_options, on_event=common.on_event)
    apply_plan(
        table,
        plan,
        common,
        schedule_only=schedule_only,
        drop_metadata_table=drop_metadata_table,
        assume_single_writer=assume_single_writer,
    )


def _read(plan_file: Path) -> str:
    try:
        return plan_file.read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else "it is no text"
        raise OptionError(f"the plan {plan_file} cannot be read: {reason}") from None

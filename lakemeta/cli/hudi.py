"""Commands on Hudi tables."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_scheduled
from lakemeta.cli.page import html_option, write_plan_page
from lakemeta.cli.questions import question
from lakemeta.cli.steps import (
    assume_single_writer_option,
    deletion_options,
    dry_run_option,
    finish,
    out_option,
    present,
    wants_apply,
    yes_option,
)
from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.cli.options import Common
    from lakemeta.hudi import HudiTable
    from lakemeta.plan import Plan

_listing = click.option(
    "--listing",
    type=click.Choice(["auto", "metadata", "storage"]),
    default="auto",
    show_default=True,
    help="Where files are looked up: the metadata table, storage, or the former if it can be used.",
)


@click.command("clean")
@click.argument("table_url", metavar="TABLE")
@click.option("--explain", is_flag=True, help="Also name every file that stays, and why.")
@out_option
@html_option
@_listing
@planning_options
@common_options
def plan_clean(
    table_url: str,
    *,
    explain: bool,
    out: Path | None,
    html: Path | None,
    listing: str,
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Plan a clean of a Hudi table: which old file versions would be deleted."""
    table, plan = _plan(table_url, settings, now, common, listing, explain=explain)
    waiting = table.pending_cleans() if explain and common.output == "text" else ()
    if html is not None:
        write_plan_page(html, table, plan, common)
    present(plan, out, common, explain=explain, pending=[op for clean in waiting for op in clean.deletes])


@click.command()
@click.argument("table_url", metavar="TABLE")
@yes_option
@dry_run_option
@deletion_options
@click.option("--schedule-only", is_flag=True, help="Only write the requested clean, for a Hudi writer to execute.")
@click.option("--drop-metadata-table", is_flag=True, help="Take the table off its metadata table first.")
@assume_single_writer_option
@_listing
@planning_options
@common_options
def clean(
    table_url: str,
    *,
    yes: bool,
    dry_run: bool,
    deleting: dict[str, Any],
    schedule_only: bool,
    drop_metadata_table: bool,
    assume_single_writer: bool,
    listing: str,
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Clean a Hudi table: plan, show the plan, ask, apply."""
    table, plan = _plan(table_url, settings, now, common, listing)
    from lakemeta.hudi.duties import needs_clean

    changes = needs_clean(plan) or drop_metadata_table
    asking = question(plan, quarantine=deleting["quarantine"], schedule_only=schedule_only)
    if drop_metadata_table:
        asking = f"Take the table off its metadata table, then: {asking}"
    if wants_apply(plan, common, changes=changes, yes=yes, dry_run=dry_run, asking=asking):
        apply_plan(
            table,
            plan,
            common,
            schedule_only=schedule_only,
            drop_metadata_table=drop_metadata_table,
            assume_single_writer=assume_single_writer,
            deleting=deleting,
        )


def apply_plan(
    table: HudiTable,
    plan: Plan,
    common: Common,
    *,
    schedule_only: bool,
    drop_metadata_table: bool,
    assume_single_writer: bool,
    deleting: dict[str, Any],
) -> None:
    """Apply or only request a plan, and print what was done; exit code 4 if a file could not be deleted."""
    executor = common.executor("cleaning")
    if schedule_only:
        if drop_metadata_table:
            raise OptionError("--schedule-only changes no file, so --drop-metadata-table cannot go with it; give one")
        if deleting["quarantine"]:
            raise OptionError("--schedule-only leaves the deleting to others, who quarantine nothing; give one option")
        safeguards = {name: deleting[name] for name in ("proof", "max_share")}
        instant = table.schedule_clean(plan, executor=executor, assume_single_writer=assume_single_writer, **safeguards)
        show_scheduled(table.url, instant, common.output)
        return
    report = table.apply(
        plan,
        executor=executor,
        drop_metadata_table=drop_metadata_table,
        assume_single_writer=assume_single_writer,
        **deleting,
    )
    finish(report, common)


def _plan(
    table_url: str, settings: tuple[str, ...], now: str | None, common: Common, listing: str, *, explain: bool = False
) -> tuple[HudiTable, Plan]:
    from lakemeta.hudi import HudiTable

    options, at = pairs(settings, "--set"), moment(now)
    table = HudiTable.open(table_url, common.storage_options, on_event=common.on_event)
    executor = common.executor("looking at partitions", table.planning_threads)
    return table, table.plan_clean(options, now=at, executor=executor, explain=explain, listing=listing)

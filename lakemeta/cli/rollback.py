"""Commands that roll back failed writes of Hudi tables."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from lakemeta.cli.options import common_options, moment, pairs, planning_options
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

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.cli.options import Common
    from lakemeta.hudi import HudiTable
    from lakemeta.plan import Plan


@click.command("rollback")
@click.argument("table_url", metavar="TABLE")
@click.option("--explain", is_flag=True, help="Also name the log files whose blocks are undone.")
@out_option
@html_option
@planning_options
@common_options
def plan_rollback(
    table_url: str,
    *,
    explain: bool,
    out: Path | None,
    html: Path | None,
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Plan to roll back the failed writes of a Hudi table: which of their files would be deleted."""
    table, plan = _plan(table_url, settings, now, common, explain=explain)
    if html is not None:
        write_plan_page(html, table, plan, common)
    present(plan, out, common, explain=explain)


@click.command()
@click.argument("table_url", metavar="TABLE")
@yes_option
@dry_run_option
@partial(deletion_options, bounded=False)
@assume_single_writer_option
@planning_options
@common_options
def rollback(
    table_url: str,
    *,
    yes: bool,
    dry_run: bool,
    deleting: dict[str, Any],
    assume_single_writer: bool,
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Roll back the failed writes of a Hudi table: plan, show the plan, ask, apply.

    Without --set hoodie.clean.failed.writes.policy=LAZY every pending write counts as failed: stop the writer first.
    """
    table, plan = _plan(table_url, settings, now, common)
    failed = bool(plan.header.facts["failed_writes"] or plan.header.facts.get("metadata_rollbacks"))
    asking = question(plan, quarantine=deleting["quarantine"])
    if not wants_apply(plan, common, changes=failed, yes=yes, dry_run=dry_run, asking=asking):
        return
    if not failed and common.output == "text":
        return  # with --quiet there is nothing to say of nothing
    executor = common.executor("rolling back")
    report = table.apply(
        plan,
        executor=executor,
        assume_single_writer=assume_single_writer,
        **deleting,
    )
    finish(report, common)


def _plan(
    table_url: str, settings: tuple[str, ...], now: str | None, common: Common, *, explain: bool = False
) -> tuple[HudiTable, Plan]:
    from lakemeta.hudi import HudiTable

    options, at = pairs(settings, "--set"), moment(now)
    table = HudiTable.open(table_url, common.storage_options, on_event=common.on_event)
    executor = common.executor("looking for failed writes")
    return table, table.plan_rollback(options, now=at, executor=executor, explain=explain)

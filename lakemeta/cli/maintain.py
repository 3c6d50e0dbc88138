"""``lakemeta maintain``: what is due of a table's services, in order, each planned and shown before it is done."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Any

import click

from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_facts, show_plan, show_report, unheard
from lakemeta.cli.steps import (
    PARTLY_DONE,
    assume_single_writer_option,
    deletion_options,
    yes_option,
)
from lakemeta.cli.tables import open_table
from lakemeta.errors import OptionError
from lakemeta.words import count_of

if TYPE_CHECKING:
    from lakemeta.cli.options import Common
    from lakemeta.executor import Executor
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable
    from lakemeta.maintenance import Step
    from lakemeta.plan import Plan
    from lakemeta.report import Report


@click.command()
@click.argument("table_url", metavar="TABLE")
@yes_option
@click.option("--at-least", "at_least", multiple=True, metavar="SERVICE=N", help="Due from so much gain on; 1 if not.")
@click.option("--skip", multiple=True, metavar="SERVICE", help="Leave a service out.")
@assume_single_writer_option
@deletion_options
@planning_options
@common_options
def maintain(
    table_url: str,
    *,
    yes: bool,
    at_least: tuple[str, ...],
    skip: tuple[str, ...],
    assume_single_writer: bool,
    deleting: dict[str, Any],
    settings: tuple[str, ...],
    now: str | None,
    common: Common,
) -> None:
    """Show what is due of all services of a table, in the order that suits them; with --yes, do it.

    Options of a service are given as --set SERVICE.KEY=VALUE.
    """
    table, _ = open_table(table_url, common)
    steps = steps_of(
        table,
        common.elsewhere(),
        assume_single_writer=assume_single_writer,
        settings=pairs(settings, "--set"),
        at_least=pairs(at_least, "--at-least"),
        skip=skip,
        now=moment(now),
        **deleting,
    )
    lines, complete = [], True
    for step in steps:
        plan = step.plan()
        due = step.is_due(plan)
        if common.output == "text":
            with unheard():
                _show(step, plan, due=due)
        report = step.apply(plan) if yes and due else None
        if common.output == "text" and report is not None:
            with unheard():
                show_report(report, "text")
        lines.append(_line(step, plan, report, due=due))
        complete = complete and (report is None or report.complete)
        if common.output == "jsonl":
            with unheard():
                click.echo(json.dumps(lines[-1], ensure_ascii=False))
    if common.output == "json":
        show_facts("", {"table": table_url, "steps": lines}, "json")
    elif common.output == "text" and not yes:
        click.echo("Nothing was changed: --yes does what is due.")
    if not complete:
        sys.exit(PARTLY_DONE)


def steps_of(
    table: HudiTable | IcebergTable, executor: Executor | None, *, assume_single_writer: bool, **asked: Any
) -> tuple[Step, ...]:
    """The steps of a table's maintenance, whichever its format is."""
    from lakemeta.hudi import HudiTable

    if isinstance(table, HudiTable):
        return table.maintenance(**asked, executor=executor, assume_single_writer=assume_single_writer)
    if assume_single_writer:
        raise OptionError("--assume-single-writer is for Hudi tables; leave it out for an Iceberg table")
    return table.maintenance(**asked, executor=executor)


def _show(step: Step, plan: Plan, *, due: bool) -> None:
    gain = count_of(step.duty.gain(plan), step.duty.unit)
    click.echo(f"== {step.duty.service}: {gain}, {'due' if due else f'not due below {step.at_least:,}'}")
    if due:
        show_plan(plan, "text")


def _line(step: Step, plan: Plan, report: Report | None, *, due: bool) -> dict[str, Any]:
    totals = {"files": plan.files, "bytes": plan.bytes}
    done = None if report is None else report.to_json()
    return {"service": step.duty.service, "due": due, "gain": step.duty.gain(plan), **totals, "report": done}

"""Commands on Iceberg tables."""

from __future__ import annotations

from contextlib import nullcontext
from typing import TYPE_CHECKING

import click

from lakemeta.cli.options import common_options, pairs
from lakemeta.cli.steps import dry_run_option, finish, out_option, present, wants_apply, yes_option

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from typing import Any, TypeVar

    from lakemeta.cli.options import Common
    from lakemeta.iceberg import IcebergTable
    from lakemeta.plan import Plan

    F = TypeVar("F", bound=Callable[..., Any])


def _rewrite_options(command: F) -> F:
    """Add ``--set``, ``--where`` and ``--now``; a rewrite does not depend on the time, but a script may name it."""
    for option in (
        click.option(
            "--now", metavar="ISO8601", help="Accepted; a rewrite does not depend on the time.", expose_value=False
        ),
        click.option("--where", metavar="EXPR", help="Only files that may hold rows matching this filter."),
        click.option("--set", "settings", multiple=True, metavar="KEY=VALUE", help="An option of rewrite_data_files."),
    ):
        command = option(command)
    return command


@click.command("rewrite-data-files")
@click.argument("table_url", metavar="TABLE")
@out_option
@_rewrite_options
@common_options
def plan_rewrite(
    table_url: str, *, out: Path | None, settings: tuple[str, ...], where: str | None, common: Common
) -> None:
    """Plan which small, large or deleted-from data files of an Iceberg table would be rewritten together."""
    _, plan = _plan(table_url, settings, where, common)
    present(plan, out, common)


@click.command("rewrite-data-files")
@click.argument("table_url", metavar="TABLE")
@yes_option
@dry_run_option
@_rewrite_options
@common_options
def rewrite(
    table_url: str, *, yes: bool, dry_run: bool, settings: tuple[str, ...], where: str | None, common: Common
) -> None:
    """Rewrite data files of an Iceberg table: plan, show the plan, ask, apply."""
    table, plan = _plan(table_url, settings, where, common)
    if wants_apply(plan, common, changes=not plan.is_empty, yes=yes, dry_run=dry_run):
        apply_plan(table, plan, common)


def apply_plan(table: IcebergTable, plan: Plan, common: Common) -> None:
    """Apply a plan and print what was done; exit code 4 if some groups or commits failed and others did not."""
    from lakemeta.cli.progress import rewrite_bar

    # On this machine the plan's own options say how many groups are rewritten at a time.
    with rewrite_bar() if common.shows_progress else nullcontext() as update:
        report = table.apply(plan, executor=common.elsewhere(), on_progress=update)
    finish(report, common)


def _plan(table_url: str, settings: tuple[str, ...], where: str | None, common: Common) -> tuple[IcebergTable, Plan]:
    from lakemeta.iceberg import IcebergTable

    options = pairs(settings, "--set")
    table = IcebergTable.open(table_url, common.storage_options, on_event=common.on_event)
    return table, table.plan_rewrite_data_files(options, where, executor=common.executor("reading manifests"))

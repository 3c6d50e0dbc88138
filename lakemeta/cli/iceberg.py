"""Commands on Iceberg tables: two for each of their services, one that plans and one that plans, asks and applies."""

from __future__ import annotations

from contextlib import nullcontext
from functools import partial
from types import MappingProxyType
from typing import TYPE_CHECKING, Final

import click

from lakemeta.cli.options import common_options, moment, pairs, setting_option
from lakemeta.cli.page import html_option, write_plan_page
from lakemeta.cli.questions import question
from lakemeta.cli.steps import (
    deletion_options,
    dry_run_option,
    finish,
    out_option,
    present,
    wants_apply,
    yes_option,
)
from lakemeta.iceberg.services import SERVICES

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping
    from datetime import datetime
    from pathlib import Path
    from typing import Any, TypeVar

    from lakemeta.cli.options import Common
    from lakemeta.iceberg import IcebergTable
    from lakemeta.iceberg.services import Service
    from lakemeta.plan import Plan

    F = TypeVar("F", bound=Callable[..., Any])


_UNSAID: Final[Mapping[str, Any]] = MappingProxyType({})  # of services that delete no file


def _service_options(service: Service, command: F) -> F:
    """Add the options of planning, and the service's own flags."""
    for option in (
        *(click.option(f"--{name}", metavar="FILE", help=what) for name, what in service.flags.items()),
        click.option("--now", metavar="ISO8601", help="Count ages from this moment instead of the present."),
        click.option("--where", metavar="EXPR", help="Only files that may hold rows matching this filter."),
        setting_option,
    ):
        command = option(command)
    return command


def _unchanged(command: F) -> F:
    return command


def planning_command(service: Service) -> click.Command:
    """``lakemeta plan SERVICE TABLE``."""

    @click.command(service.name, help=f"Plan: {service.does}", short_help=service.does)
    @click.argument("table_url", metavar="TABLE")
    @out_option
    @html_option
    @partial(_service_options, service)
    @common_options
    def command(table_url: str, *, out: Path | None, html: Path | None, common: Common, **asked: Any) -> None:
        table, plan = _plan(service, table_url, common, **asked)
        if html is not None:
            write_plan_page(html, table, plan, common)
        present(plan, out, common)

    return command


def service_command(service: Service) -> click.Command:
    """``lakemeta SERVICE TABLE``: plan, show the plan, ask, apply."""

    @click.command(service.name, help=f"{service.does} The plan is shown and confirmed first.", short_help=service.does)
    @click.argument("table_url", metavar="TABLE")
    @yes_option
    @dry_run_option
    @(deletion_options if service.deletes else _unchanged)
    @partial(_service_options, service)
    @common_options
    def command(
        table_url: str,
        *,
        yes: bool,
        dry_run: bool,
        common: Common,
        deleting: Mapping[str, Any] = _UNSAID,
        **asked: Any,
    ) -> None:
        table, plan = _plan(service, table_url, common, **asked)
        asking = question(plan, quarantine=deleting.get("quarantine", False))
        if wants_apply(plan, common, changes=not plan.is_empty, yes=yes, dry_run=dry_run, asking=asking):
            apply_plan(
                table,
                plan,
                common,
                now=moment(asked["now"]),
                deleting=deleting,
            )

    return command


PLANNING_COMMANDS = tuple(map(planning_command, SERVICES.values()))
SERVICE_COMMANDS = tuple(map(service_command, SERVICES.values()))


def apply_plan(
    table: IcebergTable,
    plan: Plan,
    common: Common,
    *,
    now: datetime | None = None,
    deleting: Mapping[str, Any],
) -> None:
    """Apply a plan and print what was done; exit code 4 if a part of it failed."""
    from lakemeta.cli.progress import rewrite_bar

    # On this machine the plan's own options say how much is done at a time.
    with rewrite_bar() if common.shows_progress else nullcontext() as update:
        report = table.apply(
            plan,
            executor=common.elsewhere(),
            now=now,
            on_progress=update,
            **deleting,
        )
    finish(report, common)


def _plan(
    service: Service,
    table_url: str,
    common: Common,
    *,
    settings: tuple[str, ...],
    where: str | None,
    now: str | None,
    **flags: str | None,
) -> tuple[IcebergTable, Plan]:
    from lakemeta.iceberg import IcebergTable

    own = (f"{name}={value}" for name, value in flags.items() if value is not None)
    options, at = pairs((*settings, *own), "--set"), moment(now)
    table = IcebergTable.open(table_url, common.storage_options, on_event=common.on_event)
    plan = table.plan(service.name, options, where, now=at, executor=common.executor("reading metadata"))
    return table, plan

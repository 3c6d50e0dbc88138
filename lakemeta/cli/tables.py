"""Commands that take a table of either format: inspect, why, apply."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakemeta.cli.hudi import apply_plan
from lakemeta.cli.iceberg import apply_plan as apply_iceberg_plan
from lakemeta.cli.options import common_options, moment, pairs, planning_options
from lakemeta.cli.output import show_facts
from lakemeta.cli.page import html_option, write_table_page
from lakemeta.cli.steps import assume_single_writer_option, deletion_options
from lakemeta.errors import OptionError, UnsupportedFeatureError
from lakemeta.plan import Plan

if TYPE_CHECKING:
    from lakemeta.cli.options import Common
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable


@click.command()
@click.argument("table_url", metavar="TABLE")
@html_option
@common_options
def inspect(table_url: str, *, html: Path | None, common: Common) -> None:
    """Say what a table is and how healthy it is."""
    table, name = open_table(table_url, common)
    facts = table.inspect(executor=common.executor("reading"))
    known = {"format": name.lower(), **facts.to_json()}
    if html is not None:
        write_table_page(html, table, known, common)
    show_facts(f"{name} table {table.url}", known, common.output)


@click.command()
@click.argument("table_url", metavar="TABLE")
@click.argument("file")
@click.option("--where", metavar="EXPR", help="Iceberg: for a rewrite with this filter.")
@click.option("--service", metavar="NAME", help="Iceberg: ask this service, not the one for the kind of file.")
@planning_options
@common_options
def why(
    table_url: str,
    file: str,
    *,
    settings: tuple[str, ...],
    where: str | None,
    service: str | None,
    now: str | None,
    common: Common,
) -> None:
    """Say in one sentence why FILE of TABLE stays, or would be deleted or rewritten.

    For an Iceberg table FILE may be the id of a snapshot, and options of expire-snapshots ask that service.
    """
    from lakemeta.hudi import HudiTable

    table, _ = open_table(table_url, common)
    options = pairs(settings, "--set")
    file = _in_full(table.url, file)
    if isinstance(table, HudiTable):
        for name, given in (("where", where), ("service", service)):
            if given is not None:
                raise OptionError(f"--{name} is for Iceberg tables; leave it out for a Hudi table")
        sentence = table.why(file, options, now=moment(now))
    else:
        sentence = table.why(file, options, where, service=service, now=moment(now))
    if common.output == "text":
        click.echo(sentence)
    else:
        show_facts("", {"table": table.url, "file": file, "why": sentence}, common.output)


@click.command()
@click.argument("plan_file", metavar="PLAN.jsonl", type=click.Path(path_type=Path))
@click.option("--schedule-only", is_flag=True, help="Hudi: only write the requested clean.")
@click.option("--drop-metadata-table", is_flag=True, help="Hudi: take the table off its metadata table first.")
@click.option("--now", metavar="ISO8601", help="Iceberg: take this moment for the present that plans lie before.")
@assume_single_writer_option
@deletion_options
@common_options
def apply(
    plan_file: Path,
    *,
    schedule_only: bool,
    drop_metadata_table: bool,
    now: str | None,
    assume_single_writer: bool,
    deleting: dict[str, Any],
    common: Common,
) -> None:
    """Apply a saved plan: exactly what was planned, or a refusal. The plan was reviewed, so nothing is asked."""
    plan = _read(plan_file)
    if plan.header.plan.startswith("iceberg."):
        _refuse_hudi_flags(schedule_only=schedule_only, drop_metadata_table=drop_metadata_table)
        from lakemeta.iceberg import IcebergTable

        iceberg = IcebergTable.open(plan.header.table, common.storage_options, on_event=common.on_event)
        apply_iceberg_plan(
            iceberg,
            plan,
            common,
            now=moment(now),
            deleting=deleting,
        )
        return
    if now is not None:
        raise OptionError("--now is for Iceberg plans, which say when they were made; leave it out")
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
        deleting=deleting,
    )


def open_table(table_url: str, common: Common) -> tuple[HudiTable | IcebergTable, str]:
    """The table at a place and the name of its format; raises TableNotFoundError if it is neither Hudi nor Iceberg."""
    import lakemeta
    from lakemeta.hudi import HudiTable

    table = lakemeta.open(table_url, common.storage_options, on_event=common.on_event)
    return table, "Hudi" if isinstance(table, HudiTable) else "Iceberg"


def _in_full(table_url: str, file: str) -> str:
    """The full path of a file that is named from the working directory, as a shell completes it; others as they are."""
    if file.startswith("/") or ":" in file or "://" in table_url or Path(table_url, file).exists():
        return file
    return str(Path(file).absolute()) if Path(file).exists() else file


def _refuse_hudi_flags(**flags: bool) -> None:
    for name in (name for name, given in flags.items() if given):
        raise OptionError(f"--{name.replace('_', '-')} is for Hudi plans; leave it out for an Iceberg plan")


def _read(plan_file: Path) -> Plan:
    from lakemeta.spooled import gathered

    return Plan.load(plan_file, gathered)

"""``lakemeta demo``: real small tables of both formats, planned, explained, maintained, in a temporary folder."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lakemeta.cli.output import show_plan, show_report
from lakemeta.errors import OptionError
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable

_START: Final = datetime(2026, 8, 1, tzinfo=UTC)
_TABLES: Final = ("trips", "rides")
_OPTIONS: Final = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "1"}


@click.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Make the tables here and leave them.")
def demo(keep: Path | None) -> None:
    """Make real tables, show what a clean (Hudi) and a rewrite (Iceberg) would do, do it, show the result."""
    if keep is not None:
        taken = next((name for name in _TABLES if (keep / name).exists()), None)
        if taken is not None:
            raise OptionError(f"{keep / taken} exists already; give --keep another directory, or delete that one")
        _run(keep)
        for name in _TABLES:
            click.echo(f"\nA table is in {keep / name}: try  lakemeta inspect {keep / name}")
        return
    with tempfile.TemporaryDirectory(prefix="lakemeta-demo-") as folder:
        _run(Path(folder))


def _run(folder: Path) -> None:
    hudi, iceberg = _TABLES
    _hudi(folder / hudi)
    _iceberg(folder / iceberg)


def _hudi(place: Path) -> None:
    from lakemeta.hudi import HudiTable
    from lakemeta.hudi.sample import write_sample_table

    write_sample_table(str(place), _START)
    table = HudiTable.open(str(place))
    click.echo("1. A Hudi table of taxi trips: inserts, upserts, a savepoint, an overwrite.")
    _say(table)
    plan = table.plan_clean(_OPTIONS, explain=True)
    click.echo("\n2. What keeping the latest commit would delete, and why the rest stays:\n")
    show_plan(plan, "text", explain=True)
    click.echo("\n3. Applying exactly that plan:\n")
    show_report(table.apply(plan), "text")
    click.echo("\n4. Afterwards, and a second plan finds nothing left to do:")
    _say(table)
    show_plan(table.plan_clean(_OPTIONS), "text")


def _iceberg(place: Path) -> None:
    from lakemeta.iceberg import IcebergTable
    from lakemeta.iceberg.sample import write_sample_table

    write_sample_table(str(place), _START)
    table = IcebergTable.open(str(place))
    click.echo("\n5. An Iceberg table of taxi trips: eight small appends to three cities, and some deleted rows.")
    _say_iceberg(table)
    options = {"remove-dangling-deletes": "true"}
    plan = table.plan_rewrite_data_files(options)
    click.echo("\n6. What a rewrite of data files would put together:\n")
    show_plan(plan, "text")
    click.echo("\n7. Applying exactly that plan:\n")
    show_report(table.apply(plan), "text")
    click.echo("\n8. Afterwards, and a second plan finds nothing left to do:")
    _say_iceberg(table)
    show_plan(table.plan_rewrite_data_files(options), "text")


def _say_iceberg(table: IcebergTable) -> None:
    facts = table.inspect()
    files = f"{count_of(facts.data_files, 'data file')}, {human_bytes(facts.bytes)}"
    click.echo(f"   {files}, {count_of(facts.position_delete_files, 'position delete file')}")


def _say(table: HudiTable) -> None:
    facts = table.inspect()
    older = f"{count_of(facts.older_files, 'file')} ({human_bytes(facts.older_bytes)}) in older or replaced slices"
    click.echo(f"   {count_of(facts.files, 'file')}, {human_bytes(facts.bytes)}, of which {older}")

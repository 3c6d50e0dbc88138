"""``lakemeta demo``: a real small table, planned, explained, cleaned, in a temporary folder."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lakemeta.cli.output import show_plan, show_report
from lakemeta.summary import count_of, human_bytes

if TYPE_CHECKING:
    from lakemeta.hudi import HudiTable

_START: Final = datetime(2026, 8, 1, tzinfo=UTC)
_OPTIONS: Final = {"hoodie.clean.policy": "KEEP_LATEST_COMMITS", "hoodie.clean.commits.retained": "1"}


@click.command()
@click.option("--keep", type=click.Path(path_type=Path), help="Make the table here and leave it.")
def demo(keep: Path | None) -> None:
    """Make a real Hudi table, show what a clean would delete and why, clean it, show the result."""
    if keep is not None:
        _run(keep / "trips")
        click.echo(f"\nThe table is in {keep / 'trips'}: try  lakemeta inspect {keep / 'trips'}")
        return
    with tempfile.TemporaryDirectory(prefix="lakemeta-demo-") as folder:
        _run(Path(folder) / "trips")


def _run(place: Path) -> None:
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


def _say(table: HudiTable) -> None:
    facts = table.inspect()
    older = f"{count_of(facts.older_files, 'file')} ({human_bytes(facts.older_bytes)}) in older or replaced slices"
    click.echo(f"   {count_of(facts.files, 'file')}, {human_bytes(facts.bytes)}, of which {older}")

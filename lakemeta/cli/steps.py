"""What all commands have in common that plan, show, ask and apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Final

import click

from lakemeta.cli.output import remark, show_plan
from lakemeta.errors import OptionError

if TYPE_CHECKING:
    from lakemeta.cli.options import Common
    from lakemeta.plan import Plan

PARTLY_DONE: Final = 4
assume_single_writer_option = click.option(
    "--assume-single-writer", is_flag=True, help="Go ahead without a lock that lakemeta cannot take."
)
out_option = click.option(
    "--out", metavar="PLAN.jsonl", type=click.Path(path_type=Path), help="Save the plan to this file."
)


def present(plan: Plan, out: Path | None, common: Common, *, explain: bool = False) -> None:
    """Show a plan, and save it if a file is named; raises OptionError if that cannot be written."""
    if out is not None:
        _save(plan, out)
    show_plan(plan, common.output, explain=explain)
    if out is not None:
        remark(f"plan saved to {out}", quiet=common.quiet)


def confirm(common: Common, *, yes: bool) -> None:
    """Ask on a terminal; without one, raise OptionError unless ``--yes`` was given."""
    if yes:
        return
    if common.output != "text":
        raise OptionError(f"nothing was changed: --output {common.output} asks nobody; give --yes to go ahead")
    if not sys.stdin.isatty():
        raise OptionError("nothing was changed: there is no terminal to ask on; give --yes to go ahead")
    if not click.confirm("Go ahead?", err=True):
        click.echo("lakemeta: nothing was changed", err=True)
        raise click.exceptions.Exit(1)


def _save(plan: Plan, out: Path) -> None:
    try:
        with out.open("w", encoding="utf-8") as file:
            file.writelines(plan.to_lines())
    except OSError as error:
        raise OptionError(f"the plan cannot be written to {out}: {error.strerror}") from None

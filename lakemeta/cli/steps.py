"""What all commands have in common that plan, show, ask and apply."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from lakemeta.cli.interrupt import INTERRUPT
from lakemeta.cli.options import with_options
from lakemeta.cli.output import remark, show_plan, show_report, unheard
from lakemeta.errors import OptionError
from lakemeta.safeguards import MAX_SHARE, PROOFS, SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from lakemeta.cli.options import Common
    from lakemeta.plan import Plan
    from lakemeta.plan_operations import Delete
    from lakemeta.report import Report

F = TypeVar("F", bound="Callable[..., Any]")
PARTLY_DONE: Final = 4
INTERRUPTED: Final = 130


class ResultShownExit(SystemExit):
    """The exit of a command that has shown its whole result, what went wrong included; ``sentence`` sums it up."""

    def __init__(self, code: int, sentence: str) -> None:
        super().__init__(code)
        self.code: int = code
        self.sentence = sentence


assume_single_writer_option = click.option(
    "--assume-single-writer", is_flag=True, help="Go ahead without a lock that lakemeta cannot take."
)
yes_option = click.option("--yes", is_flag=True, help="Do not ask.")
dry_run_option = click.option("--dry-run", is_flag=True, help="Only show the plan.")
ledger_option = click.option("--ledger", metavar="DIR", help="Record what is deleted there, not beside the metadata.")
out_option = click.option(
    "--out", metavar="PLAN.jsonl", type=click.Path(path_type=Path), help="Save the plan to this file."
)


_QUARANTINE: Final = click.option(
    "--quarantine", is_flag=True, help="Move files away instead; restore brings them back."
)
_PROOF: Final = click.option(
    "--proof",
    type=click.Choice(PROOFS),
    default=SAMPLE,
    show_default=True,
    help="How much of what stays is looked up before anything is deleted.",
)
_MAX_SHARE: Final = click.option(
    "--max-share",
    type=float,
    default=MAX_SHARE,
    show_default=True,
    metavar="PERCENT",
    help="Refuse to delete more of the table's bytes than this.",
)


def deletion_options(command: F, *, bounded: bool = True) -> F:
    """Add the options of every command that deletes a table's files, passed on as ``deleting``: arguments of ``apply``.

    What is not ``bounded`` has no ``--max-share``.
    """
    options = [_QUARANTINE, ledger_option, _PROOF, *([_MAX_SHARE] if bounded else [])]
    names = ("quarantine", "ledger", "proof", *(("max_share",) if bounded else ()))

    def wrapped(*args: Any, **given: Any) -> Any:
        return command(*args, deleting={name: given.pop(name) for name in names}, **given)

    return with_options(wrapped, command, options)  # type: ignore[return-value]


def present(
    plan: Plan, out: Path | None, common: Common, *, explain: bool = False, pending: Sequence[Delete] = ()
) -> None:
    """Show a plan, and save it if a file is named; raises OptionError if that cannot be written."""
    if out is not None:
        plan.save(out)
    show_plan(plan, common.output, explain=explain, pending=pending)
    if out is not None:
        remark(f"plan saved to {out}", quiet=common.quiet)


def wants_apply(plan: Plan, common: Common, *, changes: bool, asking: str, yes: bool, dry_run: bool) -> bool:
    """Show a plan and ask before it ``changes`` the table; True if it is to be applied.

    ``asking`` is the question. A plan that changes nothing is applied only for the sake of its report, where the plan
    itself was not shown.
    """
    if dry_run:
        show_plan(plan, common.output)
        return False
    as_text = common.output == "text"
    if as_text and (not common.quiet or (changes and not yes)):
        with unheard():
            show_plan(plan, "text")
    if changes:
        confirm(common, asking, yes=yes)
    return changes or not as_text or common.quiet


def finish(report: Report, common: Common) -> None:
    """Print what was done; exit code 4 if a part of it failed."""
    with unheard():
        show_report(report, common.output)
    if not report.complete:
        sys.exit(PARTLY_DONE)


def confirm(common: Common, asking: str, *, yes: bool) -> None:
    """Ask on a terminal; without one, raise OptionError unless ``--yes`` was given."""
    if yes:
        return
    if common.output != "text":
        raise OptionError(f"nothing was changed: --output {common.output} never asks; give --yes to go ahead")
    if not sys.stdin.isatty():
        raise OptionError("nothing was changed: there is no terminal to ask on; give --yes to go ahead")
    try:
        with INTERRUPT.unannounced():
            said = click.confirm(asking, err=True)
    except click.Abort:  # Ctrl-C, or the end of input
        click.echo("\nlakemeta: nothing was changed", err=True)
        raise click.exceptions.Exit(INTERRUPTED) from None
    if not said:
        click.echo("lakemeta: nothing was changed", err=True)
        raise click.exceptions.Exit(1)

"""The ``lakemeta`` command: its groups, and how errors become one sentence and an exit code.

Exit codes: 0 done or nothing to do; 1 failed; 2 usage or configuration; 3 refused by a safety check or a stale plan,
nothing changed; 4 partly done; 5 commit state unknown, nothing deleted.
"""

from __future__ import annotations

import os
import sys

import click

from lakemeta.cli.demo import demo
from lakemeta.cli.doctor import doctor
from lakemeta.cli.hudi import clean, plan_clean
from lakemeta.cli.iceberg import PLANNING_COMMANDS, SERVICE_COMMANDS
from lakemeta.cli.interrupt import INTERRUPT
from lakemeta.cli.maintain import maintain
from lakemeta.cli.rollback import plan_rollback, rollback
from lakemeta.cli.steps import INTERRUPTED
from lakemeta.cli.tables import apply, inspect, why
from lakemeta.cli.undo import history, purge, restore
from lakemeta.errors import LakemetaError
from lakemeta.version import __version__


@click.group(context_settings={"help_option_names": ["-h", "--help"]})
@click.version_option(__version__, prog_name="lakemeta")
def cli() -> None:
    """Keep Apache Hudi and Apache Iceberg tables healthy: plan, look, apply. No JVM.

    A command shows what it would do and asks before it changes anything. Plans can be saved, reviewed and applied
    later: apply does exactly what was planned, or refuses.
    """


@cli.group()
def plan() -> None:
    """Plan a service and show the plan; nothing is changed."""


for command in (plan_clean, plan_rollback, *PLANNING_COMMANDS):
    plan.add_command(command)
for command in (
    *(apply, clean, demo, doctor, history, inspect, maintain, purge, restore, rollback, why),
    *SERVICE_COMMANDS,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit with the code that the module text names."""
    if sys.platform == "linux":  # buffers that grow are moved, not copied: a fifth of the CPU time of a rewrite
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    INTERRUPT.install()
    try:
        code = cli.main(standalone_mode=False)
    except click.exceptions.Exit as done:
        code = done.exit_code
    except click.Abort:
        click.echo("lakemeta: interrupted; run the same command again to go on", err=True)
        code = INTERRUPTED
    except click.ClickException as error:
        error.show()
        code = error.exit_code
    except LakemetaError as error:
        click.echo(f"lakemeta: {error}", err=True)
        code = error.exit_code
    except UnicodeEncodeError as error:
        name = error.object[max(0, error.start - 60) : error.end + 60]
        click.echo(f"lakemeta: {name!r} holds a name that is not UTF-8; rename or remove that file", err=True)
        code = 1
    except Exception as error:
        if "-v" in sys.argv or "--verbose" in sys.argv:
            raise
        click.echo(f"lakemeta: unexpected {type(error).__name__}: {error}; -v shows where", err=True)
        code = 1
    INTERRUPT.end()
    sys.exit(code if isinstance(code, int) else 0)

"""The ``lakemeta`` command: its groups, and how errors become one sentence and an exit code.

Exit codes: 0 done or nothing to do; 1 failed; 2 usage or configuration; 3 refused by a safety check or a stale plan,
nothing changed; 4 partly done; 5 commit state unknown, nothing deleted.
"""

from __future__ import annotations

import gc
import os
import sys

import click

from lakemeta.cli.demo import demo
from lakemeta.cli.doctor import doctor
from lakemeta.cli.failure import Failure
from lakemeta.cli.hudi import clean, plan_clean
from lakemeta.cli.iceberg import PLANNING_COMMANDS, SERVICE_COMMANDS
from lakemeta.cli.interrupt import INTERRUPT
from lakemeta.cli.maintain import maintain
from lakemeta.cli.many import run
from lakemeta.cli.option_list import completion, options
from lakemeta.cli.output import silence
from lakemeta.cli.rollback import plan_rollback, rollback
from lakemeta.cli.simulate import simulate
from lakemeta.cli.steps import INTERRUPTED, PARTLY_DONE, ResultShownExit
from lakemeta.cli.tables import apply, inspect, why
from lakemeta.cli.undo import history, purge, restore
from lakemeta.errors import LakemetaError
from lakemeta.version import __version__

_OBJECTS_A_COLLECTION = 100_000
_CODES = {
    1: "nothing was changed: the question was answered with no",
    PARTLY_DONE: "partly done: the report says what is left",
    INTERRUPTED: "interrupted; nothing was changed",
}


_EPILOG = """\b
TABLE is a directory or URL (s3://, gs://, abfss://, hdfs://), an Iceberg metadata file, or
catalog://NAME/namespace.table of a catalog that pyiceberg knows.

\b
Examples:
  lakemeta inspect s3://lake/events
  lakemeta plan clean /lake/events --set hoodie.clean.commits.retained=5 --out plan.jsonl
  lakemeta apply plan.jsonl
  lakemeta rewrite-data-files catalog://prod/db.rides --set target-file-size-bytes=128MiB
  lakemeta simulate /lake/events --set hoodie.clean.commits.retained=1,5,20
  lakemeta maintain /lake/events --yes
  lakemeta run lakemeta.toml --only '/lake/gold/**'

\b
Exit codes: 0 done or nothing to do; 1 failed; 2 usage or configuration; 3 refused by a safety
check or a stale plan, nothing changed; 4 partly done; 5 commit state unknown, nothing deleted;
130 interrupted.
"""


@click.group(context_settings={"help_option_names": ["-h", "--help"]}, epilog=_EPILOG)
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
    *(
        apply,
        clean,
        completion,
        demo,
        doctor,
        history,
        inspect,
        maintain,
        options,
        purge,
        restore,
        rollback,
        run,
        simulate,
        why,
    ),
    *SERVICE_COMMANDS,
):
    cli.add_command(command)


def main() -> None:
    """Run the command line and exit with the code that the module text names."""
    if sys.platform == "linux":  # buffers that grow are moved, not copied: a fifth of the CPU time of a rewrite
        os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")
    gc.set_threshold(_OBJECTS_A_COLLECTION, 20, 50)  # plans are many objects that live on: looking at them is in vain
    INTERRUPT.install()
    failure, printed = None, False
    try:
        code = cli.main(standalone_mode=False)
        failure = _ended(code if isinstance(code, int) else 0)
    except ResultShownExit as ended:
        failure, printed = Failure(ended.sentence, "Exit", ended.code), True
    except SystemExit as ended:
        printed = ended.code == PARTLY_DONE
        failure = _ended(ended.code if isinstance(ended.code, int) else 0)
    except click.exceptions.Exit as ended:
        failure = _ended(ended.exit_code)
    except BrokenPipeError:  # who reads has what was wanted; nothing was asked to change
        silence()
    except Exception as error:  # noqa: BLE001 - whatever it is, it becomes a sentence and an exit code
        failure = _failure(error)
    code = 0
    if failure is not None:
        code = failure.exit_code
        line = failure.publish(sys.argv[1:], printed=printed)
        if line is not None:
            click.echo(line)
    INTERRUPT.end()
    sys.exit(code)


def _ended(code: int) -> Failure | None:
    """The failure that an exit code is which a command gave itself."""
    return Failure(_CODES.get(code, "failed"), "Exit", code) if code else None


def _failure(error: Exception) -> Failure:
    """Say on stderr what went wrong, in a sentence; raises an error that was not foreseen if it is to be shown."""
    name = type(error).__name__
    if isinstance(error, click.Abort):
        sentence, code, name = "interrupted; run the same command again to go on", INTERRUPTED, "Interrupted"
    elif isinstance(error, click.ClickException):
        error.show()
        return Failure(error.format_message(), "UsageError", error.exit_code)
    elif isinstance(error, LakemetaError):
        sentence, code = str(error), error.exit_code
    elif isinstance(error, UnicodeEncodeError):
        named = error.object[max(0, error.start - 60) : error.end + 60]
        sentence, code = f"{named!r} holds a name that is not UTF-8; rename or remove that file", 1
    else:
        if "-v" in sys.argv or "--verbose" in sys.argv:
            raise error
        sentence, code = f"unexpected {name}: {error}; -v shows where", 1
    click.echo(sentence if sentence.startswith("lakemeta ") else f"lakemeta: {sentence}", err=True)
    return Failure(sentence, name, code)

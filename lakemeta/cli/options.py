"""Options that several commands share, and what is made of them."""

from __future__ import annotations

import logging
import sys
from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, TypeVar

import attrs
import click

from lakemeta.cli.interrupt import INTERRUPT
from lakemeta.cli.option_list import Setting
from lakemeta.errors import OptionError
from lakemeta.moments import utc_moment

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence
    from datetime import datetime

    from lakemeta.events import Event
    from lakemeta.executor import Executor

F = TypeVar("F", bound="Callable[..., Any]")
_TALKATIVE: Final = ("azure", "google")  # they log at length what their errors say


@attrs.frozen
class Common:
    """The options that every command takes."""

    executor_name: str
    storage_options: dict[str, str]
    output: str
    quiet: bool
    run_log: Path | None = None
    spark_master: str | None = None
    spark_conf: dict[str, str] = attrs.field(factory=dict)
    measure: Callable[[Event], None] | None = None

    def on_event(self, event: Event) -> None:
        """Measure an event and append it to the run log, if asked for; raises OptionError if that cannot be written."""
        if self.measure is not None:
            self.measure(event)
        if self.run_log is None:
            return
        try:
            with self.run_log.open("a", encoding="utf-8") as log:
                log.write(event.to_json_line())
        except OSError as error:
            raise OptionError(f"the run log {self.run_log} cannot be written: {error.strerror}") from None

    def executor(self, title: str, threads: int | None = None) -> Executor:
        """The executor asked for, on this machine with so many threads; it shows progress if stderr is a terminal."""
        from lakemeta.cli.progress import ProgressExecutor

        inner = self.elsewhere() or self._local(threads)
        return ProgressExecutor(inner, title) if self.shows_progress else inner

    @property
    def shows_progress(self) -> bool:
        """True if a person watches: stderr is a terminal and neither quiet nor lines for a program were asked for."""
        return not self.quiet and self.output != "jsonl" and sys.stderr.isatty()

    def _local(self, threads: int | None) -> Executor:
        from lakemeta.executor import LocalExecutor

        if self.spark_master or self.spark_conf:
            raise OptionError("--spark-master and --spark-conf belong to --executor spark")
        return LocalExecutor(threads)

    def elsewhere(self) -> Executor | None:
        """The one executor of this command, None for this machine; what it has started is stopped with the command."""
        if self.executor_name == "local":
            return None
        context = click.get_current_context()
        made: Executor | None = context.meta.get(__name__)
        if made is None:
            made = context.meta[__name__] = make_executor(self.executor_name, self.spark_master, self.spark_conf)
            if isinstance(made, AbstractContextManager):
                context.with_resource(made)
        return made


def common_options(command: F) -> F:
    """Add the options that every command takes, passed on as ``common``."""
    options = [
        click.option("--executor", "executor_name", default="local", show_default=True, help="local or spark."),
        click.option("--spark-master", metavar="URL", help="Of --executor spark, where spark-submit gives none."),
        click.option("--spark-conf", multiple=True, metavar="K=V", help="A setting of --executor spark."),
        click.option("--storage-option", "storage", multiple=True, metavar="K=V", help="Passed to the storage."),
        click.option(
            "--output",
            type=click.Choice(["text", "json", "jsonl"]),
            default="text",
            show_default=True,
            help="Form of the result on stdout.",
        ),
        click.option(
            "--log", "run_log", type=click.Path(path_type=Path), metavar="FILE", help="Append events as JSON lines."
        ),
        click.option("-q", "--quiet", is_flag=True, help="No progress and no remarks on stderr."),
        click.option("-v", "--verbose", is_flag=True, help="Log to stderr; show where an error came from."),
    ]

    def wrapped(
        *args: Any,
        executor_name: str,
        spark_master: str | None,
        spark_conf: tuple[str, ...],
        storage: tuple[str, ...],
        output: str,
        run_log: Path | None,
        quiet: bool,
        verbose: bool,
        **rest: Any,
    ) -> Any:
        INTERRUPT.quiet = quiet
        if verbose:
            logging.basicConfig(level=logging.INFO, stream=sys.stderr, format="%(name)s: %(message)s")
        else:
            for library in _TALKATIVE:
                logging.getLogger(library).addHandler(logging.NullHandler())
        common = Common(
            executor_name,
            pairs(storage, "--storage-option"),
            output,
            quiet,
            run_log,
            spark_master,
            pairs(spark_conf, "--spark-conf"),
            _measured(),
        )
        return command(*args, common=common, **rest)

    return with_options(wrapped, command, options)  # type: ignore[return-value]


def _measured() -> Callable[[Event], None] | None:
    """What measures events, if the environment asks for it; what it has measured is sent when the command ends."""
    from lakemeta.cli.metrics import start

    started = start()
    if started is None:
        return None
    listener, end = started
    click.get_current_context().call_on_close(end)
    return listener


def with_options(
    wrapped: Callable[..., Any], command: Callable[..., Any], options: Sequence[Any]
) -> Callable[..., Any]:
    """What stands for a command, with its name, its text and its options, and these options before them."""
    wrapped.__name__, wrapped.__doc__ = command.__name__, command.__doc__
    if hasattr(command, "__click_params__"):
        wrapped.__click_params__ = command.__click_params__  # type: ignore[attr-defined]
    for option in reversed(options):
        wrapped = option(wrapped)
    return wrapped


def planning_options(command: F) -> F:
    """Add the options of every command that plans: ``--set`` and ``--now``."""
    command = click.option("--now", metavar="ISO8601", help="Plan for this moment instead of the present.")(command)
    return setting_option(command)


def setting_option(command: F) -> F:
    """Add ``--set``."""
    what = "An option of the service; lakemeta options lists them."
    return click.option("--set", "settings", type=Setting(), multiple=True, metavar="KEY=VALUE", help=what)(command)


def pairs(values: Iterable[str], flag: str) -> dict[str, str]:
    """KEY=VALUE arguments as a dict; raises OptionError for one that is none."""
    found: dict[str, str] = {}
    for value in values:
        key, separator, text = value.partition("=")
        if not separator or not key:
            raise OptionError(f"{flag} {value} is not KEY=VALUE")
        if found.setdefault(key, text) != text:
            raise OptionError(f"{flag} {key} is given twice with different values; give it once")
    return found


def moment(text: str | None) -> datetime | None:
    """An ISO 8601 time, taken as UTC if it names no offset; raises OptionError for anything else."""
    if text is None:
        return None
    try:
        return utc_moment(text)
    except ValueError:
        raise OptionError(f"--now {text} is no ISO 8601 time; write it as 2026-08-01T10:00:00Z") from None


def make_executor(name: str, spark_master: str | None = None, spark_conf: Mapping[str, str] | None = None) -> Executor:
    """The executor of this name that an installed package offers (entry points ``lakemeta.executors``).

    What is offered is a function of a master URL (or None) and settings.
    """
    from importlib.metadata import entry_points

    found = {entry.name: entry for entry in entry_points(group="lakemeta.executors")}
    if name not in found:
        raise OptionError(f"there is no executor {name}; known are {', '.join(['local', *sorted(found)])}")
    try:
        make = found[name].load()
    except ImportError as error:
        raise OptionError(f"--executor {name} cannot be loaded: {error}; pip install 'lakemeta[{name}]'") from error
    executor: Executor = make(spark_master, spark_conf or {})
    return executor

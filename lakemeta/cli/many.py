"""``lakemeta run``: the maintenance of many tables, as a file says it."""

from __future__ import annotations

import os
from contextlib import nullcontext
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click

from lakemeta.cli.maintain import steps_of
from lakemeta.cli.many_text import show_line, show_rows
from lakemeta.cli.option_list import option_tables
from lakemeta.cli.options import common_options
from lakemeta.cli.output import remark, unheard
from lakemeta.cli.steps import ResultShownExit, yes_option
from lakemeta.environment import utc_now
from lakemeta.errors import OptionError
from lakemeta.moments import epoch_ms
from lakemeta.paths import CATALOG
from lakemeta.safeguards import MAX_SHARE, SAMPLE

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.cli.options import Common
    from lakemeta.executor import Executor
    from lakemeta.fleet.config import Config
    from lakemeta.fleet.discovery import Found
    from lakemeta.fleet.part import Part
    from lakemeta.fleet.visiting import Opened


@click.command("run")
@click.argument("file", metavar="CONFIG.toml", type=click.Path(path_type=Path))
@yes_option
@click.option("--only", metavar="GLOB", help="Only tables that this takes.")
@click.option("--all", "everything", is_flag=True, help="Also tables that are not due.")
@click.option("--restart", is_flag=True, help="Do not go on with a run that was interrupted.")
@common_options
def run(file: Path, *, yes: bool, only: str | None, everything: bool, restart: bool, common: Common) -> None:
    """Show what is due of all tables that a file names; with --yes, do it.

    A table that is refused or broken is one line, and the others are done. The exit code is the worst of them, in the
    order 5, 1, 3, 4, 2, 0.
    """
    from lakemeta.fleet.config import Surroundings, parse_config
    from lakemeta.fleet.journal import Journal
    from lakemeta.fleet.place_globs import PlaceGlob
    from lakemeta.fleet.running import Run
    from lakemeta.fleet.selection import Asked, select
    from lakemeta.fleet.visiting import worst

    text, now_ms = _read(file), epoch_ms(utc_now())
    absolute = partial(_absolute, file.absolute().parent)
    around = Surroundings(known_options(), now_ms, absolute, lambda name: _read(file.absolute().parent / name))
    config = parse_config(text, str(file), around)
    for note in config.notes:
        remark(f"note: {note}", quiet=common.quiet)
    glob = PlaceGlob.of(_absolute(Path.cwd(), only)) if only is not None else None
    asked = Asked(text, glob, everything=everything, apply=yes)
    journal = Journal(file.absolute().with_suffix(".state.jsonl"))
    opening = partial(_open, config, common, common.elsewhere())
    with journal.held() if yes else nullcontext():
        memory = journal.load().restarted() if restart else journal.load()
        found = _found(config, common)
        if glob is not None and not any(glob.matches(table.url) for table in found):
            raise OptionError(f"--only {only} takes none of the tables of {file}; check it")
        selection = select(found, config, memory, asked, now_ms)
        earlier = () if selection.resumed is None else selection.resumed.visits
        if selection.resumed is not None:
            wrong = sum(visit.code != 0 for visit in earlier)
            said = f"{len(selection.resumed.done):,} of its tables are done, {wrong:,} of them not well"
            remark(f"going on with an interrupted run: {said}", quiet=common.quiet)
        rows = []
        for row in Run(config, selection, memory, asked, journal, opening).rows():
            rows.append(row)
            so_far = f"{len(rows):,} of {len(selection.tables) + len(selection.broken):,}: {row.table}"
            remark(so_far, quiet=not common.shows_progress)
            if common.output == "jsonl":
                with unheard():
                    show_line(row)
    if common.output != "jsonl":
        with unheard():
            show_rows(rows, selection.resting, common.output, applied=yes)
    if code := worst([row.code for row in rows] + [visit.code for visit in earlier]):
        raise ResultShownExit(code, "not every table was done; each says why")


def _found(config: Config, common: Common) -> tuple[Found, ...]:
    from lakemeta.fleet.discovery import find_tables
    from lakemeta.iceberg.catalogs.pyiceberg_catalog import tables_of_catalog

    return find_tables(config.tables, partial(_options_of, config, common), tables_of_catalog)


def _options_of(config: Config, common: Common, url: str) -> dict[str, str]:
    """The storage options of a URL, those of the command line on top; a local path takes none."""
    return {**config.options_of(url), **common.storage_options} if "://" in url else {}


def _open(config: Config, common: Common, executor: Executor | None, url: str, part: Part) -> Opened:
    """A table with the steps that the file asks for, of its own services in the order that is wanted."""
    import lakemeta
    from lakemeta.fleet.visiting import Opened
    from lakemeta.hudi import HudiTable
    from lakemeta.hudi.duties import DUTIES as OF_HUDI
    from lakemeta.iceberg.duties import DUTIES as OF_ICEBERG

    table = lakemeta.open(url, _options_of(config, common, url), on_event=common.on_event)
    is_hudi = isinstance(table, HudiTable)
    services = [duty.service for duty in (OF_HUDI if is_hudi else OF_ICEBERG)]
    order = part.order(services)
    steps = steps_of(
        table,
        executor,
        assume_single_writer=is_hudi and part.assume_single_writer is True,
        settings=part.settings_of(services),
        at_least={service: str(least) for service, least in part.at_least.items() if service in services},
        skip=[service for service in services if service not in order],
        quarantine=part.quarantine is True,
        proof=SAMPLE if part.proof is None else part.proof,
        max_share=MAX_SHARE if part.max_share is None else part.max_share,
    )
    ordered = tuple(sorted(steps, key=lambda step: order.index(step.duty.service)))
    return Opened("Hudi" if is_hudi else "Iceberg", ordered)


def known_options() -> dict[str, Mapping[str, str]]:
    """By service of maintenance, the primary name of each spelling of its options."""
    from lakemeta.hudi.duties import DUTIES as OF_HUDI
    from lakemeta.iceberg.duties import DUTIES as OF_ICEBERG

    tables = option_tables()
    return {duty.service: _spellings(tables[duty.service]) for duty in (*OF_ICEBERG, *OF_HUDI)}


def _spellings(options: Iterable[Any]) -> dict[str, str]:
    older = {option.older: option.name for option in options if option.older}
    return {**older, **{option.name: option.name for option in options}}


def _absolute(folder: Path, glob: str) -> str:
    """A glob of local paths from the directory of the file that it stands in; URLs are as they are."""
    if "://" in glob or glob.startswith(("file:", CATALOG)) or not glob:
        return glob
    return os.path.normpath(folder / os.path.expanduser(glob))  # noqa: PTH111 - a glob is no path


def _read(path: Path) -> str:
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise OptionError(f"{path} cannot be read: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise OptionError(f"{path} is not UTF-8; save it as UTF-8") from None

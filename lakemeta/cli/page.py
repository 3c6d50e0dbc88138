"""``--html``: what a command shows, as a page to look at (I/O)."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import click

from lakemeta.cli.output import remark
from lakemeta.cli.phrases import name_of, value_of
from lakemeta.words import count_of, human_bytes

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.cli.options import Common
    from lakemeta.finding import Findings
    from lakemeta.hudi import HudiTable
    from lakemeta.iceberg import IcebergTable
    from lakemeta.page.survey import Survey
    from lakemeta.plan import Plan
    from lakemeta.simulation import Simulation

    Table = HudiTable | IcebergTable

_HIDDEN: Final = ("timeline_digest", "pending_deletes", "now_ms")


def _free(_: click.Context, __: click.Parameter, path: Path | None) -> Path | None:
    """Look before anything is planned whether a page may be written there."""
    if path is not None:
        from lakemeta.page.writing import check_place

        check_place(path)
    return path


html_option = click.option(
    "--html",
    metavar="FILE",
    type=click.Path(path_type=Path),
    callback=_free,
    help="Also write a page to look at, in place of an earlier one.",
)


def write_table_page(path: Path, table: Table, facts: Mapping[str, Any], common: Common) -> None:
    """The page of ``inspect``."""
    from lakemeta.page.content import of_table

    _write(path, of_table(table.url, _pairs(facts), _survey(table, common)), common)


def write_plan_page(path: Path, table: Table, plan: Plan, common: Common) -> None:
    """The page of ``plan``."""
    from lakemeta.page.content import of_plan, wanted

    header = plan.header
    files, size = plan.changed
    facts = {name: value for name, value in header.facts.items() if value}
    chosen = [("files that change", f"{files:,}"), ("bytes that change", human_bytes(size)), *_pairs(facts)]
    chosen += [(f"option {name}", value) for name, value in header.options.items()]
    survey = _survey(table, common, wanted(plan))
    _write(path, of_plan(f"{header.plan} of {header.table}", chosen, survey, plan), common)


def write_findings_page(path: Path, table: Table, findings: Findings, common: Common) -> None:
    """The page of ``doctor``."""
    from lakemeta.page.content import of_findings

    facts = [("findings", f"{len(findings):,}")]
    _write(path, of_findings(f"Doctor: {table.url}", facts, _survey(table, common), findings), common)


def write_simulation_page(path: Path, table: Table, done: Simulation, common: Common) -> None:
    """The page of ``simulate``."""
    from lakemeta.page.content import of_simulation

    facts = [("option", done.option), ("values", count_of(len(done.outcomes), "value"))]
    title = f"What if: {done.service} of {done.table}"
    _write(path, of_simulation(title, facts, _survey(table, common), done), common)


def _survey(table: Table, common: Common, wanted: frozenset[str] = frozenset()) -> Survey:
    from lakemeta.hudi import HudiTable

    if isinstance(table, HudiTable):
        return table.survey(executor=common.executor("surveying", table.planning_threads))
    return table.survey(wanted, executor=common.executor("surveying"))


def _pairs(facts: Mapping[str, Any]) -> list[tuple[str, str]]:
    return [(name_of(name), value_of(name, value)) for name, value in facts.items() if name not in _HIDDEN]


def _write(path: Path, content: Mapping[str, Any], common: Common) -> None:
    from lakemeta.page.writing import write_page

    write_page(path, content)
    remark(f"page saved to {path}", quiet=common.quiet)

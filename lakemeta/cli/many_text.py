"""What a run over many tables shows: one table for a person, a line for each table for a program."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import click

from lakemeta.cli.output import show_facts, table
from lakemeta.words import count_of, human_bytes, some

if TYPE_CHECKING:
    from collections.abc import Sequence

    from lakemeta.fleet.visiting import Row

_HEADS = ("table", "format", "services", "files", "bytes", "freed", "result")
_NUMBERS = ("files", "bytes", "freed")


def show_line(row: Row) -> None:
    """Print one table as a line of JSON."""
    click.echo(json.dumps(row.to_json(), ensure_ascii=False))


def show_rows(rows: Sequence[Row], resting: Sequence[str], output: str, *, applied: bool) -> None:
    """Print all tables and what they come to; ``resting`` are those that are not due."""
    files, size, freed = (sum(getattr(row, name) for row in rows) for name in ("files", "bytes", "freed"))
    if output == "json":
        totals = {"files": files, "bytes": size, "freed_bytes": freed}
        show_facts("", {"tables": [row.to_json() for row in rows], "not_due": list(resting), **totals}, "json")
        return
    if rows:
        table("", _HEADS, [_cells(row, applied=applied) for row in rows], _NUMBERS)
    wrong, left = sum(row.code != 0 for row in rows), sum(bool(row.left) for row in rows)
    said = [count_of(len(rows), "table"), count_of(files, "file"), human_bytes(size)]
    said += [f"{human_bytes(freed)} freed"] if applied else []
    said += [f"{wrong:,} not well"] if wrong else []
    said += [f"{left:,} with services left for want of budget"] if left else []
    click.echo(f"Total: {', '.join(said)}")
    if resting:
        click.echo(f"{count_of(len(resting), 'more table is', 'more tables are')} not due; --all visits them too.")
    if not applied:
        click.echo("Nothing was changed: --yes does what is due.")


def _cells(row: Row, *, applied: bool) -> tuple[str, ...]:
    begun = [f"{service.name} ({count_of(service.gain, service.unit)})" for service in row.begun]
    freed = human_bytes(row.freed) if applied else ""
    services = ", ".join(begun) or "none due"
    return (
        row.table,
        row.format or "",
        services,
        f"{row.files:,}",
        human_bytes(row.bytes),
        freed,
        _result(row, applied=applied),
    )


def _result(row: Row, *, applied: bool) -> str:
    """The sentence of what went wrong, what is left, or that all is well."""
    if row.error is not None:
        return row.error
    if row.code:
        return "partly done; the same run again takes up the rest"
    if row.left:
        return f"left: {some([f'{service.name} ({service.left})' for service in row.left], 2)}"
    return "done" if applied and row.begun else "due" if row.begun else "nothing to do"

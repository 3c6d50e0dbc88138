"""Results on stdout, as text for a person or as JSON for a program."""

from __future__ import annotations

import json
import os
import sys
from collections.abc import Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import click

from lakemeta.cli.phrases import dated, middle_cut, name_of, value_of
from lakemeta.cli.report_text import report_lines
from lakemeta.plan_operations import Delete, DeletePartition, Keep, operation_to_json
from lakemeta.safeguards import percent
from lakemeta.words import count_of, human_bytes, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Mapping

    from rich.console import Console

    from lakemeta.plan import Plan
    from lakemeta.plan_operations import Operation
    from lakemeta.report import Report

_ROWS: Final = 40
_WORK: Final = ("failed_writes", "pending_cleans", "metadata_rollbacks")  # facts of what is done beyond operations
_OF_METADATA: Final = ("manifest", "manifest_list", "statistics_file")  # not in a table's bytes
_GOING: Final = ("delete", "drop", "expire", "remove")
_COMFORTABLE: Final = 120  # columns in which paths have room
_WIDE: Final = 10_000  # a pipe has no width: never cut a path


def silence() -> None:
    """Print nothing on stdout any more."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, sys.stdout.fileno())
    os.close(nowhere)


@contextmanager
def unheard() -> Iterator[None]:
    """Print while there is work to do: if whoever read stdout has gone (``| head -1``), the work goes on in silence."""
    try:
        yield
        sys.stdout.flush()
    except BrokenPipeError:
        silence()


def show_plan(plan: Plan, output: str, *, explain: bool = False, pending: Sequence[Delete] = ()) -> None:
    """Print a plan: a summary (every file with ``explain``), one JSON object, or the plan file's lines.

    ``pending`` are the files of pending cleans, for ``explain``.
    """
    if output == "jsonl":
        sys.stdout.writelines(plan.to_lines())
    elif output == "json":
        totals = {"files": plan.files, "bytes": plan.bytes}
        _json({**plan.header.to_json(), "operations": plan.operations, **totals})
    else:
        _plan_text(plan, pending if explain else None)


def show_report(report: Report, output: str) -> None:
    """Print a report: sentences, or one JSON object."""
    if output == "text":
        _report_text(report)
    elif output == "json":
        _json(report.fields())
    else:
        _json(report.fields(), indent=None)


def show_scheduled(table: str, instant: str | None, output: str) -> None:
    """Print the instant of a clean that was only requested."""
    if output == "text":
        click.echo(f"requested clean {instant}" if instant else "Nothing to do.")
    else:
        show_facts("", {"table": table, "requested_clean": instant}, output)


def show_facts(title: str, facts: Mapping[str, Any], output: str) -> None:
    """Print facts: a table of names and values, or one JSON object."""
    if output == "json":
        _json(facts)
    elif output == "jsonl":
        click.echo(json.dumps(facts, ensure_ascii=False))
    else:
        table(title, ("fact", "value"), [(name_of(name), value_of(name, v)) for name, v in facts.items()])


def table(title: str, heads: Sequence[str], rows: Iterable[Sequence[Any]], numbers: Sequence[str] = ()) -> None:
    """Print a table; columns named in ``numbers`` are set to the right. Cells are texts, or what rich draws."""
    from rich import box
    from rich.table import Table

    console = _console()
    grid = Table(box=box.SIMPLE_HEAD)
    for head in heads:
        grid.add_column(head, justify="right" if head in numbers else "left", overflow="fold")
    narrow = sys.stdout.isatty() and console.width < _COMFORTABLE
    for row in rows:
        cells = zip(heads, row, strict=True)
        cut = [middle_cut(cell, console.width // 2) if narrow and head == "path" else cell for head, cell in cells]
        grid.add_row(*cut, style=_style(row[heads.index("action")]) if "action" in heads else None)
    if title:
        click.echo(title)
    console.print(grid)


def _console() -> Console:
    from rich.console import Console

    class _Console(Console):
        def on_broken_pipe(self) -> None:
            """Leave it to the command: rich itself would end the process."""
            raise BrokenPipeError

    # Without a terminal the width is not known; lines must not be folded for a program. Paths may look like markup.
    width = None if sys.stdout.isatty() else _WIDE
    return _Console(file=sys.stdout, highlight=False, markup=False, emoji=False, width=width)


def _style(action: str) -> str | None:
    """The colour of a row, which only terminals show."""
    return "green" if action == "keep" else "red" if action.startswith(_GOING) else None


def remark(text: str, *, quiet: bool) -> None:
    """Print a remark on stderr, unless remarks are not wanted."""
    if not quiet:
        click.echo(text, err=True)


def _plan_text(plan: Plan, pending: Sequence[Delete] | None) -> None:
    """A summary, or every file if those of ``pending`` cleans are given too."""
    facts = plan.header.facts
    click.echo(f"{plan.header.plan} of {plan.header.table} (format version {plan.header.table_format_version})")
    for name in ("scope", "earliest_to_retain", "snapshot_id", *_WORK):
        if facts.get(name):
            reason = f" ({facts['scope_reason']})" if name == "scope" and facts.get("scope_reason") else ""
            click.echo(f"  {name_of(name)}: {value_of(name, facts[name])}{reason}")
    for note in facts.get("notes", ()):
        click.echo(f"  note: {note}")
    files, size = plan.changed
    if plan.is_empty and not files and pending is None:
        if not any(map(facts.get, _WORK)):
            click.echo("Nothing to do.")
        return
    if pending is None:
        _summary(plan)
    else:
        _every_file([*pending, *plan.operations])
    folders = len(plan.dropped_partitions())
    dropped = f" and {count_of(folders, 'directory', 'directories')}" if folders else ""
    click.echo(f"Total: {count_of(files, 'file')}{dropped}, {human_bytes(size)}")
    if facts.get("table_bytes") and plan.files:
        going = sum(row.bytes for row in plan.summary() if row.action == "delete" and row.reason not in _OF_METADATA)
        click.echo(f"Share: {percent(going, facts['table_bytes'])} of {human_bytes(facts['table_bytes'])} in all")
    if "wholly_matching_files" in facts:
        click.echo(f"Filter: {_matching(facts['wholly_matching_files'], facts['possibly_matching_files'])}")


def _matching(whole: int, others: int) -> str:
    if not others:
        return f"all rows of {count_of(whole, 'file')} match"
    partly = f"some rows of {count_of(others, 'file')} may not match; whole files are rewritten"
    return f"all rows of {count_of(whole, 'file')} match, {partly}" if whole else partly


def _summary(plan: Plan) -> None:
    rows = plan.summary()
    cells = [(r.partition or "(table)", r.action, spaced(r.reason), f"{r.files:,}", human_bytes(r.bytes)) for r in rows]
    table("", ("partition", "action", "reason", "files", "bytes"), cells[:_ROWS], ("files", "bytes"))
    if len(rows) > _ROWS:
        click.echo(f"... and {len(rows) - _ROWS:,} more rows; --output jsonl shows every file")


def _every_file(operations: Iterable[Operation]) -> None:
    cells = [
        (op.op.replace("_", " "), op.path, human_bytes(getattr(op, "size", 0)), spaced(op.reason), dated(op.by or ""))
        for op in operations
        if isinstance(op, Delete | Keep | DeletePartition)
    ]
    table("", ("action", "path", "bytes", "reason", "by"), cells, ("bytes",))


def _report_text(report: Report) -> None:
    did_nothing = report.committed is None and report.ledger is None and not report.deleted_files + report.absent_files
    if did_nothing and report.complete:
        click.echo("Nothing to do.")
        for note in report.notes:
            click.echo(f"note: {note}")
        return
    for line in report_lines(report):
        click.echo(line)
    for outcome in report.failed:
        click.secho(f"  NOT deleted: {outcome.path}: {outcome.error}", fg=None if "NO_COLOR" in os.environ else "red")


def _json(value: Any, indent: int | None = 2) -> None:
    """Print one JSON value, piece by piece: plans and reports may name millions of files."""
    sys.stdout.writelines(json.JSONEncoder(ensure_ascii=False, indent=indent, default=_encodable).iterencode(value))
    click.echo()


def _encodable(value: Any) -> Any:
    return _Many(value) if isinstance(value, Sequence) else operation_to_json(value)


class _Many(list[Any]):
    """A sequence that need not be in memory, as a list that the encoder takes piece by piece."""

    def __init__(self, items: Sequence[Any]) -> None:
        super().__init__()
        self.items = items

    def __len__(self) -> int:
        return len(self.items)

    def __iter__(self) -> Iterator[Any]:
        return iter(self.items)

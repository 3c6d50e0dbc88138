"""Plans and reports for a person: totals by partition and reason, sizes in words, HTML for notebooks."""

from __future__ import annotations

from collections import defaultdict
from html import escape
from typing import TYPE_CHECKING, Final

import attrs

from lakemeta.plan import Delete, DeletePartition, Expire, Keep, Rewrite

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from lakemeta.plan import Plan
    from lakemeta.report import Report

_UNITS: Final = ("B", "KiB", "MiB", "GiB", "TiB", "PiB")
_SHOWN: Final = 20


@attrs.frozen(slots=True)
class SummaryRow:
    """What a plan does for one reason in one partition: number of files and their bytes."""

    partition: str
    action: str
    reason: str
    files: int
    bytes: int


def summarise(plan: Plan) -> list[SummaryRow]:
    """The operations of a plan added up by partition, action and reason, in plan order."""
    totals: dict[tuple[str, str, str], list[int]] = defaultdict(lambda: [0, 0])
    for op in plan.operations:
        key, files, size = _entry(op)
        totals[key][0] += files
        totals[key][1] += size
    return [SummaryRow(*key, *counts) for key, counts in totals.items()]


def human_bytes(size: int) -> str:
    """A size in words: ``1.5 MiB``; below 1 KiB in bytes."""
    value = float(size)
    for unit in _UNITS:
        if value < 1024 or unit == _UNITS[-1]:
            return f"{size} B" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1024
    raise AssertionError("unreachable")


def count_of(number: int, noun: str) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {noun}" if number == 1 else f"{number:,} {noun}s"


def plan_html(plan: Plan) -> str:
    """A plan as an HTML table for notebooks, at most 20 rows and a total."""
    rows = summarise(plan)
    cells = [(r.partition or "(table)", r.action, r.reason, str(r.files), human_bytes(r.bytes)) for r in rows]
    title = f"{plan.header.plan} of {plan.header.table}: {count_of(plan.files, 'file')}, {human_bytes(plan.bytes)}"
    return _table(title, ("partition", "action", "reason", "files", "bytes"), cells)


def report_html(report: Report) -> str:
    """A report as an HTML table for notebooks."""
    facts = {k: v for k, v in report.to_json().items() if k not in ("notes", "failed", "version")}
    cells = [(key, str(value)) for key, value in facts.items()]
    return _table(f"{report.plan} of {report.table}", ("field", "value"), cells)


def _table(title: str, heads: Sequence[str], rows: Sequence[Iterable[str]]) -> str:
    head = "".join(f"<th>{escape(h)}</th>" for h in heads)
    body = "".join("<tr>" + "".join(f"<td>{escape(c)}</td>" for c in row) + "</tr>" for row in rows[:_SHOWN])
    more = f"<p>and {len(rows) - _SHOWN} more rows</p>" if len(rows) > _SHOWN else ""
    return f"<p>{escape(title)}</p><table><tr>{head}</tr>{body}</table>{more}"


def _matching(op: Rewrite) -> str:
    if op.wholly_matching is None:
        return ""
    return "; all rows match" if op.wholly_matching == len(op.inputs) else "; some rows may not match"


def _entry(op: object) -> tuple[tuple[str, str, str], int, int]:
    if isinstance(op, Delete | Keep):
        return (op.partition, op.op, op.reason), 1, op.size
    if isinstance(op, DeletePartition):
        return (op.partition, "drop directory", op.reason), 0, 0
    if isinstance(op, Rewrite):
        partition = "/".join(f"{k}={v}" for k, v in op.partition.items())
        return (
            (partition, op.op, f"into {count_of(op.expected_outputs, 'file')}{_matching(op)}"),
            len(op.inputs),
            op.bytes,
        )
    assert isinstance(op, Expire)
    return (op.kind, op.op, op.reason), 1, 0

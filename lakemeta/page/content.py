"""What a page holds, as values for JSON: of a plan, of a simulation, of a table alone.

Rules of this module:

1. Operations are columns, and texts that repeat are numbers into a list of texts: a plan may name 100,000 files.
2. Sizes after a plan are the sizes now, without the files that go or are rewritten, and with the files that a rewrite
   is expected to make, each of an equal part of its bytes. They are left out where the files of a plan are not among
   those of the survey, as the files of old snapshots are not.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from typing import TYPE_CHECKING, Any, Final

from lakemeta.page.survey import bin_of
from lakemeta.plan_operations import Delete, Expire, Rewrite, RewriteManifests
from lakemeta.words import count_of, spaced

if TYPE_CHECKING:
    from collections.abc import Iterable, Iterator, Sequence

    from lakemeta.finding import Finding
    from lakemeta.page.survey import Survey
    from lakemeta.plan import Plan
    from lakemeta.plan_operations import Operation
    from lakemeta.simulation import Simulation

Row = tuple[str, str, str, int, str, str]  # action, partition, what, size (-1: not known), reason, by
_CODED: Final = (0, 1, 4, 5)


def of_table(title: str, facts: Sequence[tuple[str, str]], survey: Survey) -> dict[str, Any]:
    """A table as it is.

    A partition is its name, files, bytes, and those that go; a moment its name, time, action, files, bytes, its names,
    and 1 if it expires, 2 if it is older than what can be read in whole.
    """
    found = survey.counts
    partitions = [[name, files, found.bytes[name], 0, 0] for name, files in found.files.items()]
    moments = [[m.name, m.ms, m.what, m.files, m.bytes, " ".join(m.names), 0] for m in survey.moments]
    return {
        "title": title,
        "facts": [list(fact) for fact in facts],
        "sizes": {"now": _bins(found.bins)},
        "partitions": partitions,
        "moments": moments,
        "holds": survey.holds,
    }


def of_plan(title: str, facts: Sequence[tuple[str, str]], survey: Survey, plan: Plan) -> dict[str, Any]:
    """A plan, and the table that it is of."""
    content = of_table(title, facts, survey)
    content["operations"] = _columns(row for op in plan.operations for row in _rows(op, survey.counts.sizes))
    content["sizes"].update(_sizes(survey, plan))
    going = _going(plan)
    content["partitions"] = [[*row[:3], *going.pop(row[0], (0, 0))] for row in content["partitions"]]
    content["partitions"] += [[name, 0, 0, *counts] for name, counts in going.items()]
    expired = {str(op.snapshot_id) for op in plan.operations if isinstance(op, Expire)}
    before, kept = plan.header.facts.get("earliest_to_retain") or "", plan.header.facts.get("savepoints", ())
    for row in content["moments"]:
        past = row[1] is None and row[3] and row[0] < before and row[0] not in kept
        row[6] = 1 if row[0] in expired else 2 if past else 0
    return content


def of_simulation(title: str, facts: Sequence[tuple[str, str]], survey: Survey, done: Simulation) -> dict[str, Any]:
    """The outcomes of a simulation, and the table that it is of."""
    outcomes = [outcome.to_json() for outcome in done.outcomes]
    return {**of_table(title, facts, survey), "option": done.option, "outcomes": outcomes}


def of_findings(
    title: str, facts: Sequence[tuple[str, str]], survey: Survey, findings: Sequence[Finding]
) -> dict[str, Any]:
    """What is wrong with a table, and the table."""
    said = [[finding.severity, finding.sentence] for finding in findings]
    return {**of_table(title, facts, survey), "findings": said}


def wanted(plan: Plan) -> frozenset[str]:
    """The paths of the files that a plan rewrites, as it names them: their sizes are not in the plan."""
    if Rewrite not in plan.kinds:
        return frozenset()
    return frozenset(path for op in plan.operations if isinstance(op, Rewrite) for path in op.inputs)


def _rows(op: Operation, sizes: dict[str, int]) -> Iterator[Row]:
    (partition, action, reason), _, size = op.counted
    if isinstance(op, Rewrite):
        why = f"group {op.group}, {count_of(len(op.inputs), 'file')} {reason}"
        yield from (("rewrite", partition, path, sizes.get(path, -1), why, "") for path in op.inputs)
    elif isinstance(op, RewriteManifests):
        yield from (("rewrite", partition, path, -1, f"{action} {reason}", "") for path in op.inputs)
    else:
        named = getattr(op, "path", None)
        known = size if hasattr(op, "size") else -1
        by = getattr(op, "by", None) or ""
        yield spaced(op.op), partition, action if named is None else named, known, spaced(reason), by


def _columns(rows: Iterable[Row]) -> dict[str, Any]:
    texts: dict[str, int] = {}
    columns: list[list[Any]] = [[], [], [], [], [], []]
    for row in rows:
        for place, column in enumerate(columns):
            value = row[place]
            column.append(texts.setdefault(str(value), len(texts)) if place in _CODED else value)
    return {"texts": list(texts), "columns": columns}


def _sizes(survey: Survey, plan: Plan) -> dict[str, Any]:
    """The sizes after the plan (rule 2), and of the files that go."""
    gone = Counter(bin_of(op.size) for op in plan.operations if isinstance(op, Delete))
    made = Counter[int]()
    for op in plan.operations:
        if isinstance(op, Rewrite):
            inputs = [survey.counts.sizes[path] for path in op.inputs if path in survey.counts.sizes]
            if len(inputs) < len(op.inputs):
                return {}
            gone.update(map(bin_of, inputs))
            made[bin_of(op.bytes // max(1, op.expected_outputs))] += op.expected_outputs
    found: dict[str, Any] = {"going": _bins(gone)} if gone else {}
    if not (made or plan.header.plan.startswith("hudi.")) or any(gone[n] > survey.counts.bins[n] for n in gone):
        return found
    return {**found, "after": _bins(survey.counts.bins - gone + made)}


def _bins(bins: Counter[int]) -> list[list[int]]:
    return [[number, bins[number]] for number in sorted(bins) if bins[number]]


def _going(plan: Plan) -> dict[str, tuple[int, int]]:
    found: dict[str, tuple[int, int]] = defaultdict(lambda: (0, 0))
    for row in plan.summary():
        if row.action != "keep" and row.files:
            files, size = found[row.partition]
            found[row.partition] = files + row.files, size + row.bytes
    return dict(found)

"""A report as sentences for a person."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from lakemeta.cli.phrases import dated, name_of, seconds, value_of
from lakemeta.words import count_of, human_bytes, human_change

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from lakemeta.report import Report

_REWRITES: Final = {  # what a service put fewer of in the place of many, by its result names
    "file": ("rewritten_data_files_count", "added_data_files_count"),
    "delete file": ("rewritten_delete_files_count", "added_delete_files_count"),
    "manifest": ("rewritten_manifests_count", "added_manifests_count"),
}
_SAID_ELSEWHERE: Final = {"start_clean_time", "time_taken_in_millis", "total_files_deleted"} | {
    name for names in _REWRITES.values() for name in names
}
_BYTES: Final = {"rewritten_bytes_count", "added_bytes_count"}


def report_lines(report: Report) -> Iterator[str]:
    """What was done, what is left, and where it is on record; files that could not be deleted come apart."""
    committed = "" if report.committed is None else f": committed {dated(report.committed)}"
    yield f"{report.plan} of {report.table}{committed}"
    rewrite = _rewrite(report)
    took = f" in {seconds(report.duration_ms)}" if report.duration_ms else ""
    if rewrite is not None:
        yield f"  {rewrite}{took}"
    if report.deleted_files or report.absent_files:
        yield f"  {_deleted(report)}{took if rewrite is None else ''}"
    for name, value in _others(report.result, rewritten=rewrite is not None):
        yield f"  {name_of(name)}: {value_of(name, value)}"
    if report.proved is not None:
        yield f"  proof: {report.proved}"
    if report.requests:
        yield f"  requests: {value_of('requests', dict(report.requests))}"
    for note in report.notes:
        yield f"  note: {note}"
    if report.ledger is not None:
        yield f"  ledger: {report.ledger}"


def _rewrite(report: Report) -> str | None:
    """``24 -> 3 files, 44.6 -> 11.5 KiB``; None for what rewrote nothing."""
    for noun, (before, after) in _REWRITES.items():
        if report.result.get(before):
            counts = f"{report.result[before]:,} -> {count_of(report.result[after], noun)}"
            size = report.result.get("rewritten_bytes_count")
            written = report.result.get("added_bytes_count", report.written_bytes)
            return counts if size is None else f"{counts}, {human_change(size, written)}"
    return None


def _deleted(report: Report) -> str:
    absent = f" ({report.absent_files:,} were gone already)" if report.absent_files else ""
    kept = report.quarantined_bytes
    freed = f"{human_bytes(kept)} in quarantine" if kept else f"{human_bytes(report.freed_bytes)} freed"
    return f"{count_of(report.deleted_files, 'file')} {'moved' if kept else 'deleted'}{absent}, {freed}"


def _others(result: Mapping[str, Any], *, rewritten: bool) -> Iterator[tuple[str, Any]]:
    """What else the engine's result has to say: nothing that is none, and nothing twice."""
    for name, value in result.items():
        said = name in _SAID_ELSEWHERE or (rewritten and name in _BYTES)
        alone = name == "cleans" and len(value) < 2
        if value and not said and not alone:
            yield name, value

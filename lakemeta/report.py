"""Reports: what was done, every file accounted for.

Sizes are bytes. A file that could not be deleted is an Outcome with status ``failed``, never an exception.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Literal

import attrs

from lakemeta.words import count_of, html_table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from lakemeta.safeguards import Proved

Status = Literal["deleted", "absent", "failed"]

Json = Any


@attrs.frozen(slots=True)
class Outcome:
    """What became of one file: deleted, absent (counts as done: it was deleted before) or failed.

    ``version`` is the delete marker of a file that was hidden in a store that keeps versions.
    """

    path: str
    status: Status
    error: str | None = None
    version: str | None = None

    @property
    def done(self) -> bool:
        """True if the file is gone."""
        return self.status != "failed"


@attrs.frozen
class Report:
    """The result of applying one plan.

    ``result`` carries the engine's own result names (Hudi: ``total_files_deleted``, ``earliest_commit_to_retain``;
    Iceberg: ``rewritten_data_files_count``, ...). ``failed`` lists every file that is still there against the plan.
    ``notes`` are sentences for a person: what was found on the way, what was left and why. ``partial`` says that
    some of the work failed which is no single file's: a group of files, or a commit of several. ``ledger`` is the URL
    of the run's ledger, None for a run that was to delete nothing. In a run that quarantines no bytes are freed.
    ``proved`` is what was looked up before the first deletion.
    ``requests`` counts by kind what this process asked a remote store for since the table was opened, or since the last
    report of it. ``written_bytes`` are those of new data or delete files that a rewrite has committed; ``duration_ms``
    is how long the application took.
    """

    plan: str
    table: str
    committed: str | None
    deleted_files: int = 0
    absent_files: int = 0
    freed_bytes: int = 0
    deleted_directories: int = 0
    failed: tuple[Outcome, ...] = ()
    result: Mapping[str, Json] = attrs.field(factory=dict)
    notes: tuple[str, ...] = ()
    partial: bool = False
    ledger: str | None = None
    quarantined_bytes: int = 0
    proved: Proved | None = None
    requests: Mapping[str, int] = attrs.field(factory=dict)
    written_bytes: int = 0
    duration_ms: int = attrs.field(default=0, eq=False)

    @property
    def complete(self) -> bool:
        """True if nothing failed."""
        return not self.failed and not self.partial

    def __repr__(self) -> str:
        done = "done" if self.complete else "partly done"
        return f"<Report {self.plan} of {self.table}: {done}, {count_of(self.deleted_files, 'file')} deleted>"

    def _repr_html_(self) -> str:
        facts = {k: v for k, v in self.to_json().items() if k not in ("notes", "failed", "version")}
        cells = [(key, str(value)) for key, value in facts.items()]
        return html_table(f"{self.plan} of {self.table}", ("field", "value"), cells)

    def to_json(self) -> dict[str, Json]:
        """The report as one JSON object: the engine's result names beside our own totals."""
        found = self.fields()
        lists = {n: list(v) for n, v in self.result.items() if isinstance(v, Sequence) and not isinstance(v, str)}
        return {**found, **lists}

    def fields(self) -> dict[str, Json]:
        """The same, in which names of many files are a sequence that need not be in memory."""
        return {
            "report": self.plan,
            "version": 1,
            "table": self.table,
            "committed": self.committed,
            "complete": self.complete,
            "deleted_files": self.deleted_files,
            "absent_files": self.absent_files,
            "failed_files": len(self.failed),
            "freed_bytes": self.freed_bytes,
            "deleted_directories": self.deleted_directories,
            **({"quarantined_bytes": self.quarantined_bytes} if self.quarantined_bytes else {}),
            "ledger": self.ledger,
            **({"requests": dict(self.requests)} if self.requests else {}),
            **dict(self.result),
            **({} if self.proved is None else {"proof": self.proved.to_json()}),
            "failed": [{"path": o.path, "error": o.error} for o in self.failed],
            "notes": list(self.notes),
        }


def count(outcomes: Iterable[Outcome]) -> tuple[int, int, tuple[Outcome, ...]]:
    """The numbers of deleted and absent files, and the outcomes that failed."""
    deleted = absent = 0
    failed: list[Outcome] = []
    for outcome in outcomes:
        if outcome.status == "deleted":
            deleted += 1
        elif outcome.status == "absent":
            absent += 1
        else:
            failed.append(outcome)
    return deleted, absent, tuple(failed)

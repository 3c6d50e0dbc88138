"""What is asked before a table is changed."""

from __future__ import annotations

import pytest

from lakemeta.cli.questions import question
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete, DeletePartition, Expire, Keep, Remove, Rewrite, WriteStatistics

FILES = [Delete("p", f"p/{n}", 1024, "superseded") for n in range(8)]
KEPT = Keep("p", "p/x", 1, "latest")
PENDING = {"pending_cleans": ["1"], "pending_deletes": [{"clean": "1", "partition": "p", "files": 3, "bytes": 9}]}


@pytest.mark.parametrize(
    ("operations", "facts", "asked"),
    [
        ([*FILES, KEPT], {}, "Delete 8 files (8.0 KiB) of /lake/t?"),
        ([*FILES, DeletePartition("p", "p", "no")], {}, "Delete 8 files (8.0 KiB) and delete 1 directory of /lake/t?"),
        ([], PENDING, "Delete 3 files (9 B) of /lake/t?"),
        ([FILES[0]], PENDING, "Delete 4 files (1.0 KiB) of /lake/t?"),
        ([], {"pending_cleans": ["1"]}, "Complete 1 pending clean of /lake/t?"),
        ([], {"empty_clean": True}, "Write a clean without files of /lake/t?"),
        (FILES, {"failed_writes": ["1"]}, "Roll back 1 failed write and delete 8 files (8.0 KiB) of /lake/t?"),
        ([Expire(1, 2, 1, 9, "old"), FILES[0]], {}, "Expire 1 snapshot and delete 1 file (1.0 KiB) of /lake/t?"),
        ([Rewrite(0, {}, 0, ("a", "b"), (), 2048, 1)], {}, "Rewrite 2 files (2.0 KiB) of /lake/t?"),
        ([Remove("", "d", 5, "dangling")], {}, "Take out 1 delete file (5 B) of /lake/t?"),
        ([WriteStatistics(1, "table", "")], {}, "Write 1 statistics file of /lake/t?"),
    ],
)
def test_a_question_says_what_is_done(operations: list[object], facts: dict[str, object], asked: str) -> None:
    """Verbs, counts, bytes and the table; pending cleans are counted in."""
    assert question(Plan(PlanHeader("x", "/lake/t", 9, None, facts=facts), operations)) == asked


def test_what_is_not_deleted_at_once() -> None:
    """Quarantine and mere requests are other questions."""
    plan = Plan(PlanHeader("hudi.clean", "/lake/t", 9, None), FILES)
    assert question(plan, quarantine=True) == "Move to quarantine 8 files (8.0 KiB) of /lake/t?"
    assert question(plan, schedule_only=True) == "Request a clean of /lake/t, to delete 8 files (8.0 KiB)?"

from __future__ import annotations

import pytest

from lakemeta.plan import Delete, DeletePartition, Expire, Keep, Plan, PlanHeader, Rewrite
from lakemeta.summary import SummaryRow, count_of, human_bytes, summarise

HEADER = PlanHeader("hudi.clean", "/t/<x>", 9, None)


@pytest.mark.parametrize(
    ("size", "words"),
    [
        (0, "0 B"),
        (1023, "1023 B"),
        (1024, "1.0 KiB"),
        (1536 * 1024, "1.5 MiB"),
        (2**50, "1.0 PiB"),
        (2**70, "1048576.0 PiB"),
    ],
)
def test_sizes_in_words(size: int, words: str) -> None:
    """Below 1 KiB in bytes, else one decimal of the largest unit."""
    assert human_bytes(size) == words


@pytest.mark.parametrize(("number", "words"), [(0, "0 files"), (1, "1 file"), (1234, "1,234 files")])
def test_counts_in_words(number: int, words: str) -> None:
    """One is singular."""
    assert count_of(number, "file") == words


def test_operations_are_added_up() -> None:
    """One row for each partition, action and reason, in plan order."""
    plan = Plan(
        HEADER,
        [
            Delete("p1", "p1/a", 1, "superseded"),
            Delete("p1", "p1/b", 2, "superseded"),
            Delete("p1", "p1/c", 4, "replaced"),
            Keep("p2", "p2/a", 8, "latest_slice"),
            DeletePartition("p3", "p3", "no_live_file_group"),
            Rewrite(0, {"a": 1, "b": None}, 0, ["x", "y"], [], 16, 1),
            Expire("snapshot", "77", "expired"),
        ],
    )
    assert set(summarise(plan)) == {
        SummaryRow("p1", "delete", "superseded", 2, 3),
        SummaryRow("p1", "delete", "replaced", 1, 4),
        SummaryRow("p2", "keep", "latest_slice", 1, 8),
        SummaryRow("p3", "drop directory", "no_live_file_group", 0, 0),
        SummaryRow("a=1/b=None", "rewrite", "into 1 file", 2, 16),
        SummaryRow("snapshot", "expire", "expired", 1, 0),
    }


def test_a_notebook_shows_twenty_rows() -> None:
    """The HTML form is short, says how much more there is, and escapes what is in it."""
    plan = Plan(HEADER, [Delete(f"p{n:02}<", f"p{n:02}</a", 1, "superseded") for n in range(23)])
    html = plan._repr_html_()
    assert html.count("<tr>") == 21
    assert "and 3 more rows" in html
    assert "<x>" not in html
    assert "p01&lt;" in html
    assert "more rows" not in Plan(HEADER, [Delete("", "a", 1, "x")])._repr_html_()
    assert "(table)" in Plan(HEADER, [Delete("", "a", 1, "x")])._repr_html_()

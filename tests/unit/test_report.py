from __future__ import annotations

import json

from lakemeta.report import Outcome, Report, count

OUTCOMES = [
    Outcome("t/a", "deleted"),
    Outcome("t/b", "absent"),
    Outcome("t/c", "failed", "denied"),
    Outcome("t/d", "deleted"),
]


def test_every_outcome_is_counted_once() -> None:
    """What is gone is done, whoever did it; what failed is kept by name."""
    assert count(OUTCOMES) == (2, 1, (OUTCOMES[2],))
    assert [outcome.done for outcome in OUTCOMES] == [True, True, False, True]
    assert count([]) == (0, 0, ())


def test_a_report_is_complete_if_nothing_failed() -> None:
    """One failed file makes it incomplete."""
    assert Report("hudi.clean", "/t", None).complete
    assert not Report("hudi.clean", "/t", "1", failed=(OUTCOMES[2],)).complete


def test_the_json_of_a_report() -> None:
    """The engine's result names stand beside our totals; failures are listed with their errors."""
    report = Report("hudi.clean", "/t", "1", 2, 1, 30, 0, (OUTCOMES[2],), {"total_files_deleted": 3}, ("a note",))
    value = json.loads(json.dumps(report.to_json()))
    assert value["total_files_deleted"] == 3
    assert (value["deleted_files"], value["absent_files"], value["failed_files"], value["freed_bytes"]) == (2, 1, 1, 30)
    assert value["failed"] == [{"path": "t/c", "error": "denied"}]
    assert (value["complete"], value["notes"], value["report"], value["version"]) == (
        False,
        ["a note"],
        "hudi.clean",
        1,
    )


def test_a_notebook_shows_a_table() -> None:
    """The HTML form has the fields and escapes what is in them."""
    html = Report("hudi.clean", "/t/<b>", "1")._repr_html_()
    assert "<td>committed</td><td>1</td>" in html
    assert "<b>" not in html

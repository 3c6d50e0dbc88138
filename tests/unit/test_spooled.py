"""Plans and reports of many files: on disk, and in every other respect as they are in memory."""

from __future__ import annotations

import io
import json
import random
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta import spooled
from lakemeta.cli.output import show_plan, show_report
from lakemeta.errors import CorruptMetadataError
from lakemeta.plan import Plan, PlanHeader
from lakemeta.plan_operations import Delete, Keep, Operation
from lakemeta.report import Report
from lakemeta.spooled import Deletes, Texts

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

HEADER = PlanHeader("iceberg.remove-orphan-files", "/t", 2, None)
NAMES = ["a", "b/c", "b c", "é", "😀", "b/\x0b", "\ue000", "A", "a\n", '"', "b/c#1"]


@pytest.fixture
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    """Anything beyond three files is put on disk, two rows at a time."""
    monkeypatch.setattr(spooled, "IN_MEMORY", 3)
    monkeypatch.setattr(spooled, "_ROWS", 2)
    monkeypatch.setattr(spooled, "_BUDGET", 64)


def both(rows: Sequence[tuple[str, int]]) -> tuple[Plan, Plan]:
    """The plan with everything in memory, and as a service makes it."""
    whole = Plan(HEADER, [Delete("", path, size, "why") for path, size in rows])
    return whole, Plan(HEADER, spooled.deletes(iter(rows), "why"))


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("count", [0, 3, 4, 5, 11])
def test_a_plan_is_the_same_wherever_it_is(count: int) -> None:
    """Bytes, totals, summary, order and equality; read back from its file as well."""
    rows = [(name, number) for number, name in enumerate(NAMES[:count])]
    random.Random(7).shuffle(rows)
    whole, made = both(rows)
    assert isinstance(made.operations, Deletes) == (count > 3)
    again = Plan.loads(io.StringIO(whole.dumps(), newline="\n"), spooled.gathered)
    assert isinstance(again.operations, Deletes) == (count > 3)
    for plan in (made, again):
        assert plan.dumps() == whole.dumps()
        assert (plan.files, plan.bytes, plan.is_empty) == (whole.files, whole.bytes, whole.is_empty)
        assert (plan.summary(), plan.kinds) == (whole.summary(), whole.kinds)
        assert list(plan.deletes()) == list(whole.deletes()) == list(plan.operations)
        assert plan == whole
        assert plan.dropped_partitions() == ()
        assert [plan.operations[at] for at in range(-count, count)] == [
            whole.operations[at] for at in range(-count, count)
        ]
        assert plan.operations[1:4] == whole.operations[1:4]
    if count > 3:
        assert made != both([*rows[1:], ("other", 1)])[0]
        with pytest.raises(IndexError):
            made.operations[count]


@pytest.mark.slow
@pytest.mark.usefixtures("few")
@given(where=st.integers(0, 10), partition=st.booleans(), keep=st.booleans())
def test_what_is_not_alike_stays_in_memory(where: int, partition: bool, keep: bool) -> None:
    """An edited plan may have any operation among its deletions."""
    operations: list[Operation] = [Delete("", name, 1, "why") for name in sorted(NAMES)]
    other: Operation = Keep("", "k", 1, "why") if keep else Delete("p" if partition else "", "k", 1, "else")
    operations.insert(where, other)
    whole = Plan(HEADER, operations)
    assert Plan.loads(whole.dumps(), spooled.gathered).dumps() == whole.dumps()


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("where", range(1, 13))
def test_damage_is_found(where: int) -> None:
    """A line that is changed, lost or doubled, wherever it stands."""
    lines = list(io.StringIO(both([(name, 1) for name in NAMES])[0].dumps(), newline="\n"))
    for damaged in (lines[:where] + lines[where + 1 :], lines[: where + 1] + lines[where:], _changed(lines, where)):
        if damaged != lines:
            with pytest.raises(CorruptMetadataError, match="make the plan again"):
                Plan.loads(damaged, spooled.gathered)


def _changed(lines: Sequence[str], where: int) -> list[str]:
    return [*lines[:where], lines[where].replace('"size":1', '"size":2'), *lines[where + 1 :]]


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("count", [0, 2, 3, 4, 11])
def test_names_in_a_report(count: int, capsys: pytest.CaptureFixture[str]) -> None:
    """As a list, in every output."""
    many = spooled.texts(iter(NAMES[:count]))
    assert isinstance(many, Texts) == (count > 3)
    assert (list(many), len(many), list(many[1:3])) == (NAMES[:count], count, NAMES[:count][1:3])
    shown: dict[str, Any] = {}
    for names in (many, NAMES[:count]):
        report = Report("p", "/t", None, deleted_files=1, result={"orphan_file_location": names})
        assert json.loads(json.dumps(report.to_json()))["orphan_file_location"] == NAMES[:count]
        for output in ("text", "json", "jsonl"):
            show_report(report, output)
            assert shown.setdefault(output, found := capsys.readouterr().out) == found
    assert json.loads(shown["json"]) == json.loads(shown["jsonl"])
    assert shown["jsonl"].count("\n") == 1


@pytest.mark.usefixtures("few")
@pytest.mark.parametrize("output", ["text", "json", "jsonl"])
def test_a_plan_is_shown_alike(output: str, capsys: pytest.CaptureFixture[str]) -> None:
    """Wherever its lines are."""
    shown = []
    for plan in both([(name, 1) for name in NAMES]):
        show_plan(plan, output)
        shown.append(capsys.readouterr().out)
    assert shown[0] == shown[1]


def test_nothing_is_left_behind(few: None, tmp_path: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A file in use has no name any more, also where making it failed."""
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))

    def broken() -> Iterable[str]:
        yield from NAMES
        raise ValueError

    made = spooled.deletes(((name, 1) for name in NAMES), "why")
    with pytest.raises(ValueError):  # noqa: PT011 - our own
        spooled.texts(broken())
    assert list(tmp_path.iterdir()) == []
    assert len(list(made)) == len(NAMES)

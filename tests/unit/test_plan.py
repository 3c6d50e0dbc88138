from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.plan import Plan, PlanHeader, SummaryRow
from lakemeta.plan_operations import (
    Delete,
    DeletePartition,
    Expire,
    Keep,
    Remove,
    RemoveRef,
    Rewrite,
    RewriteManifests,
    WriteStatistics,
)

HEADER = PlanHeader("hudi.clean", "/t", 9, "20260101000000000", {"b": "2", "a": "1"}, {"partitions": 1}, "lakemeta x")
names = st.text(st.characters(codec="utf-8"), max_size=8)
sizes = st.integers(0, 2**60)
operations = st.one_of(
    st.builds(Delete, names, names, sizes, names, st.none() | names),
    st.builds(Keep, names, names, sizes, names, st.none() | names),
    st.builds(DeletePartition, names, names, names, st.none() | names),
    st.builds(Remove, names, names, sizes, names, st.none() | names),
    st.builds(RemoveRef, names, st.integers(-1, 2**60), names),
    st.builds(Expire, st.integers(-1, 2**60), sizes, sizes, sizes, names, st.none() | names),
    st.builds(RewriteManifests, st.integers(0, 9), st.sampled_from(["data", "deletes"]), st.lists(names), sizes, sizes),
    st.builds(WriteStatistics, st.integers(-1, 2**60), names, names),
    st.builds(
        Rewrite,
        st.integers(0, 99),
        st.dictionaries(names, st.none() | names | st.integers()),
        st.integers(0, 9),
        st.lists(names),
        st.lists(names),
        sizes,
        st.integers(1, 9),
        st.none() | sizes,
        st.none() | sizes,
    ),
)


@given(st.lists(operations, max_size=6))
def test_a_plan_file_reads_back_as_the_plan(listed: list[Any]) -> None:
    """Whatever names there are, the file gives the plan back, by text and by lines, and the bytes again."""
    plan = Plan(HEADER, listed)
    text = plan.dumps()
    assert Plan.loads(text) == plan
    assert Plan.loads(iter(plan.to_lines())) == plan
    assert Plan.loads(text).dumps() == text


@given(st.lists(operations, max_size=6, unique_by=lambda op: op.sort_key), st.randoms())
def test_the_order_of_operations_given_does_not_matter(listed: list[Any], random: Any) -> None:
    """One set of operations is one plan, byte for byte."""
    shuffled = list(listed)
    random.shuffle(shuffled)
    assert Plan(HEADER, listed).dumps() == Plan(HEADER, shuffled).dumps()
    keys = [op.sort_key for op in Plan(HEADER, shuffled).operations]
    assert keys == sorted(keys)


@given(st.integers(0, 300), st.sampled_from(["cut", "flip", "drop line"]))
def test_no_damage_goes_unnoticed(where: int, damage: str) -> None:
    """A file that lost its end, a byte or a line is refused."""
    text = Plan(HEADER, [Delete("p", f"p/{n}", n, "superseded") for n in range(3)]).dumps()
    where %= len(text) - 1
    if damage == "cut":
        damaged = text[:where]
    elif damage == "flip":
        damaged = text[:where] + ("x" if text[where] != "x" else "y") + text[where + 1 :]
    else:
        lines = text.splitlines(keepends=True)
        damaged = "".join(lines[: where % 5] + lines[where % 5 + 1 :])
    with pytest.raises(CorruptMetadataError):
        Plan.loads(damaged)


def test_the_lines_of_a_plan_file() -> None:
    """A header with sorted options and the facts beside the fixed keys, one line an operation, totals and a hash."""
    plan = Plan(
        HEADER,
        [DeletePartition("p", "p", "dropped"), Delete("p", "p/b", 5, "superseded", "2"), Delete("p", "p/a", 1, "x")],
    )
    header, first, second, third, end = (json.loads(line) for line in plan.to_lines())
    assert list(header) == [
        "plan", "version", "table", "table_format_version", "based_on", "created_by", "options", "partitions",
    ]  # fmt: skip
    assert list(header["options"]) == ["a", "b"]
    assert first == {"op": "delete", "partition": "p", "path": "p/a", "size": 1, "reason": "x"}
    assert second["by"] == "2"
    assert third == {"op": "delete_partition", "partition": "p", "path": "p", "reason": "dropped"}
    assert {k: end[k] for k in ("end", "ops", "files", "bytes")} == {"end": True, "ops": 3, "files": 2, "bytes": 6}


def test_totals_count_what_is_deleted_or_rewritten() -> None:
    """Kept files count for nothing; a rewrite counts its inputs."""
    rewrite = Rewrite(0, {}, 0, ["a", "b"], ["d"], 30, 1)
    plan = Plan(HEADER, [Keep("p", "p/k", 7, "latest_slice"), Delete("p", "p/d", 5, "superseded"), rewrite])
    assert (plan.files, plan.bytes, plan.is_empty) == (3, 35, False)
    assert [op.path for op in plan.deletes()] == ["p/d"]
    assert Plan(HEADER, [Keep("p", "p/k", 7, "latest_slice")]).is_empty
    assert Plan(HEADER, ()).dropped_partitions() == ()
    assert Plan(HEADER, [DeletePartition("p", "p", "dropped")]).dropped_partitions() == ("p",)


@pytest.mark.parametrize(
    ("lines", "words"),
    [
        ("", "is empty"),
        ("{]\n", "line 1 of the plan is not JSON"),
        ("3\n", "line 1 of the plan is not a JSON object"),
        ('{"plan":"x"}\n', "has no end line"),
    ],
)
def test_what_is_no_plan(lines: str, words: str) -> None:
    """The error says what is wrong and on which line."""
    with pytest.raises(CorruptMetadataError, match=words):
        Plan.loads(lines)


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"version": 2}, "has version 2; this lakemeta reads version 1"),
        ({"version": None}, "version is not a whole number"),
        ({"version": "1"}, "version is not a whole number"),
        ({"version": True}, "version is not a whole number"),
        ({"table": ...}, "has no table"),
        ({"options": ...}, "has no options"),
    ],
)
def test_headers_of_others(change: dict[str, Any], words: str) -> None:
    """A header of another version, or without a fixed key, is refused by name."""
    header = {k: v for k, v in {**HEADER.to_json(), **change}.items() if v is not ...}
    with pytest.raises(CorruptMetadataError, match=words):
        PlanHeader.from_json(header)


@pytest.mark.parametrize("line", [{"op": "shred"}, {}, {"op": "delete"}, {"op": "delete", "where": "here"}])
def test_operations_of_others(line: dict[str, Any]) -> None:
    """An operation that is unknown or incomplete is refused, with its line."""
    from lakemeta.plan_operations import operation_from_json

    with pytest.raises(CorruptMetadataError, match="line 4 of the plan is not"):
        operation_from_json(line, 4)


ESCAPED = PlanHeader("hudi.clean", "/t/<x>", 9, None)


def test_operations_are_added_up() -> None:
    """One row for each partition, action and reason, in plan order."""
    plan = Plan(
        ESCAPED,
        [
            Delete("p1", "p1/a", 1, "superseded"),
            Delete("p1", "p1/b", 2, "superseded"),
            Delete("p1", "p1/c", 4, "replaced"),
            Keep("p2", "p2/a", 8, "latest_slice"),
            DeletePartition("p3", "p3", "no_live_file_group"),
            Rewrite(0, {"a": 1, "b": None}, 0, ["x", "y"], [], 16, 1),
        ],
    )
    assert set(plan.summary()) == {
        SummaryRow("p1", "delete", "superseded", 2, 3),
        SummaryRow("p1", "delete", "replaced", 1, 4),
        SummaryRow("p2", "keep", "latest_slice", 1, 8),
        SummaryRow("p3", "drop directory", "no_live_file_group", 0, 0),
        SummaryRow("a=1/b=None", "rewrite", "into 1 file", 2, 16),
    }


def test_a_notebook_shows_twenty_rows() -> None:
    """The HTML form is short, says how much more there is, and escapes what is in it."""
    plan = Plan(ESCAPED, [Delete(f"p{n:02}<", f"p{n:02}</a", 1, "superseded") for n in range(23)])
    html = plan._repr_html_()
    assert html.count("<tr>") == 21
    assert "and 3 more rows" in html
    assert "<x>" not in html
    assert "p01&lt;" in html
    assert "more rows" not in Plan(ESCAPED, [Delete("", "a", 1, "x")])._repr_html_()
    assert "(table)" in Plan(ESCAPED, [Delete("", "a", 1, "x")])._repr_html_()

"""Lines of ledgers: what is written is read, and what a stranger wrote is values of our kinds or our own error."""

from __future__ import annotations

import json
from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.ledger.lines import Batch, Done, End, Opening, parse_line, parse_lines, run_id, run_time

RUN = "20260102T030405678Z-0123abcd"
OPENING = Opening(RUN, "hudi.clean", "0" * 64, "/lake/t", "/lake/t", "delete")
NAMES = st.text(st.characters(codec="utf-8"))
SIZES = st.none() | st.integers(0, 2**63)


def test_the_name_of_a_run() -> None:
    """Its time in UTC and some digits of a uuid; names sort by time."""
    at = datetime(2026, 1, 2, 3, 4, 5, 678_900, UTC)
    assert run_id(at, "0123ABCD-0000") == RUN
    assert run_time(RUN) == datetime(2026, 1, 2, 3, 4, 5, 678_000, UTC)


@given(st.lists(st.tuples(NAMES, SIZES)), st.none() | NAMES)
def test_batches_are_read_as_written(files: list[tuple[str, int | None]], directory: str | None) -> None:
    """With any names and sizes, on one line each."""
    batch = Batch(3, "/lake/t", [name for name, _ in files], [size for _, size in files], directory)
    line = batch.line()
    assert line.count(b"\n") == 1
    assert parse_line(line, "l") == batch


@given(st.lists(st.integers(0, 9)), st.dictionaries(st.integers(0, 9), NAMES), st.lists(st.none() | NAMES))
def test_outcomes_are_read_as_written(absent: list[int], failed: dict[int, str], versions: list[str | None]) -> None:
    """With any files, errors and delete markers."""
    done = Done(3, 7, 99, absent, [1], failed, versions)
    assert parse_line(done.line(), "l") == done


def test_what_cuts_a_ledger_short_takes_its_last_line_only() -> None:
    """At any byte the whole lines before it count, and nothing else does."""
    lines = [
        OPENING,
        Batch(1, "/lake/t", ["p/ä"], [3]),
        Done(1, 1, 3, [], [], {}, []),
        End("2026-01-02T03:04:05.678+00:00", True, None, 1, 0, 0, 3),
    ]
    whole = b"".join(line.line() for line in lines)
    starts = [sum(len(line.line()) for line in lines[:n]) for n in range(len(lines) + 1)]
    for cut in range(len(OPENING.line()), len(whole) + 1):
        count = sum(start <= cut for start in starts) - 1
        assert parse_lines([whole[:cut]], "l") == lines[:count]


def test_every_part_may_be_cut_short() -> None:
    """Parts are objects of their own."""
    batch = Batch(1, "/lake/t", ["p/a"], [3])
    assert parse_lines([OPENING.line() + b'{"ba', batch.line()], "l") == [OPENING, batch]


@pytest.mark.parametrize(
    "text", [b"", b"\n", b'{"end":1}\n', b"[]\n", b"\xff\n", OPENING.line()[:-1], OPENING.line() * 2]
)
def test_what_does_not_begin_as_a_ledger_is_none(text: bytes) -> None:
    """Nor does one go on with another."""
    with pytest.raises(CorruptMetadataError, match="l is no ledger"):
        parse_lines([text], "l")


GOOD = [OPENING, Batch(1, "/t", ["a", "b"], [1, None]), Done(1, 1, 1, [1], [0], {0: "x"}, ["v", None])]
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=3),
    lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(max_size=2), v, max_size=2),
    max_leaves=4,
)


@given(st.sampled_from(GOOD), st.data())
def test_any_other_value_is_refused_or_of_our_kind(line: Opening | Batch | Done, data: st.DataObject) -> None:
    """One field is replaced by anything: what is still read has texts and counts where we take them for such."""
    fields = json.loads(line.line())
    name = data.draw(st.sampled_from(sorted(fields)))
    fields[name] = data.draw(JSON)
    try:
        found = parse_line(json.dumps(fields).encode(), "l")
    except CorruptMetadataError:
        return
    if isinstance(found, Batch):
        assert all(type(path) is str for path in found.paths)
        assert all(size is None or type(size) is int for size in found.sizes)
        assert len(found.sizes) == len(found.files)
    if isinstance(found, Done):
        assert {type(n) for n in (found.deleted, found.size, *found.absent, *found.stayed, *found.failed)} <= {int}
    if isinstance(found, Opening):
        assert run_time(found.run).tzinfo is UTC
        assert found.mode in ("delete", "quarantine", "restore", "purge")


def test_lines_of_later_versions_are_passed_over() -> None:
    """A kind of line that is not known says nothing to this one."""
    assert parse_line(b'{"later":1}', "l") is None

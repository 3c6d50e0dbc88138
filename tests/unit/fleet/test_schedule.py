"""Which tables are due, how far a budget goes, and what is known of earlier runs."""

from __future__ import annotations

import attrs
import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.errors import CorruptMetadataError
from lakemeta.fleet.budget import Budget, Spent
from lakemeta.fleet.memory import Memory, Unfinished, end_line, parse_memory, run_line, visit_line
from lakemeta.fleet.running import Account
from lakemeta.fleet.schedule import Schedule, Visit, due
from lakemeta.fleet.visiting import worst

HOUR = 3_600_000
SCHEDULE = Schedule(24, 100, little=10, much=1000)
VISITS = st.builds(
    Visit,
    st.sampled_from(["/a", "s3://b/ü", "catalog://c/d.e"]),
    st.integers(0, 10**13),
    st.floats(0, 1000),
    st.sampled_from([0, 1, 3, 4]),
    st.booleans(),
    st.integers(0, 10**12),
    st.integers(0, 10**15),
)


def test_the_interval() -> None:
    """It begins with the shortest, doubles after little, halves after much, and stays in its bounds."""
    assert SCHEDULE.next_interval(None, 0) == 24
    assert [SCHEDULE.next_interval(hours, 9) for hours in (24, 48, 96, 100)] == [48, 96, 100, 100]
    assert [SCHEDULE.next_interval(hours, 1000) for hours in (100, 40, 24)] == [50, 24, 24]
    assert SCHEDULE.next_interval(48, 10) == SCHEDULE.next_interval(48, 999) == 48


@given(st.lists(st.integers(0, 2000), min_size=1, max_size=30))
def test_the_interval_stays_within_its_bounds(moved: list[int]) -> None:
    """Whatever comes; a table that never gains anything is visited ever less often, up to the bound."""
    hours: float | None = None
    for size in moved:
        hours = SCHEDULE.next_interval(hours, size)
        assert 24 <= hours <= 100
    for _ in range(4):
        hours = SCHEDULE.next_interval(hours, 0)
    assert hours == 100


def test_what_is_due() -> None:
    """New tables, those whose interval is over but for a tenth, and at once what ended badly or was left."""
    visit = Visit("t", 0, 10)
    assert due(["t", "new"], {"t": visit}, 9 * HOUR - 1) == ("new",)
    assert due(["t", "new"], {"t": visit}, 9 * HOUR) == ("new", "t")
    for again in (attrs.evolve(visit, code=3), attrs.evolve(visit, left=True)):
        assert due(["t"], {"t": again}, 1) == ("t",)
    later = {"a": Visit("a", 2, 0), "b": Visit("b", 1, 0)}
    assert due(["a", "b"], later, 5) == ("b", "a")


def test_a_budget() -> None:
    """A service fits if all that was taken on stays within; none begins once the time is over."""
    budget = Budget(10, 1000, 2)
    assert budget.refusal(Spent(5, 500, 119), 5, 500) is None
    assert budget.refusal(Spent(5, 500), 6, 0) == "6 files would exceed its budget: 5 of 10 files are used"
    assert budget.refusal(Spent(5, 500), 0, 501) == "501 B would exceed its budget: 500 B of 1000 B are used"
    assert budget.refusal(Spent(0, 0, 120), 0, 0) == "its budget of 2 minutes is used up"
    assert Budget().refusal(Spent(10**9, 10**18, 10**9), 1, 1) is None
    assert Budget(5, None, 3).over(Budget(9, 9)) == Budget(5, 9, 3)


@given(st.lists(st.tuples(st.integers(0, 50), st.integers(0, 5000), st.integers(0, 2)), max_size=30))
def test_an_account_is_never_overdrawn(services: list[tuple[int, int, int]]) -> None:
    """Neither that of the run nor that of a table; what is refused takes nothing."""
    account = Account(Budget(100, 10_000), Spent(10, 100), lambda: 0.0)
    admits = [account.table(Budget(40)) for _ in range(3)]
    files, size, of_table = 10, 100, [0, 0, 0]
    for more, bytes_more, table in services:
        fits = files + more <= 100 and size + bytes_more <= 10_000 and of_table[table] + more <= 40
        assert (admits[table](more, bytes_more) is None) == fits
        if fits:
            files, size = files + more, size + bytes_more
            of_table[table] += more


@given(st.lists(VISITS, max_size=6), st.lists(VISITS, max_size=4))
def test_memory_is_read_as_it_was_written(earlier: list[Visit], running: list[Visit]) -> None:
    """Visits before a run, a run that does not end, a torn last line; rewriting changes nothing."""
    text = "".join(map(visit_line, earlier)) + run_line("k", 5) + "".join(map(visit_line, running))
    memory = parse_memory(text + '{"visit":"/torn', "f")
    assert memory.visits == {visit.table: visit for visit in [*earlier, *running]}
    assert memory.unfinished is not None
    assert memory.unfinished.visits == tuple(running)
    again = parse_memory(memory.lines(memory.unfinished), "f")
    assert again.unfinished == memory.unfinished
    assert again.visits == memory.visits
    assert parse_memory(text + end_line(9), "f").unfinished is None


def test_going_on_and_beginning_anew() -> None:
    """A run goes on with what it spent, without what it did; anew, what it did is due again."""
    done, left = Visit("a", HOUR, 24, files=3, bytes=30), Visit("b", 2 * HOUR, 24, left=True, files=1, bytes=10)
    run = Unfinished("k", 0, 2 * HOUR, (done, left))
    assert run.done == {"a"}
    assert run.spent == Spent(4, 40, 7200)
    assert run.continues("k", 24 * HOUR, 24)
    assert not run.continues("k", 24 * HOUR + 1, 24)
    assert not run.continues("other", 1, 24)
    anew = Memory({"a": done, "c": Visit("c", HOUR, 24)}, run).restarted()
    assert anew.unfinished is None
    assert due(["a", "c"], anew.visits, 2 * HOUR) == ("a",)


@pytest.mark.parametrize("line", ["x", "1", "{}", '{"visit":"a"}', '{"run":"k","at":"x"}', '{"run":"k","at":-1}'])
def test_damage_is_one_sentence(line: str) -> None:
    """It names the line and the file."""
    with pytest.raises(CorruptMetadataError, match=r"line 1 of f cannot be read"):
        parse_memory(line + "\n", "f")


def test_the_worst_exit_code() -> None:
    """In the order that is documented; one without a place is a failure."""
    assert [worst(codes) for codes in ([], [0, 2], [2, 4], [4, 3], [3, 1], [1, 5], [0, 77])] == [0, 2, 4, 3, 1, 5, 1]

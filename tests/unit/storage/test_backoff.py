"""How fast a store may be asked after it had no time."""

from __future__ import annotations

import itertools
import threading

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.storage.backoff import FIRST_PAUSE, FULL, LONGEST_PAUSE, LONGEST_TURN, SLOWEST, Backoff


class Clock:
    """Time that passes only by sleeping."""

    def __init__(self) -> None:
        self.now, self.slept = 100.0, []

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds

    def backoff(self) -> Backoff:
        return Backoff(lambda: self.now, self.sleep, lambda: 1.0)


@pytest.fixture
def clock() -> Clock:
    return Clock()


def test_nobody_waits_for_a_store_that_answers(clock: Clock) -> None:
    """Without a 503 requests go at will, however many keys they have."""
    backoff = clock.backoff()
    for _ in range(100):
        backoff.turn("s3://b/t", 1000)
        backoff.succeeded("s3://b/t")
    assert clock.slept == []


def test_a_busy_prefix_is_asked_half_as_fast(clock: Clock) -> None:
    """Requests are spread by their keys; other prefixes, and those that only begin alike, go on at will."""
    backoff = clock.backoff()
    backoff.throttled("s3://b/t/p1", backoff.turn("s3://b/t/p1"))
    assert backoff.rate("s3://b/t/p1") == FULL / 2
    for prefix in ("s3://b/t/p2", "s3://b/t/p11", "s3://b/t"):
        backoff.turn(prefix, 10**6)
        backoff.turn(prefix, 10**6)
    assert clock.slept == []
    backoff.turn("s3://b/t/p1", 1000)
    backoff.turn("s3://b/t/p1/deeper", 1000)
    assert clock.slept == [pytest.approx(1000 / (FULL / 2))]


def test_one_storm_halves_once(clock: Clock) -> None:
    """Answers to requests that went before the rate was halved do not halve it again; later ones do."""
    backoff = clock.backoff()
    asked = [backoff.turn("b") for _ in range(8)]
    clock.now += 0.1
    for each in asked:
        backoff.throttled("b", each)
    assert backoff.rate("b") == FULL / 2
    clock.now += 0.1
    backoff.throttled("b", backoff.turn("b"))
    assert backoff.rate("b") == FULL / 4


def test_success_adds_until_all_is_forgotten(clock: Clock) -> None:
    """Each success adds the same; at the full rate the prefix is as if it had never been busy."""
    backoff = clock.backoff()
    backoff.throttled("b", backoff.turn("b"))
    rates = []
    while backoff.rate("b") < FULL:
        backoff.succeeded("b/any")
        rates.append(backoff.rate("b"))
    steps = {later - earlier for earlier, later in itertools.pairwise(rates)}
    assert len(steps) == 1
    backoff.turn("b", 10**9)
    backoff.turn("b", 10**9)
    assert clock.slept == []


@given(st.lists(st.tuples(st.booleans(), st.integers(1, 1000)), max_size=60))
def test_rates_and_waits_have_bounds(answers: list[tuple[bool, int]]) -> None:
    """Whatever the store answers, no turn takes longer than the limit, and the rate stays within its own."""
    clock = Clock()
    backoff = clock.backoff()
    for busy, keys in answers:
        asked = backoff.turn("b", keys)
        if busy:
            backoff.throttled("b", asked)
        else:
            backoff.succeeded("b")
        assert SLOWEST <= backoff.rate("b") <= FULL
    assert all(0 < slept <= LONGEST_TURN for slept in clock.slept)


def test_pauses_grow_up_to_a_limit(clock: Clock) -> None:
    """Twice as long after each attempt, and at random below that."""
    backoff = clock.backoff()
    for attempt in range(10):
        backoff.pause(attempt)
    assert clock.slept[:3] == [FIRST_PAUSE, FIRST_PAUSE * 2, FIRST_PAUSE * 4]
    assert clock.slept[-1] == LONGEST_PAUSE


def test_threads_share_a_rate() -> None:
    """Many threads below one prefix lose no turn: the last of them is as late as all keys need."""
    clock = Clock()
    turns: list[float] = []
    backoff = Backoff(lambda: 100.0, lambda _: None, lambda: 1.0)
    backoff.throttled("b", 100.0)

    def ask() -> None:
        turns.extend(backoff.turn("b", 10) for _ in range(50))

    threads = [threading.Thread(target=ask) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(turns) == pytest.approx([100 + n * 10 / (FULL / 2) for n in range(200)])
    assert clock.slept == []

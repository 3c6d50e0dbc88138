from __future__ import annotations

import pytest

from lakemeta.errors import OptionError
from lakemeta.iceberg.commit.retry import RetryPolicy


def test_waits_double_up_to_the_maximum():
    """The pause doubles from min-wait up to max-wait."""
    policy = RetryPolicy(min_wait_ms=100, max_wait_ms=500)
    assert [policy.wait_ms(attempt, 0.0) for attempt in range(1, 6)] == [100, 200, 400, 500, 500]


def test_chance_adds_up_to_a_tenth():
    """Jitter makes a pause at most a tenth longer, never shorter."""
    assert RetryPolicy(min_wait_ms=1000).wait_ms(1, 0.999) == 1099


def test_num_retries_counts_attempts_after_the_first():
    """num-retries 2 allows three attempts."""
    policy = RetryPolicy(num_retries=2)
    assert [policy.tries_again(attempt, 0) for attempt in (1, 2, 3)] == [True, True, False]


def test_total_timeout_ends_retries_from_the_second_failure():
    """The total time is looked at only after the second attempt."""
    policy = RetryPolicy(total_timeout_ms=10)
    assert policy.tries_again(1, 11)
    assert not policy.tries_again(2, 11)


def test_table_properties_set_the_policy():
    """All four commit.retry.* properties are followed."""
    names = ("num-retries", "min-wait-ms", "max-wait-ms", "total-timeout-ms")
    properties = {f"commit.retry.{name}": str(number) for number, name in enumerate(names)}
    assert RetryPolicy.of(properties) == RetryPolicy(0, 1, 2, 3)


def test_status_checks_have_properties_of_their_own():
    """A commit without answer is looked for four times, first after a second, unless commit.status-check.* say else."""
    assert RetryPolicy.of_status_checks({}) == RetryPolicy(3, 1_000, 60_000, 1_800_000)
    assert RetryPolicy.of_status_checks({"commit.status-check.num-retries": "0"}).num_retries == 0


def test_a_malformed_property_is_named():
    """A property that is no number is an OptionError that names it."""
    with pytest.raises(OptionError, match=r"commit\.retry\.num-retries"):
        RetryPolicy.of({"commit.retry.num-retries": "many"})

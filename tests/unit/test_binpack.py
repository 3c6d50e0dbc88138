"""Next-fit packing with a lookback."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from lakemeta.binpack import pack


def packed(items: list[int], target: int, **more: int | bool) -> list[list[int]]:
    return list(pack(items, lambda item: item, target=target, **more))


def test_one_open_bin_is_closed_for_good() -> None:
    """With a lookback of 1, what does not fit opens a new bin, and nothing goes back."""
    assert packed([36, 36, 36, 73, 110, 128], 128) == [[36, 36, 36], [73], [110], [128]]


def test_a_lookback_lets_later_items_fill_earlier_bins() -> None:
    """With two bins open, an item goes into the first that takes it."""
    assert packed([36, 36, 36, 36, 65, 65, 128], 128, lookback=2) == [[36, 36, 36], [36, 65], [65], [128]]


def test_the_heaviest_bin_may_go_first() -> None:
    """largest_first closes the heaviest open bin instead of the oldest."""
    assert packed([36, 100, 36, 73], 128, lookback=2, largest_first=True) == [[100], [36, 36], [73]]
    assert packed([36, 36, 100, 73], 128, lookback=1, largest_first=True) == [[100], [73], [36, 36]]


def test_a_count_closes_bins_too() -> None:
    """max_items limits the items of a bin."""
    assert packed([1] * 5, 100, max_items=2) == [[1, 1], [1, 1], [1]]


def test_an_oversized_item_has_a_bin_of_its_own() -> None:
    """It is never dropped and never joined."""
    assert packed([5, 500, 5], 100) == [[5], [500], [5]]


def test_a_lookback_of_none_is_refused() -> None:
    """There must be at least one open bin."""
    with pytest.raises(ValueError, match="lookback"):
        packed([1], 1, lookback=0)


@given(st.lists(st.integers(0, 50)), st.integers(1, 60), st.integers(1, 4), st.booleans(), st.integers(1, 5))
def test_every_item_is_packed_once(items: list[int], target: int, lookback: int, largest: bool, most: int) -> None:
    """Nothing is lost, limits hold, and items keep their order inside a bin."""
    pairs = list(enumerate(items))
    bins = list(pack(pairs, lambda p: p[1], target=target, lookback=lookback, largest_first=largest, max_items=most))
    assert sorted(p for b in bins for p in b) == pairs
    for held in bins:
        assert held == sorted(held)
        assert len(held) <= most
        assert len(held) == 1 or sum(weight for _, weight in held) <= target

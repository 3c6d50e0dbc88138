from __future__ import annotations

import pytest

from lakemeta.words import count_of, human_bytes


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

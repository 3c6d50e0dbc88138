"""A set of locations in 8 bytes each: what is held of every file that a table keeps, of which there may be millions.

Two locations may share a digest, though hardly ever do (a million with a million: one chance in 10^7). What is in the
set is kept, so the worst of it is a file that is left over.
"""

from __future__ import annotations

from array import array
from bisect import bisect_left
from hashlib import blake2b
from typing import TYPE_CHECKING, Final

from lakemeta.iceberg.spec.locations import file_key

if TYPE_CHECKING:
    from collections.abc import Iterable

_RUN: Final = 2**18  # digests that are sorted at a time


def digest(location: str) -> int:
    """A number of 64 bits that is the same for all spellings of a location."""
    return int.from_bytes(
        blake2b(file_key(location).encode("utf-8", "surrogatepass"), digest_size=8).digest(), "little"
    )


def pack(locations: Iterable[str]) -> bytes:
    """The digests of some locations, as :meth:`Digests.add_packed` takes them."""
    return array("Q", map(digest, locations)).tobytes()


class Digests:
    """Locations are added, and asked for."""

    def __init__(self) -> None:
        """Empty."""
        self._runs: list[array[int]] = []
        self._new: set[int] = set()

    def add(self, locations: Iterable[str]) -> None:
        """Add locations."""
        self.add_packed(pack(locations))

    def add_packed(self, digests: bytes) -> None:
        """Add what :func:`pack` made, on this machine or another of its kind."""
        self._new.update(array("Q", digests))
        if len(self._new) >= _RUN:
            self._runs.append(array("Q", sorted(self._new)))
            self._new = set()

    def __contains__(self, location: str) -> bool:
        value = digest(location)
        return value in self._new or any(_holds(run, value) for run in self._runs)


def _holds(run: array[int], value: int) -> bool:
    at = bisect_left(run, value)
    return at < len(run) and run[at] == value

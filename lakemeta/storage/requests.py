"""Requests to a store, counted by kind (I/O)."""

from __future__ import annotations

import threading
from collections import Counter
from typing import TYPE_CHECKING, Literal, Protocol, runtime_checkable

import attrs

if TYPE_CHECKING:
    from lakemeta.report import Report
    from lakemeta.storage.contract import Storage

Kind = Literal["LIST", "GET", "HEAD", "PUT", "DELETE"]


class RequestCounts:
    """Counts of requests by kind, each attempt of one; a bulk delete is one request. Safe for threads."""

    def __init__(self) -> None:
        self._counts: Counter[str] = Counter()
        self._lock = threading.Lock()

    def count(self, kind: Kind) -> None:
        """One more request."""
        with self._lock:
            self._counts[kind] += 1

    def take(self) -> dict[str, int]:
        """The counts since they were taken last, by kind in alphabetical order."""
        with self._lock:
            taken, self._counts = self._counts, Counter()
        return dict(sorted(taken.items()))


@runtime_checkable
class CountedStorage(Protocol):
    """A store that counts its requests."""

    @property
    def requests(self) -> RequestCounts:
        """The requests of this process; workers in other processes count their own."""
        ...


def counted(report: Report, storage: Storage) -> Report:
    """The report with the requests to a store since they were taken last; as it is if the store counts none."""
    return attrs.evolve(report, requests=storage.requests.take()) if isinstance(storage, CountedStorage) else report

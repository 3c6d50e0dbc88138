"""Cleans in the background of a writer that embeds lakemeta, such as a streaming job (I/O, one thread).

Rules of this module (the three moments are those of Hudi's ``CleanFunction`` for Flink):

1. ``open`` starts a clean; ``snapshot`` starts one if none is running; ``checkpoint_complete`` waits for it.
2. At most one clean is in flight. A start while one runs does nothing.
3. An error of a clean is reported (``last_error``, ``on_error``, the log) and never breaks the caller.
4. A plan that the writer makes stale before it is applied is made again, a few times.
5. ``close`` waits for the running clean or cancels it. A cancelled clean stops between two batches of deletes and stays
   pending on the timeline; the next clean, ours or Hudi's, finishes it.
"""

from __future__ import annotations

import logging
import threading
from concurrent.futures import Future, ThreadPoolExecutor
from typing import TYPE_CHECKING, Any, Self, TypeVar

from lakemeta.errors import LakemetaError, StalePlanError
from lakemeta.executor import Executor, LocalExecutor, nearby, ships
from lakemeta.hudi.table import HudiTable
from lakemeta.safeguards import MAX_SHARE, SAMPLE

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from lakemeta.events import Event
    from lakemeta.plan import Plan
    from lakemeta.report import Report

T = TypeVar("T")
R = TypeVar("R")
_TRIES = 3  # at a plan that the writer makes stale
_LOG = logging.getLogger("lakemeta.hudi.async_clean")


class CleanCancelledError(LakemetaError):
    """The clean was cancelled between two batches; it stays pending and is finished by the next one."""


class AsyncCleaner:
    """Keeps one Hudi table clean while a writer goes on.

    The writer calls ``open`` when it starts, ``snapshot`` when it begins a checkpoint (or a micro-batch),
    ``checkpoint_complete`` when that is done, and ``close`` at its end; or uses the cleaner as a context manager, which
    opens and closes it.
    """

    def __init__(
        self,
        url: str,
        options: Mapping[str, str] | None = None,
        *,
        storage_options: Mapping[str, str] | None = None,
        executor: Executor | None = None,
        table_services_enabled: bool = True,
        inline_scheduling: bool = False,
        assume_single_writer: bool = False,
        proof: str = SAMPLE,
        max_share: float = MAX_SHARE,
        on_error: Callable[[Exception], None] | None = None,
        on_event: Callable[[Event], None] | None = None,
    ) -> None:
        """``options`` are those of a clean (``hoodie.clean.*``).

        With ``table_services_enabled`` false nothing is ever started, as with ``hoodie.table.services.enabled=false``.
        With ``inline_scheduling`` the plan is made and requested in the caller's thread, at a moment when the writer
        holds still, and only executed in the background. ``assume_single_writer`` goes ahead without a lock that
        lakemeta cannot take; ``proof`` and ``max_share`` are those of :meth:`HudiTable.apply`.
        """
        self._url = url
        self._options = dict(options or {})
        self._storage_options = dict(storage_options or {})
        self._executor = _Cancellable(executor or LocalExecutor())
        self._enabled = table_services_enabled
        self._inline = inline_scheduling
        self._safely: dict[str, Any] = {
            "assume_single_writer": assume_single_writer,
            "proof": proof,
            "max_share": max_share,
        }
        self._on_error = on_error
        self._on_event = on_event
        self._pool: ThreadPoolExecutor | None = None
        self._running: Future[Report | None] | None = None
        self.last_report: Report | None = None
        self.last_error: Exception | None = None

    def __enter__(self) -> Self:
        self.open()
        return self

    def __exit__(self, *exc: object) -> None:
        self.close(cancel=exc[0] is not None)

    def open(self) -> None:
        """Begin: start a clean in the background."""
        if self._enabled and self._pool is None:
            self._pool = ThreadPoolExecutor(1, thread_name_prefix="lakemeta-clean")
        self.snapshot()

    def snapshot(self) -> bool:
        """Start a clean unless one is running; True if one was started."""
        if self._pool is None or self.running:
            return False
        self._collect()
        plan = self._schedule() if self._inline else None
        if self._inline and plan is None:
            return False
        self._running = self._pool.submit(self._clean, plan)
        return True

    def checkpoint_complete(self, timeout: float | None = None) -> Report | None:
        """Wait for the running clean, at most ``timeout`` seconds; its report, or None if it failed or still runs."""
        if self._running is None:
            return None
        try:
            self._running.exception(timeout)
        except TimeoutError:
            return None
        return self._collect()

    @property
    def running(self) -> bool:
        """True while a clean is in flight."""
        return self._running is not None and not self._running.done()

    def close(self, *, cancel: bool = False) -> None:
        """Wait for the running clean, or ask it to stop after the batch at hand; then end."""
        if self._pool is None:
            return
        if cancel:
            self._executor.cancel()
        self._pool.shutdown(wait=True)
        self._pool = None
        self._collect()

    def _schedule(self) -> Plan | None:
        """Make and request the plan now; what is left to do in the background is to execute the pending clean."""
        try:
            table = self._open_table()
            table.schedule_clean(self._plan(table), executor=self._executor, **self._safely)
            return self._plan(table)
        except Exception as error:  # noqa: BLE001 - rule 3: a clean never breaks its caller
            self._report_error(error)
            return None

    def _clean(self, plan: Plan | None) -> Report | None:
        table = self._open_table()
        for _ in range(_TRIES - 1):
            try:
                return table.apply(plan or self._plan(table), executor=self._executor, **self._safely)
            except StalePlanError:
                plan = None
        return table.apply(self._plan(table), executor=self._executor, **self._safely)

    def _plan(self, table: HudiTable) -> Plan:
        return table.plan_clean(self._options, executor=self._executor)

    def _open_table(self) -> HudiTable:
        return HudiTable.open(self._url, self._storage_options, on_event=self._on_event)

    def _collect(self) -> Report | None:
        """Take the result of a finished clean."""
        running, self._running = self._running, None
        if running is None:
            return None
        error = running.exception()
        if isinstance(error, Exception):
            self._report_error(error)
            return None
        if error is not None:
            raise error
        self.last_report, self.last_error = running.result(), None
        return self.last_report

    def _report_error(self, error: Exception) -> None:
        self.last_error = error
        _LOG.warning("clean of %s failed: %s", self._url, error)
        if self._on_error is not None:
            self._on_error(error)


class _Cancellable:
    """An executor that stops between results once it is cancelled."""

    def __init__(self, inner: Executor, cancelled: threading.Event | None = None) -> None:
        self._inner = inner
        self._cancelled = cancelled or threading.Event()

    @property
    def ships(self) -> bool:
        return ships(self._inner)

    @property
    def nearby(self) -> _Cancellable:
        return _Cancellable(nearby(self._inner), self._cancelled)

    def cancel(self) -> None:
        self._cancelled.set()

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        for result in self._inner.map_batches(fn, self._until_cancelled(items), batch_size=batch_size):
            yield result
            self._check()

    def _until_cancelled(self, items: Iterable[T]) -> Iterator[T]:
        for item in items:
            self._check()
            yield item

    def _check(self) -> None:
        if self._cancelled.is_set():
            raise CleanCancelledError("the clean was cancelled; the next one finishes what it left pending")

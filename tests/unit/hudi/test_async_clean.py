"""The background cleaner: three moments, one clean in flight, errors that never break the caller."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterable, Iterator, Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest
from support.hudi_cases import data_files

from lakemeta.errors import ShareError, UnsupportedFeatureError
from lakemeta.events import Event
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.async_clean import AsyncCleaner, CleanCancelledError
from lakemeta.hudi.sample import SampleTable, write_sample_table

OPTIONS = {"hoodie.clean.commits.retained": "1"}


class HeldExecutor:
    """Holds the work back until it is let go."""

    def __init__(self) -> None:
        self.go = threading.Event()
        self.inner = LocalExecutor(1)

    def map_batches(
        self, fn: Callable[[Sequence[Any]], Iterable[Any]], items: Iterable[Any], *, batch_size: int
    ) -> Iterator[Any]:
        assert self.go.wait(20)
        return self.inner.map_batches(fn, items, batch_size=batch_size)


@pytest.fixture
def table(tmp_path: Path) -> SampleTable:
    return write_sample_table(str(tmp_path / "t"), datetime(2026, 8, 1, tzinfo=UTC))


def test_open_starts_a_clean_and_checkpoint_waits_for_it(table: SampleTable) -> None:
    """A clean begins at open; completing a checkpoint gives its report."""
    with AsyncCleaner(table.root, OPTIONS) as cleaner:
        report = cleaner.checkpoint_complete()
    assert report is not None
    assert report.deleted_files == 8
    assert cleaner.last_report == report


LOCKED = {
    **OPTIONS,
    "hoodie.write.concurrency.mode": "OPTIMISTIC_CONCURRENCY_CONTROL",
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.ZookeeperBasedLockProvider",
}


@pytest.mark.parametrize("inline", [False, True])
@pytest.mark.parametrize(
    ("options", "refused", "more"),
    [(LOCKED, UnsupportedFeatureError, {"assume_single_writer": True}), (OPTIONS, ShareError, {"max_share": 100})],
)
def test_what_the_caller_answers_for(
    table: SampleTable, options: dict[str, str], refused: type[Exception], more: dict[str, Any], inline: bool
) -> None:
    """A lock that cannot be taken and a large share refuse a clean, unless the caller says that it may go ahead."""
    share = {"max_share": 10} if refused is ShareError else {}
    with AsyncCleaner(table.root, options, inline_scheduling=inline, **share) as cleaner:
        assert cleaner.checkpoint_complete() is None
    assert isinstance(cleaner.last_error, refused)
    with AsyncCleaner(table.root, options, inline_scheduling=inline, **more) as cleaner:
        cleaner.checkpoint_complete()
    assert cleaner.last_error is None
    assert cleaner.last_report is not None
    assert cleaner.last_report.deleted_files == 8


def test_one_clean_in_flight(table: SampleTable) -> None:
    """A snapshot while a clean runs starts nothing; after it completed, one more starts."""
    held = HeldExecutor()
    cleaner = AsyncCleaner(table.root, OPTIONS, executor=held)
    cleaner.open()
    assert cleaner.running
    assert not cleaner.snapshot()
    held.go.set()
    assert cleaner.checkpoint_complete() is not None
    assert cleaner.snapshot()
    cleaner.close()
    assert cleaner.last_report is not None
    assert cleaner.last_report.committed is None


def test_waiting_has_an_end(table: SampleTable) -> None:
    """Waiting at a checkpoint ends after its timeout and leaves the clean running."""
    held = HeldExecutor()
    cleaner = AsyncCleaner(table.root, OPTIONS, executor=held)
    cleaner.open()
    assert cleaner.checkpoint_complete(timeout=0.01) is None
    assert cleaner.running
    held.go.set()
    cleaner.close()
    assert cleaner.last_report is not None


def test_an_error_is_reported_and_breaks_nothing(tmp_path: Path) -> None:
    """A clean of a table that is not there fails in the background; the caller hears of it and goes on."""
    heard: list[Exception] = []
    with AsyncCleaner(str(tmp_path / "none"), OPTIONS, on_error=heard.append) as cleaner:
        assert cleaner.checkpoint_complete() is None
    assert [type(e).__name__ for e in heard] == ["TableNotFoundError"]
    assert cleaner.last_error is heard[0]


def test_table_services_can_be_off(table: SampleTable) -> None:
    """Without table services nothing is ever started."""
    before = data_files(table.root)
    with AsyncCleaner(table.root, OPTIONS, table_services_enabled=False) as cleaner:
        assert not cleaner.snapshot()
        assert cleaner.checkpoint_complete() is None
    assert data_files(table.root) == before


def test_inline_scheduling_requests_in_the_callers_thread(table: SampleTable) -> None:
    """With inline scheduling the requested clean is on the timeline before open returns."""
    cleaner = AsyncCleaner(table.root, OPTIONS, inline_scheduling=True)
    cleaner.open()
    assert list(Path(table.root).glob(".hoodie/timeline/*.clean.requested"))
    cleaner.close()
    assert len(list(Path(table.root).glob(".hoodie/timeline/*_*.clean"))) == 1


def test_cancel_leaves_a_clean_that_the_next_one_finishes(table: SampleTable) -> None:
    """Closing with cancel stops between batches; whatever is pending is executed by the next clean."""
    held = HeldExecutor()
    cleaner = AsyncCleaner(table.root, OPTIONS, executor=held, inline_scheduling=False)
    cleaner.open()
    closing = threading.Thread(target=cleaner.close, kwargs={"cancel": True})
    closing.start()
    cleaner._executor._cancelled.wait(20)
    held.go.set()
    closing.join()
    assert isinstance(cleaner.last_error, CleanCancelledError)
    again = HudiTable.open(table.root)
    assert again.apply(again.plan_clean(OPTIONS)).deleted_files == 8


def test_events_tell_of_plan_and_application(table: SampleTable) -> None:
    """A listener hears that a plan started and was made, that it was applied, and what it freed."""
    heard: list[Event] = []
    hudi = HudiTable.open(table.root, on_event=heard.append)
    hudi.apply(hudi.plan_clean(OPTIONS))
    assert [e.name for e in heard] == ["plan_started", "plan_made", "apply_started", "applied"]
    assert heard[1].fields["files"] == heard[3].fields["deleted_files"] == 8
    assert heard[3].fields["freed_bytes"] == heard[1].fields["bytes"] > 0
    assert '"event":"applied"' in heard[3].to_json_line()


def test_events_tell_of_failure(table: SampleTable) -> None:
    """A refused plan is heard of as failed, with the sentence, and raised all the same."""
    heard: list[Event] = []
    hudi = HudiTable.open(table.root, on_event=heard.append)
    plan = hudi.plan_clean(OPTIONS)
    table.upsert({"lima": [{"id": "lima-00001", "ts": 9, "fare": 1.0}]})
    other = HudiTable.open(table.root)
    other.apply(other.plan_clean(OPTIONS))
    with pytest.raises(Exception, match="plan again"):
        hudi.apply(plan)
    assert heard[-1].name == "failed"
    assert "plan again" in heard[-1].fields["message"]

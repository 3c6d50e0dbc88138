"""Progress on stderr for long work: an executor that counts what passes through another, and a bar of bytes."""

from __future__ import annotations

from collections.abc import Sized
from contextlib import contextmanager
from typing import TYPE_CHECKING, TypeVar

from lakemeta.executor import nearby, ships

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence

    from lakemeta.events import Progress
    from lakemeta.executor import Executor

T = TypeVar("T")
R = TypeVar("R")


class ProgressExecutor:
    """Shows a bar for every run of ``map_batches`` over more than one batch; the work is the inner executor's."""

    def __init__(self, inner: Executor, title: str) -> None:
        """``title`` stands beside the bar."""
        self.inner = inner
        self.title = title

    @property
    def ships(self) -> bool:
        """As the inner executor."""
        return ships(self.inner)

    @property
    def nearby(self) -> ProgressExecutor:
        """The same around the inner executor's."""
        return ProgressExecutor(nearby(self.inner), self.title)

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        """Yield the inner executor's results, counting them."""
        from rich.console import Console
        from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn

        total = len(items) if isinstance(items, Sized) else None
        results = self.inner.map_batches(fn, items, batch_size=batch_size)
        if total is not None and total <= batch_size:
            yield from results
            return
        columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
        with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
            yield from progress.track(results, total=total, description=self.title)


@contextmanager
def rewrite_bar() -> Iterator[Callable[[Progress], None]]:
    """A bar of groups and bytes, updated by what it yields; it appears with the first update."""
    from rich.console import Console
    from rich.progress import BarColumn, DownloadColumn, TextColumn, TimeRemainingColumn, TransferSpeedColumn
    from rich.progress import Progress as Bar

    columns = (
        TextColumn("rewriting {task.fields[groups]}"),
        BarColumn(),
        DownloadColumn(binary_units=True),
        TransferSpeedColumn(),
        TimeRemainingColumn(elapsed_when_finished=True),
    )
    with Bar(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("", visible=False, groups="")

        def update(progress: Progress) -> None:
            groups = f"{progress.groups:,}/{progress.groups_total:,} groups"
            bar.update(task, total=progress.bytes_total, completed=progress.bytes, groups=groups, visible=True)

        yield update

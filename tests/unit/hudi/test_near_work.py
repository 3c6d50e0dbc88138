"""What is not worth shipping to a cluster is done where the driver runs."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest
from support.builders import TableFiles, moment
from support.executors import Cluster

from lakemeta.cli.progress import ProgressExecutor
from lakemeta.environment import Environment
from lakemeta.executor import Executor, LocalExecutor, nearby, ships
from lakemeta.hudi import HudiTable
from lakemeta.hudi.async_clean import _Cancellable

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

OPTIONS = {"hoodie.clean.commits.retained": "1"}


def table_of(root: Path, partitions: int, commits: int) -> HudiTable:
    files = TableFiles(root)
    groups = {f"p{number}": "a" for number in range(partitions)}
    files.insert(groups)
    for _ in range(commits - 1):
        files.commit(groups)
    return HudiTable.open(str(root))


@pytest.mark.parametrize(("partitions", "shipped"), [(1, []), (2, [2]), (9, [9])])
def test_a_short_timeline_is_read_here(partitions: int, shipped: list[int], tmp_path: Path) -> None:
    """Partitions are shipped; neither is a timeline that takes longer to ship than to read, nor a single directory."""
    table = table_of(tmp_path / "t", partitions, 4)
    cluster = Cluster()
    plan = table.plan_clean(OPTIONS, now=moment(9), executor=cluster)
    assert cluster.shipped == shipped
    assert plan.dumps() == table.plan_clean(OPTIONS, now=moment(9)).dumps()
    cluster.shipped.clear()
    table.apply(plan, executor=cluster, env=Environment(lambda: moment(9)))
    judged = [partitions] if partitions > 8 else []
    assert cluster.shipped == [*judged, plan.files]


def test_a_long_timeline_is_shipped(tmp_path: Path) -> None:
    """Many instants are read by many."""
    cluster = Cluster()
    table_of(tmp_path / "t", 2, 70).plan_clean(OPTIONS, now=moment(80), executor=cluster)
    assert cluster.shipped == [70, 2]


@pytest.mark.parametrize("around", [lambda inner: ProgressExecutor(inner, "working"), _Cancellable])
def test_executors_around_others_are_near_where_those_are(around: Callable[[Executor], Executor]) -> None:
    """What is near an executor around another is around what is near that one; alone, threads are near themselves."""
    cluster = Cluster()
    assert list(nearby(around(cluster)).map_batches(list, [1], batch_size=1)) == [1]
    assert cluster.shipped == []
    assert nearby(cluster) is cluster.nearby
    assert nearby(cluster.nearby) is cluster.nearby


class Minimal:
    """All that an executor must have."""

    def map_batches(
        self, fn: Callable[[Sequence[Any]], Iterable[Any]], items: Iterable[Any], *, batch_size: int
    ) -> Iterator[Any]:
        return LocalExecutor(1).map_batches(fn, items, batch_size=batch_size)


@pytest.mark.parametrize("around", [lambda inner: ProgressExecutor(inner, "working"), _Cancellable])
def test_executors_around_others_ship_what_those_ship(around: Callable[[Executor], Executor]) -> None:
    """An executor with ``map_batches`` alone is taken to ship everything: nothing else is known of it."""
    for inner, shipped in ((Minimal(), True), (Cluster(), True), (LocalExecutor(1), False)):
        assert ships(inner) == ships(around(inner)) == shipped
    minimal = Minimal()
    assert nearby(minimal) is minimal


def test_cancelled_here_and_there() -> None:
    """A cancelled executor stops near work too."""
    cancellable = _Cancellable(Cluster(), threading.Event())
    near = nearby(cancellable)
    cancellable.cancel()
    with pytest.raises(Exception, match="was cancelled"):
        list(near.map_batches(list, [1], batch_size=1))

"""A plan is a function of the table: nothing about how it is computed changes a byte, and half a listing gives none."""

from __future__ import annotations

from contextlib import suppress
from itertools import count
from typing import TYPE_CHECKING, Any, TypeVar

import attrs
import pytest
from support.builders import TableFiles, base, moment, tree
from support.faults import WrappedStorage

from lakemeta.errors import StorageError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Sequence
    from pathlib import Path

    from lakemeta.executor import Executor
    from lakemeta.storage import Entry, Storage

pytestmark = pytest.mark.slow

T = TypeVar("T")
R = TypeVar("R")
POLICIES = [
    {"hoodie.clean.commits.retained": "2"},
    {"hoodie.clean.policy": "KEEP_LATEST_FILE_VERSIONS", "hoodie.clean.fileversions.retained": "1"},
    {"hoodie.clean.policy": "KEEP_LATEST_BY_HOURS", "hoodie.clean.hours.retained": "3"},
]


class Backwards(WrappedStorage):
    """Lists in the other order."""

    def list_dir(self, path: str) -> list[Entry]:
        return self.inner.list_dir(path)[::-1]


class BreaksOff(WrappedStorage):
    """The ``at``-th listing fails part-way."""

    def __init__(self, inner: Storage, at: int) -> None:
        super().__init__(inner)
        self.left = at

    def list_dir(self, path: str) -> list[Entry]:
        self.left -= 1
        if self.left == 0:
            raise StorageError(f"cannot list {path}: the connection was lost")
        return self.inner.list_dir(path)


@attrs.frozen
class InBatches:
    """Takes batches of its own size, whatever was asked for."""

    inner: Executor
    size: int

    def map_batches(
        self, fn: Callable[[Sequence[T]], Iterable[R]], items: Iterable[T], *, batch_size: int
    ) -> Iterator[R]:
        return self.inner.map_batches(fn, items, batch_size=self.size)


@pytest.fixture(scope="module")
def root(tmp_path_factory: pytest.TempPathFactory) -> Path:
    root = tmp_path_factory.mktemp("tables") / "t"
    table = TableFiles(root, 9, mor=True)
    partitions = [f"dt={n}/h={n % 3}" for n in range(30)]
    table.insert(dict.fromkeys(partitions, "abc"))
    for number in range(5):
        table.commit(dict.fromkeys(partitions[number:], "ab"))
        table.delta(dict.fromkeys(partitions[number::2], "ac"))
    table.delete_partition(partitions[3])
    table.delete_partition(partitions[4])
    named = {partition: [base("c", 1)] for partition in partitions[:3] + partitions[5:]}
    table.savepoint(table.hour - 1, {**named, partitions[0]: [base("a", 2), base("c", 1)]})
    for _ in range(4):
        table.commit({partitions[0]: "a"})
    return root


def plan(root: Path, options: dict[str, str], storage: Storage, executor: Any, explain: bool = True) -> str:
    table = HudiTable.open(str(root))
    table = attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))
    return table.plan_clean(options, now=moment(12), executor=executor, explain=explain).dumps()


@pytest.mark.parametrize("options", POLICIES)
def test_no_byte_depends_on_order_batches_or_executor(root: Path, options: dict[str, str]) -> None:
    """Listing order, batch size and executor change no byte of a plan."""
    expected = plan(root, options, LocalStorage(), LocalExecutor(1))
    assert expected.count('"delete"') > 100
    assert plan(root, options, Backwards(LocalStorage()), LocalExecutor(1)) == expected
    for executor in (LocalExecutor(8), InBatches(LocalExecutor(1), 1), InBatches(LocalExecutor(3), 1000)):
        assert plan(root, options, LocalStorage(), executor) == expected


@pytest.mark.parametrize("threads", [1, 8])
def test_a_listing_that_breaks_off_gives_no_plan(root: Path, threads: int) -> None:
    """If any listing fails, planning raises and nothing has changed."""
    before = tree(root)
    for at in count(1, 7):
        storage = BreaksOff(LocalStorage(), at)
        with suppress(StorageError):
            plan(root, POLICIES[0], storage, LocalExecutor(threads))
            break
    assert at > 60  # the timeline, the root and every directory
    assert tree(root) == before

"""Two cleans at once without a lock, with a metadata table: whatever they leave, the next clean brings both into step.

Every combination of two crashes is tried with ``LAKEMETA_ALL_CRASHES=1``; some of them always.
"""

from __future__ import annotations

import os
from contextlib import suppress
from typing import TYPE_CHECKING

import attrs
import pytest
from support.faults import Crash, FaultyStorage, HookedStorage
from support.hudi_cases import data_files
from support.hudi_mdt_cases import MdtCase, lay_out

from lakemeta.environment import utc_now
from lakemeta.errors import LakemetaError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.clean.apply import begin, run
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from pathlib import Path

    from lakemeta.hudi.clean.apply import Applying
    from lakemeta.storage import Storage

CASES = ["1.2.0__mdt_cow__commits2", "0.15.0__mdt_cow__delpart_commits1"]
RETAINED = {"1.2.0__mdt_cow__commits2": "2", "0.15.0__mdt_cow__delpart_commits1": "1"}
ONE = LocalExecutor(threads=1)
EVERY = 1 if os.environ.get("LAKEMETA_ALL_CRASHES") else 13


def opened(case: MdtCase, storage: Storage) -> HudiTable:
    table = HudiTable.open(case.root)
    return attrs.evolve(table, place=attrs.evolve(table.place, storage=storage))


def options(case: MdtCase) -> dict[str, str]:
    return {"hoodie.clean.commits.retained": RETAINED[case.directory.name]}


def begun(case: MdtCase, storage: Storage) -> Applying:
    """A clean that has looked at the table and will write next."""
    table = opened(case, storage)
    return begin(table.place, table.plan_clean(options(case), executor=ONE), ONE, utc_now)


def clean(case: MdtCase) -> None:
    table = HudiTable.open(case.root)
    table.apply(table.plan_clean(options(case), executor=ONE), executor=ONE)


def assert_in_step(case: MdtCase) -> None:
    """Nothing is pending on either timeline, what the engine deleted is gone, and the listing is what is there."""
    table = case.open()
    assert not table.timeline.pending.instants
    assert not table.data.pending.instants
    left = {name for name in data_files(case.root) if "_partition_metadata" not in name}
    assert left == {f"{p}/{n}" if p else n for p, names in case.listing().items() for n in names}
    assert case.listing() == case.facts["listing_after"]


def test_both_left_their_delta_commits_pending(tmp_path: Path) -> None:
    """The state that used to be a dead end: two requested cleans, and a pending delta commit of each."""
    for name in CASES:
        case = lay_out(name, tmp_path)
        for cleaning in [begun(case, CrashAfterRequestingItsDeltaCommit()) for _ in range(2)]:
            with pytest.raises(Crash):
                run(cleaning)
        assert [i.action for i in case.open().timeline.pending] == ["deltacommit", "deltacommit"]
        clean(case)
        assert_in_step(case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_two_cleans_that_die_anywhere(name: str, tmp_path: Path) -> None:
    """Both have looked at the table before either wrote; one dies at one write, the other at another."""
    case = lay_out(name, tmp_path / "count")
    storage = FaultyStorage(LocalStorage())
    run(begun(case, storage))
    combinations = [(k, j) for k in range(1, storage.operations + 1) for j in range(1, storage.operations + 1)]
    assert len(combinations) > 64
    for k, j in combinations[::EVERY]:
        case = lay_out(name, tmp_path / f"{k}_{j}")
        both = [begun(case, FaultyStorage(LocalStorage(), at, "after")) for at in (k, j)]
        for cleaning in both:
            with suppress(Crash, LakemetaError):
                run(cleaning)
        clean(case)
        clean(case)
        assert_in_step(case)


@pytest.mark.slow
@pytest.mark.parametrize("name", CASES)
def test_another_clean_from_end_to_end_at_any_moment(name: str, tmp_path: Path) -> None:
    """The second plans and runs while the first is between two writes, and may take up what the first left pending."""
    at, acted = 0, True
    while acted:
        at += 1
        case = lay_out(name, tmp_path / str(at))
        meanwhile = Meanwhile(case, at)
        with suppress(LakemetaError):
            run(begun(case, meanwhile))
        acted = meanwhile.acted
        clean(case)
        assert_in_step(case)
    assert at > 8


class Meanwhile(HookedStorage):
    """Lets a whole other clean run right before the ``at``-th write."""

    def __init__(self, case: MdtCase, at: int) -> None:
        super().__init__(LocalStorage(), self._look)
        self._case, self._at, self._writes, self.acted = case, at, 0, False

    def _look(self, name: str, _: str) -> None:
        if name in ("create", "delete_many", "delete_tree", "replace"):
            self._writes += 1
            if self._writes == self._at:
                self.acted = True
                clean(self._case)


class CrashAfterRequestingItsDeltaCommit(HookedStorage):
    """Dies once a delta commit is inflight in the metadata table."""

    def __init__(self) -> None:
        super().__init__(LocalStorage(), self._look)
        self._dead = False

    def _look(self, name: str, path: str) -> None:
        if self._dead or (name == "create" and "/.hoodie/metadata/files/" in path):
            self._dead = True
            raise Crash(path)

"""Tables whose metadata table has a pending delta commit that nobody will complete: how a clean gets on.

The recorded tables are those of ``generate/hudi_leftovers.py``: a compaction or a clustering failed, and real Hudi
rolled its delta commit back in the metadata table when it cleaned. What its clean left is what ours must leave.
"""

from __future__ import annotations

import json
import os
import tarfile
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING, Any

import attrs
import pytest
from support.builders import avro
from support.commands import runner
from support.faults import Crash, FaultyStorage, HookedStorage
from support.hudi_cases import data_files

from lakemeta.errors import LakemetaError, StalePlanError, UnsupportedFeatureError
from lakemeta.executor import LocalExecutor
from lakemeta.hudi import HudiTable
from lakemeta.hudi.metadata_table.table import MetadataTable
from lakemeta.hudi.timeline.loading import load_config, load_timeline
from lakemeta.storage import LocalStorage

if TYPE_CHECKING:
    from collections.abc import Mapping

    from lakemeta.report import Report
    from lakemeta.storage import Storage

DATA = Path(__file__).parent / "data" / "hudi_leftovers"
CASES = sorted(path.name for path in DATA.iterdir())
OPTIONS = {"hoodie.clean.commits.retained": "1", "lakemeta.timeline.timezone": "UTC"}
LOCKED = {
    **OPTIONS,
    "hoodie.write.lock.provider": "org.apache.hudi.client.transaction.lock.FileSystemBasedLockProvider",
    "hoodie.clean.failed.writes.policy": "LAZY",
}
ONE = LocalExecutor(threads=1)
WRONG = {"metadata_table_lists_missing", "metadata_table_lacks", "metadata_table_unusable", "metadata_table_pending"}


@attrs.frozen
class Case:
    """A recorded table laid out: data files have their sizes, and nothing in them."""

    root: Path
    after: set[str]

    @property
    def failed(self) -> str:
        """The instant of the compaction or clustering that failed."""
        (pending,) = self.metadata().timeline.pending
        return pending.requested

    def table(self, storage: Storage | None = None) -> HudiTable:
        table = HudiTable.open(str(self.root))
        return attrs.evolve(table, place=attrs.evolve(table.place, storage=storage)) if storage else table

    def clean(self, options: Mapping[str, str] = OPTIONS, storage: Storage | None = None, **how: Any) -> Report:
        table = self.table(storage)
        return table.apply(table.plan_clean(options, executor=ONE), executor=ONE, **how)

    def roll_back(self, storage: Storage | None = None) -> Report:
        table = self.table(storage)
        return table.apply(table.plan_rollback(OPTIONS, executor=ONE), executor=ONE)

    def metadata(self) -> MetadataTable:
        storage, root = LocalStorage(), str(self.root)
        config = load_config(storage, root)
        return MetadataTable.open(storage, root, config, load_timeline(storage, root, config))

    def beat(self, folder: str, instant: str) -> None:
        """A heartbeat of an instant, touched just now."""
        path = self.root / folder / ".hoodie/.heartbeat" / instant
        path.parent.mkdir(parents=True, exist_ok=True)
        path.touch()
        os.utime(path)

    def assert_cleaned(self) -> None:
        """What the engine left is left, and the metadata table and storage say the same of it."""
        assert {name for name in data_files(str(self.root)) if "_partition_metadata" not in name} == self.after
        assert not {f.kind for f in self.table().doctor(OPTIONS, executor=ONE)} & WRONG
        assert not self.metadata().timeline.pending.instants


def lay_out(name: str, into: Path) -> Case:
    facts = json.loads((DATA / name / "case.json").read_text())
    root = into / name
    with tarfile.open(DATA / name / "before.tar.xz") as archive:
        archive.extractall(root, filter="data")
    for path, size in facts["before"].items():
        (root / path).parent.mkdir(parents=True, exist_ok=True)
        with (root / path).open("wb") as file:
            file.truncate(size)
    return Case(root, {path for path in facts["after"] if "_partition_metadata" not in path})


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest, tmp_path: Path) -> Case:
    return lay_out(request.param, tmp_path)


def test_the_message_names_the_command_that_gets_on(
    case: Case, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """Without a lock a person has to say that no writer is at work: one command does, and then cleans work."""
    with pytest.raises(UnsupportedFeatureError) as refused:
        case.clean()
    command = str(refused.value).partition("if no writer is at work, run: lakemeta ")[2]
    assert command == f"rollback {case.root}"
    lakemeta = runner(monkeypatch, capsys)
    done = lakemeta(*command.split(), "--yes")
    assert (done.code, "metadata rollbacks" in done.out) == (0, True)
    case.clean()
    case.assert_cleaned()
    left = lakemeta(*command.split(), "--dry-run")
    assert (left.code, "Nothing to do." in left.out) == (0, True)


@pytest.mark.parametrize("how", ["lock", "word"])
def test_with_a_lock_or_the_word_that_nobody_writes_a_clean_does_it_itself(case: Case, how: str) -> None:
    """As Hudi does: who writes to the metadata table holds the lock, so that whatever is pending then is dead."""
    failed = case.failed
    report = case.clean(LOCKED) if how == "lock" else case.clean(assume_single_writer=True)
    assert any(note.startswith(f"delta commit {failed} of the metadata table was rolled") for note in report.notes)
    case.assert_cleaned()


@pytest.mark.parametrize("folder", ["", ".hoodie/metadata"])
def test_a_writer_at_work_is_left_alone(case: Case, folder: str) -> None:
    """A fresh heartbeat on either table: nothing is changed, and no advice points at what the writer makes."""
    case.beat(folder, case.failed)
    before = sorted(case.root.rglob("*"))
    for options in (OPTIONS, LOCKED):
        with pytest.raises(UnsupportedFeatureError, match=r"its writer is at work, so clean again when it is done$"):
            case.clean(options)
    plan = case.table().plan_rollback(OPTIONS, executor=ONE)
    assert (plan.header.facts.get("metadata_rollbacks"), plan.header.facts["alive_writes"]) == (None, [case.failed])
    assert sorted(case.root.rglob("*")) == before


def test_a_writer_that_comes_to_life_after_the_plan(case: Case) -> None:
    """The plan is stale."""
    table = case.table()
    plan = table.plan_rollback(OPTIONS, executor=ONE)
    case.beat("", case.failed)
    with pytest.raises(StalePlanError, match="is alive again; plan again"):
        table.apply(plan, executor=ONE)


def test_never_means_never(case: Case) -> None:
    """A policy of NEVER rolls nothing back, here neither."""
    options = {**OPTIONS, "hoodie.clean.failed.writes.policy": "NEVER"}
    assert "metadata_rollbacks" not in case.table().plan_rollback(options, executor=ONE).header.facts


def test_one_whose_action_is_gone(case: Case) -> None:
    """The data table has no such action any more: it was rolled back there, or unscheduled."""
    for path in case.metadata().data.instants:
        if path.requested == case.failed:
            for file in (case.root / ".hoodie").glob(f"**/{path.requested}.*"):
                if "metadata" not in file.parts:
                    file.unlink()
    assert case.roll_back().committed is not None
    case.clean()
    assert not case.metadata().timeline.pending.instants


def test_one_whose_action_completed_says_that_the_metadata_table_is_behind(case: Case) -> None:
    """Nothing may be rolled back then; without its metadata table the table is cleaned."""
    failed = case.failed
    (action,) = (i for i in case.metadata().data if i.requested == failed)
    kind = {"compaction": "commit", "clustering": "replacecommit"}.get(action.action, action.action)
    folder = case.root / ".hoodie" / ("timeline" if case.metadata().config.layout == 2 else "")
    other = next(i for i in case.metadata().data.completed.of_actions("commit", "deltacommit"))
    name = f"{failed}_{int(failed) + 5000}.{kind}" if other.completion else f"{failed}.{kind}"
    content = (folder / other.file_name).read_bytes()
    if kind == "replacecommit":
        record = {"partitionToWriteStats": {}, "partitionToReplaceFileIds": {}, "operationType": "CLUSTER"}
        as_json = content.startswith(b"{")
        content = json.dumps(record).encode() if as_json else avro("HoodieReplaceCommitMetadata", record)
    (folder / name).write_bytes(content)
    assert "metadata_rollbacks" not in case.table().plan_rollback(OPTIONS, executor=ONE).header.facts
    with pytest.raises(UnsupportedFeatureError, match="take the table off its metadata table with: lakemeta clean"):
        case.clean()
    assert case.clean(drop_metadata_table=True).complete


@pytest.mark.slow
@pytest.mark.parametrize("name", [CASES[0], CASES[-1]])
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_rollback_that_dies_is_finished(name: str, when: str, tmp_path: Path) -> None:
    """Whichever write to storage it dies at, the same commands get on; begun rollbacks are finished."""
    for at in count(1):
        case = lay_out(name, tmp_path / str(at))
        storage = FaultyStorage(LocalStorage(), at, when)
        try:
            case.roll_back(storage)
        except Crash:
            case.roll_back()
        case.clean()
        case.assert_cleaned()
        assert len(case.metadata().timeline.of_actions("rollback")) <= 2
        if not storage.crashed:
            break
    assert at > 4


def test_a_writer_that_requests_its_commit_while_the_clean_looks(case: Case) -> None:
    """A delta commit that appears between two looks is its writer's: it is never taken for one without an action."""
    case.roll_back()
    folder = case.root / ".hoodie" / ("timeline" if case.metadata().config.layout == 2 else "")
    told = case.metadata().timeline_path

    def begin(name: str, path: str) -> None:
        if (name, path) == ("list_dir", told):  # the data table's timeline has been read before
            (folder / "20991231000000000.commit.requested").touch()
            (Path(told) / "20991231000000000.deltacommit.requested").touch()

    with pytest.raises(LakemetaError, match=r"the pending 2099\d+ deltacommit .* of commit 2099"):
        case.clean({**LOCKED, "hoodie.clean.failed.writes.policy": "EAGER"}, HookedStorage(LocalStorage(), begin))

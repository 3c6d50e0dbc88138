"""The commit loop: attempts, pauses, and which files are left after each way to end."""

from __future__ import annotations

from datetime import UTC, datetime

import attrs
import pytest
from support.faults import WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table

from lakemeta.errors import CommitConflictError, CommitStateUnknownError, StorageError
from lakemeta.iceberg.commit.committer import commit
from lakemeta.iceberg.commit.new_manifests import NewManifests
from lakemeta.iceberg.commit.snapshot_producer import next_snapshot
from lakemeta.iceberg.commit.snapshot_update import SnapshotUpdate
from lakemeta.iceberg.manifests.store import StoredManifests
from lakemeta.storage import LocalStorage


@pytest.fixture
def table(tmp_path) -> SmallTable:
    table = create_table(LocalStorage(), str(tmp_path / "t"), properties={"commit.retry.num-retries": "2"})
    for i in range(3):
        table.append([(i, "a", 0.5)])
    return table


class Rivals:
    """Operations that lose: somebody else commits first, ``times`` times; they keep what was asked of them."""

    def __init__(self, table: SmallTable, times: int) -> None:
        self.inner, self.times = table.operations, times
        self.rival = SmallTable(table.storage, table.root, seed=9)
        self.storage = table.storage
        self.attempts = 0

    def current(self):
        return self.inner.current()

    def refresh(self):
        return self.inner.refresh()

    def metadata_location(self, name):
        return self.inner.metadata_location(name)

    def commit(self, base, new):
        self.attempts += 1
        if self.attempts <= self.times:
            self.rival.append([(100 + self.attempts, "a", 0.5)])
        self.inner.commit(base, new)


def rewrite_all(table: SmallTable, operations, pauses: list[float] | None = None):
    files = tuple(table.data_files())
    update = SnapshotUpdate(
        added=(table.write([(i, "a", 0.5) for i in range(sum(f.record_count for f in files))]),),
        removed=files,
        starting_snapshot_id=table.head.snapshot_id,
        data_sequence_number=table.head.sequence_number,
    )
    stored = StoredManifests(table.storage, table.metadata.specs_by_id)
    new = NewManifests(operations.metadata_location, table.env.new_uuid(), 4711)
    env = attrs.evolve(table.env, sleep=(pauses if pauses is not None else []).append)
    draft = commit(operations, lambda base: next_snapshot(update, base, stored, new), env)
    return draft and draft.snapshot


def names(table: SmallTable) -> set[str]:
    return {entry.name for entry in table.storage.list_dir(f"{table.root}/metadata")}


def unreferenced(table: SmallTable) -> set[str]:
    state = TableState.local(table.root)
    known = {path.rpartition("/")[2] for path in state.referenced()}
    return {name for name in names(table) if name.endswith(".avro") and name not in known}


def test_a_lost_race_is_run_again_on_the_winners_table(table):
    """After a conflict the change is applied to the newest version, and both commits are in the table."""
    pauses: list[float] = []
    snapshot = rewrite_all(table, Rivals(table, 2), pauses)
    assert snapshot.snapshot_id == table.head.snapshot_id
    assert [s.operation for s in table.metadata.snapshots[-3:]] == ["append", "append", "replace"]
    assert len(TableState.local(table.root).rows()) == 5
    assert pauses == [0.1, 0.2]


def test_manifests_of_lost_attempts_are_removed_after_success(table):
    """The manifest lists of earlier attempts go; manifests that the last attempt uses again stay."""
    rewrite_all(table, Rivals(table, 1))
    assert unreferenced(table) == set()
    lists = [name for name in names(table) if name.startswith("snap-4711-")]
    assert len(lists) == 1
    assert lists[0].startswith("snap-4711-2-")


def test_retries_come_to_an_end(table):
    """When the retries are used up the conflict is raised, and no manifest of any attempt is left."""
    operations = Rivals(table, 9)
    with pytest.raises(CommitConflictError):
        rewrite_all(table, operations)
    assert operations.attempts == 3
    assert unreferenced(table) == set()


def test_a_conflict_that_stays_is_not_retried(table):
    """A change that is not allowed on the newer version fails at once."""
    operations = Rivals(table, 0)
    files = tuple(table.data_files())
    table.remove(files[0])
    update = SnapshotUpdate(removed=files, starting_snapshot_id=table.metadata.snapshots[-2].snapshot_id)
    stored = StoredManifests(table.storage, table.metadata.specs_by_id)
    new = NewManifests(operations.metadata_location, table.env.new_uuid(), 4711)
    with pytest.raises(CommitConflictError, match="Missing required files"):
        commit(operations, lambda base: next_snapshot(update, base, stored, new), table.env)
    assert operations.attempts == 0


class BrokenLine(WrappedStorage):
    """Creates a metadata version, or does not, and says that it failed; the first look after that fails, too."""

    def __init__(self, inner, *, arrives: bool) -> None:
        super().__init__(inner)
        self.arrives, self.broken = arrives, False

    def create(self, path, data):
        is_version = path.endswith(".metadata.json")
        if self.arrives or not is_version:
            self.inner.create(path, data)
        if is_version:
            self.broken = True
            raise StorageError("the line broke")

    def read(self, path):
        if self.broken:
            self.broken = False
            raise StorageError("the line is broken")
        return self.inner.read(path)


def broken(table: SmallTable, *, arrives: bool) -> SmallTable:
    return SmallTable(BrokenLine(table.storage, arrives=arrives), table.root, seed=5)


def test_an_unknown_state_is_looked_into(table):
    """If the snapshot turns out to be in the table, the commit has happened."""
    line = broken(table, arrives=True)
    snapshot = rewrite_all(line, line.operations)
    assert table.head.snapshot_id == snapshot.snapshot_id
    assert unreferenced(table) == set()


class LateLine(Rivals):
    """Operations whose commit is answered by an error, and whose version shows only at the third look after that."""

    error: type[Exception] = CommitStateUnknownError
    looks = 0

    def commit(self, base, new):
        self.before = base
        self.inner.commit(base, new)
        raise self.error("no answer")

    def refresh(self):
        self.looks += hasattr(self, "before")
        if self.looks == 1:
            raise StorageError("it does not answer")
        return self.before if self.looks == 2 else self.inner.refresh()


def test_an_unknown_state_is_looked_into_again_and_again(table):
    """A catalog that comes back, or is slow to commit, is waited for as commit.status-check.* say."""
    pauses: list[float] = []
    snapshot = rewrite_all(table, LateLine(table, 0), pauses)
    assert table.operations.refresh().metadata.current_snapshot_id == snapshot.snapshot_id
    assert pauses == [1.0, 2.0]


class Repeater(LateLine):
    """Operations behind something that repeats a request whose answer it lost: the second is a conflict."""

    error = CommitConflictError

    def refresh(self):
        return self.inner.refresh()


def test_a_conflict_with_the_own_commit_is_none(table):
    """The snapshot is in the table, so nothing is tried again and none of its files is removed."""
    operations = Repeater(table, 0)
    snapshot = rewrite_all(table, operations)
    assert snapshot.snapshot_id == operations.refresh().metadata.current_snapshot_id
    assert len(TableState.local(table.root).rows()) == 3
    assert unreferenced(table) == set()


def test_a_conflict_after_which_the_table_cannot_be_read_is_unknown(table):
    """It may have been one with the own commit, so every file stays."""

    class Gone(Repeater):
        def refresh(self):
            if hasattr(self, "before"):
                raise StorageError("it does not answer")
            return self.inner.refresh()

    with pytest.raises(CommitStateUnknownError, match="could not be read"):
        rewrite_all(table, Gone(table, 0))
    assert len(TableState.local(table.root).rows()) == 3


def test_an_unknown_state_removes_nothing(table):
    """If nobody can say, every file stays: the metadata may still arrive and name it."""
    before = names(table)
    line = broken(table, arrives=False)
    with pytest.raises(CommitStateUnknownError):
        rewrite_all(line, line.operations)
    assert {name for name in names(table) - before if name.endswith(".avro")} == unreferenced(table) != set()


def test_a_sure_failure_removes_the_manifests(table):
    """A commit that surely did not happen leaves no manifest behind."""

    class Full(WrappedStorage):
        def create(self, path, data):
            if path.endswith(".metadata.json"):
                raise StorageError("no space left on device")
            self.inner.create(path, data)

    full = SmallTable(Full(table.storage), table.root, seed=5)
    with pytest.raises(StorageError, match="no space"):
        rewrite_all(full, full.operations)
    assert unreferenced(table) == set()


def test_a_change_with_nothing_to_do_commits_nothing(table):
    """None is no version."""
    before = names(table)
    assert commit(table.operations, lambda base: None, table.env) is None
    assert names(table) == before


def test_a_clock_that_is_behind_does_not_turn_time_back(table):
    """A snapshot is never older than the metadata it is based on."""
    late = attrs.evolve(table.env, now=lambda: datetime.fromtimestamp(0.005, UTC))
    table.env = late
    before = table.metadata.last_updated_ms
    table.append([(9, "a", 0.5)])
    assert table.head.timestamp_ms == before

"""What attempts that were lost elsewhere have written is removed, and nothing else is."""

from __future__ import annotations

import pickle
from contextlib import nullcontext, suppress
from pathlib import Path

import pytest
from support.faults import Crash, RecordingStorage, WrappedStorage
from support.iceberg_checker import TableState
from support.iceberg_tables import SmallTable, create_table, still_env

from lakemeta.errors import CommitStateUnknownError, StorageError
from lakemeta.executor import batched
from lakemeta.iceberg import IcebergTable
from lakemeta.iceberg.catalogs.hadoop import HadoopTableOperations
from lakemeta.iceberg.catalogs.place import Place
from lakemeta.iceberg.write.settings import file_name, is_name_of
from lakemeta.report import Outcome
from lakemeta.storage import LocalStorage

ALL = {"rewrite-all": "true"}
PARTIAL = {**ALL, "partial-progress.enabled": "true"}
UUID = "0b5d6a4e-93a5-4d0f-8a44-1d2f3e4a5b6c"
FOREIGN = (f"p=a/00000-0-{UUID}-00001.parquet", "p=b/notes.txt", "part-00000.parquet")


class Restless:
    """A distant executor that makes two attempts at every batch; of those that live, the last one counts."""

    def map_batches(self, fn, items, *, batch_size):
        shipped = pickle.dumps(fn)
        for batch in batched(items, batch_size):
            for _ in range(2):
                with suppress(Crash):
                    results = list(pickle.loads(shipped)(batch))
            yield from results


class Dying(WrappedStorage):
    """Its worker is killed halfway through the first file; ``mark`` says that it has happened."""

    def __init__(self, inner, mark: Path) -> None:
        super().__init__(inner)
        self.mark, self.crashed = mark, False

    def operation(self, name, paths, effect, half=None):
        if name == "open_output" and not self.mark.exists():
            self.mark.touch()
            half()
            self.crashed = True
        if self.crashed:
            raise Crash
        return effect()


class Lost(WrappedStorage):
    """The line breaks while a version is committed, and stays broken."""

    broken = False

    def create(self, path, data):
        if path.endswith("v5.metadata.json"):
            self.broken = True
            raise StorageError("the line broke")
        self.inner.create(path, data)

    def read(self, path):
        if self.broken and path.endswith(".metadata.json"):
            raise StorageError("the line is broken")
        return self.inner.read(path)


class Stuck(WrappedStorage):
    """Deletes nothing."""

    def delete_many(self, paths):
        return [Outcome(path, "failed", "access denied") for path in paths]


class Blind(WrappedStorage):
    """Lists no directory of data."""

    def list_dir(self, path):
        if "/data" in path:
            raise StorageError("access denied")
        return self.inner.list_dir(path)


def made(root: Path, **properties: str) -> SmallTable:
    small = create_table(LocalStorage(), str(root), partitioned=True, properties=properties)
    for start in (0, 10, 20):
        small.append([(start + i, "a", 0.5) for i in range(3)], [(start + 5 + i, "b", 1.5) for i in range(3)])
    return small


@pytest.fixture
def small(tmp_path: Path) -> SmallTable:
    return made(tmp_path / "t")


def opened(small: SmallTable, storage=None) -> IcebergTable:
    return IcebergTable(Place(small.root, HadoopTableOperations(storage or small.storage, small.root)))


def rewrite(table: IcebergTable, options=ALL):
    return table.apply(table.plan_rewrite_data_files(options), executor=Restless(), env=still_env())


def files(small: SmallTable) -> set[str]:
    return {entry.path for entry in small.storage.walk(small.root) if "/metadata/" not in entry.path}


def referenced(small: SmallTable) -> set[str]:
    return {path for path in TableState.local(small.root).referenced() if "/metadata/" not in path}


@pytest.mark.parametrize(
    "properties",
    [
        {},
        {"write.data.path": "{root}/elsewhere/"},
        {"write.object-storage.enabled": "true"},
        {"write.object-storage.enabled": "true", "write.object-storage.partitioned-paths": "false"},
    ],
)
def test_no_stray_is_left(tmp_path, properties):
    """One attempt is killed in the middle of a file, one is overtaken: files are the table's, or somebody else's."""
    root = tmp_path / "t"
    small = made(root, **{key: value.format(root=root) for key, value in properties.items()})
    data = root / ("elsewhere" if "write.data.path" in properties else "data")
    foreign = {str(data / name) for name in FOREIGN}
    for path in foreign:
        small.storage.create(path, b"not ours")
    report = rewrite(opened(small, Dying(small.storage, tmp_path / "mark")))
    assert (tmp_path / "mark").exists()
    assert report.result["added_data_files_count"] == 2
    assert report.notes == ()
    assert files(small) == referenced(small) | foreign


@pytest.mark.parametrize("options", [ALL, PARTIAL])
def test_groups_that_fail_leave_no_stray(small, options):
    """The other groups' attempts were made in vain, or are committed but for the overtaken ones."""
    lost = small.data_files()[0]
    small.storage.delete_many([lost.file_path])
    with pytest.raises(StorageError) if options is ALL else nullcontext():
        rewrite(opened(small), options)
    assert files(small) == referenced(small) - {lost.file_path}
    assert len(TableState.local(small.root).paths(0)) == (6 if options is ALL else 4)


def test_an_unknown_state_leaves_strays_too(small):
    """When nobody can say which files are committed, none is removed."""
    before = files(small)
    with pytest.raises(CommitStateUnknownError):
        rewrite(opened(small, Lost(small.storage)))
    assert len(files(small) - before) == 4
    assert files(small) > before


def test_strays_that_stay_are_told(small):
    """The rewrite is committed all the same."""
    report = rewrite(opened(small, Stuck(small.storage)))
    assert report.committed
    assert [path for path in files(small) - referenced(small) if not any(path in note for note in report.notes)] == []
    assert len(report.notes) == 2
    assert report.notes[0].endswith("access denied")


def test_strays_that_cannot_be_looked_for_are_told(small):
    """The rewrite is committed all the same."""
    report = rewrite(opened(small, Blind(small.storage)))
    assert report.committed
    assert report.notes == ("files that lost attempts may have left could not be looked for: access denied",)


def test_local_threads_look_for_no_strays(small):
    """Attempts in this process remove their own files, so no directory of data is listed."""
    storage = RecordingStorage(small.storage)
    table = opened(small, storage)
    table.apply(table.plan_rewrite_data_files(ALL))
    assert not [path for name, path in storage.calls if name in ("walk", "list_dir") and "/data" in path]


@pytest.mark.parametrize(
    ("name", "is_ours"),
    [
        (file_name(3, 17, UUID, 2), True),
        (f"01100101-{file_name(3, 17, UUID, 2)}", True),
        (file_name(3, 17, UUID.replace("0", "1"), 2), False),
        (f"{UUID}-m0.avro", False),
        (f"copy-of-{file_name(3, 17, UUID, 2)}", False),
        (f"{file_name(3, 17, UUID, 2)}.bak", False),
    ],
)
def test_names_of_a_run(name, is_ours):
    """A run's own data files are known by their names."""
    assert is_name_of(UUID, name) == is_ours

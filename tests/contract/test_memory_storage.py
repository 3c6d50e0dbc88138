from __future__ import annotations

import itertools
from typing import TYPE_CHECKING

import pytest
from contract.storage_contract import StorageContract, put

from lakemeta.errors import OptionError, StorageError, UnsupportedFeatureError
from lakemeta.storage import Storage, open_storage
from lakemeta.storage.remote import ReadOnlyStorage

if TYPE_CHECKING:
    from collections.abc import Iterator

_NUMBERS = itertools.count()


@pytest.fixture
def root() -> Iterator[str]:
    storage, path = open_storage(f"memory://contract-{next(_NUMBERS)}/t")
    yield path
    storage.delete_tree(path)


class TestMemoryStorage(StorageContract):
    @pytest.fixture
    def storage(self) -> Storage:
        return open_storage("memory://t")[0]

    def test_url(self, storage: Storage) -> None:
        """A memory URL gives back itself."""
        assert storage.url(open_storage("memory://t/a")[1]) == "memory:///t/a"


def test_other_file_systems_are_only_read(root: str) -> None:
    """A file system that promises no exclusive create is read and listed, and nothing in it is changed."""
    put(open_storage("memory://t")[0], f"{root}/a", f"{root}/d/b")
    storage = ReadOnlyStorage("memory")
    assert sorted(e.path for e in storage.walk(root)) == [f"{root}/a", f"{root}/d/b"]
    assert storage.read(f"{root}/a") == b"x"
    changes = [
        lambda: storage.create(f"{root}/c", b""),
        lambda: storage.replace(f"{root}/c", b""),
        lambda: storage.open_output(f"{root}/c"),
        lambda: storage.delete_many([f"{root}/a"]),
        lambda: storage.delete_tree(f"{root}/d"),
    ]
    for change in changes:
        with pytest.raises(UnsupportedFeatureError, match="memory:// is not known to create files exclusively"):
            change()
    assert storage.exists(f"{root}/a")
    assert storage.exists(f"{root}/d/b")


def test_a_listing_that_fails_part_way_raises(root: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One directory that cannot be listed fails the walk, which fsspec's own walk would hide."""
    put(open_storage("memory://t")[0], f"{root}/a", f"{root}/d/b")
    storage = ReadOnlyStorage("memory")
    listing = storage.fs.ls

    def broken(path: str, **options: object) -> object:
        if path.endswith("/d"):
            raise PermissionError("no way in")
        return listing(path, **options)

    monkeypatch.setattr(storage.fs, "ls", broken)
    with pytest.raises(StorageError, match=r"/d: .*no way in"):
        list(storage.walk(root))


def test_an_unknown_protocol_is_refused() -> None:
    """A scheme nobody knows is an OptionError once it is used."""
    storage, path = open_storage("nonsense://t/a")
    with pytest.raises(OptionError, match="nonsense"):
        storage.list_dir(path)

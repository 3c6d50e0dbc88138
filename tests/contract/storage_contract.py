"""The rules of ``lakemeta.storage.contract``, as tests that every storage must pass.

A subclass gives the fixtures ``storage`` and ``root``: a storage and an empty place in it.
"""

from __future__ import annotations

import pickle
from concurrent.futures import ThreadPoolExecutor
from typing import ClassVar

import pytest

from lakemeta.errors import PathExistsError, PathNotFoundError, StorageError, UnsupportedFeatureError
from lakemeta.storage import Entry, Storage

ODD_NAMES = [
    "p=x%3Dy",
    "a b",
    "a#b",
    "a?b",
    "a+b",
    "a&b=<c>",
    "a:b",
    "a%2Fb",
    "é-ü-日本",
    "quote'\"",
    "back\\slash",
    "[x]*",
    "{brace}",
    ".hidden",
    "..two",
    "~t",
]


def put(storage: Storage, *paths: str, data: bytes = b"x") -> None:
    for path in paths:
        storage.replace(path, data)


class StorageContract:
    refused_names: ClassVar = frozenset[str]()  # names that the store itself has no files of

    def test_a_move(self, storage: Storage, root: str) -> None:
        """Files are at their new paths and no more at the old ones; outcomes come in order, also of what is absent."""
        put(storage, f"{root}/a", f"{root}/d/b", data=b"123")
        moves = [(f"{root}/{name}", f"{root}/.away/run/{name}") for name in ("a", "none", "d/b")]
        outcomes = storage.move_many(moves)
        assert [(o.path, o.status) for o in outcomes] == [
            (f"{root}/a", "deleted"),
            (f"{root}/none", "absent"),
            (f"{root}/d/b", "deleted"),
        ]
        assert {e.path for e in storage.walk(root)} == {f"{root}/.away/run/a", f"{root}/.away/run/d/b"}
        assert storage.read(f"{root}/.away/run/d/b") == b"123"

    def test_a_move_replaces_nothing(self, storage: Storage, root: str) -> None:
        """Where other content is, both files stay as they are."""
        put(storage, f"{root}/a", data=b"123")
        put(storage, f"{root}/b", data=b"456")
        (outcome,) = storage.move_many([(f"{root}/a", f"{root}/b")])
        assert (outcome.status, outcome.path) == ("failed", f"{root}/a")
        assert (storage.read(f"{root}/a"), storage.read(f"{root}/b")) == (b"123", b"456")

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_are_moved(self, storage: Storage, root: str, name: str) -> None:
        """There and back again."""
        if name in self.refused_names:
            return  # no file can have it: test_odd_names_survive
        put(storage, f"{root}/{name}/{name}")
        there = [(f"{root}/{name}/{name}", f"{root}/q/{name}/{name}")]
        for moves in (there, [(new, old) for old, new in there]):
            assert [o.status for o in storage.move_many(moves)] == ["deleted"]
            assert [e.path for e in storage.walk(root)] == [moves[0][1]]

    def test_no_moves(self, storage: Storage) -> None:
        """Nothing is asked for."""
        assert storage.move_many([]) == []

    def test_pickled_copies_work(self, storage: Storage, root: str) -> None:
        """A storage can be shipped to a worker, used or not, and equals its copy."""
        copy = pickle.loads(pickle.dumps(storage))
        put(storage, f"{root}/a")
        assert copy.read(f"{root}/a") == b"x"
        assert pickle.loads(pickle.dumps(copy)) == storage

    def test_list_dir_gives_direct_children_sorted(self, storage: Storage, root: str) -> None:
        """list_dir gives files with their sizes and directories, sorted by path, none from further down."""
        put(storage, f"{root}/b", f"{root}/d/x", f"{root}/d/e/y", f"{root}/a-", data=b"123")
        found = storage.list_dir(root)
        assert [(e.name, e.size, e.is_dir) for e in found] == [
            ("a-", 3, False),
            ("b", 3, False),
            ("d", 0, True),
        ]
        assert all(e.modified_ms > 1_600_000_000_000 for e in found if not e.is_dir)

    def test_walk_gives_every_file(self, storage: Storage, root: str) -> None:
        """walk gives all files below a directory, however deep, and no directories."""
        paths = {f"{root}/b", f"{root}/d/x", f"{root}/d/e/y", f"{root}/d-/z"}
        put(storage, *paths)
        found = list(storage.walk(root))
        assert {e.path for e in found} == paths
        assert len(found) == 4
        assert not any(e.is_dir for e in found)
        assert {e.path for e in storage.walk(f"{root}/d")} == {f"{root}/d/x", f"{root}/d/e/y"}

    def test_listing_what_is_not_there(self, storage: Storage, root: str) -> None:
        """A missing directory raises PathNotFoundError, and a name that only begins alike does not help."""
        put(storage, f"{root}/abc/x")
        with pytest.raises(PathNotFoundError, match="ab"):
            storage.list_dir(f"{root}/ab")
        with pytest.raises(PathNotFoundError):
            list(storage.walk(f"{root}/ab"))

    def test_listing_a_file(self, storage: Storage, root: str) -> None:
        """A file has no children: listing it raises."""
        put(storage, f"{root}/a")
        with pytest.raises(StorageError):
            storage.list_dir(f"{root}/a")
        with pytest.raises(StorageError):
            list(storage.walk(f"{root}/a"))

    def test_reading(self, storage: Storage, root: str) -> None:
        """read gives all of a file, read_range a part that ends where the file ends."""
        path = f"{root}/a"
        put(storage, path, data=b"0123456789")
        assert storage.read(path) == b"0123456789"
        assert storage.size(path) == 10
        assert storage.read_range(path, 2, 3) == b"234"
        assert storage.read_range(path, 8, 5) == b"89"
        assert storage.read_range(path, 12, 5) == b""
        assert storage.read_range(path, 2, 0) == b""

    def test_stat_says_what_a_listing_says(self, storage: Storage, root: str) -> None:
        """stat gives the entry of a file as list_dir has it, also of odd names; a directory has none."""
        names = {"a", "a b", "a:b", "a%2Fb", "back\\slash"} - self.refused_names
        paths = [f"{root}/d/{name}" for name in sorted(names)]
        put(storage, *paths, data=b"123")
        listed = {e.path: e for e in storage.list_dir(f"{root}/d")}
        for path in paths:
            found = storage.stat(path)
            assert (found.path, found.size, found.is_dir) == (path, 3, False)
            assert abs(found.modified_ms - listed[path].modified_ms) < 1000
        for missing in (f"{root}/none", f"{root}/d/a/x"):
            with pytest.raises(PathNotFoundError):
                storage.stat(missing)
        with pytest.raises(StorageError):
            storage.stat(f"{root}/d")

    def test_empty_file(self, storage: Storage, root: str) -> None:
        """An empty file can be created, written, listed and read."""
        storage.create(f"{root}/a", b"")
        with storage.open_output(f"{root}/b"):
            pass
        assert [(e.name, e.size) for e in storage.list_dir(root)] == [("a", 0), ("b", 0)]
        assert storage.read(f"{root}/a") == storage.read(f"{root}/b") == b""

    def test_reading_what_is_not_there(self, storage: Storage, root: str) -> None:
        """Every way to read a missing file raises PathNotFoundError that names the path."""
        path = f"{root}/none"
        ways = [storage.read, storage.size, storage.open_input, lambda p: storage.read_range(p, 0, 1)]
        for way in ways:
            with pytest.raises(PathNotFoundError, match="none"):
                way(path)

    def test_open_input_seeks(self, storage: Storage, root: str) -> None:
        """Readers seek, and two of one file do not disturb each other."""
        put(storage, f"{root}/a", data=b"0123456789")
        with storage.open_input(f"{root}/a") as one, storage.open_input(f"{root}/a") as other:
            assert one.read(3) == b"012"
            assert other.read(2) == b"01"
            one.seek(-2, 2)
            assert one.read() == b"89"

    def test_open_output_writes_in_pieces(self, storage: Storage, root: str) -> None:
        """What was written is there once the writer is closed, in directories that did not exist."""
        with storage.open_output(f"{root}/new/dir/a") as file:
            file.write(b"abc")
            file.write(b"def")
        assert storage.read(f"{root}/new/dir/a") == b"abcdef"

    def test_create_refuses_a_taken_path(self, storage: Storage, root: str) -> None:
        """create makes the directories a file needs, never overwrites, and leaves nothing else behind."""
        path = f"{root}/d/a"
        storage.create(path, b"first")
        with pytest.raises(PathExistsError, match="d/a"):
            storage.create(path, b"second")
        assert storage.read(path) == b"first"
        assert [e.path for e in storage.walk(root)] == [path]

    def test_one_of_many_creators_wins(self, storage: Storage, root: str) -> None:
        """Of creators at the same time exactly one wins, and the content is the winner's."""

        def attempt(n: int) -> bool:
            try:
                storage.create(f"{root}/race/{n // 8}", b"%d" % n * 100)
            except PathExistsError:
                return False
            return True

        with ThreadPoolExecutor(8) as pool:
            won = list(pool.map(attempt, range(40)))
        for race in range(5):
            winners = [n for n in range(race * 8, race * 8 + 8) if won[n]]
            assert len(winners) == 1
            assert storage.read(f"{root}/race/{race}") == b"%d" % winners[0] * 100

    def test_replace(self, storage: Storage, root: str) -> None:
        """replace puts new content over old, and a file where none was."""
        storage.replace(f"{root}/d/a", b"old and longer")
        storage.replace(f"{root}/d/a", b"new")
        assert storage.read(f"{root}/d/a") == b"new"
        assert storage.list_dir(f"{root}/d")[0].size == 3

    def test_exists(self, storage: Storage, root: str) -> None:
        """Files and directories exist; what only begins alike does not."""
        put(storage, f"{root}/dir/a")
        assert storage.exists(f"{root}/dir/a")
        assert storage.exists(f"{root}/dir")
        assert not storage.exists(f"{root}/di")
        assert not storage.exists(f"{root}/dir/a/b")
        assert not storage.exists(f"{root}/none/a")

    def test_delete_many(self, storage: Storage, root: str) -> None:
        """One outcome a path in the given order, doubles too; absent is done; the rest stays."""
        put(storage, f"{root}/a", f"{root}/b", f"{root}/ab")
        paths = [f"{root}/b", f"{root}/none", f"{root}/a", f"{root}/b", f"{root}/no/dir"]
        outcomes = storage.delete_many(paths)
        assert [o.path for o in outcomes] == paths
        assert all(o.done for o in outcomes)
        assert outcomes[0].status == outcomes[2].status == "deleted"
        assert [e.name for e in storage.list_dir(root)] == ["ab"]
        assert storage.delete_many([]) == []

    def test_delete_many_spares_directories(self, storage: Storage, root: str) -> None:
        """A directory given to delete_many stays, with what is in it."""
        put(storage, f"{root}/d/a")
        storage.delete_many([f"{root}/d"])
        assert storage.exists(f"{root}/d/a")

    def test_resolve(self, storage: Storage, root: str) -> None:
        """A path without links on the way is its own, there or not."""
        base = storage.resolve(root)
        for name in ("d", "d/e", "%2e%2e/x", "none"):
            assert storage.resolve(f"{root}/{name}") == f"{base}/{name}"

    def test_delete_tree(self, storage: Storage, root: str) -> None:
        """delete_tree removes all below, no neighbour that begins alike, and minds no second call."""
        put(storage, f"{root}/d/a", f"{root}/d/e/f/b", f"{root}/d2/a")
        storage.delete_tree(f"{root}/d")
        storage.delete_tree(f"{root}/d")
        assert not storage.exists(f"{root}/d")
        assert [e.path for e in storage.walk(root)] == [f"{root}/d2/a"]

    @pytest.mark.parametrize("name", ODD_NAMES)
    def test_odd_names_survive(self, storage: Storage, root: str, name: str) -> None:
        """Names are verbatim, as directory and as file, through every operation; or they are refused by each."""
        path = f"{root}/{name}/{name}"
        if name in self.refused_names:
            with pytest.raises((StorageError, UnsupportedFeatureError)):
                storage.create(path, b"1")
            put(storage, f"{root}/other")
            assert [e.path for e in storage.walk(root)] == [f"{root}/other"]
            return
        storage.create(path, b"1")
        with pytest.raises(PathExistsError):
            storage.create(path, b"2")
        storage.replace(path, b"34")
        assert [(e.name, e.is_dir) for e in storage.list_dir(root)] == [(name, True)]
        assert [(e.path, e.name) for e in storage.list_dir(f"{root}/{name}")] == [(path, name)]
        assert [e.path for e in storage.walk(root)] == [path]
        assert storage.read(path) == b"34"
        assert storage.read_range(path, 1, 1) == b"4"
        with storage.open_input(path) as file:
            assert file.read() == b"34"
        assert storage.delete_many([path])[0].status == "deleted"
        assert not storage.exists(path)

    def test_checksum_files_are_not_listed(self, storage: Storage, root: str) -> None:
        """Side files of Hadoop's local file system are no files of the table."""
        put(storage, f"{root}/a", f"{root}/.a.crc", f"{root}/b.crc", f"{root}/.hoodie")
        names = [".hoodie", "a", "b.crc"]
        assert [e.name for e in storage.list_dir(root)] == names
        assert sorted(e.name for e in storage.walk(root)) == names

    def test_entries_are_values(self, storage: Storage, root: str) -> None:
        """Entries compare by value and are listed the same twice."""
        put(storage, f"{root}/a")
        assert storage.list_dir(root) == storage.list_dir(root) == list(storage.walk(root))
        assert isinstance(storage.list_dir(root)[0], Entry)

    def test_listings_are_never_stale(self, storage: Storage, root: str) -> None:
        """What another writer has changed shows in the next listing."""
        other = pickle.loads(pickle.dumps(storage))
        put(storage, f"{root}/a")
        assert [e.name for e in storage.list_dir(root)] == ["a"]
        put(other, f"{root}/b")
        other.delete_many([f"{root}/a"])
        assert [e.name for e in storage.list_dir(root)] == ["b"]
        assert [e.name for e in storage.walk(root)] == ["b"]
        assert not storage.exists(f"{root}/a")
